/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction: the leaves' hooks fill the buckets; a full bucket is sent off once those before it are,
 * so that all ranks start them in the same order; the end of backward waits for them. */
#include <string.h>

#include "autograd/engine.h"
#include "ddp/ddp.h"
#include "tutti/ops.h"
#include "tutti/sparse.h"

/* ---- one gradient ------------------------------------------------------------------------- */

/* Put the gradient where the reduction expects it. `got`: it was computed in this backward; if not, the
 * parameter is not used here and its old gradient must come back when nobody else used it. */
static tt_status stage(tt_ddp *d, tti_ddp_param *p, bool got)
{
    tt_tensor *grad = tt_grad_of(p->t);

    if (d->buckets[p->bucket].skip)
        return TT_OK;
    if (p->sparse)
        return tti_ddp_stage_sparse(d, p, got);
    if (grad == NULL)
        return tt_zero_(p->view) != NULL ? TT_OK : tt_last_status();
    if (d->views && tti_ddp_is_view(p, grad)) {
        if (got)
            return TT_OK;
        p->kept = tt_tensor_retain(tt_clone(grad));
        return p->kept != NULL ? TT_OK : tt_last_status();
    }
    if (tt_copy_(p->view, grad->storage != NULL ? grad : tt_to_dense(grad)) == NULL)
        return tt_last_status();
    return d->views && got ? tt_set_grad(p->t, p->view) : TT_OK;
}

/* The gradient becomes what was reduced; one that nobody used stays what it was. */
static tt_status write_back(tt_ddp *d, tti_ddp_param *p)
{
    tt_tensor *grad = tt_grad_of(p->t), *kept = p->kept, *done = p->view;
    bool used =
        d->reduced == NULL ? !p->missing : ((const int32_t *)tti_data(d->reduced))[p->index] > 0;

    if (p->sparse)
        return tti_ddp_take_sparse(d, p, used);
    p->kept = NULL;
    if (!used) {
        if (kept != NULL)
            done = tt_copy_(p->view, kept);
    } else if (d->views) {
        if (!tti_ddp_is_view(p, grad) && tt_set_grad(p->t, p->view) != TT_OK)
            done = NULL;
    } else if (grad != NULL && grad->storage != NULL) {
        done = tt_copy_(grad, p->view);
    } else {
        done = tt_clone(p->view);
        if (done != NULL && tt_set_grad(p->t, done) != TT_OK)
            done = NULL;
    }
    tt_tensor_free(kept);
    return done != NULL ? TT_OK : tt_last_status();
}

/* With a static graph the first answer holds. */
static bool asks_who_used(const tt_ddp *d)
{
    return d->search || (d->static_graph && !d->learned);
}

/* ---- buckets that arrive ------------------------------------------------------------------ */

/* A work that is still under way when the wait fails (a forked process, the engine thread) is kept: its memory is in use. */
static tt_status wait_for(tt_work **work_p)
{
    tt_work *w = *work_p;
    tt_status st = w != NULL ? tt_work_wait(w, 0) : TT_OK;

    if (!tt_work_done(w))
        return st;
    *work_p = NULL;
    tt_work_free(w);
    return st;
}

static tt_status copy_flat(tt_tensor *dst, tt_tensor *src)
{
    tt_tensor *done = NULL;

    TT_SCOPE
        TT_NO_GRAD
        {
            done = tt_copy_(dst, src);
        }
    return done != NULL ? TT_OK : tt_last_status();
}

static tt_status wait_for_bucket(tt_ddp *d, tti_ddp_bucket *b)
{
    bool travelled = b->travelled;

    b->travelled = false;
    if (b->future != NULL)
        return tti_ddp_hook_wait(d, b);
    TT_TRY(wait_for(&b->work));
    return travelled && b->wire != NULL ? copy_flat(b->flat, b->wire) : TT_OK;
}

static bool has_arrived(const tti_ddp_bucket *b)
{
    if (b->future != NULL)
        return tt_future_done(b->future);
    return b->work == NULL || tt_work_done(b->work);
}

