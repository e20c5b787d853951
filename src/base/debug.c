/* SPDX-License-Identifier: Apache-2.0 */
/* The switch of the search for dead tensors. */
#include "base/debug.h"

#include "base/env.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DEBUG_BY_DEFAULT 1
#else
#define DEBUG_BY_DEFAULT 0
#endif

atomic_int tti_debug_state = -1;

bool tti_debug_decide(void)
{
    int on = (int)tti_env_int(TTI_ENV_DEBUG_TENSORS, 0, 1, DEBUG_BY_DEFAULT);

    atomic_store_explicit(&tti_debug_state, on, memory_order_relaxed);
    return on != 0;
}
