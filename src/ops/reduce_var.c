/* SPDX-License-Identifier: Apache-2.0 */
/* Variance, standard deviation, and log-sum-exp. */
#include "ops/reduce.h"

/* 2 / (n - correction) * g * (x - mean) */
static tt_tensor *var_grad(tt_tensor *g, tt_tensor *x, const tti_reduce_attrs *a)
{
    double left = (double)tti_reduce_count(&a->shape, a->mask) - a->p;
    int dims[TT_MAX_DIMS], n = 0;
    tt_tensor *mean;

    for (int i = 0; i < a->shape.n_dims; i++)
        if ((a->mask >> i & 1) != 0)
            dims[n++] = i;
    mean = tt_mean_dims(x, dims, n, true);
    g = tt_mul_scalar(tti_reduce_keep(g, a), 2.0 / (left > 0 ? left : 0.0));
    return tt_mul(g, tt_sub(x, mean));
}

static tt_status var_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(grad_in, var_grad(grad_out[0], tti_saved_get(n, 0), tti_attrs(n)));
}

static tt_status std_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    tt_tensor *y = tti_saved_get(n, 1);
    tt_tensor *g = tt_div(grad_out[0], tt_mul_scalar(y, 2.0));

    g = tt_masked_fill(g, tt_eq_scalar(y, 0.0), 0.0);
    return tti_give(grad_in, var_grad(g, tti_saved_get(n, 0), tti_attrs(n)));
}

static tt_status logsumexp_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_reduce_attrs *a = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 0), *y = tti_reduce_keep(tti_saved_get(n, 1), a);

    if (x == NULL || y == NULL)
        return tt_last_status();
    if (x->dtype == TT_F16 || x->dtype == TT_BF16) {
        x = tt_to_dtype(x, TT_F32);
        y = tt_to_dtype(y, TT_F32);
    }
    return tti_give(grad_in, tt_mul(tti_reduce_keep(grad_out[0], a), tt_exp(tt_sub(x, y))));
}

static const tti_op op_var = { .name = "var", .backward = var_backward };
static const tti_op op_std = { .name = "std", .backward = std_backward };
static const tti_op op_logsumexp = { .name = "logsumexp", .backward = logsumexp_backward };

/* Of complex numbers: that of the real parts plus that of the imaginary parts. */
static tt_tensor *complex_var(tt_tensor *x, const int *dims, int n_dims, double correction,
                              bool keep_dims)
{
    return tt_add(tt_var_dims(tt_real(x), dims, n_dims, correction, keep_dims),
                  tt_var_dims(tt_imag(x), dims, n_dims, correction, keep_dims));
}

tt_tensor *tt_var_dims(tt_tensor *x, const int *dims, int n_dims, double correction, bool keep_dims)
{
    const tti_reduction r = { .op = &op_var,
                              .kernel = TTI_VAR,
                              .dtype = -1,
                              .save = 1,
                              .p = correction,
                              .keep_dims = keep_dims };

    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return complex_var(x, dims, n_dims, correction, keep_dims);
    if (x != NULL && tti_check_floating("var", x, false) != TT_OK)
        return NULL;
    return tti_reduce_call(&r, x, dims, n_dims);
}

tt_tensor *tt_std_dims(tt_tensor *x, const int *dims, int n_dims, double correction, bool keep_dims)
{
    tti_reduce_attrs a = { .p = correction };
    tti_call c = { .op = &op_std, .n_in = 1, .in = &x, .attrs = &a, .attrs_bytes = sizeof a };
    tt_tensor *out;
    tt_status st;

    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return tt_sqrt(complex_var(x, dims, n_dims, correction, keep_dims));
    if (!tti_call_begin(&c) || tti_check_floating("std", x, false) != TT_OK ||
        tti_reduce_dims("std", x, dims, n_dims, &a.mask) != TT_OK)
        return NULL;
    a.shape = tt_tensor_shape(x);
    out = tti_reduce_empty(x, a.mask, (tt_dtype)x->dtype);
    st = tti_reduce_kernel(TTI_VAR, out, x, &a, keep_dims);
    if (st == TT_OK)
        st = tti_unary(TTI_SQRT, out, out, NULL);
    tti_call_save(&c, x);
    tti_call_save(&c, out);
    return tti_call_end(&c, out, st);
}

/* The largest real part along dim, which makes no sum of exponentials overflow; 0 where it is infinite. A
 * constant as far as gradients are concerned. */
static tt_tensor *largest_real(tt_tensor *x, int dim)
{
    tt_tensor *most = NULL;

    TT_NO_GRAD
    {
        most = tt_amax(tt_real(x), &dim, 1, true);
        most = tt_masked_fill(most, tt_isinf(most), 0.0);
    }
    return most;
}

static tt_tensor *complex_logsumexp(tt_tensor *x, int dim, bool keep_dim)
{
    tt_tensor *most, *y;

    if (x->numel == 0)
        return tt_log(tt_sum_dim(tt_exp(x), dim, keep_dim));
    most = largest_real(x, dim);
    y = tt_add(tt_log(tt_sum_dim(tt_exp(tt_sub(x, most)), dim, true)), most);
    return keep_dim || x->n_dims == 0 ? y : tt_squeeze_dim(y, dim);
}

tt_tensor *tt_logsumexp(tt_tensor *x, int dim, bool keep_dim)
{
    const tti_reduction r = {
        .op = &op_logsumexp, .kernel = TTI_LOGSUMEXP, .dtype = -1, .save = 3, .keep_dims = keep_dim
    };

    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return complex_logsumexp(x, dim, keep_dim);
    if (x != NULL && tti_check_floating("logsumexp", x, false) != TT_OK)
        return NULL;
    return tti_reduce_call(&r, x, &dim, 1);
}
