/* SPDX-License-Identifier: Apache-2.0 */
/* Group norm: statistics of each sample over groups of channels and space. */
#include "ops/norm.h"

typedef struct group_attrs {
    double eps;
    int64_t groups;
} group_attrs;

/* ---- gradient ---------------------------------------------------------------------------- */

/* [N, groups, channels of a group, space] makes the statistics those of the last two dimensions. */
static tt_status grad_by_parts(tti_node *n, tt_tensor *g, tt_tensor *x, tt_tensor *w,
                               tt_tensor **grad_in)
{
    const group_attrs *a = tti_attrs(n);
    int64_t per = x->dims[1] / a->groups, space = x->numel / (x->dims[0] * x->dims[1]);
    tt_shape split = TT_SHAPE(x->dims[0], a->groups, per, space);
    tti_norm_parts p = { .x = tt_reshape(x, split), .dims = { 2, 3 }, .n_dims = 2, .eps = a->eps };
    const int others[2] = { 0, 3 };
    tt_tensor *split_g = tt_reshape(g, split), *dx = NULL, *dw = NULL;

    if (w != NULL)
        p.w = tt_reshape(w, TT_SHAPE(a->groups, per, 1));
    TT_TRY(tti_norm_grad_parts(&p, split_g, tti_needs(n, 0) ? &dx : NULL,
                               tti_needs(n, 1) ? &dw : NULL));
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], tt_reshape(dx, tt_tensor_shape(x))));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&grad_in[1],
                        tt_reshape(tt_sum_dims(dw, others, 2, false), TT_SHAPE(x->dims[1]))));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2],
                        tt_reshape(tt_sum_dims(split_g, others, 2, false), TT_SHAPE(x->dims[1]))));
    return TT_OK;
}

static tt_status group_norm_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    tt_tensor *x = tti_saved_get(n, 0), *w = tti_has_saved(n, 1) ? tti_saved_get(n, 1) : NULL;
    tt_tensor *mean = tti_saved_get(n, 2), *rstd = tti_saved_get(n, 3), *g = grad_out[0];

    if (x == NULL || mean == NULL || rstd == NULL || (w == NULL && tti_has_saved(n, 1)))
        return tt_last_status();
    if (x->numel == 0)
        return TT_OK;
    if (tti_grad_mode == TT_GRAD_ON)
        return grad_by_parts(n, g, x, w, grad_in);
    x = tti_contiguous(x);
    g = tti_contiguous(g);
    if (x == NULL || g == NULL)
        return tt_last_status();
    if (w != NULL && (w = tti_contiguous(tti_cast(w, (tt_dtype)rstd->dtype))) == NULL)
        return tt_last_status();
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device)));
    for (int i = 1; i < 3; i++)
        if (tti_needs(n, i))
            TT_TRY(
                tti_give(&grad_in[i], tti_empty(&x->dims[1], 1, (tt_dtype)rstd->dtype, x->device)));
    return TTI_RUN("group_norm", x, nn, group_norm_grad, grad_in[0], grad_in[1], grad_in[2], g, x,
                   w, (const tt_tensor *[2]){ mean, rstd });
}

static const tti_op op_group_norm = { .name = "group_norm", .backward = group_norm_backward };

/* ---- forward ----------------------------------------------------------------------------- */

static tt_status check_group_norm(tt_tensor *const in[3], int64_t groups)
{
    const tt_tensor *x = in[0];

    TT_TRY(tti_check_floating("group_norm", x, false));
    if (x->n_dims < 2 || groups < 1 || x->dims[1] % groups != 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "group_norm: expected [N, C, ...] with C a multiple of %lld groups, got %s",
                       (long long)groups, TTI_SHAPE_OF(x));
    for (int i = 1; i < x->n_dims; i++)
        if (x->dims[i] == 0)
            return TT_FAIL(TT_ERR_INVALID, "group_norm: expected channels and positions, got %s",
                           TTI_SHAPE_OF(x));
    for (int i = 1; i < 3; i++)
        if (in[i] != NULL && (in[i]->n_dims != 1 || in[i]->dims[0] != x->dims[1]))
            return TT_FAIL(TT_ERR_INVALID,
                           "group_norm: expected weight and bias of %lld channels, got %s",
                           (long long)x->dims[1], TTI_SHAPE_OF(in[i]));
    return TT_OK;
}

tt_tensor *tt_group_norm(tt_tensor *x, int64_t groups, tt_tensor *weight, tt_tensor *bias,
                         double eps)
{
    tt_tensor *in[3];
    const group_attrs a = { eps, groups };
    tti_call c = { .op = &op_group_norm,
                   .n_in = 3,
                   .in = in,
                   .optional = 6,
                   .attrs = &a,
                   .attrs_bytes = sizeof a };
    tt_tensor *y, *mean, *rstd;
    tt_dtype stat;
    int64_t rows;

    TTI_AUTOCAST(TTI_WIDE, &x, &weight, &bias);
    in[0] = x;
    in[1] = weight;
    in[2] = bias;
    if (!tti_call_begin(&c) || check_group_norm(in, groups) != TT_OK)
        return NULL;
    stat = x->dtype == TT_F64 ? TT_F64 : TT_F32;
    rows = x->dims[0] * groups;
    x = tti_contiguous(x);
    weight = tti_contiguous(tti_cast(weight, stat));
    bias = tti_contiguous(tti_cast(bias, stat));
    if (x == NULL || (in[1] != NULL && weight == NULL) || (in[2] != NULL && bias == NULL))
        return NULL;
    y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    mean = tti_empty(&rows, 1, stat, x->device);
    rstd = tti_empty(&rows, 1, stat, x->device);
    if (y == NULL || mean == NULL || rstd == NULL)
        return NULL;
    tti_call_save(&c, in[0]);
    tti_call_save(&c, in[1]);
    tti_call_save(&c, mean);
    tti_call_save(&c, rstd);
    return tti_call_end(
        &c, y, TTI_RUN("group_norm", x, nn, group_norm, y, mean, rstd, x, weight, bias, eps));
}
