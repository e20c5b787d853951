/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the OpenCL loader, and the names of its errors. */
#include "device/opencl/api.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/env.h"

tti_cl_api tti_cl;

bool tti_cl_open(const char **why)
{
    const char *name = tti_env_get(TTI_ENV_CL_LIBRARY);
    void *lib = dlopen(name != NULL ? name : "libOpenCL.so.1",
                       RTLD_NOW | RTLD_LOCAL); /* stays: it has threads */

    if (lib == NULL) {
        *why = "no OpenCL loader (libOpenCL.so.1): install ocl-icd-libopencl1 and a driver, such "
               "as pocl-opencl-icd for CPUs or the one of your GPU's maker";
        return false;
    }
#define X(name)                                                                      \
    *(void **)&tti_cl.name = dlsym(lib, "cl" #name);                                 \
    if (tti_cl.name == NULL) {                                                       \
        *why = "the OpenCL loader is older than OpenCL 1.2 (it has no cl" #name ")"; \
        return false;                                                                \
    }
    TTI_CL_MAP(X)
#undef X
    *(void **)&tti_cl.CreateCommandQueueWithProperties =
        dlsym(lib, "clCreateCommandQueueWithProperties");
    return true;
}

#define ERRORS(X)                                   \
    X(CL_DEVICE_NOT_FOUND)                          \
    X(CL_DEVICE_NOT_AVAILABLE)                      \
    X(CL_COMPILER_NOT_AVAILABLE)                    \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)             \
    X(CL_OUT_OF_RESOURCES)                          \
    X(CL_OUT_OF_HOST_MEMORY)                        \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)              \
    X(CL_MEM_COPY_OVERLAP)                          \
    X(CL_BUILD_PROGRAM_FAILURE)                     \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) \
    X(CL_DEVICE_PARTITION_FAILED)                   \
    X(CL_INVALID_VALUE)                             \
    X(CL_INVALID_DEVICE)                            \
    X(CL_INVALID_CONTEXT)                           \
    X(CL_INVALID_QUEUE_PROPERTIES)                  \
    X(CL_INVALID_COMMAND_QUEUE)                     \
    X(CL_INVALID_MEM_OBJECT)                        \
    X(CL_INVALID_BINARY)                            \
    X(CL_INVALID_BUILD_OPTIONS)                     \
    X(CL_INVALID_KERNEL_NAME)                       \
    X(CL_INVALID_ARG_INDEX)                         \
    X(CL_INVALID_ARG_VALUE)                         \
    X(CL_INVALID_ARG_SIZE)                          \
    X(CL_INVALID_KERNEL_ARGS)                       \
    X(CL_INVALID_WORK_GROUP_SIZE)                   \
    X(CL_INVALID_EVENT)                             \
    X(CL_INVALID_OPERATION)                         \
    X(CL_INVALID_BUFFER_SIZE)                       \
    X(CL_INVALID_GLOBAL_WORK_SIZE)

const char *tti_cl_error(cl_int code, char *text, size_t size)
{
    const char *name = "OpenCL error";

    switch (code) {
#define X(e)       \
    case e:        \
        name = #e; \
        break;
        ERRORS(X)
#undef X
    default:
        break;
    }
    snprintf(text, size, "%s (%d)", name, code);
    return text;
}
