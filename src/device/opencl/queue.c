/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and marks. OpenCL cannot be asked whether a queue is idle, so every enqueue leaves its event as the
 * queue's last one; a mark is a reference to such an event. */
#include <string.h>

#include "base/mem.h"
#include "device/opencl/cl.h"

/* The mark of a queue that never had work. */
static tti_mark *const nothing = (tti_mark *)&tti_cl_all;

void tti_cl_begin(tti_queue *q)
{
    pthread_mutex_lock(&q->lock);
}

tt_status tti_cl_end(tti_queue *q, const char *what, cl_int code, cl_event e, cl_event *retained_p)
{
    cl_event before = NULL;

    if (tt_likely(code == CL_SUCCESS)) {
        before = q->last;
        q->last = e;
        if (retained_p != NULL) {
            tti_cl.RetainEvent(e);
            *retained_p = e;
        }
    }
    pthread_mutex_unlock(&q->lock);
    if (before != NULL)
        tti_cl.ReleaseEvent(before);
    return tt_likely(code == CL_SUCCESS) ? TT_OK : tti_cl_fail(what, code);
}

static tt_status status_of(cl_event e, bool *done_p)
{
    cl_int status = 0, code;

    code = tti_cl.GetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    if (code != CL_SUCCESS || status < 0)
        return tti_cl_fail("finish queued work", code != CL_SUCCESS ? code : status);
    *done_p = status == CL_COMPLETE;
    return TT_OK;
}

tt_status tti_cl_wait(cl_event e)
{
    cl_int code = tti_cl.WaitForEvents(1, &e);
    bool done;
    tt_status st = code == CL_SUCCESS ? status_of(e, &done) : tti_cl_fail("wait", code);

    tti_cl.ReleaseEvent(e);
    return st;
}

static tti_queue *wrap(int index, cl_command_queue native, bool external)
{
    tti_queue *q = tti_calloc(1, sizeof *q);

    if (q == NULL) {
        tti_cl.ReleaseCommandQueue(native);
        return NULL;
    }
    *q = (tti_queue){ .q = native, .index = index, .external = external };
    pthread_mutex_init(&q->lock, NULL);
    return q;
}

tti_queue *tti_cl_queue_new(int index, int priority)
{
    cl_int code = CL_SUCCESS;
    cl_command_queue native = tti_cl.CreateCommandQueue(
        tti_cl_all.context, tti_cl_all.devices[index].id, CL_QUEUE_PROFILING_ENABLE, &code);

    (void)priority; /* the range is (0, 0) */
    if (native == NULL)
        return tti_cl_fail("make a queue", code), NULL;
    return wrap(index, native, false);
}

tti_queue *tti_cl_queue_wrap(int index, void *native)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    cl_int code =
        tti_cl.GetCommandQueueInfo(native, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);

    if (code != CL_SUCCESS)
        return tti_cl_fail("use this as a command queue", code), NULL;
    tti_cl.GetCommandQueueInfo(native, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    tti_cl.GetCommandQueueInfo(native, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (context != tti_cl_all.context || device != tti_cl_all.devices[index].id)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "stream: the queue is not of cl:%d's context and device: make it with "
                            "what tt_device_native_get gives",
                            index);
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "stream: expected an in-order queue");
    tti_cl.RetainCommandQueue(native);
    return wrap(index, native, true);
}

void tti_cl_queue_free(tti_queue *q)
{
    if (q->last != NULL)
        tti_cl.ReleaseEvent(q->last);
    tti_cl.ReleaseCommandQueue(q->q);
    pthread_mutex_destroy(&q->lock);
    tti_mfree(q);
}

void *tti_cl_queue_native(const tti_queue *q)
{
    return q->q;
}

void tti_cl_priorities(int index, int *least_p, int *greatest_p)
{
    (void)index;
    *least_p = *greatest_p = 0;
}

/* A reference to the event that ends all work of q so far, or NULL. Others enqueue to external queues
 * without our knowing: those get a marker. */
static tt_status newest(tti_queue *q, bool marker, cl_event *e_p)
{
    cl_event e = NULL;
    cl_int code;

    *e_p = NULL;
    tti_cl_begin(q);
    if (!marker && !q->external) {
        if (q->last != NULL)
            tti_cl.RetainEvent(q->last);
        *e_p = q->last;
        pthread_mutex_unlock(&q->lock);
        return TT_OK;
    }
    code = tti_cl.EnqueueMarkerWithWaitList(q->q, 0, NULL, &e);
    return tti_cl_end(q, "mark a queue", code, e, e_p);
}

tt_status tti_cl_queue_query(tti_queue *q, bool *done_p)
{
    cl_event e;
    tt_status st = newest(q, false, &e);

    *done_p = true;
    if (st != TT_OK || e == NULL)
        return st;
    st = status_of(e, done_p);
    if (st == TT_OK && !*done_p)
        tti_cl.Flush(q->q);
    tti_cl.ReleaseEvent(e);
    return st;
}

tt_status tti_cl_queue_sync(tti_queue *q)
{
    cl_event e;

    TT_TRY(newest(q, false, &e));
    return e != NULL ? tti_cl_wait(e) : TT_OK;
}

tti_mark *tti_cl_mark(tti_queue *q, bool timing)
{
    cl_event e;

    if (newest(q, timing, &e) != TT_OK)
        return NULL;
    if (e == NULL)
        return nothing;
    tti_cl.Flush(q->q); /* whoever waits for it must not wait for ever */
    return (tti_mark *)e;
}

void tti_cl_mark_free(tti_mark *m)
{
    if (m != NULL && m != nothing)
        tti_cl.ReleaseEvent((cl_event)m);
}

tt_status tti_cl_mark_query(tti_mark *m, bool *done_p)
{
    *done_p = true;
    return m == nothing ? TT_OK : status_of((cl_event)m, done_p);
}

tt_status tti_cl_mark_sync(tti_mark *m)
{
    if (m == nothing)
        return TT_OK;
    tti_cl.RetainEvent((cl_event)m);
    return tti_cl_wait((cl_event)m);
}

tt_status tti_cl_mark_elapsed(tti_mark *from, tti_mark *to, double *ms_p)
{
    cl_ulong a = 0, b = 0;
    cl_int code;

    if (from == nothing || to == nothing)
        return TT_FAIL(TT_ERR_INVALID, "event: no work was queued before it");
    code =
        tti_cl.GetEventProfilingInfo((cl_event)from, CL_PROFILING_COMMAND_END, sizeof a, &a, NULL);
    if (code == CL_SUCCESS)
        code = tti_cl.GetEventProfilingInfo((cl_event)to, CL_PROFILING_COMMAND_END, sizeof b, &b,
                                            NULL);
    if (code != CL_SUCCESS)
        return tti_cl_fail("read the time of an event", code);
    *ms_p = ((double)b - (double)a) * 1e-6;
    return TT_OK;
}

tt_status tti_cl_queue_wait(tti_queue *q, tti_mark *m)
{
    cl_event after = (cl_event)m, e = NULL;
    cl_int code;

    if (m == nothing)
        return TT_OK;
    tti_cl_begin(q);
    code = tti_cl.EnqueueBarrierWithWaitList(q->q, 1, &after, &e);
    return tti_cl_end(q, "let a queue wait", code, e, NULL);
}
