/* SPDX-License-Identifier: Apache-2.0 */
/* Operations and the box that holds them: made, asked, freed. */
#include <string.h>

#include "base/clock.h"
#include "base/small.h"
#include "coll/p2p.h"
#include "coll/p2p_impl.h"

#define MOST_RING 131072u
#define LEAST_RING 2048u
#define ASK_EVERY_NS 10000000 /* who lives */
#define QUICK 16352u          /* with a core for every rank, more is fetched from the sender */
#define ALL_RINGS ((size_t)4 << 20) /* together, unless there are very many */

static uint32_t ring_bytes(int size)
{
    uint32_t cap = MOST_RING;

    while (cap > LEAST_RING && (size_t)size * (size_t)size * cap > ALL_RINGS)
        cap /= 2;
    return cap;
}

static size_t pair_bytes(int size)
{
    return sizeof(tti_pair) + ring_bytes(size);
}

size_t tti_p2p_region_bytes(int size)
{
    size_t pairs = size > 1 ? (size_t)size * (size_t)size : 0;

    return (size_t)size * sizeof(tti_bell) + pairs * pair_bytes(size);
}

static tti_pair *pair_of(const tti_p2p_env *env, int from, int to)
{
    size_t i = (size_t)from * (size_t)env->size + (size_t)to;

    return (tti_pair *)(void *)((char *)env->region + (size_t)env->size * sizeof(tti_bell) +
                                i * pair_bytes(env->size));
}

static void open_peer(tti_p2p_box *box, int i)
{
    tti_p2p_peer *p = &box->peers[i];
    uint32_t cap = ring_bytes(box->size);

    tti_list_init(&p->queue);
    tti_list_init(&p->posted);
    tti_list_init(&p->copying);
    tti_list_init(&p->kept);
    p->writer.cap = p->reader.cap = cap;
    if (i == box->rank)
        return;
    p->out = pair_of(&box->env, box->rank, i);
    p->in = pair_of(&box->env, i, box->rank);
    tti_ring_write_init(&p->writer, &p->out->words, p->out->ring, cap);
    tti_ring_read_init(&p->reader, &p->in->words, p->in->ring, cap);
}

static void drop_box(tti_p2p_box *box)
{
    tti_p2p_lock(box);
    bool last = --box->refs == 0;
    tti_p2p_unlock(box);
    if (!last)
        return;
    for (int i = 0; i < box->size; i++)
        while (!tti_list_empty(&box->peers[i].kept))
            tti_p2p_drop_kept(&box->peers[i],
                              TTI_LIST_AT(box->peers[i].kept.next, tti_p2p_message));
    tti_bias_fini(&box->lock);
    tti_mfree((void *)(uintptr_t)box->env.group);
    tti_mfree((void *)(uintptr_t)box->env.members);
    tti_mfree(box);
}

tt_status tti_p2p_box_open(const tti_p2p_env *env, tti_p2p_box **box_p)
{
    size_t n = (size_t)env->size;
    tti_p2p_box *box = tti_calloc(1, sizeof *box + n * sizeof box->peers[0]);
    char *group = tti_strdup(env->group);
    tti_member *members = tti_malloc(n * sizeof *members);

    *box_p = NULL;
    if (box == NULL || group == NULL || members == NULL) {
        tti_mfree(box);
        tti_mfree(group);
        tti_mfree(members);
        return TT_ERR_NOMEM;
    }
    memcpy(members, env->members, n * sizeof *members);
    box->env = *env;
    box->env.group = group;
    box->bells = env->region;
    tti_patience_init(&box->patience, env->size, env->n_cores);
    /* The receiver that fetches a message copies it once; but the sender has to wait for it, and where both want the
     * same core that takes longer than copying twice. */
    box->at_once = tti_ring_most(ring_bytes(env->size));
    if (env->size <= env->n_cores && box->at_once > QUICK)
        box->at_once = QUICK;
    box->env.members = members;
    box->rank = env->rank;
    box->size = env->size;
    box->failed = -1;
    box->refs = 1;
    tti_bias_init(&box->lock);
    tti_list_init(&box->posted_any);
    for (int i = 0; i < box->size; i++)
        open_peer(box, i);
    *box_p = box;
    return TT_OK;
}

