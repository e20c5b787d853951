/* SPDX-License-Identifier: Apache-2.0 */
/* Which receive gets which message. Between two ranks, messages with equal tags keep their order. */
#include <string.h>

#include "base/small.h"
#include "coll/p2p_impl.h"

static tti_p2p *first_with_tag(const tti_link *list, int tag)
{
    for (tti_link *l = list->next; l != list; l = l->next) {
        tti_p2p *op = TTI_LIST_AT(l, tti_p2p);

        if (op->tag == tag)
            return op;
    }
    return NULL;
}

tti_p2p *tti_p2p_match(tti_p2p_box *box, int source, int tag)
{
    tti_p2p *a = first_with_tag(&box->peers[source].posted, tag);
    tti_p2p *b = box->n_any > 0 ? first_with_tag(&box->posted_any, tag) : NULL;

    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    return a->order < b->order ? a : b;
}

void tti_p2p_post(tti_p2p_box *box, tti_p2p *op)
{
    op->state = TTI_P2P_POSTED;
    op->order = box->n_posts++;
    if (op->peer < 0) {
        tti_list_add(&box->posted_any, &op->link);
        box->n_any++;
    } else {
        tti_list_add(&box->peers[op->peer].posted, &op->link);
        box->peers[op->peer].n_posted++;
    }
}

void tti_p2p_unpost(tti_p2p_box *box, tti_p2p *op)
{
    tti_list_remove(&op->link);
    if (op->peer < 0)
        box->n_any--;
    else
        box->peers[op->peer].n_posted--;
}

void tti_p2p_finish(tti_p2p *op, tti_p2p_end end, uint64_t got)
{
    tti_p2p_box *box = op->box;

    if (op->peer < 0 && op->source >= 0)
        box->turn = (op->source + 1) % box->size; /* the others come first next time */
    op->state = TTI_P2P_ENDED;
    op->end = (uint8_t)end;
    op->got = got;
    box->n_ended++;
    tti_p2p_count(box, -1);
    atomic_store_explicit(&op->done, true, memory_order_release);
}

tti_p2p_message *tti_p2p_keep(tti_p2p_peer *p, int kind, int tag, uint64_t total, size_t room)
{
    tti_p2p_message *m = tti_malloc(sizeof *m + room);

    if (m == NULL)
        return NULL;
    *m = (tti_p2p_message){ .kind = kind, .tag = tag, .total = total };
    tti_list_add(&p->kept, &m->link);
    p->n_held += kind == TTI_KEPT_OFFER;
    return m;
}

void tti_p2p_drop_kept(tti_p2p_peer *p, tti_p2p_message *m)
{
    p->n_held -= m->kind == TTI_KEPT_OFFER;
    tti_list_remove(&m->link);
    tti_mfree(m);
}

/* A stream goes on into the memory of the receive that asked for it. */
static void take_stream(tti_p2p_peer *p, tti_p2p_message *m, tti_p2p *op)
{
    tti_stream *s = &p->stream;

    s->msg = NULL;
    if (op->bytes != m->total) {
        tti_p2p_finish(op, TTI_END_SIZE, m->total);
        return;
    }
    memcpy(op->data, m->data, s->moved);
    op->state = TTI_P2P_STREAMING;
    s->op = op;
}

static void take_self(tti_p2p_message *m, tti_p2p *op)
{
    tti_p2p *send = m->self;

    if (op->bytes == m->total)
        memcpy(op->data, send->data, op->bytes);
    tti_p2p_finish(op, op->bytes == m->total ? TTI_END_OK : TTI_END_SIZE, m->total);
    send->kept = NULL;
    tti_p2p_finish(send, TTI_END_OK, 0);
}

/* False: the sender has taken the message back. */
static bool take_offer(tti_p2p_peer *p, tti_p2p_message *m, tti_p2p *op)
{
    if (!tti_p2p_slot_claim(&p->in->slots[m->slot]))
        return false;
    tti_p2p_unpost(op->box, op);
    tti_p2p_begin_copy(op->box, op, m->slot, m->addr, m->total);
    return true;
}

/* The message `m` of `source` is for `op`. False: it is no more; either way it is kept no longer. */
static bool take(tti_p2p_box *box, int source, tti_p2p_message *m, tti_p2p *op)
{
    tti_p2p_peer *p = &box->peers[source];
    bool taken = true;

    op->source = source;
    if (m->kind == TTI_KEPT_OFFER) {
        taken = take_offer(p, m, op);
    } else {
        tti_p2p_unpost(box, op);
        if (m->kind == TTI_KEPT_STREAM) {
            take_stream(p, m, op);
        } else if (m->kind == TTI_KEPT_SELF) {
            take_self(m, op);
        } else {
            if (op->bytes == m->total && op->bytes > 0)
                memcpy(op->data, m->data, op->bytes);
            tti_p2p_finish(op, op->bytes == m->total ? TTI_END_OK : TTI_END_SIZE, m->total);
        }
    }
    tti_p2p_drop_kept(p, m);
    return taken;
}

static bool take_from(tti_p2p_box *box, int source, tti_p2p *op)
{
    tti_link *list = &box->peers[source].kept;

    for (tti_link *l = list->next, *next; l != list; l = next) {
        tti_p2p_message *m = TTI_LIST_AT(l, tti_p2p_message);

        next = l->next;
        if (m->tag == op->tag && take(box, source, m, op))
            return true;
    }
    op->source = -1;
    return false;
}

bool tti_p2p_take_kept(tti_p2p_box *box, tti_p2p *op)
{
    if (op->peer >= 0)
        return take_from(box, op->peer, op);
    for (int i = 0; i < box->size; i++)
        if (take_from(box, (box->turn + i) % box->size, op))
            return true;
    return false;
}
