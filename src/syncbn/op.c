/* SPDX-License-Identifier: Apache-2.0 */
/* The operator. Forward: every rank gathers everybody's means, sums of squared deviations and counts, and
 * merges them in the order of ranks, in float64. Backward: the sums over the batch that the gradient of
 * the input needs are added up over the ranks. */
#include <math.h>

#include "ops/norm.h"
#include "tutti/collective.h"
#include "tutti/syncbn.h"

typedef struct sync_attrs {
    tt_pg *pg; /* retained by the node */
    double count;
} sync_attrs;

static void attrs_free(void *attrs)
{
    tt_pg_free(((sync_attrs *)attrs)->pg);
}

static tt_tensor *host_vector(int64_t rows, int64_t n)
{
    return tti_empty((int64_t[2]){ rows, n }, 2, TT_F64, TT_CPU);
}

/* ---- gradient ---------------------------------------------------------------------------- */

typedef struct sync_saved {
    tt_tensor *x, *w, *mean, *rstd; /* as the kernels take them */
} sync_saved;

static tt_status saved(tti_node *n, sync_saved *s)
{
    tt_tensor *w = tti_has_saved(n, 1) ? tti_saved_get(n, 1) : NULL;

    s->x = tti_batch_norm_layout(tti_saved_get(n, 0));
    s->mean = tti_saved_get(n, 2);
    s->rstd = tti_saved_get(n, 3);
    if (s->x == NULL || s->mean == NULL || s->rstd == NULL || (tti_has_saved(n, 1) && w == NULL))
        return tt_last_status();
    s->w = w != NULL ? tti_contiguous(tti_cast(w, (tt_dtype)s->rstd->dtype)) : NULL;
    return w != NULL ? tti_made(s->w) : TT_OK;
}

/* This rank's sums of dy * (x - mean) * rstd and of dy: rows 0 and 1. */
static tt_tensor *own_sums(const sync_saved *s, tt_tensor *g)
{
    tt_tensor *sums = tti_empty((int64_t[2]){ 2, s->x->dims[1] }, 2, TT_F64, s->x->device);
    tt_tensor *dw = tt_select(sums, 0, 0), *db = tt_select(sums, 0, 1);

    if (dw == NULL || db == NULL)
        return NULL;
    if (s->x->numel == 0)
        return tt_zero_(sums);
    return TTI_RUN("sync_batch_norm", s->x, nn, batch_norm_grad, NULL, dw, db, g, s->x, s->w,
                   (const tt_tensor *[2]){ s->mean, s->rstd }) == TT_OK
               ? sums
               : NULL;
}

static tt_status input_grad(const sync_attrs *a, const sync_saved *s, tt_tensor *g, tt_tensor *sums,
                            tt_tensor **dx_p)
{
    tt_tensor *own = tt_to_device(sums, TT_CPU);
    tt_tensor *all = host_vector(2, s->x->dims[1]);
    tt_tensor *dx = tti_empty_like(s->x, (tt_dtype)s->x->dtype);

    if (own == NULL || all == NULL || dx == NULL)
        return tt_last_status();
    TT_TRY(tt_pg_all_reduce_to(a->pg, own, all, NULL, NULL));
    all = tt_to_device(all, s->x->device);
    if (all == NULL)
        return tt_last_status();
    TT_TRY(TTI_RUN("sync_batch_norm", s->x, nn, batch_norm_input_grad, dx, g, s->x, s->w,
                   (const tt_tensor *[2]){ s->mean, s->rstd },
                   (const tt_tensor *[2]){ tt_select(all, 0, 0), tt_select(all, 0, 1) }, a->count));
    *dx_p = dx;
    return TT_OK;
}

static tt_status backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const sync_attrs *a = tti_attrs(n);
    tt_tensor *g, *sums;
    sync_saved s;

    if (tti_grad_mode == TT_GRAD_ON)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "sync_batch_norm: expected a backward without create_graph: gradients of "
                       "gradients are not available over several ranks");
    TT_TRY(saved(n, &s));
    g = tti_batch_norm_like(grad_out[0], s.x);
    sums = g != NULL ? own_sums(&s, g) : NULL;
    TT_TRY(tti_made(sums));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&grad_in[1], tt_select(sums, 0, 0)));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2], tt_select(sums, 0, 1)));
    return tti_needs(n, 0) ? input_grad(a, &s, g, sums, &grad_in[0]) : TT_OK;
}

static const tti_op op_sync_batch_norm = { .name = "sync_batch_norm", .backward = backward };

/* ---- statistics -------------------------------------------------------------------------- */

/* What each rank sends: means, sums of squared deviations, and the count of each channel's elements. */
static tt_status own_statistics(tt_tensor *x, tt_tensor *mean, tt_tensor *var, tt_tensor *own)
{
    int64_t c = x->dims[1];
    double *p = tti_data(own), count = c > 0 ? (double)(x->numel / c) : 0;

    p[2 * c] = count;
    for (int64_t i = 0; i < 2 * c; i++)
        p[i] = 0;
    if (x->numel == 0)
        return TT_OK;
    TT_TRY(TTI_RUN("sync_batch_norm", x, nn, batch_norm_stats, mean, var, x));
    TT_TRY(tt_copy_out_f64(mean, p, (size_t)c));
    TT_TRY(tt_copy_out_f64(var, p + c, (size_t)c));
    for (int64_t i = c; i < 2 * c; i++)
        p[i] *= count;
    return TT_OK;
}

