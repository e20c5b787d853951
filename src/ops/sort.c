/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting and the k largest. Stable; NaN counts as larger than everything. */
#include "ops/op.h"

typedef struct sort_attrs {
    tt_shape shape; /* of the operand */
    int dim;
} sort_attrs;

static tt_status sort_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const sort_attrs *a = tti_attrs(n);
    tt_tensor *g = grad_out[0], *indices = tti_saved_get(n, 0);

    if (indices == NULL)
        return tt_last_status();
    if (a->shape.n_dims == 0)
        return tti_give(grad_in, g);
    return tti_give(
        grad_in, tt_scatter(tt_zeros(a->shape, (tt_dtype)g->dtype, g->device), a->dim, indices, g));
}

static const tti_op op_sort = { .name = "sort", .backward = sort_backward };
static const tti_op op_topk = { .name = "topk", .backward = sort_backward };
static const tti_op op_argsort = { .name = "argsort" };

static tt_status check_order(const char *name, const tt_tensor *x, int *dim)
{
    if (tt_dtype_is_complex((tt_dtype)x->dtype))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a real tensor, got %s", name,
                       tt_dtype_name((tt_dtype)x->dtype));
    return tti_wrap_dim(name, dim, x->n_dims);
}

static tt_tensor *sort(const tti_op *op, tt_tensor *x, int dim, bool descending,
                       tt_tensor **indices_p)
{
    sort_attrs a;
    tti_call c = { .op = op, .n_in = 1, .in = &x, .attrs = &a, .attrs_bytes = sizeof a };
    tt_tensor *values, *indices;
    tt_status st;

    if (!tti_call_begin(&c) || check_order(op->name, x, &dim) != TT_OK)
        return NULL;
    a = (sort_attrs){ tt_tensor_shape(x), dim };
    values = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    indices = tti_empty(x->dims, x->n_dims, TT_I64, x->device);
    if (values == NULL || indices == NULL)
        return NULL;
    st = TTI_RUN(op->name, x, reduce, sort, values, indices, x, dim, descending);
    tti_call_save(&c, indices);
    *indices_p = indices;
    return tti_call_end(&c, values, st);
}

tt_tensor *tt_sort(tt_tensor *x, int dim, bool descending, tt_tensor **indices_p)
{
    tt_tensor *indices = NULL;
    tt_tensor *values = sort(&op_sort, x, dim, descending, &indices);

    if (indices_p != NULL)
        *indices_p = values != NULL ? indices : NULL;
    return values;
}

tt_tensor *tt_argsort(tt_tensor *x, int dim, bool descending)
{
    tt_tensor *indices = NULL;

    return sort(&op_argsort, x, dim, descending, &indices) != NULL ? indices : NULL;
}

static tt_tensor *topk(tt_tensor *x, int64_t k, int dim, bool largest, tt_tensor **indices_p)
{
    sort_attrs a;
    tti_call c = { .op = &op_topk, .n_in = 1, .in = &x, .attrs = &a, .attrs_bytes = sizeof a };
    tt_tensor *values;
    tt_shape shape;
    int64_t n;
    tt_status st;

    if (!tti_call_begin(&c) || check_order("topk", x, &dim) != TT_OK)
        return NULL;
    a = (sort_attrs){ tt_tensor_shape(x), dim };
    shape = a.shape;
    n = x->n_dims > 0 ? x->dims[dim] : 1;
    if (k < 0 || k > n)
        return TT_FAIL_NULL(TT_ERR_INVALID, "topk: expected k from 0 to %lld, got %lld",
                            (long long)n, (long long)k);
    if (x->n_dims > 0)
        shape.dims[dim] = k;
    values = tti_empty(shape.dims, shape.n_dims, (tt_dtype)x->dtype, x->device);
    *indices_p = tti_empty(shape.dims, shape.n_dims, TT_I64, x->device);
    if (values == NULL || *indices_p == NULL)
        return NULL;
    st = TTI_RUN("topk", x, reduce, topk, values, *indices_p, x, dim, k, largest);
    tti_call_save(&c, *indices_p);
    return tti_call_end(&c, values, st);
}

tt_tensor *tt_topk(tt_tensor *x, int64_t k, int dim, bool largest, tt_tensor **indices_p)
{
    tt_tensor *indices = NULL;
    tt_tensor *values = topk(x, k, dim, largest, &indices);

    if (indices_p != NULL)
        *indices_p = values != NULL ? indices : NULL;
    return values;
}
