/* SPDX-License-Identifier: Apache-2.0 */
/* Products. The derivative is the product of all other elements: result / x, unless an element
 * is 0, when it is put together from the products before and after each element. */
#include "ops/reduce.h"

static tt_tensor *conj_of(tt_tensor *x)
{
    return x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype) ? tt_conj(x) : x;
}

static tt_status has_zero(tt_tensor *x, bool *zero_p)
{
    tt_tensor *all = NULL;

    TT_NO_GRAD
    all = tt_all(x);
    if (all == NULL)
        return tt_last_status();
    *zero_p = tt_item(all) == 0.0;
    return TT_OK;
}

/* Products of all elements before each one along dim: 1, x0, x0 x1, ... */
static tt_tensor *before_each(tt_tensor *x, int dim)
{
    int64_t n = tt_tensor_size(x, dim);
    tt_tensor *parts[2];

    if (x == NULL || n <= 1)
        return tt_ones_like(x);
    parts[0] = tt_ones_like(tt_narrow(x, dim, 0, 1));
    parts[1] = tt_cumprod(tt_narrow(x, dim, 0, n - 1), dim);
    return tt_cat(parts, 2, dim);
}

static tt_tensor *all_others(tt_tensor *x, int dim)
{
    tt_tensor *after = tt_flip(before_each(tt_flip(x, &dim, 1), dim), &dim, 1);

    return tt_mul(before_each(x, dim), after);
}

static tt_status prod_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_reduce_attrs *a = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 0), *y = tti_saved_get(n, 1);
    tt_tensor *g = tti_reduce_keep(grad_out[0], a), *others;
    bool zero = false;
    int dim = 0;

    if (x == NULL || y == NULL)
        return tt_last_status();
    if (x->numel == 0)
        return tti_give(grad_in, tt_zeros_like(x));
    TT_TRY(has_zero(x, &zero));
    if (!zero) {
        others = tt_div(tti_reduce_keep(y, a), x);
    } else if (a->mask == (1u << x->n_dims) - 1) {
        others = tt_reshape(all_others(tt_reshape(x, TT_SHAPE(x->numel)), 0), a->shape);
    } else {
        while ((a->mask >> dim & 1) == 0)
            dim++;
        others = all_others(x, dim);
    }
    return tti_give(grad_in, tt_mul(g, conj_of(others)));
}

static const tti_op op_prod = { .name = "prod", .backward = prod_backward };

tt_tensor *tt_prod(tt_tensor *x)
{
    const tti_reduction r = { .op = &op_prod, .kernel = TTI_PROD, .dtype = -1, .save = 3 };

    TTI_AUTOCAST(TTI_WIDE, &x);
    return tti_reduce_call(&r, x, NULL, 0);
}

tt_tensor *tt_prod_dim(tt_tensor *x, int dim, bool keep_dim)
{
    const tti_reduction r = {
        .op = &op_prod, .kernel = TTI_PROD, .dtype = -1, .save = 3, .keep_dims = keep_dim
    };

    TTI_AUTOCAST(TTI_WIDE, &x);
    return tti_reduce_call(&r, x, &dim, 1);
}
