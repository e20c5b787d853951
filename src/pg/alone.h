/* SPDX-License-Identifier: Apache-2.0 */
/* A group that only one thread uses needs no locked instructions, each of which waits until what was sent to the peers has
 * left this core. The first thread that calls has the group to itself until another one comes, then never again.
 *
 *     owner                              another thread, the first time
 *     busy = 1 or 2                      shared = 1
 *     shared? then not alone             all cores of the process pass a fence (membarrier)
 *     ...                                wait while busy
 *     busy = 0 (release)
 *
 * Either the owner sees `shared`, or the other sees `busy`. Who only numbers a call waits while the owner does that,
 * a few instructions; who runs one, holding mu_run, also while the owner runs one. */
#ifndef TTI_PG_ALONE_H
#define TTI_PG_ALONE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum tti_alone_state { TTI_ALONE_IDLE, TTI_ALONE_NUMBERS, TTI_ALONE_RUNS } tti_alone_state;

typedef struct tti_alone {
    atomic_uintptr_t owner; /* 0: nobody called yet */
    atomic_int busy;        /* tti_alone_state; the owner's */
    atomic_bool shared;
    atomic_bool fenced; /* after shared: the owner has seen it, or is seen */
} tti_alone;

extern _Thread_local char tti_alone_me; /* its address names the thread */

void tti_alone_init(tti_alone *a);
/* Takes the group if it has no owner. */
bool tti_alone_claim(tti_alone *a);
void tti_alone_share(tti_alone *a);

/* True: nobody else numbers, or runs, until tti_alone_leave. */
static inline bool tti_alone_enter(tti_alone *a, tti_alone_state state)
{
    if (atomic_load_explicit(&a->owner, memory_order_relaxed) != (uintptr_t)&tti_alone_me &&
        !tti_alone_claim(a))
        return false;
    atomic_store_explicit(&a->busy, state, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(!atomic_load_explicit(&a->shared, memory_order_acquire), 1))
        return true;
    atomic_store_explicit(&a->busy, TTI_ALONE_IDLE, memory_order_release);
    return false;
}

/* Whether this thread is the owner: it stays so, also when it is not alone any more. */
static inline bool tti_alone_owns(const tti_alone *a)
{
    return atomic_load_explicit(&a->owner, memory_order_relaxed) == (uintptr_t)&tti_alone_me;
}

static inline void tti_alone_leave(tti_alone *a)
{
    atomic_store_explicit(&a->busy, TTI_ALONE_IDLE, memory_order_release);
}

/* Before a call is numbered without being alone: from now on nobody is, except this thread if it is the owner. */
static inline void tti_alone_end(tti_alone *a)
{
    if (__builtin_expect(!atomic_load_explicit(&a->fenced, memory_order_acquire), 0))
        tti_alone_share(a);
}

/* With mu_run held: until the owner does not run what it began without. */
void tti_alone_wait(tti_alone *a);

#endif
