/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for other ranks: spin briefly, then sleep on this rank's bell until somebody rings it.
 *
 * Who waits: a thread of this rank; several may at once (one in a collective, others for messages).
 * Who rings: whoever has just changed, with a release store, a word that the rank may be waiting for.
 *
 *     waiter                              ringer
 *     sleepers += 1                       store the word (release)
 *     fence (seq_cst)                     fence (seq_cst)
 *     look at the word: still not? sleep  sleepers != 0? rings += 1, wake
 *
 * One of the two fences comes first, so either the waiter sees the word or the ringer sees the sleeper:
 * no wake-up is lost (models/bell.pml). Nobody sleeping costs the ringer a fence and a load.
 *
 * The ringer's fence waits for its store to reach the other core, which is most of the cost of a small message. Where the
 * kernel can make all cores that run ranks pass a fence (membarrier), the waiter asks for that after its own, and the
 * ringer only keeps the compiler from swapping the two: its store is either seen by then, or its load comes later. */
#ifndef TTI_COLL_WAIT_H
#define TTI_COLL_WAIT_H

#include "coll/segment.h"

#if defined(__x86_64__) || defined(__i386__)
#define tti_cpu_relax() __builtin_ia32_pause()
#else
#define tti_cpu_relax() atomic_signal_fence(memory_order_seq_cst)
#endif

/* How this rank waits; chosen when the team is opened. */
typedef struct tti_patience {
    int eager;  /* rounds of looking without a pause, which takes 60 ns on some CPUs */
    int spins;  /* rounds of looking with a pause between them */
    int yields; /* then rounds that give the core away */
    bool heavy; /* who goes to sleep fences for the ringers too; the same on every rank */
} tti_patience;

/* For `size` ranks that have n_cores cores together. */
void tti_patience_init(tti_patience *p, int size, int n_cores);

/* Registers this process for the fences of others. False: the kernel has no such thing. */
bool tti_heavy_fence_init(void);

/* True ends the wait. Cheap, blocks never, may have side effects (moving messages on). */
typedef bool (*tti_ready_fn)(void *ctx);

typedef struct tti_wait {
    tti_ready_fn ready;
    void *ctx;
    /* Called about every 10 ms while waiting, and before the first sleep: dead peers, aborts, ... A status
     * other than TT_OK ends the wait, unless it is ready. May be NULL. */
    tt_status (*check)(void *ctx);
    int64_t deadline_ns;
} tti_wait;

/* TT_OK: ready. TT_ERR_TIMEOUT, without a word recorded: the deadline passed. Else what `check` gave. */
tt_status tti_bell_wait(tti_bell *bell, const tti_patience *patience, const tti_wait *w);
/* Gives the core away once. False: that was done for a millisecond, counted from the first time (*since_p is 0 then). */
bool tti_yield(int64_t *since_p);
/* Wakes all who sleep there. */
void tti_bell_wake(tti_bell *bell);

/* After a release store that the owner of `bell` may be waiting for. `heavy`: who goes to sleep there fences for this
 * thread, too. */
static inline void tti_bell_ring_fenced(tti_bell *bell, bool heavy)
{
    if (heavy)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    if (tt_unlikely(atomic_load_explicit(&bell->sleepers, memory_order_relaxed) != 0))
        tti_bell_wake(bell);
}

static inline void tti_bell_ring(tti_bell *bell)
{
    tti_bell_ring_fenced(bell, false);
}

#endif
