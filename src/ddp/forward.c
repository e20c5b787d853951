/* SPDX-License-Identifier: Apache-2.0 */
/* Forward: what ranks agree on before it, and what the next backward has to know after it. */
#include "base/error.h"
#include "ddp/ddp.h"
#include "tutti/ops.h"

/* The innermost tt_ddp whose forward runs on this thread. */
static _Thread_local tt_ddp *running;

/* ---- one inside another ----------------------------------------------------------------------- */

static bool has_param(const tt_ddp *d, const tt_tensor *t)
{
    for (int i = 0; i < d->n_params; i++)
        if (d->params[i].t == t)
            return true;
    return false;
}

/* Whether `outer` has all of d's parameters, so that it reduces them; some only cannot work. */
static tt_status compare_params(tt_ddp *d, const tt_ddp *outer, bool *all_p)
{
    int n = 0;

    if (d->outer_id != outer->id) {
        for (int i = 0; i < d->n_params; i++)
            n += has_param(outer, d->params[i].t);
        if (n != 0 && n != d->n_params)
            return TT_FAIL(TT_ERR_INVALID,
                           "ddp: %d of the %d parameters of a tt_ddp belong to the tt_ddp around "
                           "it: expected all or none; ignore them in one of the two",
                           n, d->n_params);
        d->outer_id = outer->id;
        d->outer_has_all = n > 0;
    }
    *all_p = d->outer_has_all;
    return TT_OK;
}

static tt_status left_to_outer(tt_ddp *d, bool *left_p)
{
    *left_p = false;
    for (const tt_ddp *o = running; o != NULL && !*left_p; o = o->outer)
        if (!o->removed)
            TT_TRY(compare_params(d, o, left_p));
    return TT_OK;
}

/* ---- before and after ------------------------------------------------------------------------- */

/* Before a forward that leads to a reduction. In eval mode ranks may be alone here. */
static tt_status agree(tt_ddp *d)
{
    bool training = tt_module_is_training(d->module);
    bool rebuilds = training && d->may_rebuild && !d->rebuilt;
    bool sends = training && tti_ddp_sends_buffers(d, TT_DDP_BEFORE_FORWARD);

    TT_TRY(tti_ddp_tell_forward(d, rebuilds, sends));
    if (rebuilds)
        TT_TRY(tti_ddp_rebuild(d));
    return sends ? tti_ddp_sync_buffers(d, TT_DDP_BEFORE_FORWARD) : TT_OK;
}

/* *reduces_p: the backward of this forward will reduce. */
static tt_status before(tt_ddp *d, bool *reduces_p)
{
    bool left, records;

    TT_TRY(left_to_outer(d, &left));
    records = !d->removed && !left && tti_grad_mode == TT_GRAD_ON;
    *reduces_p = records && d->sync;
    if (!*reduces_p)
        return records ? tti_ddp_tell_forward(d, false, false) : TT_OK;
    TT_TRY(tt_ddp_check_finished(d));
    if (d->state == TTI_DDP_FAILED)
        TT_TRY(tti_ddp_reset(d));
    TT_TRY(tti_ddp_check_views(d));
    TT_TRY(tti_ddp_wait_buffers(d));
    tti_ddp_note_times(d);
    d->times.forward_start = tti_now_ns();
    return agree(d);
}

static tt_status agree_after(tt_ddp *d)
{
    bool training = tt_module_is_training(d->module), skips = training && d->skip_unused;
    bool sends = training && tti_ddp_sends_buffers(d, TT_DDP_AFTER_FORWARD);

    for (int b = 0; b < d->n_buckets; b++)
        d->buckets[b].skip = false;
    if (!sends && !skips)
        return TT_OK;
    TT_TRY(tti_ddp_tell_after_forward(d, sends, skips));
    if (sends)
        TT_TRY(tti_ddp_sync_buffers(d, TT_DDP_AFTER_FORWARD));
    return skips ? tti_ddp_agree_unused(d, false) : TT_OK;
}

