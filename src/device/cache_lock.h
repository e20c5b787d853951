/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that costs next to nothing while one thread alone uses it.
 *
 * A thread that took the lock several times in a row becomes its owner. The owner enters by a store and leaves
 * by a store, without any locked instruction:
 *
 *     owner:    inside = true; <compiler barrier>; owner still me? -> in       ... inside = false
 *     another:  mutex; owner = NOBODY; <barrier in every thread>; wait until !inside -> in ... unlock
 *
 * The barrier in every thread is membarrier(2). It stands between the other's store to `owner` and its load of
 * `inside`, and, because it acts inside the owner too, between the owner's store and load: at least one of the
 * two sees what the other wrote. The owner that sees NOBODY goes back and takes the mutex like everybody. What is
 * written inside is seen by the next one: `inside` is stored with release and loaded with acquire, and mutexes order
 * the rest. Where the kernel has no membarrier nobody ever becomes owner, and this is a mutex. */
#ifndef TTI_DEVICE_CACHE_LOCK_H
#define TTI_DEVICE_CACHE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"
#include "base/tls.h"

#define TTI_NOBODY UINT64_MAX

typedef struct tti_bias_lock {
    _Atomic uint64_t owner; /* written with mu held */
    atomic_bool inside;     /* written by the owner */
    pthread_mutex_t mu;
    uint64_t last; /* mu: who took it last */
    uint32_t row;  /* mu: how often in a row */
    uint32_t need; /* mu: how often it takes to become owner; grows each time an owner is deposed */
} tti_bias_lock;

/* 1, 2, ... by first use; 0: not given yet. */
extern TTI_HOT_TLS uint64_t tti_thread_number;

void tti_bias_init(tti_bias_lock *l);
void tti_bias_fini(tti_bias_lock *l);
void tti_bias_lock_mutex(tti_bias_lock *l);

/* Enters if this thread is the owner. */
static inline bool tti_bias_try(tti_bias_lock *l)
{
    uint64_t me = tti_thread_number;

    if (tt_unlikely(atomic_load_explicit(&l->owner, memory_order_relaxed) != me))
        return false;
    atomic_store_explicit(&l->inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (tt_likely(atomic_load_explicit(&l->owner, memory_order_acquire) == me))
        return true;
    atomic_store_explicit(&l->inside, false, memory_order_release);
    return false;
}

static inline void tti_bias_leave(tti_bias_lock *l)
{
    atomic_store_explicit(&l->inside, false, memory_order_release);
}

/* The result goes to tti_bias_unlock. */
static inline bool tti_bias_lock_take(tti_bias_lock *l)
{
    if (tt_likely(tti_bias_try(l)))
        return true;
    tti_bias_lock_mutex(l);
    return false;
}

static inline void tti_bias_unlock(tti_bias_lock *l, bool biased)
{
    if (tt_likely(biased))
        tti_bias_leave(l);
    else
        pthread_mutex_unlock(&l->mu);
}

#endif
