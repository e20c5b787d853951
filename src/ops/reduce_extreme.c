/* SPDX-License-Identifier: Apache-2.0 */
/* Largest and smallest elements, where they are, and whether all or any are true. Gradients of
 * values alone are shared by equal elements; with indices, the chosen element gets it. */
#include "ops/reduce.h"

static tt_status amax_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_reduce_attrs *a = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 0), *y = tti_reduce_keep(tti_saved_get(n, 1), a);
    tt_tensor *mask, *count;
    int dims[TT_MAX_DIMS], n_dims = 0;

    if (x == NULL || y == NULL)
        return tt_last_status();
    for (int i = 0; i < x->n_dims; i++)
        if ((a->mask >> i & 1) != 0)
            dims[n_dims++] = i;
    mask = tt_to_dtype(tt_eq(x, y), (tt_dtype)x->dtype);
    count = tt_sum_dims(mask, dims, n_dims, true);
    return tti_give(grad_in, tt_mul(tt_div(tti_reduce_keep(grad_out[0], a), count), mask));
}

static const tti_op op_amax = { .name = "amax", .backward = amax_backward };
static const tti_op op_amin = { .name = "amin", .backward = amax_backward };
static const tti_op op_max = { .name = "max", .backward = amax_backward };
static const tti_op op_min = { .name = "min", .backward = amax_backward };

/* Nothing has no largest element. */
static tt_status check_extreme(const char *name, const tt_tensor *x, const int *dims, int n_dims)
{
    uint32_t mask;
    tt_shape shape;

    if (x == NULL)
        return TT_OK; /* said later */
    if (tt_dtype_is_complex((tt_dtype)x->dtype))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a real tensor, got %s", name,
                       tt_dtype_name((tt_dtype)x->dtype));
    TT_TRY(tti_reduce_dims(name, x, dims, n_dims, &mask));
    shape = tt_tensor_shape(x);
    if (tti_reduce_count(&shape, mask) == 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected at least one element to choose from, got "
                       "shape %s",
                       name, TTI_SHAPE_OF(x));
    return TT_OK;
}

static tt_tensor *extreme(const tti_op *op, tti_reduce_op kernel, tt_tensor *x, const int *dims,
                          int n_dims, bool keep_dims)
{
    const tti_reduction r = {
        .op = op, .kernel = kernel, .dtype = -1, .save = 3, .keep_dims = keep_dims
    };

    if (check_extreme(op->name, x, dims, n_dims) != TT_OK)
        return NULL;
    return tti_reduce_call(&r, x, dims, n_dims);
}

tt_tensor *tt_amax(tt_tensor *x, const int *dims, int n_dims, bool keep_dims)
{
    return extreme(&op_amax, TTI_AMAX, x, dims, n_dims, keep_dims);
}

tt_tensor *tt_amin(tt_tensor *x, const int *dims, int n_dims, bool keep_dims)
{
    return extreme(&op_amin, TTI_AMIN, x, dims, n_dims, keep_dims);
}

tt_tensor *tt_max(tt_tensor *x)
{
    return extreme(&op_max, TTI_AMAX, x, NULL, 0, false);
}

tt_tensor *tt_min(tt_tensor *x)
{
    return extreme(&op_min, TTI_AMIN, x, NULL, 0, false);
}

/* ---- with indices ------------------------------------------------------------------------ */

static tt_status max_dim_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_reduce_attrs *a = tti_attrs(n);
    tt_tensor *indices = tti_reduce_keep(tti_saved_get(n, 0), a);
    tt_tensor *g = tti_reduce_keep(grad_out[0], a);

    if (g == NULL || indices == NULL)
        return tt_last_status();
    if (a->shape.n_dims == 0)
        return tti_give(grad_in, g);
    return tti_give(grad_in, tt_scatter(tt_zeros(a->shape, (tt_dtype)g->dtype, g->device),
                                        __builtin_ctz(a->mask), indices, g));
}

static const tti_op op_max_dim = { .name = "max", .backward = max_dim_backward };
static const tti_op op_min_dim = { .name = "min", .backward = max_dim_backward };
static const tti_op op_argmax = { .name = "argmax" };
static const tti_op op_argmin = { .name = "argmin" };

typedef struct arg_result {
    tt_tensor *values, *indices;
} arg_result;

