/* SPDX-License-Identifier: Apache-2.0 */
/* Watching operators run, by name: for profilers and tests. An observer sees each operator before
 * and after it runs and may refuse it. Costs one branch per operator when nobody observes.
 *
 *     static tt_status count(void *ctx, const tt_op_event *e)
 *     {
 *         *(int *)ctx += e->after;
 *         return TT_OK;
 *     }
 *     tt_observer *o = tt_observer_new("matmul", false, count, &n);      // until tt_observer_free(o)
 */
#ifndef TUTTI_OBSERVE_H
#define TUTTI_OBSERVE_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_op_event {
    const char *name; /* "matmul"; a backward step is "matmul.backward" */
    tt_tensor *const *in;
    int n_in;
    tt_tensor *out;   /* after: the first result; before: NULL */
    tt_status status; /* after: how it went */
    bool after;
} tt_op_event;

/* Before: return TT_OK to let it run; anything else makes the operator fail with ERR_VETOED and the
 * message recorded by tt_fail, if any. After: the result is ignored. Tensors of an event may change later, gradients
 * in the buckets of data parallel training for one: clone what you keep. */
typedef tt_status (*tt_observer_fn)(void *ctx, const tt_op_event *event);

typedef struct tt_observer tt_observer;

/* Observe the operators called `name` (NULL: all) on every thread, or on this thread only. */
TT_API tt_observer *tt_observer_new(const char *name, bool this_thread_only, tt_observer_fn fn,
                                    void *ctx);
/* Accepts NULL. Another thread may still be inside `fn` when this returns. */
TT_API void tt_observer_free(tt_observer *o);

#ifdef __cplusplus
}
#endif

#endif
