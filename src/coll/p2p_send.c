/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side: queued sends become frames, offers or streams, in order. */
#include <sched.h>
#include <string.h>

#include "coll/p2p_impl.h"

static void unqueue_done(tti_p2p *op)
{
    tti_list_remove(&op->link);
    tti_p2p_finish(op, TTI_END_OK, 0);
}

/* Shows the peer a frame with the next `n` bytes. False: no room. */
static bool send_frame(tti_p2p_peer *p, tti_p2p *op, uint32_t n, tti_frame_kind kind)
{
    tti_frame *f = tti_ring_reserve(&p->writer, n);

    if (f == NULL)
        return false;
    f->bytes = n;
    f->tag = op->tag;
    f->slot = op->slot;
    f->total = op->bytes;
    f->addr = (uint64_t)(uintptr_t)op->data;
    if (n > 0)
        memcpy(tti_frame_data(f), op->data + op->moved, n);
    tti_ring_publish(&p->writer, f, kind);
    op->moved += n;
    return true;
}

static bool send_offer(tti_p2p_peer *p, tti_p2p *op)
{
    for (uint32_t i = 0; i < TTI_P2P_SLOTS; i++) {
        _Atomic uint32_t *state = &p->out->slots[i].state;

        if (p->offers[i] != NULL ||
            atomic_load_explicit(state, memory_order_acquire) != TTI_P2P_SLOT_FREE)
            continue;
        op->slot = i;
        /* The frame's publishing orders this store for the receiver, which looks at it only then. */
        atomic_store_explicit(state, TTI_P2P_SLOT_OFFERED, memory_order_release);
        if (!send_frame(p, op, 0, TTI_FRAME_OFFER)) {
            atomic_store_explicit(state, TTI_P2P_SLOT_FREE, memory_order_release);
            return false;
        }
        tti_list_remove(&op->link);
        op->state = TTI_P2P_OFFERED;
        p->offers[i] = op;
        p->n_offers++;
        return true;
    }
    return false;
}

/* Moves the first of the queue on; false when it is stuck. */
static bool send_some(tti_p2p_box *box, int peer, tti_p2p *op)
{
    tti_p2p_peer *p = &box->peers[peer];
    uint32_t most = tti_ring_most(p->writer.cap);
    size_t left = op->bytes - op->moved;

    if (op->state == TTI_P2P_QUEUED && left <= most) {
        if (!send_frame(p, op, (uint32_t)left, TTI_FRAME_EAGER))
            return false;
        unqueue_done(op);
        return true;
    }
    if (op->state == TTI_P2P_QUEUED && tti_p2p_can_offer(box, peer))
        return send_offer(p, op);
    if (!send_frame(p, op, left < most ? (uint32_t)left : most,
                    op->state == TTI_P2P_QUEUED ? TTI_FRAME_FIRST : TTI_FRAME_MORE))
        return false;
    p->n_streams += op->state == TTI_P2P_QUEUED;
    op->state = TTI_P2P_STREAMING;
    if (op->moved == op->bytes)
        unqueue_done(op);
    return true;
}

bool tti_p2p_collect_offers(tti_p2p_peer *p)
{
    bool moved = false;

    for (uint32_t i = 0; i < TTI_P2P_SLOTS; i++) {
        _Atomic uint32_t *state = &p->out->slots[i].state;
        tti_p2p *op = p->offers[i];

        if (op == NULL || atomic_load_explicit(state, memory_order_acquire) != TTI_P2P_SLOT_DONE)
            continue;
        p->offers[i] = NULL;
        p->n_offers--;
        atomic_store_explicit(state, TTI_P2P_SLOT_FREE, memory_order_relaxed);
        tti_p2p_finish(op, TTI_END_OK, 0);
        moved = true;
    }
    return moved;
}

bool tti_p2p_push(tti_p2p_box *box, int peer)
{
    tti_p2p_peer *p = &box->peers[peer];
    bool moved = p->n_offers > 0 && tti_p2p_collect_offers(p);

    while (!tti_list_empty(&p->queue)) {
        if (!send_some(box, peer, TTI_LIST_AT(p->queue.next, tti_p2p)))
            break;
        tti_p2p_notify(box, peer);
        moved = true;
    }
    return moved;
}

void tti_p2p_send_self(tti_p2p_box *box, tti_p2p *op)
{
    tti_p2p_peer *p = &box->peers[box->rank];
    tti_p2p *receive = tti_p2p_match(box, box->rank, op->tag);

    if (receive != NULL) {
        tti_p2p_unpost(box, receive);
        receive->source = box->rank;
        if (receive->bytes == op->bytes && op->bytes > 0)
            memcpy(receive->data, op->data, op->bytes);
        tti_p2p_finish(receive, receive->bytes == op->bytes ? TTI_END_OK : TTI_END_SIZE, op->bytes);
        tti_p2p_finish(op, TTI_END_OK, 0);
        return;
    }
    /* Short ones are done at once, as they are between two ranks. */
    bool whole = op->bytes <= tti_ring_most(p->writer.cap);
    tti_p2p_message *m = tti_p2p_keep(p, whole ? TTI_KEPT_WHOLE : TTI_KEPT_SELF, op->tag, op->bytes,
                                      whole ? op->bytes : 0);

    if (m == NULL) {
        tti_p2p_finish(op, TTI_END_NOMEM, op->bytes);
    } else if (whole) {
        if (op->bytes > 0)
            memcpy(m->data, op->data, op->bytes);
        tti_p2p_finish(op, TTI_END_OK, 0);
    } else {
        op->state = TTI_P2P_OFFERED;
        op->kept = m;
        m->self = op;
    }
}

/* Takes an offer back, unless it was fetched meanwhile. */
static void retract_offer(tti_p2p_box *box, tti_p2p *op)
{
    tti_p2p_peer *p = &box->peers[op->peer];
    _Atomic uint32_t *state = &p->out->slots[op->slot].state;
    uint32_t was = atomic_load_explicit(state, memory_order_acquire);

    while (was != TTI_P2P_SLOT_DONE) {
        if (was == TTI_P2P_SLOT_COPYING) { /* for the time of a piece, unless the peer dies in it */
            if (box->env.state(box->env.ctx, op->peer, true) == TTI_RANK_DEAD)
                break;
            sched_yield();
            was = atomic_load_explicit(state, memory_order_acquire);
        } else if (atomic_compare_exchange_weak_explicit(state, &was, TTI_P2P_SLOT_RETRACTED,
                                                         memory_order_acq_rel,
                                                         memory_order_acquire)) {
            break;
        }
    }
    if (was == TTI_P2P_SLOT_DONE)
        atomic_store_explicit(state, TTI_P2P_SLOT_FREE, memory_order_relaxed);
    p->offers[op->slot] = NULL;
    p->n_offers--;
    tti_p2p_notify(box, op->peer);
}

void tti_p2p_retract(tti_p2p_box *box, tti_p2p *op)
{
    tti_p2p_peer *p = &box->peers[op->peer];

    if (op->kept != NULL) {
        tti_p2p_drop_kept(p, op->kept);
        op->kept = NULL;
    } else if (op->state == TTI_P2P_OFFERED) {
        retract_offer(box, op);
    } else {
        tti_list_remove(&op->link);
        if (op->state == TTI_P2P_STREAMING) {
            atomic_store_explicit(&p->out->dead_stream, p->n_streams, memory_order_release);
            tti_p2p_notify(box, op->peer);
        }
    }
}
