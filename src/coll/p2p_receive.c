/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving side: frames from the rings to the receives that match, or into memory; long messages are
 * read from the memory of their sender. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "coll/p2p_impl.h"

#define FRAMES_AT_ONCE 32       /* before others get their turn */
#define PIECE ((size_t)1 << 20) /* copied without looking at anything else */

/* ---- memory of other processes -------------------------------------------------------------------- */

static int read_process(int pid, uint64_t addr, unsigned char *dst, size_t bytes)
{
    while (bytes > 0) {
        struct iovec to = { dst, bytes };
        struct iovec from = { (void *)(uintptr_t)addr, bytes };
        ssize_t n = process_vm_readv(pid, &to, 1, &from, 1, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? EFAULT : errno;
        dst += n;
        addr += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Copies from the memory of `peer`. 0 or errno. */
static int fetch(const tti_p2p_box *box, int peer, uint64_t addr, void *dst, size_t bytes)
{
    if (!box->env.same_process)
        return read_process(box->env.members[peer].pid, addr, dst, bytes);
    memcpy(dst, (const void *)(uintptr_t)addr, bytes);
    return 0;
}

/* Finds out whether the memory of `peer` can be read: its first stream is at `addr` and begins with `data`. */
static void probe(const tti_p2p_box *box, int peer, uint64_t addr, const void *data, size_t n)
{
    _Atomic uint32_t *reach = &box->peers[peer].in->reach;
    unsigned char seen[64];
    bool yes;

    if (box->env.same_process ||
        atomic_load_explicit(reach, memory_order_relaxed) != TTI_REACH_UNKNOWN)
        return;
    n = n < sizeof seen ? n : sizeof seen;
    yes = !box->env.no_cma && n > 0 &&
          read_process(box->env.members[peer].pid, addr, seen, n) == 0 &&
          memcmp(seen, data, n) == 0;
    atomic_store_explicit(reach, yes ? TTI_REACH_YES : TTI_REACH_NO, memory_order_relaxed);
}

/* ---- messages that come through the ring ---------------------------------------------------------- */

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
    probe(box, peer, f->addr, tti_frame_data(f), f->bytes);
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

/* ---- messages that are offered ------------------------------------------------------------------ */

/* The receiver needs the slot no more. */
static void release_slot(tti_p2p_box *box, int peer, uint32_t slot)
{
    if (tti_p2p_slot_release(&box->peers[peer].in->slots[slot]))
        tti_p2p_notify(box, peer);
}

/* The next piece of a claimed message; the operation may end. False: nothing moved. */
static bool copy_some(tti_p2p_box *box, tti_p2p *op)
{
    tti_p2p_slot *slot = &box->peers[op->source].in->slots[op->slot];
    size_t n = op->bytes - op->moved < PIECE ? op->bytes - op->moved : PIECE;
    bool ours = tti_p2p_slot_begin_piece(slot);
    int err = 0;

    if (ours) {
        err = fetch(box, op->source, op->addr + op->moved, op->data + op->moved, n);
        ours = tti_p2p_slot_end_piece(slot);
    }
    if (!ours) { /* taken back; the slot is given up already */
        tti_list_remove(&op->link);
        tti_p2p_finish(op, TTI_END_DROPPED, op->moved);
        return true;
    }
    if (err == ESRCH)
        return false; /* it died: whoever looks after peers will say so */
    op->moved += err == 0 ? n : 0;
    if (err == 0 && op->moved < op->bytes)
        return true;
    tti_list_remove(&op->link);
    release_slot(box, op->source, op->slot);
    tti_p2p_finish(op, err == 0 ? TTI_END_OK : TTI_END_COPY, (uint64_t)err);
    return true;
}

void tti_p2p_begin_copy(tti_p2p_box *box, tti_p2p *op, uint32_t slot, uint64_t addr, uint64_t total)
{
    if (op->bytes != total) {
        release_slot(box, op->source, slot);
        tti_p2p_finish(op, TTI_END_SIZE, total);
        return;
    }
    op->state = TTI_P2P_COPYING;
    op->slot = slot;
    op->addr = addr;
    op->moved = 0;
    tti_list_add(&box->peers[op->source].copying, &op->link);
    copy_some(box, op);
}

/* Copies a whole message that is offered. False: it was taken back, or cannot be read. */
static bool fetch_whole(tti_p2p_box *box, int peer, const tti_p2p_message *m, unsigned char *dst)
{
    tti_p2p_slot *slot = &box->peers[peer].in->slots[m->slot];

    if (!tti_p2p_slot_claim(slot) || !tti_p2p_slot_begin_piece(slot))
        return false;
    bool good = fetch(box, peer, m->addr, dst, m->total) == 0;

    if (!tti_p2p_slot_end_piece(slot))
        return false;
    release_slot(box, peer, m->slot);
    return good;
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
    if (fetch_whole(box, peer, m, whole->data)) { /* in the place of the offer */
        *whole = (tti_p2p_message){ .kind = TTI_KEPT_WHOLE, .tag = m->tag, .total = m->total };
        tti_list_add(&m->link, &whole->link);
        whole = NULL;
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
        if (!tti_p2p_slot_claim(&p->in->slots[f->slot]))
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
        moved |= copy_some(box, TTI_LIST_AT(l, tti_p2p));
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
            tti_p2p_lose(box, peer, TTI_END_UNSOUND, true);
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
        release_slot(box, op->source, op->slot);
    }
}
