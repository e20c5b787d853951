/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and means. */
#include "ops/reduce.h"
#include "ops/sparse.h"

static tt_status sum_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(grad_in, tti_reduce_expand(grad_out[0], tti_attrs(n)));
}

static tt_status mean_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_reduce_attrs *a = tti_attrs(n);
    double count = (double)tti_reduce_count(&a->shape, a->mask);

    return tti_give(grad_in, tti_reduce_expand(tt_div_scalar(grad_out[0], count), a));
}

static const tti_op op_sum = { .name = "sum", .backward = sum_backward };
static const tti_op op_mean = { .name = "mean", .backward = mean_backward };

tt_tensor *tt_sum_dims(tt_tensor *x, const int *dims, int n_dims, bool keep_dims)
{
    const tti_reduction r = {
        .op = &op_sum, .kernel = TTI_SUM, .dtype = -1, .keep_dims = keep_dims
    };

    return tti_reduce_call(&r, x, dims, n_dims);
}

tt_tensor *tt_mean_dims(tt_tensor *x, const int *dims, int n_dims, bool keep_dims)
{
    const tti_reduction r = {
        .op = &op_mean, .kernel = TTI_MEAN, .dtype = -1, .keep_dims = keep_dims
    };

    if (x != NULL && tti_check_floating("mean", x, true) != TT_OK)
        return NULL;
    return tti_reduce_call(&r, x, dims, n_dims);
}

tt_tensor *tt_sum(tt_tensor *x)
{
    if (tt_unlikely(tti_is_sparse(x)))
        x = tt_sparse_values(x);
    return tt_sum_dims(x, NULL, 0, false);
}

tt_tensor *tt_mean(tt_tensor *x)
{
    return tt_mean_dims(x, NULL, 0, false);
}

tt_tensor *tt_sum_dim(tt_tensor *x, int dim, bool keep_dim)
{
    return tt_sum_dims(x, &dim, 1, keep_dim);
}

tt_tensor *tt_mean_dim(tt_tensor *x, int dim, bool keep_dim)
{
    return tt_mean_dims(x, &dim, 1, keep_dim);
}
