/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that costs next to nothing while one thread alone uses it.
 *
 * A thread that took the lock several times in a row becomes its owner. The owner enters by a store and leaves
 * by a store, without any locked instruction:
 *
 *     owner:    me->in = lock; <compiler barrier>; owner still me? -> in       ... me->in = NULL
 *     another:  mutex; owner = nobody; <barrier in every thread>; wait until the old owner's `in` is another -> in
 *
 * The barrier in every thread is membarrier(2). It stands between the other's store to `owner` and its load of
 * `in`, and, because it acts inside the owner too, between the owner's store and load: at least one of the
 * two sees what the other wrote. The owner that sees another goes back and takes the mutex like everybody. It may find
 * that out late, when there is a new owner already: so `in` is each thread's own, and what it says of a lock that is
 * not its any more disturbs nobody. What is written inside is seen by the next one: `in` is stored with release and
 * loaded with acquire, and mutexes order the rest. Where the kernel has no membarrier nobody ever becomes owner, and
 * this is a mutex. */
#ifndef TTI_DEVICE_CACHE_LOCK_H
#define TTI_DEVICE_CACHE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"
#include "base/tls.h"

typedef struct tti_bias_lock tti_bias_lock;

/* A thread that can be an owner. When it ends, another gets its place, and with it the locks that it owns. */
typedef struct tti_bias_thread {
    _Alignas(64) _Atomic(const tti_bias_lock *)
        in;                       /* written by the thread: the lock that it is in as its owner */
    struct tti_bias_thread *next; /* free */
} tti_bias_thread;

struct tti_bias_lock {
    _Atomic(tti_bias_thread *) owner; /* written with mu held; never NULL */
    pthread_mutex_t mu;
    tti_bias_thread *last; /* mu: who took it last */
    uint32_t row;          /* mu: how often in a row */
    uint32_t need; /* mu: how often it takes to become owner; grows each time an owner is deposed */
};

extern tti_bias_thread tti_bias_nobody;
extern TTI_HOT_TLS tti_bias_thread *tti_bias_me; /* NULL: not given yet, or no place was left */

void tti_bias_init(tti_bias_lock *l);
void tti_bias_fini(tti_bias_lock *l);
void tti_bias_lock_mutex(tti_bias_lock *l);

/* Enters if this thread is the owner, and not in another lock as its owner. */
static inline bool tti_bias_try(tti_bias_lock *l)
{
    tti_bias_thread *me = tti_bias_me;

    if (tt_unlikely(atomic_load_explicit(&l->owner, memory_order_relaxed) != me) ||
        tt_unlikely(atomic_load_explicit(&me->in, memory_order_relaxed) != NULL))
        return false;
    atomic_store_explicit(&me->in, l, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (tt_likely(atomic_load_explicit(&l->owner, memory_order_acquire) == me))
        return true;
    atomic_store_explicit(&me->in, NULL, memory_order_release);
    return false;
}

/* Of the lock that this thread is in as its owner. */
static inline void tti_bias_leave(void)
{
    atomic_store_explicit(&tti_bias_me->in, NULL, memory_order_release);
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
        tti_bias_leave();
    else
        pthread_mutex_unlock(&l->mu);
}

#endif
