/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that stopped working: those of which a command ended with an error, after which drivers give no more right
 * answers, and all of them in a forked child. Whatever is asked of them later fails; the others go on. */
#include "device/opencl/cl.h"

static _Atomic bool forked;

/* For tests. */
static _Atomic int pretend_index = -1;
static _Atomic cl_int pretend_code;

bool tti_cl_forked(void)
{
    return tt_unlikely(atomic_load_explicit(&forked, memory_order_relaxed));
}

void tti_cl_after_fork(void)
{
    atomic_store(&forked, true);
    for (int i = 0; i < TTI_MAX_DEVICES; i++)
        atomic_store(&tti_cl_all.devices[i].lost, TTI_CL_FORKED);
}

tt_status tti_cl_unusable(int index)
{
    cl_int code = atomic_load_explicit(&tti_cl_all.devices[index].lost, memory_order_relaxed);

    if (code == TTI_CL_FORKED)
        return TT_FAIL(TT_ERR_NOT_FOUND, "cl: there are no devices: %s", tti_cl_missing());
    return TT_FAIL(TT_ERR_DEVICE,
                   "cl: cl:%d was lost: a command ended with %s; other devices work on, this one "
                   "needs a new process",
                   index, TTI_CL_ERROR(code));
}

static cl_device_id device_of(cl_event e)
{
    cl_command_queue q = NULL;
    cl_device_id id = NULL;

    tti_cl.GetEventInfo(e, CL_EVENT_COMMAND_QUEUE, sizeof q, &q, NULL);
    if (q != NULL)
        tti_cl.GetCommandQueueInfo(q, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
    return id;
}

tt_status tti_cl_lose(cl_event e, cl_int code)
{
    cl_device_id id = device_of(e);
    int found = -1;

    for (int i = 0; i < tti_cl_all.n; i++) {
        cl_int works = 0;

        if (tti_cl_all.devices[i].id != id)
            continue;
        atomic_compare_exchange_strong(&tti_cl_all.devices[i].lost, &works, code);
        found = i;
    }
    return found >= 0 ? tti_cl_unusable(found) : tti_cl_fail("finish queued work", code);
}

void tti_cl_debug_lose(int index, cl_int code)
{
    atomic_store(&pretend_code, code);
    atomic_store(&pretend_index, index);
}

cl_int tti_cl_status(cl_event e, cl_int *status_p)
{
    int index = atomic_load_explicit(&pretend_index, memory_order_relaxed);

    if (tt_unlikely(index >= 0) && device_of(e) == tti_cl_all.devices[index].id) {
        atomic_store(&pretend_index, -1);
        *status_p = atomic_load(&pretend_code);
        return CL_SUCCESS;
    }
    return tti_cl.GetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof *status_p, status_p,
                               NULL);
}
