/* SPDX-License-Identifier: Apache-2.0 */
/* What a queue can be made to do besides kernels: sleep, and call functions of the host. */
#include <string.h>

#include "base/mem.h"
#include "device/opencl/cl.h"

/* What to do when the queue gets there. */
typedef struct turn {
    uint64_t ns;
    void (*fn)(void *arg);
    void *arg;
    cl_event user;
} turn;

static void drop(turn *t)
{
    if (t->user != NULL) {
        tti_cl.SetUserEventStatus(t->user, CL_COMPLETE);
        tti_cl.ReleaseEvent(t->user);
    }
    tti_mfree(t->arg);
    tti_mfree(t);
}

/* Called by a thread of the driver, before what depends on the marker may run: it only hands over. */
static void CL_CALLBACK reached(cl_event marker, cl_int status, void *data)
{
    turn *t = data;

    (void)status;
    tti_cl.ReleaseEvent(marker);
    if (tti_cl_timer_add(t->ns, t->fn, t->arg, t->user) != TT_OK) { /* late is better than never */
        if (t->fn != NULL)
            t->fn(t->arg);
        drop(t);
        return;
    }
    tti_mfree(t);
}

/* A marker, and a barrier that waits for t's user event; *marker_p is a reference. */
static tt_status enqueue(tti_queue *q, turn *t, cl_event *marker_p)
{
    cl_event barrier = NULL;
    cl_int code = CL_SUCCESS;

    TT_TRY(tti_cl_usable(q->index));
    t->user = tti_cl.CreateUserEvent(tti_cl_all.context, &code);
    if (t->user == NULL)
        return tti_cl_fail("make a user event", code);
    TT_TRY(tti_cl_begin(q));
    code = tti_cl.EnqueueMarkerWithWaitList(q->q, 0, NULL, marker_p);
    if (code == CL_SUCCESS)
        code = tti_cl.EnqueueBarrierWithWaitList(q->q, 1, &t->user, &barrier);
    return tti_cl_end(q, "queue a host function", code, barrier, NULL);
}

/* The marker's callback starts `t`. Owns t and what it holds. */
static tt_status take_turn(tti_queue *q, turn *t)
{
    cl_event marker = NULL;
    cl_int code = CL_SUCCESS;
    tt_status st = enqueue(q, t, &marker);

    if (st == TT_OK) {
        code = tti_cl.SetEventCallback(marker, CL_COMPLETE, reached, t);
        if (code == CL_SUCCESS) {
            tti_cl_flush(q);
            return TT_OK;
        }
        st = tti_cl_fail("be told of the end of a command", code);
    }
    if (marker != NULL)
        tti_cl.ReleaseEvent(marker);
    drop(t);
    return st;
}

tt_status tti_cl_sleep(tti_queue *q, uint64_t ns)
{
    turn *t = tti_calloc(1, sizeof *t);

    if (t == NULL)
        return TT_ERR_NOMEM;
    t->ns = ns;
    return take_turn(q, t);
}

static tt_status call_by_turn(tti_queue *q, void (*fn)(void *arg), const void *arg, size_t bytes)
{
    turn *t = tti_calloc(1, sizeof *t);

    if (t == NULL)
        return TT_ERR_NOMEM;
    t->fn = fn;
    t->arg = tti_malloc(bytes != 0 ? bytes : 1);
    if (t->arg == NULL) {
        tti_mfree(t);
        return TT_ERR_NOMEM;
    }
    if (bytes != 0)
        memcpy(t->arg, arg, bytes);
    return take_turn(q, t);
}

tt_status tti_cl_call(tti_queue *q, void (*fn)(void *arg), const void *arg, size_t bytes)
{
    cl_event e = NULL;
    cl_int code;

    if (!tti_cl_all.is_cpu)
        return call_by_turn(q, fn, arg, bytes);
    TT_TRY(tti_cl_begin(q));
    code = tti_cl.EnqueueNativeKernel(q->q, fn, bytes != 0 ? (void *)arg : NULL, bytes, 0, NULL,
                                      NULL, 0, NULL, &e);
    return tti_cl_end(q, "queue a host function", code, e, NULL);
}