/* `dim` NULL: over the elements in row-major order. Values are made when wanted. */
static tt_status arg_reduce(const tti_op *op, bool largest, tt_tensor *x, const int *dim,
                            bool keep_dim, bool with_values, arg_result *r)
{
    tti_reduce_attrs a = { 0 };
    tti_call c = { .op = op, .n_in = 1, .in = &x, .attrs = &a, .attrs_bytes = sizeof a };
    int n_dims = dim != NULL ? 1 : 0;
    tt_status st;

    if (!tti_call_begin(&c) || check_extreme(op->name, x, dim, n_dims) != TT_OK)
        return tt_last_status();
    TT_TRY(tti_reduce_dims(op->name, x, dim, n_dims, &a.mask));
    a.shape = tt_tensor_shape(x);
    if (n_dims == 0 && (x = tti_contiguous(x)) == NULL)
        return tt_last_status();
    r->indices = tti_reduce_empty(x, a.mask, TT_I64);
    r->values = with_values ? tti_reduce_empty(x, a.mask, (tt_dtype)x->dtype) : NULL;
    if (r->indices == NULL || (with_values && r->values == NULL))
        return tt_last_status();
    st = TTI_RUN(op->name, x, reduce, arg_reduce, largest, r->values, r->indices, x,
                 n_dims == 0 || x->n_dims == 0 ? -1 : __builtin_ctz(a.mask));
    if (!keep_dim) {
        tti_reduce_squeeze(r->indices, a.mask);
        if (with_values)
            tti_reduce_squeeze(r->values, a.mask);
    }
    tti_call_save(&c, r->indices);
    return tti_call_end_many(&c, with_values ? &r->values : &r->indices, 1, st);
}

static tt_tensor *with_indices(const tti_op *op, bool largest, tt_tensor *x, int dim, bool keep_dim,
                               tt_tensor **indices_p)
{
    arg_result r = { NULL, NULL };

    if (indices_p != NULL)
        *indices_p = NULL;
    if (arg_reduce(op, largest, x, &dim, keep_dim, true, &r) != TT_OK)
        return NULL;
    if (indices_p != NULL)
        *indices_p = r.indices;
    return r.values;
}

tt_tensor *tt_max_dim(tt_tensor *x, int dim, bool keep_dim, tt_tensor **indices_p)
{
    return with_indices(&op_max_dim, true, x, dim, keep_dim, indices_p);
}

tt_tensor *tt_min_dim(tt_tensor *x, int dim, bool keep_dim, tt_tensor **indices_p)
{
    return with_indices(&op_min_dim, false, x, dim, keep_dim, indices_p);
}

static tt_tensor *only_indices(const tti_op *op, bool largest, tt_tensor *x, const int *dim,
                               bool keep_dim)
{
    arg_result r = { NULL, NULL };

    if (x != NULL && x->dtype == TT_BOOL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected numbers, got bool", op->name);
    return arg_reduce(op, largest, x, dim, keep_dim, false, &r) == TT_OK ? r.indices : NULL;
}

tt_tensor *tt_argmax(tt_tensor *x)
{
    return only_indices(&op_argmax, true, x, NULL, false);
}

tt_tensor *tt_argmin(tt_tensor *x)
{
    return only_indices(&op_argmin, false, x, NULL, false);
}

tt_tensor *tt_argmax_dim(tt_tensor *x, int dim, bool keep_dim)
{
    return only_indices(&op_argmax, true, x, &dim, keep_dim);
}

tt_tensor *tt_argmin_dim(tt_tensor *x, int dim, bool keep_dim)
{
    return only_indices(&op_argmin, false, x, &dim, keep_dim);
}

/* ---- truth ------------------------------------------------------------------------------- */

static const tti_op op_all = { .name = "all" };
static const tti_op op_any = { .name = "any" };

static tt_tensor *truth(const tti_op *op, tti_reduce_op kernel, tt_tensor *x, const int *dim,
                        bool keep_dim)
{
    bool bytes = x != NULL && x->dtype == TT_U8; /* these stay bytes, as in PyTorch */
    const tti_reduction r = {
        .op = op, .kernel = kernel, .dtype = bytes ? TT_U8 : TT_BOOL, .keep_dims = keep_dim
    };

    return tti_reduce_call(&r, x, dim, dim != NULL ? 1 : 0);
}

tt_tensor *tt_all(tt_tensor *x)
{
    return truth(&op_all, TTI_ALL, x, NULL, false);
}

tt_tensor *tt_any(tt_tensor *x)
{
    return truth(&op_any, TTI_ANY, x, NULL, false);
}

tt_tensor *tt_all_dim(tt_tensor *x, int dim, bool keep_dim)
{
    return truth(&op_all, TTI_ALL, x, &dim, keep_dim);
}

tt_tensor *tt_any_dim(tt_tensor *x, int dim, bool keep_dim)
{
    return truth(&op_any, TTI_ANY, x, &dim, keep_dim);
}