/* The next bucket on its way becomes gradients, and whoever waits for those gets to work. */
static tt_status arrive(tt_ddp *d)
{
    tti_ddp_bucket *b = &d->buckets[d->next_arrival++];

    TT_TRY(wait_for_bucket(d, b));
    if (b->flat != NULL && !b->skip)
        TT_TRY(tti_ddp_divide(d, b->flat));
    for (int k = 0; k < b->n_params; k++) {
        tti_ddp_param *p = &d->params[b->params[k]];

        if (b->flat != NULL && !b->skip)
            tti_bump_version(p->view);
        TT_TRY(write_back(d, p));
    }
    TT_TRY(tti_ddp_hook_done(d, b));
    for (int k = 0; k < b->n_params; k++)
        TT_TRY(tti_ddp_update(d->params[b->params[k]].t));
    return TT_OK;
}

/* In backward, if somebody waits for gradients: those that are there, without waiting. */
static tt_status take_arrivals(tt_ddp *d)
{
    tt_status st = TT_OK;

    TT_SCOPE
        TT_NO_GRAD
        {
            while (st == TT_OK && d->next_arrival < d->next_bucket &&
                   has_arrived(&d->buckets[d->next_arrival]))
                st = arrive(d);
        }
    return st;
}

static tt_status finish(tt_ddp *d)
{
    TT_TRY(wait_for(&d->used_work));
    while (d->next_arrival < d->n_buckets)
        TT_TRY(arrive(d));
    return TT_OK;
}

/* ---- buckets on their way ------------------------------------------------------------------ */

/* The work of a reduction that the engine does; NULL where this thread does it, and is back when it is done. */
static tt_work **by_engine(const tt_ddp *d, tt_work **work_p)
{
    return d->overlap == TTI_OVERLAP_ENGINE ? work_p : NULL;
}

static tt_status start_used_map(tt_ddp *d)
{
    if (tt_copy_(d->reduced, d->used) == NULL)
        return tt_last_status();
    return tt_pg_all_reduce(d->pg, d->reduced, NULL, by_engine(d, &d->used_work));
}

static tt_status start(tt_ddp *d, tti_ddp_bucket *b)
{
    const tt_coll_options mean = { .op = tti_ddp_op(d) };

    if (b->skip)
        return TT_OK;
    d->n_started++;
    if (b->sparse != NULL)
        return tt_pg_all_reduce(d->pg, b->sparse, NULL, by_engine(d, &b->work));
    if (d->hook != NULL)
        return tti_ddp_hook_start(d, b);
    if (b->wire != NULL)
        TT_TRY(copy_flat(b->wire, b->flat));
    TT_TRY(tt_pg_all_reduce(d->pg, b->wire != NULL ? b->wire : b->flat, &mean,
                            by_engine(d, &b->work)));
    b->travelled = true;
    return TT_OK;
}

static tt_status start_full(tt_ddp *d)
{
    if (d->overlap == TTI_OVERLAP_END && !d->ending)
        return TT_OK;
    while (d->next_bucket < d->n_buckets && d->buckets[d->next_bucket].n_pending == 0) {
        tti_ddp_bucket *b = &d->buckets[d->next_bucket];

        if (d->next_bucket == 0)
            d->times.comm_start = tti_now_ns();
        TT_TRY(start(d, b));
        d->next_bucket++;
        if (d->next_bucket == d->n_buckets && asks_who_used(d))
            TT_TRY(start_used_map(d));
    }
    return d->eager ? take_arrivals(d) : TT_OK;
}