void tti_p2p_box_fence_heavily(tti_p2p_box *box)
{
    box->patience.heavy = true;
}

void tti_p2p_box_close(tti_p2p_box *box)
{
    if (box == NULL)
        return;
    tti_p2p_lock(box);
    tti_p2p_end_all(box);
    box->closed = true;
    tti_p2p_leave(box, 0);
    drop_box(box);
}

/* ---- peers that are gone ---------------------------------------------------------------------- */

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

/* Whoever died may have been the one to send what a receive from anyone waits for. First comes what has arrived. */
static void end_any(tti_p2p_box *box, int peer, tti_p2p_end why)
{
    tti_p2p *op;

    for (int i = 0; i < box->size && box->n_any > 0; i++)
        if (i != box->rank && !box->peers[i].gone)
            tti_p2p_pull(box, i);
    while ((op = TTI_LIST_FIRST(&box->posted_any, tti_p2p)) != NULL) {
        tti_p2p_unpost(box, op);
        op->source = peer;
        tti_p2p_finish(op, why, 0);
    }
}

void tti_p2p_lose(tti_p2p_box *box, int peer, tti_p2p_end why, bool failed)
{
    tti_p2p_peer *p = &box->peers[peer];

    if (p->gone)
        return;
    p->gone = true;
    p->why = (uint8_t)why;
    box->n_gone++;
    if (why == TTI_END_PEER) { /* first comes what had been published, in both directions */
        while (tti_p2p_pull(box, peer))
            ;
        tti_p2p_collect_offers(p);
    }
    end_arriving(box, peer, why);
    end_posted(box, &p->posted, why);
    end_sends(box, peer, why);
    if (failed) {
        box->failed = box->failed < 0 ? peer : box->failed;
        end_any(box, peer, why);
    }
    if (box->n_gone == box->size - 1 && box->size > 1)
        end_posted(box, &box->posted_any, TTI_END_ALL);
}

/* The peer waits until this rank comes to a group of survivors. What it has sent is taken, and what has begun to arrive goes
 * on; it takes nothing meanwhile, and sends nothing more. */