typedef struct pooled {
    double n, mean, squares;
} pooled;

/* The statistics of two sets of elements from those of each. */
static void merge(pooled *a, double n, double mean, double squares)
{
    double all = a->n + n, delta = mean - a->mean;

    if (!(n > 0))
        return;
    a->mean += delta * (n / all);
    a->squares += squares + delta * delta * (a->n * (n / all));
    a->n = all;
}

enum { MEAN, SAMPLE_VAR, RSTD, N_RESULTS };

/* `all` [ranks, 2 c + 1] to `out` [N_RESULTS, c]; returns the count. */
static double merge_ranks(const tt_tensor *all, tt_tensor *out, double eps)
{
    int64_t c = out->dims[1], width = all->dims[1];
    const double *from = tti_data(all);
    double *to = tti_data(out), count = 0;

    for (int64_t r = 0; r < all->dims[0]; r++)
        count += from[r * width + 2 * c];
    for (int64_t i = 0; i < c; i++) {
        pooled p = { 0 };

        for (int64_t r = 0; r < all->dims[0]; r++) {
            const double *rank = from + r * width;

            merge(&p, rank[2 * c], rank[i], rank[c + i]);
        }
        to[MEAN * c + i] = p.mean;
        to[SAMPLE_VAR * c + i] = p.squares / (count - 1);
        to[RSTD * c + i] = 1 / sqrt(p.squares / count + eps);
    }
    return count;
}

static tt_tensor *result(tt_tensor *all, int which, const tt_tensor *like)
{
    return tti_cast(tt_to_device(tt_select(all, 0, which), like->device), (tt_dtype)like->dtype);
}

static tt_status learn(tt_tensor *results, const tt_batch_norm_options *opt)
{
    double momentum = opt->momentum != 0.0 ? opt->momentum : 0.1;

    if (opt->running_mean != NULL)
        TT_TRY(tti_batch_norm_learn(opt->running_mean, result(results, MEAN, opt->running_mean),
                                    momentum));
    if (opt->running_var != NULL)
        TT_TRY(tti_batch_norm_learn(opt->running_var, result(results, SAMPLE_VAR, opt->running_var),
                                    momentum));
    return TT_OK;
}

/* Fills mean and rstd, and learns the running statistics. */
static tt_status statistics(tt_tensor *x, tt_tensor *mean, tt_tensor *rstd, sync_attrs *a,
                            const tt_batch_norm_options *opt)
{
    int64_t c = x->dims[1];
    tt_tensor *own = host_vector(1, 2 * c + 1);
    tt_tensor *all = host_vector(tt_pg_size(a->pg), 2 * c + 1);
    tt_tensor *results = host_vector(N_RESULTS, c);

    if (own == NULL || all == NULL || results == NULL)
        return tt_last_status();
    TT_TRY(own_statistics(x, mean, rstd, own));
    TT_TRY(tt_pg_all_gather_into(a->pg, own, all, NULL, NULL));
    a->count = merge_ranks(all, results, opt->eps != 0.0 ? opt->eps : 1e-5);
    if (!(a->count > 1))
        return TT_FAIL(TT_ERR_INVALID,
                       "sync_batch_norm: expected more than one value per channel when training, "
                       "got %g over %d ranks",
                       a->count, tt_pg_size(a->pg));
    TT_TRY(learn(results, opt));
    TT_TRY(tti_copy(mean, result(results, MEAN, mean)));
    return tti_copy(rstd, result(results, RSTD, rstd));
}

/* ---- forward ----------------------------------------------------------------------------- */

static tt_status check(tt_tensor *const in[3], const tt_batch_norm_options *opt)
{
    TT_TRY(tti_batch_norm_check(in, opt));
    if (!TTI_HAS_KERNEL(in[0], nn, batch_norm_input_grad))
        return tti_no_kernel("sync_batch_norm", in[0]);
    return TT_OK;
}

static tt_tensor *run(tt_tensor *const in[3], tt_pg *pg, const tt_batch_norm_options *opt)
{
    sync_attrs a = { .pg = pg };
    tti_call c = { .op = &op_sync_batch_norm,
                   .n_in = 3,
                   .in = in,
                   .optional = 6,
                   .attrs = &a,
                   .attrs_bytes = sizeof a };
    tti_batch_norm_parts p;

    if (!tti_call_begin(&c) || check(in, opt) != TT_OK || tti_batch_norm_prepare(in, &p) != TT_OK)
        return NULL;
    tt_tensor *y = tti_batch_norm_finish(&c, &p, statistics(p.x, p.mean, p.rstd, &a, opt));
    if (y != NULL && y->grad_fn != NULL) {
        (void)tt_pg_retain(pg);
        y->grad_fn->attrs_free = attrs_free;
    }
    return y;
}

tt_tensor *tt_sync_batch_norm(tt_tensor *x, tt_tensor *weight, tt_tensor *bias, tt_pg *pg,
                              const tt_batch_norm_options *opt)
{
    tt_tensor *const in[3] = { x, weight, bias };
    tt_batch_norm_options o = opt != NULL ? *opt : (tt_batch_norm_options){ 0 };

    o.training = true;
    if (pg == NULL && tt_pg_is_initialized())
        pg = tt_pg_default();
    if (pg == NULL || tt_pg_size(pg) <= 1)
        return tt_batch_norm(x, weight, bias, &o);
    return run(in, pg, &o);
}
