/* SPDX-License-Identifier: Apache-2.0 */
/* Reference counts. While the process has a single thread they are plain integers. */
#ifndef TTI_BASE_REFCOUNT_H
#define TTI_BASE_REFCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/single_threaded.h>

static inline void tti_ref(atomic_int *refs)
{
    if (__libc_single_threaded)
        atomic_store_explicit(refs, atomic_load_explicit(refs, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

/* Drop one; true when it was the last. */
static inline bool tti_unref(atomic_int *refs)
{
    int before;

    if (__libc_single_threaded) {
        before = atomic_load_explicit(refs, memory_order_relaxed);
        atomic_store_explicit(refs, before - 1, memory_order_relaxed);
    } else {
        before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
    }
    return before == 1;
}

#endif
