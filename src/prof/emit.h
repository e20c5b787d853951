/* SPDX-License-Identifier: Apache-2.0 */
/* How the rest of the library tells the profiler what it does. */
#ifndef TTI_PROF_EMIT_H
#define TTI_PROF_EMIT_H

#include <stdatomic.h>

#include "tutti/prof.h"

/* How many profiles are running. */
extern atomic_int tti_prof_running;

static inline bool tti_prof_on(void)
{
    return __builtin_expect(atomic_load_explicit(&tti_prof_running, memory_order_relaxed) != 0, 0);
}

/* Which rank this process is, for traces without operations of a group. The last word counts. */
void tti_prof_set_world(int rank, int world_size, const char *backend);

/* A tensor's shape as events have it: complex tensors as pairs of reals. */
tt_shape tti_prof_shape(const tt_tensor *t);

typedef struct tti_prof_mark tti_prof_mark;

/* Begins an event with everything of `e` but its times; names and shapes are copied. NULL when no profile
 * wants it (or memory is short: profiling never makes an operation fail). */
tti_prof_mark *tti_prof_op_begin(const tt_prof_event *e);
/* Ends it, on any thread, after the profile has stopped too. Accepts NULL. */
void tti_prof_op_end(tti_prof_mark *mark, bool failed);

#endif
