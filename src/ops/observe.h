/* SPDX-License-Identifier: Apache-2.0 */
/* What operators ask about observers. */
#ifndef TTI_OPS_OBSERVE_H
#define TTI_OPS_OBSERVE_H

#include <stdatomic.h>

#include "tutti/observe.h"

extern atomic_int tti_n_observers;

static inline bool tti_observing(void)
{
    return atomic_load_explicit(&tti_n_observers, memory_order_relaxed) != 0;
}

tt_status tti_observe_before(const tt_op_event *e);
void tti_observe_after(const tt_op_event *e);

#endif
