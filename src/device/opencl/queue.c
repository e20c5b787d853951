/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and marks. OpenCL cannot be asked whether a queue is idle, so every enqueue leaves its event as the
 * queue's last one; a mark is a reference to such an event. */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/opencl/cl.h"

/* cl_khr_priority_hints */
#define QUEUE_PRIORITY 0x1096
#define PRIORITY_HIGH 1u
#define PRIORITY_LOW 4u

#define MARKER_NS 5000000

/* The mark of a queue that never had work. */
static tti_mark *const nothing = (tti_mark *)&tti_cl_all;

tt_status tti_cl_begin(tti_queue *q)
{
    TT_TRY(tti_cl_usable(q->index));
    pthread_mutex_lock(&q->lock);
    if (tt_likely(q->q != NULL))
        return TT_OK;
    pthread_mutex_unlock(&q->lock);
    return TT_FAIL(TT_ERR_INVALID, "stream: it was freed");
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
    cl_int status = 0, code = tti_cl_status(e, &status);

    if (code != CL_SUCCESS)
        return tti_cl_fail("ask about queued work", code);
    if (status < 0)
        return tti_cl_lose(e, status);
    *done_p = status == CL_COMPLETE;
    return TT_OK;
}

tt_status tti_cl_wait(cl_event e)
{
    cl_int code = tti_cl.WaitForEvents(1, &e);
    bool done;
    tt_status st = status_of(e, &done); /* says more than the code of the wait */

    if (st == TT_OK && code != CL_SUCCESS)
        st = tti_cl_fail("wait", code);
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
    tti_cl_device *d = &tti_cl_all.devices[index];
    cl_bitfield properties[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, QUEUE_PRIORITY,
                                 priority < 0 ? PRIORITY_HIGH : PRIORITY_LOW, 0 };
    cl_int code = CL_SUCCESS;
    cl_command_queue native;

    if (tti_cl_usable(index) != TT_OK)
        return NULL;
    if (priority != 0)
        native =
            tti_cl.CreateCommandQueueWithProperties(tti_cl_all.context, d->id, properties, &code);
    else
        native =
            tti_cl.CreateCommandQueue(tti_cl_all.context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (native == NULL)
        return tti_cl_fail("make a queue", code), NULL;
    return wrap(index, native, false);
}

/* Whether a queue of somebody else can be ours too; then it is retained. */
static tt_status take(int index, void *native)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    cl_int code =
        tti_cl.GetCommandQueueInfo(native, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);

    if (code != CL_SUCCESS)
        return tti_cl_fail("use this as a command queue", code);
    tti_cl.GetCommandQueueInfo(native, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    tti_cl.GetCommandQueueInfo(native, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (context != tti_cl_all.context || device != tti_cl_all.devices[index].id)
        return TT_FAIL(TT_ERR_INVALID,
                       "stream: the queue is not of cl:%d's context and device: make it with "
                       "what tt_device_native_get gives",
                       index);
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
        return TT_FAIL(TT_ERR_INVALID, "stream: expected an in-order queue");
    tti_cl.RetainCommandQueue(native);
    return TT_OK;
}

tti_queue *tti_cl_queue_wrap(int index, void *native)
{
    if (tti_cl_usable(index) != TT_OK || take(index, native) != TT_OK)
        return NULL;
    return wrap(index, native, true);
}

static void let_go(tti_queue *q)
{
    cl_command_queue native;
    cl_event last;

    pthread_mutex_lock(&q->lock);
    native = q->q;
    last = q->last;
    q->q = NULL;
    q->last = NULL;
    pthread_mutex_unlock(&q->lock);
    if (last != NULL)
        tti_cl.ReleaseEvent(last);
    if (native != NULL)
        tti_cl.ReleaseCommandQueue(native);
}

void tti_cl_queue_free(tti_queue *q)
{
    if (tti_cl_forked())
        return;
    let_go(q);
    pthread_mutex_destroy(&q->lock);
    tti_mfree(q);
}

void tti_cl_queue_close(tti_queue *q)
{
    if (tti_cl_forked())
        return;
    (void)tti_cl_queue_sync(q); /* of a lost device: nothing runs */
    let_go(q);
}

tt_status tti_cl_queue_open(tti_queue *q, void *native)
{
    TT_TRY(tti_cl_usable(q->index));
    TT_TRY(take(q->index, native));
    pthread_mutex_lock(&q->lock);
    q->q = native;
    pthread_mutex_unlock(&q->lock);
    return TT_OK;
}

void *tti_cl_queue_native(const tti_queue *q)
{
    return q->q;
}

void tti_cl_priorities(int index, int *least_p, int *greatest_p)
{
    bool has = tti_cl_all.devices[index].properties.has_priorities;

    *least_p = has ? 1 : 0;
    *greatest_p = has ? -1 : 0;
}

void tti_cl_flush(tti_queue *q)
{
    pthread_mutex_lock(&q->lock);
    if (q->q != NULL)
        tti_cl.Flush(q->q);
    pthread_mutex_unlock(&q->lock);
}

/* A reference to the event that ends all work of q so far, or NULL. Others enqueue to external queues
 * without our knowing: those get a marker. */
static tt_status newest(tti_queue *q, bool marker, cl_event *e_p)
{
    cl_event e = NULL;
    cl_int code;

    *e_p = NULL;
    TT_TRY(tti_cl_usable(q->index));
    pthread_mutex_lock(&q->lock);
    if (q->q == NULL || (!marker && !q->external)) {
        if (q->last != NULL)
            tti_cl.RetainEvent(q->last);
        *e_p = q->last;
        pthread_mutex_unlock(&q->lock);
        return TT_OK;
    }
    code = tti_cl.EnqueueMarkerWithWaitList(q->q, 0, NULL, &e);
    return tti_cl_end(q, "mark a queue", code, e, e_p);
}

/* The marker that asks about an external queue itself takes a moment, even if the queue is idle. */
static tt_status grant(cl_event e, bool *done_p)
{
    int64_t until = tti_now_ns() + MARKER_NS;
    tt_status st = TT_OK;

    while (st == TT_OK && !*done_p && tti_now_ns() < until) {
        sched_yield();
        st = status_of(e, done_p);
    }
    return st;
}

tt_status tti_cl_queue_query(tti_queue *q, bool *done_p)
{
    cl_event e;
    tt_status st = newest(q, false, &e);

    *done_p = true;
    if (st != TT_OK || e == NULL)
        return st;
    st = status_of(e, done_p);
    if (st == TT_OK && !*done_p) {
        tti_cl_flush(q);
        if (q->external)
            st = grant(e, done_p);
    }
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
    tti_cl_flush(q); /* whoever waits for it must not wait for ever */
    return (tti_mark *)e;
}

tti_mark *tti_cl_mark_copy(tti_mark *m)
{
    if (m != NULL && m != nothing && !tti_cl_forked())
        tti_cl.RetainEvent((cl_event)m);
    return m;
}

void tti_cl_mark_free(tti_mark *m)
{
    if (m != NULL && m != nothing && !tti_cl_forked())
        tti_cl.ReleaseEvent((cl_event)m);
}

tt_status tti_cl_mark_query(tti_mark *m, bool *done_p)
{
    *done_p = true;
    if (m == nothing)
        return TT_OK;
    return tti_cl_forked() ? tti_cl_start() : status_of((cl_event)m, done_p);
}

tt_status tti_cl_mark_sync(tti_mark *m)
{
    if (m == nothing)
        return TT_OK;
    if (tti_cl_forked())
        return tti_cl_start();
    tti_cl.RetainEvent((cl_event)m);
    return tti_cl_wait((cl_event)m);
}

tt_status tti_cl_mark_elapsed(tti_mark *from, tti_mark *to, double *ms_p)
{
    cl_ulong a = 0, b = 0;
    cl_int code;

    if (from == nothing || to == nothing)
        return TT_FAIL(TT_ERR_INVALID, "event: no work was queued before it");
    if (tti_cl_forked())
        return tti_cl_start();
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
    TT_TRY(tti_cl_begin(q));
    code = tti_cl.EnqueueBarrierWithWaitList(q->q, 1, &after, &e);
    return tti_cl_end(q, "let a queue wait", code, e, NULL);
}