static void end_awaited(tti_p2p_box *box, int peer)
{
    tti_p2p_peer *p = &box->peers[peer];

    while (tti_p2p_pull(box, peer))
        ;
    tti_p2p_collect_offers(p);
    end_posted(box, &p->posted, TTI_END_AWAITED);
    end_sends(box, peer, TTI_END_AWAITED);
    end_any(box, peer, TTI_END_AWAITED);
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

/* Giving a core away may take long when others want it, so the time counts and not how often somebody looked. */
static bool time_to_ask(tti_p2p_box *box)
{
    int64_t now = tti_now_ns();

    if (now - box->asked_ns < ASK_EVERY_NS)
        return false;
    box->asked_ns = now;
    return true;
}

void tti_p2p_check_peers(tti_p2p_box *box, bool ask)
{
    ask = ask && time_to_ask(box);
    if (!box->aborted && !tti_p2p_here(box, box->rank))
        tti_p2p_end_all(box);
    for (int i = 0; i < box->size; i++) {
        if (i == box->rank || box->peers[i].gone)
            continue;
        tti_rank_state state = box->env.state(box->env.ctx, i, ask);

        ask = false; /* one answer is about all ranks */
        if (state == TTI_RANK_AWAITS)
            end_awaited(box, i);
        else if (state != TTI_RANK_HERE)
            tti_p2p_lose(box, i, TTI_END_PEER, state != TTI_RANK_LEFT);
    }
}

/* ---- operations --------------------------------------------------------------------------------- */

/* A receive looks first at what came already. */
static void start_receive(tti_p2p_box *box, tti_p2p *op)
{
    tti_p2p_post(box, op);
    if (tti_p2p_take_kept(box, op))
        return;
    for (int i = 0; i < box->size && op->state == TTI_P2P_POSTED; i++) {
        int peer = op->peer >= 0 ? op->peer : (box->turn + i) % box->size;

        if (peer != box->rank)
            tti_p2p_pull(box, peer);
        if (op->peer >= 0)
            break;
    }
}

/* Nobody will ever answer: ends an operation that is still in a list. */
static void end_hopeless(tti_p2p_box *box, tti_p2p *op)
{
    tti_p2p_end end = TTI_END_OK;

    if (box->aborted)
        end = TTI_END_ABORTED;
    else if (op->peer >= 0 && box->peers[op->peer].gone)
        end = (tti_p2p_end)box->peers[op->peer].why;
    else if (op->peer < 0 && box->size > 1 && box->n_gone == box->size - 1)
        end = TTI_END_ALL;
    else if (op->peer < 0 && box->failed >= 0)
        end = (tti_p2p_end)box->peers[op->source = box->failed].why;
    if (end == TTI_END_OK)
        return;
    if (op->send)
        tti_p2p_retract(box, op);
    else
        tti_p2p_unreceive(box, op);
    tti_p2p_finish(op, end, 0);
}

static void start_locked(tti_p2p_box *box, tti_p2p *op)
{
    if (op->peer < 0 || !tti_p2p_here(box, op->peer))
        tti_p2p_check_peers(box, false);
    if (!op->send) {
        start_receive(box, op);
    } else if (op->peer == box->rank && !box->aborted) {
        tti_p2p_send_self(box, op);
    } else {
        tti_list_add(&box->peers[op->peer].queue, &op->link);
        if (!box->aborted && !box->peers[op->peer].gone)
            tti_p2p_push(box, op->peer);
    }
    if (!atomic_load_explicit(&op->done, memory_order_relaxed))
        end_hopeless(box, op);
}

tt_status tti_p2p_box_start(tti_p2p_box *box, const tti_p2p_args *args, tti_p2p **op_p)
{
    tti_p2p *op;

    *op_p = NULL;
    if (args->peer >= box->size || args->peer < (args->send ? 0 : -1))
        return TT_FAIL(TT_ERR_INVALID, "group %s: %s: expected a rank below %d, got %d",
                       box->env.group, args->send ? "send" : "recv", box->size, args->peer);
    op = tti_small_alloc(sizeof *op);
    if (op == NULL)
        return TT_ERR_NOMEM;
    *op = (tti_p2p){ .box = box,
                     .data = args->data,
                     .bytes = args->bytes,
                     .peer = args->peer,
                     .tag = args->tag,
                     .seq = args->seq,
                     .source = -1,
                     .send = args->send };
    tti_list_init(&op->link);
    tti_p2p_lock(box);
    box->refs++;
    tti_p2p_count(box, 1);
    start_locked(box, op);
    tti_p2p_leave(box, atomic_load_explicit(&op->done, memory_order_relaxed));
    *op_p = op;
    return TT_OK;
}

bool tti_p2p_done(const tti_p2p *op)
{
    return atomic_load_explicit(&op->done, memory_order_acquire);
}

tt_status tti_p2p_result(tti_p2p *op, int *source_p)
{
    if (source_p != NULL)
        *source_p = op->send ? op->peer : op->source;
    if (!tti_p2p_done(op))
        return TT_FAIL(TT_ERR_INVALID, "group %s: %s %llu is not done", op->box->env.group,
                       op->send ? "send" : "recv", (unsigned long long)op->seq);
    return tti_p2p_say_end(op);
}

void tti_p2p_free(tti_p2p *op)
{
    tti_p2p_box *box;

    if (op == NULL)
        return;
    box = op->box;
    if (!tti_p2p_done(op)) {
        tti_p2p_lock(box);
        if (op->state != TTI_P2P_ENDED) {
            if (op->send)
                tti_p2p_retract(box, op);
            else
                tti_p2p_unreceive(box, op);
            tti_p2p_finish(op, TTI_END_ABORTED, 0);
        }
        tti_p2p_unlock(box);
    }
    tti_small_free(op, sizeof *op);
    drop_box(box);
}
