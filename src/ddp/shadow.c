/* SPDX-License-Identifier: Apache-2.0 */
/* A tt_ddp with uneven inputs: what it tells the others before its collectives, and how a rank without
 * inputs does the same ones. */
#include "ddp/ddp.h"
#include "tutti/join.h"
#include "tutti/ops.h"
#include "tutti/syncbn.h"

/* Events: a forward, with or without these, or a reduction. */
enum {
    REBUILDS = 1, /* the buckets, in the order of the lowest rank that has inputs */
    SENDS = 2,    /* that rank's buffers */
    REDUCES = 4,
    ASKS = 8,   /* who used what, after the buckets */
    AFTER = 16, /* after forward: SENDS means a hook for buffers */
    SKIPS = 32, /* asks then who will use what */
};

/* ---- ranks with inputs -------------------------------------------------------------------- */

tt_status tti_ddp_tell_forward(tt_ddp *d, bool rebuilds, bool sends)
{
    int event = (rebuilds ? REBUILDS : 0) | (sends ? SENDS : 0);

    return d->join != NULL ? tt_join_notify(d->join, d, event) : TT_OK;
}

tt_status tti_ddp_tell_after_forward(tt_ddp *d, bool sends, bool skips)
{
    int event = AFTER | (sends ? SENDS : 0) | (skips ? SKIPS : 0);

    return d->join != NULL ? tt_join_notify(d->join, d, event) : TT_OK;
}

tt_status tti_ddp_tell_reduction(tt_ddp *d, bool asks)
{
    int event = REDUCES | (asks ? ASKS : 0);

    return d->join != NULL ? tt_join_notify(d->join, d, event) : TT_OK;
}

int tti_ddp_root(const tt_ddp *d)
{
    return d->join != NULL ? tt_join_first_active(d->join) : 0;
}

tt_reduce_op tti_ddp_op(const tt_ddp *d)
{
    return tt_join_divides_by_active(d->join) ? TT_REDUCE_SUM : TT_REDUCE_AVG;
}

/* A hook gives the mean over all ranks. */
tt_status tti_ddp_divide(const tt_ddp *d, tt_tensor *flat)
{
    double by = tt_join_n_active(d->join);

    if (!tt_join_divides_by_active(d->join))
        return TT_OK;
    if (d->hook != NULL)
        by /= tt_pg_size(d->pg);
    return by == 1 || tt_div_scalar_(flat, by) != NULL ? TT_OK : tt_last_status();
}

/* ---- ranks without ------------------------------------------------------------------------ */

static tt_pg *group(void *self)
{
    return tt_ddp_group(self);
}

static tt_status check(void *self, const tt_join_options *opt)
{
    tt_ddp *d = self;

    if (d->join != NULL)
        return TT_FAIL(TT_ERR_INVALID, "join: this tt_ddp is in a scope already");
    if (opt->throw_on_early_termination || !tt_module_has_sync_batch_norm(d->module))
        return TT_OK;
    return tti_ddp_note_error(
        d, TT_FAIL(TT_ERR_UNSUPPORTED,
                   "join: the module has synchronized batch norm, which communicates in forward: "
                   "uneven inputs need the option throw_on_early_termination"));
}

static void attach(void *self, tt_join *j)
{
    tt_ddp *d = self;

    d->join = j;
    d->has_joined = d->has_joined || j != NULL;
}

static tt_status shadow_after(tt_ddp *d, int event)
{
    if ((event & SENDS) != 0) {
        TT_TRY(tti_ddp_sync_buffers(d, TT_DDP_AFTER_FORWARD));
        TT_TRY(tti_ddp_wait_buffers(d));
    }
    return (event & SKIPS) != 0 ? tti_ddp_agree_unused(d, true) : TT_OK;
}

static tt_status shadow(void *self, tt_join *j, int event)
{
    tt_ddp *d = self;

    (void)j;
    if ((event & AFTER) != 0)
        return tti_ddp_note_error(d, shadow_after(d, event));
    if ((event & REDUCES) != 0)
        return tti_ddp_note_error(d, tti_ddp_shadow(d, (event & ASKS) != 0));
    if ((event & REBUILDS) != 0)
        TT_TRY(tti_ddp_note_error(d, tti_ddp_rebuild(d)));
    if ((event & SENDS) != 0)
        TT_TRY(tti_ddp_note_error(d, tti_ddp_sync_buffers(d, TT_DDP_BEFORE_FORWARD)));
    return TT_OK;
}

/* A rank that had no inputs has not seen in which order gradients come: then nobody has. */
static tt_status agree_on_learned(tt_ddp *d)
{
    tt_tensor *t = tt_full(TT_SHAPE(2), d->may_rebuild, TT_I32, TT_CPU);
    int32_t *all = t != NULL ? tti_data(t) : NULL;

    if (t == NULL)
        return tt_last_status();
    all[1] = d->learned;
    TT_TRY(tt_pg_all_reduce(d->pg, t, &(tt_coll_options){ .op = TT_REDUCE_MIN }, NULL));
    if ((all[0] != 0 || d->rebuilt) && (all[1] != 0 || !d->static_graph))
        return TT_OK;
    d->may_rebuild = false;
    d->learned = false;
    return TT_OK;
}

static tt_status finish_all(tt_ddp *d, int last)
{
    unsigned what = TTI_DDP_PARAMS | (d->buffer_sync ? TTI_DDP_BUFFERS : 0);
    tt_status st = TT_OK;

    TT_SCOPE
        TT_NO_GRAD
        {
            st = agree_on_learned(d);
            if (st == TT_OK)
                st = tti_ddp_send_states(d, last, what);
        }
    return st;
}

static tt_status finish(void *self, tt_join *j)
{
    return tti_ddp_note_error(self, finish_all(self, tt_join_last_rank(j)));
}

static const tt_joinable_ops ops = { .name = "ddp",
                                     .group = group,
                                     .check = check,
                                     .attach = attach,
                                     .shadow = shadow,
                                     .finish = finish };

tt_joinable tt_ddp_joinable(tt_ddp *d)
{
    return (tt_joinable){ .ops = &ops, .self = d };
}
