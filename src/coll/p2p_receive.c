/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving side: frames from the rings to the receives that match, or into memory. */
#include <string.h>

#include "coll/p2p_impl.h"

#define FRAMES_AT_ONCE 32 /* before others get their turn */

void tti_p2p_end_stream(tti_p2p_box *box, int peer, tti_p2p_end end)
{
    tti_p2p_peer *p = &box->peers[peer];
    tti_stream *s = &p->stream;

    s->on = false;
    if (s->msg != NULL && end == TTI_END_OK)
        s->msg->kind = TTI_KEPT_WHOLE;
    else if (s->msg != NULL)
        tti_p2p_drop_kept(p, s->msg);
    if (s->op != NULL)
        tti_p2p_finish(s->op, end, s->moved);
    s->op = NULL;
    s->msg = NULL;
}

static void feed_stream(tti_p2p_box *box, int peer, tti_frame *f)
{
    tti_stream *s = &box->peers[peer].stream;
    unsigned char *to = s->op != NULL ? s->op->data : s->msg != NULL ? s->msg->data : NULL;

    if (f->bytes > s->total - s->moved) {
        tti_p2p_end_stream(box, peer, TTI_END_UNSOUND);
        return;
    }
    if (to != NULL)
        memcpy(to + s->moved, tti_frame_data(f), f->bytes);
    s->moved += f->bytes;
    if (s->moved == s->total)
        tti_p2p_end_stream(box, peer, TTI_END_OK);
}

/* True when taken; false: no memory to keep it, so it stays in the ring. */
static bool take_eager(tti_p2p_box *box, int peer, tti_frame *f)
{
    tti_p2p *op = tti_p2p_match(box, peer, f->tag);
    tti_p2p_message *m;

    if (op != NULL) {
        tti_p2p_unpost(box, op);
        op->source = peer;
        if (op->bytes == f->bytes && f->bytes > 0)
            memcpy(op->data, tti_frame_data(f), f->bytes);
        tti_p2p_finish(op, op->bytes == f->bytes ? TTI_END_OK : TTI_END_SIZE, f->bytes);
        return true;
    }
    m = tti_p2p_keep(&box->peers[peer], TTI_KEPT_WHOLE, f->tag, f->bytes, f->bytes);
    if (m == NULL)
        return false;
    memcpy(m->data, tti_frame_data(f), f->bytes);
    return true;
}

static bool take_first(tti_p2p_box *box, int peer, tti_frame *f)
{
    tti_p2p_peer *p = &box->peers[peer];
    tti_stream *s = &p->stream;
    tti_p2p *op = tti_p2p_match(box, peer, f->tag);
    tti_p2p_message *m = NULL;

    if (op == NULL) {
        m = tti_p2p_keep(p, TTI_KEPT_STREAM, f->tag, f->total, f->total);
        if (m == NULL)
            return false;
    }
    tti_p2p_probe(box, peer, f->addr, tti_frame_data(f), f->bytes);
    *s = (tti_stream){ .on = true, .number = s->number + 1, .total = f->total, .msg = m };
    if (op != NULL) {
        tti_p2p_unpost(box, op);
        op->source = peer;
        op->state = TTI_P2P_STREAMING;
        if (op->bytes == f->total)
            s->op = op;
        else
            tti_p2p_finish(op, TTI_END_SIZE, f->total);
    }
    feed_stream(box, peer, f);
    return true;
}

/* All slots are held by messages that nobody asked for: fetches the first, so that later ones can come. */
static void settle_offer(tti_p2p_box *box, int peer)
{
    tti_p2p_peer *p = &box->peers[peer];
    tti_link *l = p->kept.next;

    while (TTI_LIST_AT(l, tti_p2p_message)->kind != TTI_KEPT_OFFER)
        l = l->next;
    tti_p2p_message *m = TTI_LIST_AT(l, tti_p2p_message);
    tti_p2p_message *whole = tti_malloc(sizeof *m + m->total);

    if (whole == NULL)
        return;
    if (tti_p2p_claim(&p->in->slots[m->slot])) {
        _Atomic uint32_t *state = &p->in->slots[m->slot].state;

        atomic_store_explicit(state, TTI_P2P_SLOT_COPYING, memory_order_relaxed);
        bool ok = tti_p2p_fetch(box, peer, m->addr, whole->data, m->total) == 0;
        tti_p2p_release(box, peer, m->slot);
        if (ok) { /* in the place of the offer */
            *whole = (tti_p2p_message){ .kind = TTI_KEPT_WHOLE, .tag = m->tag, .total = m->total };
            tti_list_add(&m->link, &whole->link);
            whole = NULL;
        }
    }
    tti_p2p_drop_kept(p, m);
    tti_mfree(whole);
}