static tt_status after(tt_ddp *d, bool reducing, tt_tensor *const *outs, int n)
{
    if (!reducing) {
        if (d->state == TTI_DDP_PREPARED && tti_grad_mode == TT_GRAD_ON)
            d->state = TTI_DDP_IDLE; /* the latest forward decides */
        return TT_OK;
    }
    if (d->search) {
        TT_TRY(tti_ddp_search_unused(d, outs, n));
        TT_TRY(tti_ddp_hook_outputs(d, outs, n));
    }
    TT_TRY(agree_after(d));
    tti_ddp_prepare(d);
    return TT_OK;
}

/* An input where the module is; without a graph of its own, as inputs are. */
static tt_tensor *move_input(void *ctx, tt_tensor *t)
{
    return tt_to_device(t, ((const tt_ddp *)ctx)->device);
}

tt_tensor *tt_ddp_forward(tt_ddp *d, tt_tensor *x)
{
    tt_tensor *y;
    bool reducing;

    if (d == NULL)
        return TT_NULL_GIVEN("ddp forward", "a tt_ddp");
    if (tti_ddp_note_error(d, before(d, &reducing)) != TT_OK)
        return NULL;
    d->outer = running;
    running = d;
    y = tti_ddp_run(d, d->device.kind != TT_DEVICE_CPU ? move_input(d, x) : x);
    running = d->outer;
    d->hidden = false;
    if (y == NULL || tti_ddp_note_error(d, after(d, reducing, &y, 1)) != TT_OK)
        return NULL;
    return y;
}

/* ---- values ------------------------------------------------------------------------------------- */

typedef struct tensor_list {
    tt_tensor **ts; /* borrowed */
    size_t n, cap;
} tensor_list;

static tt_status collect(void *ctx, tt_tensor *t)
{
    tensor_list *l = ctx;

    TT_TRY(tti_vec_reserve((void **)&l->ts, &l->cap, l->n + 1, sizeof *l->ts));
    l->ts[l->n++] = t;
    return TT_OK;
}

static bool has_opaque(const tt_value *v)
{
    if (tt_value_kind_of(v) == TT_VALUE_OPAQUE)
        return true;
    for (size_t i = 0; tt_value_is_container(v) && i < tt_value_count(v); i++)
        if (has_opaque(tt_value_at(v, i)))
            return true;
    return false;
}

static tt_status after_value(tt_ddp *d, bool reducing, const tt_value *out)
{
    tensor_list outs = { 0 };
    tt_status st = TT_OK;

    d->hidden = d->search && has_opaque(out);
    if (reducing && d->search)
        st = tt_value_each_tensor(out, collect, &outs);
    if (st == TT_OK)
        st = after(d, reducing, outs.ts, (int)outs.n);
    tti_mfree(outs.ts);
    return st;
}

static tt_value *run_moved(tt_ddp *d, tt_value *in)
{
    tt_value *moved = tt_value_map_tensors(in, move_input, d);
    tt_value *out = moved != NULL ? tti_ddp_run_value(d, moved) : NULL;

    tt_value_free(moved);
    return out;
}

tt_value *tt_ddp_call(tt_ddp *d, tt_value *in)
{
    tt_value *out;
    bool reducing;

    if (d == NULL)
        return TT_NULL_GIVEN("ddp call", "a tt_ddp");
    if (tti_ddp_note_error(d, before(d, &reducing)) != TT_OK)
        return NULL;
    d->outer = running;
    running = d;
    out = d->device.kind != TT_DEVICE_CPU ? run_moved(d, in) : tti_ddp_run_value(d, in);
    running = d->outer;
    if (out == NULL || tti_ddp_note_error(d, after_value(d, reducing, out)) == TT_OK)
        return out;
    tt_value_free(out);
    return NULL;
}