static tt_status ready(tt_ddp *d, int i, bool got)
{
    tti_ddp_param *p = &d->params[i];
    tt_status st = TT_OK;

    if (p->ready)
        return TT_FAIL(
            TT_ERR_INVALID,
            "ddp: parameter \"%s\" (%d) got a gradient after it was given to the others: "
            "it takes part in several backwards at once, or is used in a way that the "
            "outputs do not show",
            p->name, i);
    if (!got)
        tti_ddp_home(p, false); /* what comes yet must not meet what travels */
    TT_SCOPE
        TT_NO_GRAD
        {
            st = stage(d, p, got);
        }
    TT_TRY(st);
    p->ready = true;
    d->buckets[p->bucket].n_pending--;
    return start_full(d);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Whether the search has overlooked that parameter i may be used: outputs hid it. */
static bool is_hidden(const tt_ddp *d, int i)
{
    return d->search && d->hidden && d->unused[i];
}

/* What did not come. Others may wait for it, so it is sent as it is; whether that is right is another
 * question, which the next forward answers. */
static tt_status give_up_waiting(tt_ddp *d, bool *complete_p)
{
    *complete_p = true;
    for (int i = 0; i < d->n_params; i++) {
        tti_ddp_param *p = &d->params[i];
        bool got = p->n_fired > 0;

        if (p->ready)
            continue;
        p->missing = !asks_who_used(d) || (!got && is_hidden(d, i));
        *complete_p &= !p->missing;
        TT_TRY(ready(d, i, got));
    }
    return TT_OK;
}

/* All gradients are there, so that all buckets can go. */
static tt_status start_rest(tt_ddp *d)
{
    d->ending = true;
    return start_full(d);
}

/* After the first reduction: the order of gradients, those that did not come last. */
static void learn(tt_ddp *d)
{
    int n = d->n_ready;

    memcpy(d->first_order, d->order, (size_t)n * sizeof *d->order);
    for (int i = 0; i < d->n_params; i++) {
        d->params[i].n_expected = d->params[i].n_fired;
        if (d->params[i].n_fired == 0)
            d->first_order[n++] = i;
    }
    d->learned = d->static_graph;
    d->may_rebuild = true;
}

/* Whether the same parameters were used as the time before. */
static void compare_use(tt_ddp *d)
{
    for (int i = 0; i < d->n_params; i++) {
        tti_ddp_param *p = &d->params[i];

        if (d->iteration > 0 && p->was_used != (p->n_fired > 0))
            d->changed = true;
        p->was_used = p->n_fired > 0;
    }
}

/* All gradients are there: what the next iterations build on. */
static void complete(tt_ddp *d)
{
    d->have_used = d->used != NULL;
    if (!d->search && !d->may_rebuild)
        learn(d);
    compare_use(d);
    d->state = TTI_DDP_IDLE;
    d->iteration++;
}

static tt_status backward_end(void *ctx)
{
    tt_ddp *d = ctx;
    tt_status st = TT_OK;
    bool all;

    d->times.backward_end = tti_now_ns();
    TT_TRY(tti_ddp_note_error(d, give_up_waiting(d, &all)));
    TT_SCOPE
        TT_NO_GRAD
        {
            st = start_rest(d);
            if (st == TT_OK)
                st = finish(d);
            if (st == TT_OK && d->used != NULL && tt_zero_(d->used) == NULL)
                st = tt_last_status();
        }
    TT_TRY(tti_ddp_note_error(d, st));
    TT_TRY(tti_ddp_note_error(d, tti_ddp_wait_buffers(d)));
    d->times.comm_end = tti_now_ns();
    d->n_buckets_reduced = d->n_started;
    if (all)
        complete(d);
    else
        d->state = TTI_DDP_UNFINISHED;
    return TT_OK;
}

static void backward_failed(void *ctx)
{
    tt_ddp *d = ctx;

    d->state = TTI_DDP_FAILED;
    tti_ddp_homes(d, false);
}

/* ---- the beginning ------------------------------------------------------------------------- */

/* Whether gradients are used inside of backward; who used what has to be known by then. */
static bool is_eager(const tt_ddp *d)
{
    bool any = d->hook != NULL && d->hook->done != NULL;

    for (int i = 0; i < d->n_params && !any; i++)
        any = tti_ddp_updates(d->params[i].t);
    return any && !asks_who_used(d);
}

void tti_ddp_prepare(tt_ddp *d)
{
    for (int i = 0; i < d->n_params; i++)
        d->params[i].ready = d->params[i].missing = false, d->params[i].n_fired = 0;
    for (int b = 0; b < d->n_buckets; b++)
        d->buckets[b].n_pending = d->buckets[b].n_params;
    d->next_bucket = 0;
    d->next_arrival = 0;
    d->eager = is_eager(d);
    d->ending = false;
    d->n_ready = 0;
    d->n_started = 0;
    d->state = TTI_DDP_PREPARED;
    tti_ddp_homes(d, true);
}

tt_status tti_ddp_reset(tt_ddp *d)
{
    tt_status st = wait_for(&d->used_work);
    bool under_way = d->used_work != NULL;

    for (int b = 0; b < d->n_buckets; b++) {
        tt_status one = wait_for_bucket(d, &d->buckets[b]);

        st = st == TT_OK ? one : st;
        under_way |= d->buckets[b].work != NULL;
        tt_tensor_free(d->buckets[b].sparse);
        d->buckets[b].sparse = NULL;
    }
    for (int i = 0; i < d->n_params; i++) {
        tt_tensor_free(d->params[i].kept);
        d->params[i].kept = NULL;
    }
    /* The next forward has to wait for works that could not be waited for here: they still use the buckets. */
    d->state = under_way ? TTI_DDP_FAILED : TTI_DDP_IDLE;
    return st;
}

static tt_status begin(tt_ddp *d)
{
    TT_TRY(tti_ddp_tell_reduction(d, asks_who_used(d)));
    TT_TRY(tti_on_backward_done(backward_end, backward_failed, d));
    d->times.backward_start = tti_now_ns();
    d->state = TTI_DDP_REDUCING;
    for (int i = 0; i < d->n_params; i++)
        if (d->search ? d->unused[i] && !d->hidden : d->learned && d->params[i].n_expected == 0)
            TT_TRY(ready(d, i, false));
    return TT_OK;
}

tt_status tti_ddp_begin(tt_ddp *d)
{
    return d->state == TTI_DDP_PREPARED ? tti_ddp_note_error(d, begin(d)) : TT_OK;
}

/* Another tt_ddp has the same parameter and has begun to reduce its gradient in this backward: it may be changing under
 * our eyes. */
static tt_status check_alone(const tt_ddp *d, const tti_ddp_param *p)
{
    for (const tt_hook *h = p->t->meta->post_hooks; h != NULL; h = h->next) {
        const tti_ddp_param *other = h->ctx;

        if (h->fn.leaf == tti_ddp_leaf_hook && !atomic_load(&h->dead) && other->ddp != d &&
            other->ddp->state == TTI_DDP_REDUCING && other->ready)
            return TT_FAIL(TT_ERR_INVALID,
                           "ddp: parameter \"%s\" (%d) is reduced by another tt_ddp in the same "
                           "backward; a parameter can have one only",
                           p->name, p->index);
    }
    return TT_OK;
}

/* The hook of a parameter ran. */
static tt_status fired(tt_ddp *d, tti_ddp_param *p)
{
    p->n_fired++;
    TT_TRY(check_alone(d, p));
    if (d->learned && p->n_expected == 0)
        return TT_FAIL(
            TT_ERR_INVALID,
            "ddp: the graph has changed although static_graph is set: parameter \"%s\" (%d) "
            "got a gradient, but none in the first iteration",
            p->name, p->index);
    if (p->n_fired == 1)
        d->order[d->n_ready++] = p->index;
    if (d->static_graph && (!d->learned || p->n_fired < p->n_expected))
        return TT_OK; /* there may be more */
    return ready(d, p->index, true);
}

tt_status tti_ddp_leaf_hook(void *ctx, tt_tensor *leaf)
{
    tti_ddp_param *p = ctx;
    tt_ddp *d = p->ddp;

    (void)leaf;
    if (d->used != NULL)
        ((int32_t *)tti_data(d->used))[p->index] = 1;
    TT_TRY(tti_ddp_begin(d));
    return d->state == TTI_DDP_REDUCING ? tti_ddp_note_error(d, fired(d, p)) : TT_OK;
}

/* ---- without inputs ------------------------------------------------------------------------ */

static tt_status give_zeros(tt_ddp *d)
{
    if (d->used != NULL && tt_zero_(d->used) == NULL)
        return tt_last_status();
    for (int i = 0; i < d->n_params; i++) {
        TT_TRY(tt_set_grad(d->params[i].t, NULL));
        TT_TRY(ready(d, i, false));
    }
    TT_TRY(start_rest(d));
    return finish(d);
}

tt_status tti_ddp_shadow(tt_ddp *d, bool asks)
{
    bool learned = d->learned;
    tt_status st = d->state == TTI_DDP_FAILED ? tti_ddp_reset(d) : TT_OK;

    TT_TRY(st);
    tti_ddp_prepare(d);
    d->learned = d->static_graph && !asks;
    d->state = TTI_DDP_REDUCING;
    TT_SCOPE
        TT_NO_GRAD
        {
            st = give_zeros(d);
        }
    d->learned = learned;
    d->state = st == TT_OK ? TTI_DDP_IDLE : TTI_DDP_FAILED;
    if (st != TT_OK)
        tti_ddp_homes(d, false);
    d->n_buckets_reduced = d->n_started;
    d->n_shadowed++;
    return st;
}
