/* SPDX-License-Identifier: Apache-2.0 */
/* Sums with sparse tensors. Two sparse ones are put one after the other, their repeated coordinates
 * left to whoever coalesces; a dense one takes the entries up in their order. */
#include "base/error.h"
#include "ops/sparse.h"
#include "ops/view.h"

static tt_status both_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    for (int i = 0; i < 2; i++)
        if (tti_needs(n, i))
            grad_in[i] = grad_out[0];
    return TT_OK;
}

static const tti_op op_add_sparse_ = { "add_", both_backward, TTI_OP_SPARSE };

static tt_status check_same(const tt_tensor *a, const tt_tensor *b)
{
    if (!tti_same_shape(a, b))
        return TT_FAIL(TT_ERR_INVALID,
                       "add: expected equal shapes with a sparse operand, got %s and %s",
                       TTI_SHAPE_OF(a), TTI_SHAPE_OF(b));
    if (a->sparse != NULL && b->sparse != NULL && a->sparse->sparse_dims != b->sparse->sparse_dims)
        return TT_FAIL(TT_ERR_INVALID,
                       "add: expected equal numbers of sparse dimensions, got %d and %d",
                       a->sparse->sparse_dims, b->sparse->sparse_dims);
    return TT_OK;
}

static tt_tensor *joined(tt_tensor *a, tt_tensor *b)
{
    tt_tensor *indices[] = { tt_sparse_indices(a), tt_sparse_indices(b) };
    tt_tensor *values[] = { tt_sparse_values(a), tt_sparse_values(b) };
    tt_tensor *i, *v;

    if (indices[0] == NULL || indices[1] == NULL || values[0] == NULL || values[1] == NULL)
        return NULL;
    i = tt_cat(indices, 2, 1);
    v = i != NULL ? tt_cat(values, 2, 0) : NULL;
    return v != NULL ? tt_sparse_coo_unchecked(i, v, tt_tensor_shape(a), false) : NULL;
}

tt_tensor *tti_sparse_add(tt_tensor *a, tt_tensor *b)
{
    tt_tensor *dense = a != NULL && a->sparse == NULL ? a : b;
    tt_tensor *sparse = dense == a ? b : a;

    if (a == NULL || b == NULL)
        return TT_NULL_GIVEN("add", "two tensors");
    if (check_same(a, b) != TT_OK)
        return NULL;
    if (dense->sparse != NULL)
        return joined(a, b);
    dense = tt_to_dtype(dense, tt_promote_types((tt_dtype)a->dtype, (tt_dtype)b->dtype));
    return tt_add(dense, tt_to_dense(sparse));
}

/* ---- in place ---------------------------------------------------------------------------- */

static tt_status into_dense(tt_tensor *a, const tt_tensor *b)
{
    int64_t strides[TT_MAX_DIMS];
    tt_shape s = { .n_dims = b->n_dims - b->sparse->sparse_dims + 1, .dims = { 1 } };
    tt_tensor *target = tti_contiguous(a), *rows;

    if (target == NULL)
        return tt_last_status();
    for (int i = 0; i < b->n_dims; i++) {
        if (i < b->sparse->sparse_dims)
            s.dims[0] *= b->dims[i];
        else
            s.dims[i - b->sparse->sparse_dims + 1] = b->dims[i];
    }
    tti_strides_contiguous(s.dims, s.n_dims, strides);
    rows = tti_view_raw(target, s.dims, strides, s.n_dims, target->offset);
    TT_TRY(tti_index_put(rows, 0, tti_sparse_keys(b),
                         tti_contiguous(tti_cast(b->sparse->values, (tt_dtype)a->dtype)), true));
    return target != a ? tti_copy(a, target) : TT_OK;
}

static tt_status into_sparse(tt_tensor *a, tt_tensor *b)
{
    tt_tensor *sum = NULL;

    TT_NO_GRAD
    {
        sum = joined(a, tt_to_dtype(b, (tt_dtype)a->dtype));
    }
    if (sum == NULL)
        return tt_last_status();
    return tti_made(tti_sparse_set_(a, sum->sparse->indices, sum->sparse->values, false));
}

tt_tensor *tti_sparse_add_(tt_tensor *a, tt_tensor *b)
{
    tt_tensor *in[] = { a, b };
    tti_call c = { .op = &op_add_sparse_, .in = in, .n_in = 2 };
    tt_dtype sum;

    if (!tti_call_begin_inplace(&c) || check_same(a, b) != TT_OK)
        return NULL;
    if (b->sparse == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "add_: a dense tensor cannot be added to a sparse one in place");
    sum = tt_promote_types((tt_dtype)a->dtype, (tt_dtype)b->dtype);
    if (tt_dtype_is_complex(sum) != tt_dtype_is_complex((tt_dtype)a->dtype) ||
        tt_dtype_is_floating(sum) != tt_dtype_is_floating((tt_dtype)a->dtype))
        return TT_FAIL_NULL(TT_ERR_INVALID, "add_: %s cannot be added to %s in place",
                            tt_dtype_name((tt_dtype)b->dtype), tt_dtype_name((tt_dtype)a->dtype));
    return tti_call_end_inplace(&c, a->sparse != NULL ? into_sparse(a, b) : into_dense(a, b));
}

tt_tensor *tti_sparse_set_(tt_tensor *t, tt_tensor *indices, tt_tensor *values, bool coalesced)
{
    tt_tensor *old_indices = t->sparse->indices, *old_values = t->sparse->values;

    t->sparse->indices = tt_tensor_retain(indices);
    t->sparse->values = tt_tensor_retain(values);
    tt_tensor_free(old_indices);
    tt_tensor_free(old_values);
    if (coalesced)
        t->flags |= TTI_COALESCED;
    else
        t->flags &= (uint16_t)~TTI_COALESCED;
    return t;
}

tt_tensor *tti_sparse_zero_(tt_tensor *t)
{
    tt_shape none = tt_tensor_shape(t->sparse->values);
    tt_tensor *indices, *values;

    none.dims[0] = 0;
    indices = tti_zeros_shape(TT_SHAPE(t->sparse->sparse_dims, 0), t->sparse->indices);
    values = tti_zeros_shape(none, t->sparse->values);
    if (indices == NULL || values == NULL)
        return NULL;
    tti_bump_version(t);
    return tti_sparse_set_(t, indices, values, true);
}
