/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative sums and products. */
#include "ops/reduce.h"

static tt_tensor *sum_from_end(tt_tensor *x, int dim)
{
    return tt_flip(tt_cumsum(tt_flip(x, &dim, 1), dim), &dim, 1);
}

static tt_tensor *conj_of(tt_tensor *x)
{
    return x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype) ? tt_conj(x) : x;
}

static tt_status cumsum_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const int *dim = tti_attrs(n);

    if (grad_out[0]->n_dims == 0)
        return tti_give(grad_in, grad_out[0]);
    return tti_give(grad_in, sum_from_end(grad_out[0], *dim));
}

/* With zeros: the gradient of element k is the product before it times the sum, over all j from
 * k on, of g[j] times the product of the elements between. */
static tt_tensor *cumprod_grad_at(tt_tensor *g, tt_tensor *x, int dim, int64_t k)
{
    int64_t left = tt_tensor_size(x, dim) - k - 1;
    tt_tensor *here = tt_narrow(x, dim, k, 1);
    tt_tensor *parts[2], *between, *before;

    parts[0] = tt_ones_like(here);
    parts[1] = left > 0 ? tt_cumprod(tt_narrow(x, dim, k + 1, left), dim) : NULL;
    between = left > 0 ? tt_cat(parts, 2, dim) : parts[0];
    before = k > 0 ? tt_prod_dim(tt_narrow(x, dim, 0, k), dim, true) : parts[0];
    g = tt_mul(tt_narrow(g, dim, k, left + 1), conj_of(between));
    return tt_mul(tt_sum_dim(g, dim, true), conj_of(before));
}

static tt_tensor *cumprod_grad_zeros(tt_tensor *g, tt_tensor *x, int dim)
{
    int64_t n = tt_tensor_size(x, dim);
    tt_tensor **parts = tti_malloc((size_t)n * sizeof *parts);
    tt_tensor *out;

    if (parts == NULL)
        return NULL;
    for (int64_t k = 0; k < n; k++)
        parts[k] = cumprod_grad_at(g, x, dim, k);
    out = tt_cat(parts, (int)n, dim);
    tti_mfree(parts);
    return out;
}

static tt_status cumprod_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    int dim = *(const int *)tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 0), *y = tti_saved_get(n, 1), *all = NULL;

    if (x == NULL || y == NULL)
        return tt_last_status();
    if (x->n_dims == 0 || x->numel == 0)
        return tti_give(grad_in, grad_out[0]);
    TT_NO_GRAD
    all = tt_all(x);
    if (all == NULL)
        return tt_last_status();
    if (tt_item(all) == 0.0)
        return tti_give(grad_in, cumprod_grad_zeros(grad_out[0], x, dim));
    return tti_give(grad_in,
                    tt_div(sum_from_end(tt_mul(grad_out[0], conj_of(y)), dim), conj_of(x)));
}

static const tti_op op_cumsum = { .name = "cumsum", .backward = cumsum_backward };
static const tti_op op_cumprod = { .name = "cumprod", .backward = cumprod_backward };

static tt_tensor *cumulative(const tti_op *op, bool product, tt_tensor *x, int dim)
{
    tti_call c = { .op = op, .n_in = 1, .in = &x, .attrs = &dim, .attrs_bytes = sizeof dim };
    tt_tensor *wide = x, *out;

    if (!tti_call_begin(&c) || tti_wrap_dim(op->name, &dim, x->n_dims) != TT_OK)
        return NULL;
    if (tt_dtype_is_integral((tt_dtype)x->dtype) || x->dtype == TT_BOOL)
        wide = tti_cast(x, TT_I64);
    if (wide == NULL || (out = tti_empty_like(wide, (tt_dtype)wide->dtype)) == NULL)
        return NULL;
    tti_call_save(&c, product ? x : NULL);
    tti_call_save(&c, product ? out : NULL);
    return tti_call_end(&c, out, TTI_RUN(op->name, x, reduce, cumulative, product, out, wide, dim));
}

tt_tensor *tt_cumsum(tt_tensor *x, int dim)
{
    TTI_AUTOCAST(TTI_WIDE, &x);
    return cumulative(&op_cumsum, false, x, dim);
}

tt_tensor *tt_cumprod(tt_tensor *x, int dim)
{
    TTI_AUTOCAST(TTI_WIDE, &x);
    return cumulative(&op_cumprod, true, x, dim);
}
