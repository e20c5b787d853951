/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm: statistics of each channel over batch and space, or kept ones. */
#include <math.h>

#include "ops/norm.h"

typedef struct bn_attrs {
    double eps;
    bool training;
} bn_attrs;

/* [n, spatial..., c] in memory without gaps. */
static bool channels_last(const tt_tensor *x)
{
    int64_t step = x->dims[1];

    if (x->n_dims < 3 || (x->strides[1] != 1 && x->dims[1] != 1))
        return false;
    for (int i = x->n_dims - 1; i != 1; i = i == 2 ? 0 : i == 0 ? 1 : i - 1) {
        if (x->dims[i] != 1 && x->strides[i] != step)
            return false;
        step *= x->dims[i];
    }
    return true;
}

tt_tensor *tti_batch_norm_layout(tt_tensor *x)
{
    return x == NULL || tti_is_contiguous(x) || channels_last(x) ? x : tti_contiguous(x);
}

static bool same_strides(const tt_tensor *a, const tt_tensor *b)
{
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != 1 && a->strides[i] != b->strides[i])
            return false;
    return true;
}

tt_tensor *tti_batch_norm_like(tt_tensor *g, const tt_tensor *x)
{
    tt_tensor *out;

    if (g == NULL || same_strides(g, x))
        return g;
    out = tti_empty_like(x, (tt_dtype)g->dtype);
    return out != NULL && tti_copy(out, g) == TT_OK ? out : NULL;
}

static tt_tensor *per_channel(tt_tensor *t, const tt_tensor *x)
{
    tt_shape s = { .n_dims = x->n_dims - 1 };

    for (int i = 0; i < s.n_dims; i++)
        s.dims[i] = i == 0 ? x->dims[1] : 1;
    return t != NULL ? tt_reshape(t, s) : NULL;
}

/* ---- gradient ---------------------------------------------------------------------------- */

typedef struct bn_saved {
    tt_tensor *x, *w, *mean, *rstd;
} bn_saved;

static tt_status grad_by_parts(tti_node *n, tt_tensor *g, const bn_saved *s, tt_tensor **grad_in)
{
    const bn_attrs *a = tti_attrs(n);
    tti_norm_parts p = { .x = s->x, .w = per_channel(s->w, s->x), .eps = a->eps };
    tt_tensor *dw = NULL;

    for (int i = 0; i < s->x->n_dims; i++)
        if (i != 1)
            p.dims[p.n_dims++] = i;
    if (!a->training) {
        p.mean = tti_cast(per_channel(s->mean, s->x), (tt_dtype)s->x->dtype);
        p.rstd = tti_cast(per_channel(s->rstd, s->x), (tt_dtype)s->x->dtype);
        if (p.mean == NULL || p.rstd == NULL)
            return tt_last_status();
    }
    TT_TRY(tti_norm_grad_parts(&p, g, tti_needs(n, 0) ? &grad_in[0] : NULL,
                               tti_needs(n, 1) ? &dw : NULL));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&grad_in[1], tt_sum_dims(dw, p.dims, p.n_dims, false)));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2], tt_sum_dims(g, p.dims, p.n_dims, false)));
    return TT_OK;
}

