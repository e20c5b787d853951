/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that are gone, and what that means to the operations that need them. */
#include "coll/p2p_impl.h"

static void end_posted(tti_p2p_box *box, tti_link *list, tti_p2p_end end)
{
    tti_p2p *op;

    while ((op = TTI_LIST_FIRST(list, tti_p2p)) != NULL) {
        tti_p2p_unpost(box, op);
        tti_p2p_finish(op, end, 0);
    }
}

static void end_sends(tti_p2p_box *box, int peer, tti_p2p_end end)
{
    tti_p2p_peer *p = &box->peers[peer];
    tti_p2p *op;

    while ((op = TTI_LIST_FIRST(&p->queue, tti_p2p)) != NULL) {
        tti_p2p_retract(box, op);
        tti_p2p_finish(op, end, 0);
    }
    for (int i = 0; i < TTI_P2P_SLOTS; i++)
        if ((op = p->offers[i]) != NULL) {
            tti_p2p_retract(box, op);
            tti_p2p_finish(op, end, 0);
        }
}

/* Receives whose message was on its way, and offers that nobody can fetch now. */
static void end_arriving(tti_p2p_box *box, int peer, tti_p2p_end end)
{
    tti_p2p_peer *p = &box->peers[peer];
    tti_p2p *op;

    while ((op = TTI_LIST_FIRST(&p->copying, tti_p2p)) != NULL) {
        tti_p2p_unreceive(box, op);
        tti_p2p_finish(op, end, 0);
    }
    if (p->stream.on)
        tti_p2p_end_stream(box, peer, end);
    for (tti_link *l = p->kept.next, *next; l != &p->kept; l = next) {
        tti_p2p_message *m = TTI_LIST_AT(l, tti_p2p_message);

        next = l->next;
        if (m->kind == TTI_KEPT_OFFER)
            tti_p2p_drop_kept(p, m);
    }
}

static void end_kept_sends(tti_p2p_box *box)
{
    tti_p2p_peer *p = &box->peers[box->rank];

    for (tti_link *l = p->kept.next, *next; l != &p->kept; l = next) {
        tti_p2p_message *m = TTI_LIST_AT(l, tti_p2p_message);
        tti_p2p *op = m->self;

        next = l->next;
        if (m->kind != TTI_KEPT_SELF)
            continue;
        tti_p2p_retract(box, op);
        tti_p2p_finish(op, TTI_END_ABORTED, 0);
    }
}

void tti_p2p_lose(tti_p2p_box *box, int peer, tti_p2p_end why)
{
    tti_p2p_peer *p = &box->peers[peer];

    if (p->gone)
        return;
    p->gone = true;
    p->why = (uint8_t)why;
    box->n_gone++;
    if (why == TTI_END_PEER) { /* what had arrived is still good, here and there */
        while (tti_p2p_pull(box, peer))
            ;
        tti_p2p_collect_offers(p);
    }
    end_arriving(box, peer, why);
    end_posted(box, &p->posted, why);
    end_sends(box, peer, why);
    if (box->n_gone == box->size - 1 && box->size > 1)
        end_posted(box, &box->posted_any, TTI_END_ALL);
}

void tti_p2p_end_all(tti_p2p_box *box)
{
    box->aborted = true;
    for (int i = 0; i < box->size; i++) {
        end_arriving(box, i, TTI_END_ABORTED);
        end_posted(box, &box->peers[i].posted, TTI_END_ABORTED);
        end_sends(box, i, TTI_END_ABORTED);
    }
    end_kept_sends(box);
    end_posted(box, &box->posted_any, TTI_END_ABORTED);
}

void tti_p2p_check_peers(tti_p2p_box *box, bool ask)
{
    if (!box->aborted && !tti_p2p_here(box, box->rank))
        tti_p2p_end_all(box);
    for (int i = 0; i < box->size; i++)
        if (i != box->rank && !box->peers[i].gone &&
            box->env.state(box->env.ctx, i, ask) != TTI_RANK_HERE)
            tti_p2p_lose(box, i, TTI_END_PEER);
}
