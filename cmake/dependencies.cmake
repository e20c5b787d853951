# SPDX-License-Identifier: Apache-2.0
# What the library stands on, gathered in one target: tutti_deps. Nothing of it shows in our headers.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)        # the store's server
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto) # proofs of the job secret
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)     # which cores a rank gets

# oneDNN's own package file is not in every distribution. The library opens it at the first use (src/ops/cpu/dnnl_lib.c);
# nothing is linked with it.
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
get_filename_component(TUTTI_DNNL_FOLDER "${DNNL_LIBRARY}" DIRECTORY)

# The OpenMP flavour of OpenBLAS, by its own directory: oneDNN, our kernels and BLAS then share one
# pool of threads. The plain name may lead to the pthread flavour, here and again at run time. The library
# opens it at the first product that needs it (src/ops/cpu/blas.c), by the file found here; nothing is linked with it.
find_library(OPENBLAS_LIBRARY openblas REQUIRED PATH_SUFFIXES openblas-openmp
             PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
find_path(OPENBLAS_INCLUDE_DIR cblas.h REQUIRED
          PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
get_filename_component(openblas_dir "${OPENBLAS_LIBRARY}" DIRECTORY)
set(TUTTI_OPENBLAS_FILE ${openblas_dir}/libopenblas.so.0)

add_library(tutti_deps INTERFACE)
target_include_directories(tutti_deps SYSTEM INTERFACE ${DNNL_INCLUDE_DIR} ${OPENBLAS_INCLUDE_DIR})
target_link_libraries(tutti_deps INTERFACE PkgConfig::CJSON PkgConfig::UV PkgConfig::CRYPTO PkgConfig::HWLOC ZLIB::ZLIB OpenMP::OpenMP_C Threads::Threads ${CMAKE_DL_LIBS} m)
