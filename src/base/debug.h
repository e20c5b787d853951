/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the process looks for uses of dead tensors: TUTTI_DEBUG_TENSORS=1, and always in builds with a
 * sanitizer unless it is 0. Decided at the first question and the same from then on. */
#ifndef TTI_BASE_DEBUG_H
#define TTI_BASE_DEBUG_H

#include <stdatomic.h>

#include "tutti/base.h"

extern atomic_int tti_debug_state; /* 0: off, 1: on, -1: not decided yet */

bool tti_debug_decide(void);

static inline bool tti_debug_tensors(void)
{
    int state = atomic_load_explicit(&tti_debug_state, memory_order_relaxed);

    return __builtin_expect(state != 0, 0) && (state > 0 || tti_debug_decide());
}

#endif
