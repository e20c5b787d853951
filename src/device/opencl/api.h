/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of OpenCL 1.2 that the driver uses, from the loader opened at run time. */
#ifndef TTI_DEVICE_OPENCL_API_H
#define TTI_DEVICE_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "base/status.h"

#define TTI_CL_MAP(X)             \
    X(GetPlatformIDs)             \
    X(GetPlatformInfo)            \
    X(GetDeviceIDs)               \
    X(GetDeviceInfo)              \
    X(CreateSubDevices)           \
    X(ReleaseDevice)              \
    X(CreateContext)              \
    X(CreateCommandQueue)         \
    X(RetainCommandQueue)         \
    X(ReleaseCommandQueue)        \
    X(GetCommandQueueInfo)        \
    X(CreateBuffer)               \
    X(ReleaseMemObject)           \
    X(CreateProgramWithSource)    \
    X(CreateProgramWithBinary)    \
    X(BuildProgram)               \
    X(GetProgramBuildInfo)        \
    X(GetProgramInfo)             \
    X(ReleaseProgram)             \
    X(CreateKernel)               \
    X(SetKernelArg)               \
    X(EnqueueNDRangeKernel)       \
    X(EnqueueNativeKernel)        \
    X(EnqueueReadBuffer)          \
    X(EnqueueWriteBuffer)         \
    X(EnqueueCopyBuffer)          \
    X(EnqueueMarkerWithWaitList)  \
    X(EnqueueBarrierWithWaitList) \
    X(Flush)                      \
    X(Finish)                     \
    X(WaitForEvents)              \
    X(GetEventInfo)               \
    X(GetEventProfilingInfo)      \
    X(RetainEvent)                \
    X(ReleaseEvent)               \
    X(CreateUserEvent)            \
    X(SetUserEventStatus)         \
    X(SetEventCallback)

typedef struct tti_cl_api {
#define X(name) __typeof__(cl##name) *name;
    TTI_CL_MAP(X)
#undef X
    /* Newer than 1.2: NULL where the loader does not have it. */
    cl_command_queue (*CreateCommandQueueWithProperties)(cl_context, cl_device_id,
                                                         const cl_bitfield *properties,
                                                         cl_int *code);
} tti_cl_api;

extern tti_cl_api tti_cl;

/* Open the loader; false: *why says what is missing. */
bool tti_cl_open(const char **why);

/* "CL_OUT_OF_RESOURCES (-5)" and the like. */
const char *tti_cl_error(cl_int code, char *text, size_t size);
#define TTI_CL_ERROR(code) tti_cl_error((code), (char[64]){ 0 }, 64)

#endif
