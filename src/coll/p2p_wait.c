/* SPDX-License-Identifier: Apache-2.0 */
/* Moving messages on, and waiting for them. */
#include "coll/p2p_impl.h"

#define LOOKS 20 /* at a ring at once */

static bool move_all(tti_p2p_box *box)
{
    bool moved = false;
    int first = box->turn;

    for (int i = 0; i < box->size; i++) {
        int peer = (first + i) % box->size;

        if (peer == box->rank || box->peers[peer].gone)
            continue;
        moved |= tti_p2p_push(box, peer);
        moved |= tti_p2p_pull(box, peer);
    }
    return moved;
}

void tti_p2p_leave(tti_p2p_box *box, int own)
{
    bool tell = box->n_ended > own;

    box->n_ended = 0;
    tti_p2p_unlock(box);
    if (tell) {
        atomic_store_explicit(&box->woken, true, memory_order_release);
        tti_bell_ring(&box->bells[box->rank]);
    }
}

void tti_p2p_box_progress(tti_p2p_box *box)
{
    if (atomic_load_explicit(&box->n_active, memory_order_relaxed) == 0)
        return;
    tti_p2p_lock(box);
    move_all(box);
    tti_p2p_leave(box, 0);
}

typedef struct waiting {
    tti_p2p_box *box;
    tti_p2p *op; /* NULL: for anything */
} waiting;

/* Looks a few times before it pulls: cheaper than letting the lock go and pausing in between. */
static void watch(tti_p2p_box *box, int peer)
{
    const tti_ring_reader *reader = &box->peers[peer].reader;

    for (int i = 0; i < LOOKS && !tti_ring_maybe(reader); i++)
        ;
    tti_p2p_pull(box, peer);
}

static bool op_ready(void *ctx)
{
    waiting *w = ctx;
    tti_p2p *op = w->op;
    bool done;

    if (atomic_load_explicit(&op->done, memory_order_acquire))
        return true;
    tti_p2p_lock(w->box);
    /* Who waits moves on what others may wait for: a peer can only go on when its message is fetched here. */
    bool only = atomic_load_explicit(&w->box->n_active, memory_order_relaxed) == 1;

    if (only && op->peer >= 0 && op->peer != w->box->rank) {
        if (!op->send)
            watch(w->box, op->peer);
        else
            tti_p2p_push(w->box, op->peer);
    } else {
        move_all(w->box);
    }
    done = atomic_load_explicit(&op->done, memory_order_relaxed);
    tti_p2p_leave(w->box, done);
    return done;
}

/* Every 10 ms and before each sleep: also what is not this operation's business must not starve. */
static tt_status look_after_peers(void *ctx)
{
    tti_p2p_box *box = ((waiting *)ctx)->box;

    tti_p2p_lock(box);
    tti_p2p_check_peers(box, true);
    move_all(box);
    tti_p2p_leave(box, 0);
    return TT_OK;
}

bool tti_p2p_look(tti_p2p *op)
{
    waiting w = { .box = op->box, .op = op };
    const tti_patience *p = &op->box->patience;

    for (int i = 0; i < p->spins; i++) {
        if (op_ready(&w))
            return true;
        if (i >= p->eager)
            tti_cpu_relax();
    }
    return false;
}

tt_status tti_p2p_wait(tti_p2p *op, int64_t deadline_ns)
{
    tti_p2p_box *box = op->box;
    waiting w = { .box = box, .op = op };

    if (!tti_p2p_done(op)) {
        tti_wait how = {
            .ready = op_ready, .ctx = &w, .check = look_after_peers, .deadline_ns = deadline_ns
        };
        tt_status st = tti_bell_wait(&box->bells[box->rank], &box->patience, &how);

        if (st == TT_ERR_TIMEOUT && !tti_p2p_done(op))
            return tti_p2p_say_timeout(op);
        if (st != TT_OK && !tti_p2p_done(op))
            return st;
    }
    return tti_p2p_result(op, NULL);
}

static bool any_ready(void *ctx)
{
    waiting *w = ctx;
    bool moved;

    if (atomic_exchange_explicit(&w->box->woken, false, memory_order_acq_rel))
        return true;
    tti_p2p_lock(w->box);
    moved = move_all(w->box);
    tti_p2p_leave(w->box, 0);
    return moved;
}

static tt_status look_and_tell(void *ctx)
{
    waiting *w = ctx;
    int before = atomic_load_explicit(&w->box->n_active, memory_order_relaxed);

    look_after_peers(w);
    if (atomic_load_explicit(&w->box->n_active, memory_order_relaxed) != before)
        atomic_store_explicit(&w->box->woken, true, memory_order_release);
    return TT_OK;
}

void tti_p2p_box_idle(tti_p2p_box *box, int64_t deadline_ns)
{
    waiting w = { .box = box };
    tti_wait how = {
        .ready = any_ready, .ctx = &w, .check = look_and_tell, .deadline_ns = deadline_ns
    };

    tti_bell_wait(&box->bells[box->rank], &box->patience, &how);
}

void tti_p2p_box_wake(tti_p2p_box *box)
{
    atomic_store_explicit(&box->woken, true, memory_order_release);
    tti_bell_ring(&box->bells[box->rank]);
}

void tti_p2p_box_alarm(tti_p2p_box *box, int rank)
{
    tti_bell_ring(&box->bells[box->rank]);
    tti_bell_ring(&box->bells[rank]);
}

bool tti_p2p_box_busy(const tti_p2p_box *box)
{
    return atomic_load_explicit(&box->n_active, memory_order_relaxed) != 0;
}
