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

/* Shows the peer the frame, with the next `n` bytes of the message. */
static void fill_frame(tti_p2p_peer *p, tti_p2p *op, tti_frame *f, uint32_t n, tti_frame_kind kind)
{
    f->bytes = n;
    f->tag = op->tag;
    f->slot = op->slot;
    f->total = op->bytes;
    f->addr = (uint64_t)(uintptr_t)op->data;
    if (n > 0)
        memcpy(tti_frame_data(f), op->data + op->moved, n);
    tti_ring_publish(&p->writer, f, kind);
    op->moved += n;
}

/* False: no room in the ring. */
static bool send_frame(tti_p2p_peer *p, tti_p2p *op, uint32_t n, tti_frame_kind kind)
{
    tti_frame *f = tti_ring_reserve(&p->writer, n);

    if (f != NULL)
        fill_frame(p, op, f, n, kind);
    return f != NULL;
}

static bool can_offer(const tti_p2p_box *box, int peer)
{
    if (box->env.same_process)
        return true;
    return atomic_load_explicit(&box->peers[peer].out->reach, memory_order_relaxed) ==
           TTI_REACH_YES;
}

/* False: no room in the ring, or no slot. A slot that was taken back is the receiver's until it has freed it. */
static bool send_offer(tti_p2p_peer *p, tti_p2p *op)
{
    tti_frame *f = tti_ring_reserve(&p->writer, 0);

    for (uint32_t i = 0; f != NULL && i < TTI_P2P_SLOTS; i++) {
        if (p->offers[i] != NULL || !tti_p2p_slot_offer(&p->out->slots[i]))
            continue;
        op->slot = i;
        fill_frame(p, op, f, 0, TTI_FRAME_OFFER);
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

    if (op->state == TTI_P2P_QUEUED && left <= box->at_once) {
        if (!send_frame(p, op, (uint32_t)left, TTI_FRAME_EAGER))
            return false;
        unqueue_done(op);
        return true;
    }
    if (op->state == TTI_P2P_QUEUED && can_offer(box, peer))
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
        tti_p2p *op = p->offers[i];

        if (op == NULL || !tti_p2p_slot_collect(&p->out->slots[i]))
            continue;
        p->offers[i] = NULL;
        p->n_offers--;
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

/* Takes an offer back, unless it was fetched meanwhile. Between threads this may take the time of a piece, which the peer
 * is copying just now. */
static void retract_offer(tti_p2p_box *box, tti_p2p *op)
{
    tti_p2p_peer *p = &box->peers[op->peer];
    tti_p2p_slot *slot = &p->out->slots[op->slot];

    while (tti_p2p_slot_retract(slot, box->env.same_process) == TTI_P2P_BUSY)
        sched_yield();
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
