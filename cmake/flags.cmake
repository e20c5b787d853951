# SPDX-License-Identifier: Apache-2.0
# The language, the warnings and the build types, the same for every target.

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g") # asserts stay on; Release turns them off
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

add_compile_definitions(_GNU_SOURCE)
add_compile_options(
    -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wformat=2 -Wno-format-nonliteral
    "$<$<BOOL:${TUTTI_WERROR}>:-Werror>"
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=") # error records name src/..., not the builder's home

if(TUTTI_SANITIZE)
    add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    # Instrumentation misleads gcc there; and keeps clang from vectorising, as it then says. Fences are not
    # seen by the thread sanitizer, which only matters to words that are atomic anyway.
    add_compile_options("$<$<C_COMPILER_ID:GNU>:-Wno-format-truncation;-Wno-maybe-uninitialized;-Wno-tsan>"
                        "$<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>")
    add_link_options(-fsanitize=${TUTTI_SANITIZE})
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g") # instrumented code takes long to optimise
endif()
