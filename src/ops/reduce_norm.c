/* SPDX-License-Identifier: Apache-2.0 */
/* Vector norms: (sum |x|^p)^(1/p), the largest |x| for INFINITY, the number of non-zeros for 0. */
#include <math.h>

#include "ops/reduce.h"
#include "ops/sparse.h"

/* x / |x|, 0 where x is 0. */
static tt_tensor *direction(tt_tensor *x)
{
    if (x == NULL || !tt_dtype_is_complex((tt_dtype)x->dtype))
        return tt_sign(x);
    return tt_masked_fill(tt_div(x, tt_abs(x)), tt_eq_scalar(tt_abs(x), 0.0), 0.0);
}

/* Equal extremes share the gradient. */
static tt_tensor *extreme_grad(tt_tensor *g, tt_tensor *x, tt_tensor *y, const tti_reduce_attrs *a)
{
    int dims[TT_MAX_DIMS], n = 0;
    tt_tensor *mask, *count;

    if (x == NULL || y == NULL)
        return NULL;
    for (int i = 0; i < a->shape.n_dims; i++)
        if ((a->mask >> i & 1) != 0)
            dims[n++] = i;
    mask = tt_to_dtype(tt_eq(tt_abs(x), y), (tt_dtype)y->dtype);
    count = tt_sum_dims(mask, dims, n, true);
    return tt_mul(direction(x), tt_mul(tt_div(g, count), mask));
}

static tt_status norm_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_reduce_attrs *a = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 0), *y = tti_reduce_keep(tti_saved_get(n, 1), a);
    tt_tensor *g = tti_reduce_keep(grad_out[0], a);
    tt_tensor *scale, *part;
    double p = a->p;

    if (x == NULL || y == NULL || g == NULL)
        return tt_last_status();
    if (p == 0.0)
        return tti_give(grad_in, tt_zeros_like(x));
    if (p == 1.0)
        return tti_give(grad_in, tt_mul(direction(x), g));
    if (isinf(p))
        return tti_give(grad_in, extreme_grad(g, x, y, a));
    if (p == 2.0) {
        scale = tt_masked_fill(tt_div(g, y), tt_eq_scalar(y, 0.0), 0.0);
        return tti_give(grad_in, tt_mul(x, scale));
    }
    part = tt_mul(direction(x), tt_pow_scalar(tt_abs(x), p - 1.0));
    if (p < 1.0)
        part = tt_masked_fill(part, tt_eq_scalar(tt_abs(x), 0.0), 0.0);
    scale = tt_div(g, tt_pow_scalar(y, p - 1.0));
    scale = tt_masked_fill(scale, tt_eq_scalar(y, 0.0), 0.0);
    return tti_give(grad_in, tt_mul(part, scale));
}

static const tti_op op_norm = { .name = "norm", .backward = norm_backward };

static tti_reduce_op kernel_of(double p)
{
    if (isinf(p))
        return p > 0 ? TTI_NORM_INF : TTI_NORM_NEG_INF;
    if (p == 0.0)
        return TTI_NORM0;
    if (p == 1.0)
        return TTI_NORM1;
    return p == 2.0 ? TTI_NORM2 : TTI_NORMP;
}

static tt_dtype real_of(tt_dtype d)
{
    if (d == TT_C64)
        return TT_F32;
    return d == TT_C128 ? TT_F64 : d;
}

tt_tensor *tt_norm_dims(tt_tensor *x, double p, const int *dims, int n_dims, bool keep_dims)
{
    tti_reduction r = {
        .op = &op_norm, .kernel = kernel_of(p), .save = 3, .p = p, .keep_dims = keep_dims
    };
    uint32_t mask;
    tt_shape shape;

    TTI_AUTOCAST(TTI_WIDE, &x);
    if (x != NULL) {
        if (tti_check_floating("norm", x, true) != TT_OK ||
            tti_reduce_dims("norm", x, dims, n_dims, &mask) != TT_OK)
            return NULL;
        r.dtype = (int)real_of((tt_dtype)x->dtype);
        shape = tt_tensor_shape(x);
        if ((isinf(p) || p < 0) && tti_reduce_count(&shape, mask) == 0)
            return TT_FAIL_NULL(TT_ERR_INVALID,
                                "norm: expected at least one element for p %g, got shape %s", p,
                                TTI_SHAPE_OF(x));
    }
    return tti_reduce_call(&r, x, dims, n_dims);
}

tt_tensor *tt_norm(tt_tensor *x, double p)
{
    if (tt_unlikely(tti_is_sparse(x)))
        x = tt_sparse_values(tt_sparse_coalesce(x));
    return tt_norm_dims(x, p, NULL, 0, false);
}