static tt_status grad_kernel(tti_node *n, tt_tensor *g, const bn_saved *s, tt_tensor **grad_in)
{
    const bn_attrs *a = tti_attrs(n);
    tt_tensor *x = tti_batch_norm_layout(s->x), *dx = NULL;
    tt_tensor *w = tti_contiguous(tti_cast(s->w, (tt_dtype)s->rstd->dtype));

    g = x != NULL ? tti_batch_norm_like(g, x) : NULL;
    if (g == NULL || (s->w != NULL && w == NULL))
        return tt_last_status();
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&dx, tti_empty_like(x, (tt_dtype)x->dtype)));
    for (int i = 1; i < 3; i++)
        if (tti_needs(n, i))
            TT_TRY(tti_give(&grad_in[i],
                            tti_empty(&x->dims[1], 1, (tt_dtype)s->rstd->dtype, x->device)));
    grad_in[0] = dx;
    if (x->numel == 0)
        return TT_OK;
    if (!a->training && dx != NULL)
        TT_TRY(TTI_RUN("batch_norm", x, nn, batch_norm_apply, dx, g, NULL, s->rstd, w, NULL));
    if (!a->training && grad_in[1] == NULL && grad_in[2] == NULL)
        return TT_OK;
    return TTI_RUN("batch_norm", x, nn, batch_norm_grad, a->training ? dx : NULL, grad_in[1],
                   grad_in[2], g, x, w, (const tt_tensor *[2]){ s->mean, s->rstd });
}

static tt_status batch_norm_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    bn_saved s = { .x = tti_saved_get(n, 0),
                   .w = tti_has_saved(n, 1) ? tti_saved_get(n, 1) : NULL,
                   .mean = tti_saved_get(n, 2),
                   .rstd = tti_saved_get(n, 3) };

    if (s.x == NULL || s.mean == NULL || s.rstd == NULL || (tti_has_saved(n, 1) && s.w == NULL))
        return tt_last_status();
    if (tti_grad_mode == TT_GRAD_ON)
        return grad_by_parts(n, grad_out[0], &s, grad_in);
    return grad_kernel(n, grad_out[0], &s, grad_in);
}

static const tti_op op_batch_norm = { .name = "batch_norm", .backward = batch_norm_backward };

/* ---- forward ----------------------------------------------------------------------------- */

static tt_status check_vector(const tt_tensor *x, const tt_tensor *v, const char *what)
{
    if (v == NULL || (v->n_dims == 1 && v->dims[0] == x->dims[1]))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "batch_norm: expected a %s of %lld channels, got %s", what,
                   (long long)x->dims[1], TTI_SHAPE_OF(v));
}

tt_status tti_batch_norm_check(tt_tensor *const in[3], const tt_batch_norm_options *opt)
{
    const tt_tensor *x = in[0];

    TT_TRY(tti_check_floating("batch_norm", x, false));
    if (x->n_dims < 2)
        return TT_FAIL(TT_ERR_INVALID, "batch_norm: expected [N, C, ...], got %s", TTI_SHAPE_OF(x));
    TT_TRY(check_vector(x, in[1], "weight"));
    TT_TRY(check_vector(x, in[2], "bias"));
    TT_TRY(check_vector(x, opt->running_mean, "running mean"));
    TT_TRY(check_vector(x, opt->running_var, "running variance"));
    return TT_OK;
}

static tt_status check_alone(tt_tensor *const in[3], const tt_batch_norm_options *opt)
{
    const tt_tensor *x = in[0];

    TT_TRY(tti_batch_norm_check(in, opt));
    if (!opt->training && (opt->running_mean == NULL || opt->running_var == NULL))
        return TT_FAIL(TT_ERR_INVALID,
                       "batch_norm: expected running_mean and running_var when not training");
    if (opt->training && x->dims[1] > 0 && x->numel / x->dims[1] <= 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "batch_norm: expected more than one value per channel when training, got %s",
                       TTI_SHAPE_OF(x));
    return TT_OK;
}

tt_status tti_batch_norm_learn(tt_tensor *kept, tt_tensor *now, double momentum)
{
    if (kept == NULL)
        return TT_OK;
    now = tti_cast(now, (tt_dtype)kept->dtype);
    TT_TRY(tti_made(now));
    TT_TRY(tti_binary(TTI_LERP_S, kept, kept, now, &momentum));
    tti_bump_version(kept);
    return TT_OK;
}

