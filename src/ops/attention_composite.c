/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of attention written out with matrices of all scores. It costs the memory that the
 * kernels avoid, and is used only where they cannot help: for gradients of gradients, and for the
 * gradient of the mask. */
#include "ops/attention.h"

#include <math.h>

static tt_tensor *turned(tt_tensor *x)
{
    return tt_transpose(x, -1, -2);
}

/* What is added to the scores of keys that come after the query. */
static tt_tensor *later_keys(const tt_tensor *scores)
{
    int64_t l = tt_tensor_size(scores, -2), s = tt_tensor_size(scores, -1);

    return tt_triu(tt_full(TT_SHAPE(l, s), -INFINITY, (tt_dtype)scores->dtype, scores->device), 1);
}

static tt_tensor *weights_of(tt_tensor *const in[4], const tti_attention_attrs *a)
{
    tt_tensor *s = tt_matmul(tt_mul_scalar(in[0], a->scale), turned(in[1])), *p;

    if (s == NULL)
        return NULL;
    if (in[3] != NULL)
        s = tt_add(s, in[3]);
    if (s != NULL && a->causal)
        s = tt_add(s, later_keys(s));
    p = tt_softmax(s, -1);
    /* A row that sees nothing has no weights. */
    return in[3] != NULL ? tt_masked_fill(p, tt_isnan(p), 0.0) : p;
}

/* The factors 1 / (1 - p) and 0 that the kernels drew: rows start at whole blocks of four. */
static tt_tensor *kept(const tt_tensor *p, const tti_attention_attrs *a)
{
    tt_shape shape = tt_tensor_shape(p);
    int64_t n = shape.dims[shape.n_dims - 1];

    shape.dims[shape.n_dims - 1] = (n + 3) / 4 * 4;
    return tt_narrow(tti_dropout_with(tt_ones(shape, (tt_dtype)p->dtype, p->device), &a->drop), -1,
                     0, n);
}

/* Half types are computed in float32, as the kernels do; whoever takes a gradient rounds it to the type of its input,
 * once, after it was summed over what was broadcast. Recorded. */
static tt_tensor *widened(tt_tensor *t)
{
    return t != NULL && (t->dtype == TT_F16 || t->dtype == TT_BF16) ? tt_to_dtype(t, TT_F32) : t;
}

static tt_status wide_grads(tti_node *n, tt_tensor *dout, tt_tensor *const in[4],
                            tt_tensor **grad_in)
{
    const tti_attention_attrs *a = tti_attrs(n);
    tt_tensor *p = weights_of(in, a);
    tt_tensor *dp = tt_matmul(dout, turned(in[2]));
    tt_tensor *used = p, *ds;

    TT_TRY(tti_made(p));
    if (a->drop.p > 0) {
        tt_tensor *keep = kept(p, a);

        used = tt_mul(p, keep);
        dp = tt_mul(dp, keep);
    }
    ds = tt_mul(p, tt_sub(dp, tt_sum_dim(tt_mul(dp, p), -1, true)));
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], tt_mul_scalar(tt_matmul(ds, in[1]), a->scale)));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&grad_in[1], tt_mul_scalar(tt_matmul(turned(ds), in[0]), a->scale)));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2], tt_matmul(turned(used), dout)));
    if (tti_needs(n, 3))
        TT_TRY(tti_give(&grad_in[3], ds));
    return TT_OK;
}

tt_status tti_attention_composite(tti_node *n, tt_tensor *dout, tt_tensor *const in[4],
                                  tt_tensor **grad_in)
{
    tt_tensor *wide[4] = { NULL };

    for (int i = 0; i < 4; i++)
        if (in[i] != NULL)
            TT_TRY(tti_give(&wide[i], widened(in[i])));
    return wide_grads(n, widened(dout), wide, grad_in);
}
