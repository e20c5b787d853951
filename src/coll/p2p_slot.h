/* SPDX-License-Identifier: Apache-2.0 */
/* The slot of a long message: the word by which a sender and a receiver agree who may touch the sender's
 * memory. This file alone reads and writes `state`; models/p2p.pml checks it.
 *
 *     FREE --offer--> OFFERED --claim--> CLAIMED --begin_piece--> COPYING
 *       ^                |                 |  ^---end_piece----------|
 *       |                |                 |--release--> DONE --collect--> FREE
 *       |                v                 v
 *       +--claim, begin_piece, ...-- RETRACTED <--retract (also out of COPYING, see below)
 *
 * The sender makes offer, collect and retract; the receiver makes the rest. Both sides may want to leave OFFERED, CLAIMED
 * and COPYING, so each of these steps is a compare-and-swap: the side that comes second sees what the first one did. A
 * slot always has one side that will free it: the sender after DONE, the receiver after RETRACTED.
 *
 * What a sender takes back while a piece is being copied depends on how the receiver copies. Threads of one process read
 * the memory itself, so the sender has to wait until the piece is through. Between processes the kernel copies: reading
 * memory that has been freed or used again is harmless there, because the receiver finds RETRACTED after the piece and
 * throws the message away. So a sender never waits for a process that may have been stopped.
 *
 * Memory orders: the steps that give memory away (offer, end_piece, release, retract) are releases, those that
 * take it over are acquires; a step that does both has both. The offer itself is seen after the frame that
 * announces it, which the ring publishes with a release store. */
#ifndef TTI_COLL_P2P_SLOT_H
#define TTI_COLL_P2P_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum tti_p2p_slot_state {
    TTI_P2P_SLOT_FREE,
    TTI_P2P_SLOT_OFFERED,   /* by the sender */
    TTI_P2P_SLOT_CLAIMED,   /* by the receiver, which copies the message piece by piece */
    TTI_P2P_SLOT_COPYING,   /* a piece is being copied */
    TTI_P2P_SLOT_DONE,      /* the receiver needs it no more; the sender frees it */
    TTI_P2P_SLOT_RETRACTED, /* the sender took it back; the receiver frees it */
} tti_p2p_slot_state;

typedef struct tti_p2p_slot {
    _Alignas(64) _Atomic uint32_t state;
} tti_p2p_slot;

typedef enum tti_p2p_taken_back {
    TTI_P2P_TAKEN_BACK, /* the receiver will not deliver it */
    TTI_P2P_WAS_DONE,   /* it had been fetched before */
    TTI_P2P_BUSY,       /* a piece is being copied: ask again */
} tti_p2p_taken_back;

/* One step from a state that only the given one may follow. False: the slot is in another state. */
static inline bool tti_p2p_slot_step(tti_p2p_slot *s, tti_p2p_slot_state from,
                                     tti_p2p_slot_state to)
{
    uint32_t was = (uint32_t)from;

    return atomic_compare_exchange_strong_explicit(&s->state, &was, (uint32_t)to,
                                                   memory_order_acq_rel, memory_order_acquire);
}

/* ---- the sender ------------------------------------------------------------------------------- */

/* Before the frame that announces the message is published. False: the slot is in use. */
static inline bool tti_p2p_slot_offer(tti_p2p_slot *s)
{
    return tti_p2p_slot_step(s, TTI_P2P_SLOT_FREE, TTI_P2P_SLOT_OFFERED);
}

/* True: the receiver needs the memory no more, and the slot is free again. */
static inline bool tti_p2p_slot_collect(tti_p2p_slot *s)
{
    if (atomic_load_explicit(&s->state, memory_order_acquire) != TTI_P2P_SLOT_DONE)
        return false;
    /* Nobody else leaves DONE. The next offer's frame publishes this store. */
    atomic_store_explicit(&s->state, TTI_P2P_SLOT_FREE, memory_order_relaxed);
    return true;
}

/* `direct`: the receiver reads the memory itself, so that a piece has to be waited for. */
static inline tti_p2p_taken_back tti_p2p_slot_retract(tti_p2p_slot *s, bool direct)
{
    uint32_t was = atomic_load_explicit(&s->state, memory_order_acquire);

    while (was != TTI_P2P_SLOT_DONE) {
        if (was == TTI_P2P_SLOT_COPYING && direct)
            return TTI_P2P_BUSY;
        if (atomic_compare_exchange_weak_explicit(&s->state, &was, TTI_P2P_SLOT_RETRACTED,
                                                  memory_order_acq_rel, memory_order_acquire))
            return TTI_P2P_TAKEN_BACK;
    }
    tti_p2p_slot_collect(s);
    return TTI_P2P_WAS_DONE;
}

/* ---- the receiver ----------------------------------------------------------------------------- */

/* Frees a slot that the sender took back; nobody else leaves RETRACTED. Always false. */
static inline bool tti_p2p_slot_give_up(tti_p2p_slot *s)
{
    if (atomic_load_explicit(&s->state, memory_order_acquire) == TTI_P2P_SLOT_RETRACTED)
        atomic_store_explicit(&s->state, TTI_P2P_SLOT_FREE, memory_order_release);
    return false;
}

/* True: the message is this receiver's. False: its sender took it back, and the slot is given up. */
static inline bool tti_p2p_slot_claim(tti_p2p_slot *s)
{
    return tti_p2p_slot_step(s, TTI_P2P_SLOT_OFFERED, TTI_P2P_SLOT_CLAIMED) ||
           tti_p2p_slot_give_up(s);
}

/* True: the memory stays as it is until tti_p2p_slot_end_piece (see the top for processes). False: as above. */
static inline bool tti_p2p_slot_begin_piece(tti_p2p_slot *s)
{
    return tti_p2p_slot_step(s, TTI_P2P_SLOT_CLAIMED, TTI_P2P_SLOT_COPYING) ||
           tti_p2p_slot_give_up(s);
}

/* True: the piece is good. False: as above, and what was copied may be anything. */
static inline bool tti_p2p_slot_end_piece(tti_p2p_slot *s)
{
    return tti_p2p_slot_step(s, TTI_P2P_SLOT_COPYING, TTI_P2P_SLOT_CLAIMED) ||
           tti_p2p_slot_give_up(s);
}

/* After a claim, between pieces: the message is needed no more. True: the sender should be woken. */
static inline bool tti_p2p_slot_release(tti_p2p_slot *s)
{
    return tti_p2p_slot_step(s, TTI_P2P_SLOT_CLAIMED, TTI_P2P_SLOT_DONE) || tti_p2p_slot_give_up(s);
}

#endif