/* Fills mean, and rstd with the variance; learns both. */
static tt_status batch_statistics(tt_tensor *x, tt_tensor *mean, tt_tensor *var,
                                  const tt_batch_norm_options *opt)
{
    double count = (double)(x->numel / x->dims[1]), unbias = count / (count - 1.0);
    double momentum = opt->momentum != 0.0 ? opt->momentum : 0.1;
    tt_tensor *sample;

    TT_TRY(TTI_RUN("batch_norm", x, nn, batch_norm_stats, mean, var, x));
    TT_TRY(tti_batch_norm_learn(opt->running_mean, mean, momentum));
    if (opt->running_var == NULL)
        return TT_OK;
    sample = tti_empty_like(var, (tt_dtype)var->dtype);
    TT_TRY(tti_unary(TTI_MUL_S, sample, var, &unbias));
    return tti_batch_norm_learn(opt->running_var, sample, momentum);
}

static tt_status statistics(tt_tensor *x, tt_tensor *mean, tt_tensor *rstd,
                            const tt_batch_norm_options *opt, double eps)
{
    if (opt->training) {
        TT_TRY(batch_statistics(x, mean, rstd, opt));
    } else {
        TT_TRY(tti_copy(mean, opt->running_mean));
        TT_TRY(tti_copy(rstd, opt->running_var));
    }
    TT_TRY(tti_unary(TTI_ADD_S, rstd, rstd, &eps));
    return tti_unary(TTI_RSQRT, rstd, rstd, NULL);
}

tt_status tti_batch_norm_prepare(tt_tensor *const in[3], tti_batch_norm_parts *p)
{
    tt_dtype stat = in[0]->dtype == TT_F64 ? TT_F64 : TT_F32;
    tt_tensor *x = tti_batch_norm_layout(in[0]);

    p->x = x;
    p->w = tti_contiguous(tti_cast(in[1], stat));
    p->b = tti_contiguous(tti_cast(in[2], stat));
    if (x == NULL || (in[1] != NULL && p->w == NULL) || (in[2] != NULL && p->b == NULL))
        return tt_last_status();
    p->y = tti_empty_like(x, (tt_dtype)x->dtype);
    p->mean = tti_empty(&x->dims[1], 1, stat, x->device);
    p->rstd = tti_empty(&x->dims[1], 1, stat, x->device);
    return p->y != NULL && p->mean != NULL && p->rstd != NULL ? TT_OK : tt_last_status();
}

tt_tensor *tti_batch_norm_finish(tti_call *c, const tti_batch_norm_parts *p, tt_status st)
{
    if (st == TT_OK)
        st = TTI_RUN("batch_norm", p->x, nn, batch_norm_apply, p->y, p->x, p->mean, p->rstd, p->w,
                     p->b);
    tti_call_save(c, c->in[0]);
    tti_call_save(c, c->in[1]);
    tti_call_save(c, p->mean);
    tti_call_save(c, p->rstd);
    return tti_call_end(c, p->y, st);
}

static tt_tensor *batch_norm(tt_tensor *const in[3], const tt_batch_norm_options *opt)
{
    bn_attrs a = { .eps = opt->eps != 0.0 ? opt->eps : 1e-5, .training = opt->training };
    tti_call c = { .op = &op_batch_norm,
                   .n_in = 3,
                   .in = in,
                   .optional = 6,
                   .attrs = &a,
                   .attrs_bytes = sizeof a };
    tti_batch_norm_parts p;

    if (!tti_call_begin(&c) || check_alone(in, opt) != TT_OK ||
        tti_batch_norm_prepare(in, &p) != TT_OK)
        return NULL;
    return tti_batch_norm_finish(&c, &p, statistics(p.x, p.mean, p.rstd, opt, a.eps));
}

tt_tensor *tt_batch_norm(tt_tensor *x, tt_tensor *weight, tt_tensor *bias,
                         const tt_batch_norm_options *opt)
{
    static const tt_batch_norm_options defaults;
    tt_tensor *const in[3] = { x, weight, bias };

    return batch_norm(in, opt != NULL ? opt : &defaults);
}