static bool take_offer(tti_p2p_box *box, int peer, tti_frame *f)
{
    tti_p2p_peer *p = &box->peers[peer];
    tti_p2p *op = tti_p2p_match(box, peer, f->tag);
    tti_p2p_message *m;

    if (op != NULL) {
        if (!tti_p2p_claim(&p->in->slots[f->slot]))
            return true; /* taken back: as if it had never been sent */
        tti_p2p_unpost(box, op);
        op->source = peer;
        tti_p2p_begin_copy(box, op, f->slot, f->addr, f->total);
        return true;
    }
    m = tti_p2p_keep(p, TTI_KEPT_OFFER, f->tag, f->total, 0);
    if (m == NULL)
        return false;
    m->slot = f->slot;
    m->addr = f->addr;
    if (p->n_held == TTI_P2P_SLOTS)
        settle_offer(box, peer); /* without memory for it, later ones have to wait */
    return true;
}

static bool take_frame(tti_p2p_box *box, int peer, tti_frame *f)
{
    tti_p2p_peer *p = &box->peers[peer];
    tti_frame_kind kind = tti_frame_mark(f);

    if (p->stream.on && kind != TTI_FRAME_MORE)
        tti_p2p_end_stream(box, peer, TTI_END_DROPPED);
    switch (kind) {
    case TTI_FRAME_EAGER:
        return take_eager(box, peer, f);
    case TTI_FRAME_FIRST:
        return take_first(box, peer, f);
    case TTI_FRAME_OFFER:
        return f->slot >= TTI_P2P_SLOTS || take_offer(box, peer, f);
    case TTI_FRAME_MORE:
        if (p->stream.on)
            feed_stream(box, peer, f);
        return true;
    default:
        return true;
    }
}

/* The sender gave the stream up, and all that it sent before was taken. */
static bool stream_died(tti_p2p_peer *p)
{
    return p->stream.on &&
           atomic_load_explicit(&p->in->dead_stream, memory_order_acquire) == p->stream.number &&
           tti_ring_peek(&p->reader) == NULL;
}

bool tti_p2p_pull(tti_p2p_box *box, int peer)
{
    tti_p2p_peer *p = &box->peers[peer];
    bool moved = false;

    for (tti_link *l = p->copying.next, *next; l != &p->copying; l = next) {
        next = l->next;
        moved |= tti_p2p_copy_some(box, TTI_LIST_AT(l, tti_p2p));
    }
    for (int i = 0; i < FRAMES_AT_ONCE; i++) {
        tti_frame *f;

        if (!p->stream.on && p->n_posted == 0 && box->n_any == 0)
            break;
        f = tti_ring_peek(&p->reader);
        if (f == NULL) {
            if (stream_died(p))
                tti_p2p_end_stream(box, peer, TTI_END_DROPPED);
            break;
        }
        if (!tti_ring_sound(&p->reader, f)) {
            tti_p2p_lose(box, peer, TTI_END_UNSOUND);
            return true;
        }
        if (!take_frame(box, peer, f))
            break;
        moved = true;
        if (tti_ring_consume(&p->reader, f))
            tti_p2p_notify(box, peer);
    }
    return moved;
}

void tti_p2p_unreceive(tti_p2p_box *box, tti_p2p *op)
{
    if (op->state == TTI_P2P_POSTED) {
        tti_p2p_unpost(box, op);
    } else if (op->state == TTI_P2P_STREAMING) {
        box->peers[op->source].stream.op = NULL; /* the rest is thrown away */
    } else if (op->state == TTI_P2P_COPYING) {
        tti_list_remove(&op->link);
        tti_p2p_release(box, op->source, op->slot);
    }
}
