/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by index. The gradient is a dense sum by index, whose own gradient is a lookup
 * again; or sparse: the indices, and the gradient's rows as they are. */
#include "base/error.h"
#include "ops/embedding.h"

#include "tutti/sparse.h"

typedef struct embedding_attrs {
    int64_t rows;
    int64_t padding; /* -1: none */
    bool sparse;
} embedding_attrs;

tt_status tti_embedding_padding(const char *name, int64_t rows, bool has, int64_t *padding)
{
    int64_t p = *padding;

    if (!has) {
        *padding = -1;
        return TT_OK;
    }
    if (p < -rows || p >= rows)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected padding_idx within %lld rows, got %lld", name,
                       (long long)rows, (long long)p);
    *padding = p < 0 ? p + rows : p;
    return TT_OK;
}

tt_status tti_embedding_table(const char *name, const tt_tensor *weight)
{
    TT_TRY(tti_check_floating(name, weight, false));
    if (weight->n_dims != 2)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a 2-D weight, got %s", name,
                       TTI_SHAPE_OF(weight));
    return TT_OK;
}

tt_tensor *tti_flat_index(const char *name, tt_tensor *index)
{
    int64_t one = 1;

    if (tti_check_index(name, index) != TT_OK)
        return NULL;
    index = tti_contiguous(tti_cast(index, TT_I64));
    return index != NULL ? tti_view_raw(index, &index->numel, &one, 1, index->offset) : NULL;
}

tt_tensor *tti_sparse_rows(tt_tensor *index, tt_tensor *rows, int64_t n_rows, int64_t padding)
{
    tt_shape shape = { .n_dims = 2, .dims = { n_rows } };

    if (padding >= 0) {
        tt_tensor *keep = tt_ne_scalar(index, (double)padding);
        tt_tensor *at = tt_flatten(tt_nonzero(keep), 0, -1);

        index = tt_index_select(index, 0, at);
        rows = tt_index_select(rows, 0, at);
    } else {
        index = tt_clone(index); /* the caller may change its own later */
    }
    if (rows == NULL)
        return NULL;
    shape.dims[1] = rows->dims[1];
    return tt_sparse_coo_unchecked(tt_reshape(index, TT_SHAPE(1, -1)), rows, shape, false);
}

static tt_status embedding_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in);
static const tti_op op_embedding = { "embedding", embedding_backward, 0 };

static tt_status look_up(tt_tensor *out, tt_tensor *weight, tt_tensor *flat)
{
    int64_t dims[2], strides[2] = { weight != NULL ? weight->dims[1] : 0, 1 };
    tt_tensor *rows;

    TT_TRY(tti_made(weight));
    TT_TRY(tti_made(flat));
    TT_TRY(tti_made(out));
    dims[0] = flat->numel;
    dims[1] = weight->dims[1];
    TT_TRY(tti_give(&rows, tti_view_raw(out, dims, strides, 2, out->offset)));
    return TTI_RUN("embedding", weight, nn, embedding, rows, weight, flat);
}

static tt_tensor *embedding_with(tt_tensor *weight, tt_tensor *index, const embedding_attrs *a)
{
    tt_tensor *in[2] = { weight, index };
    tti_call c = { .op = &op_embedding, .n_in = 2, .in = in, .attrs = a, .attrs_bytes = sizeof *a };
    int64_t dims[TT_MAX_DIMS];
    tt_tensor *out, *flat;

    if (!tti_call_begin(&c))
        return NULL;
    if (index->n_dims >= TT_MAX_DIMS)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "embedding: expected an index of less than %d "
                            "dimensions, got %s",
                            TT_MAX_DIMS, TTI_SHAPE_OF(index));
    for (int i = 0; i < index->n_dims; i++)
        dims[i] = index->dims[i];
    dims[index->n_dims] = weight->dims[1];
    flat = tti_flat_index("embedding", index);
    out = tti_empty(dims, index->n_dims + 1, (tt_dtype)weight->dtype, weight->device);
    tti_call_save(&c, flat);
    tti_call_save(&c, index);
    return tti_call_end(&c, out, look_up(out, tti_contiguous(weight), flat));
}

/* ---- the dense gradient, an operator too ----------------------------------------------------------- */

/* The gradient of a sum by index is a lookup, without the padding. */
static tt_status dense_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const embedding_attrs *a = tti_attrs(n);
    tt_tensor *index = tti_saved_get(n, 1);
    tt_tensor *g = embedding_with(grad_out[0], index, a);

    if (a->padding >= 0)
        g = tt_masked_fill(g, tt_unsqueeze(tt_eq_scalar(index, (double)a->padding), -1), 0.0);
    return tti_give(&grad_in[0], g);
}

static const tti_op op_dense = { "embedding_grad", dense_backward, 0 };

static tt_status sum_rows(tt_tensor *dw, tt_tensor *dy, tt_tensor *flat, const embedding_attrs *a)
{
    TT_TRY(tti_made(dw));
    TT_TRY(tti_made(dy));
    TT_TRY(tti_made(flat));
    return TTI_RUN("embedding_grad", dy, nn, embedding_grad, dw, dy, flat, a->padding);
}

/* As the gradient of input 0 of n. */
static tt_tensor *dense_grad(const tti_node *n, tt_tensor *dy, tt_tensor *flat, tt_tensor *index,
                             const embedding_attrs *a)
{
    tti_call c = { .op = &op_dense, .n_in = 1, .in = &dy, .attrs = a, .attrs_bytes = sizeof *a };
    tt_dtype real = dy->dtype == TT_F64 ? TT_F64 : TT_F32;
    int64_t dims[2] = { a->rows, dy->dims[dy->n_dims - 1] };
    tt_tensor *dw;
    tt_status st;

    if (!tti_call_begin(&c))
        return NULL;
    dw = tti_grad_new(n, 0, dims, 2, real, dy->device);
    tti_call_save(&c, flat);
    tti_call_save(&c, index);
    st = sum_rows(dw, tti_contiguous(tti_cast(dy, real)), flat, a);
    return tti_call_end(&c, st == TT_OK ? tti_cast(dw, (tt_dtype)dy->dtype) : NULL, st);
}

static tt_status embedding_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const embedding_attrs *a = tti_attrs(n);
    tt_tensor *flat = tti_saved_get(n, 0), *index = tti_saved_get(n, 1);
    tt_tensor *dy = grad_out[0], *rows;

    TT_TRY(tti_made(flat));
    TT_TRY(tti_made(index));
    if (!a->sparse)
        return tti_give(&grad_in[0], dense_grad(n, dy, flat, index, a));
    rows = tt_reshape(dy, TT_SHAPE(flat->numel, dy->dims[dy->n_dims - 1]));
    return tti_give(&grad_in[0], tti_sparse_rows(flat, rows, a->rows, a->padding));
}

tt_tensor *tt_embedding(tt_tensor *weight, tt_tensor *index, const tt_embedding_options *opt)
{
    embedding_attrs a = { 0 };

    if (weight == NULL || index == NULL)
        return TT_NULL_GIVEN("embedding", "a weight and an index");
    if (tti_embedding_table("embedding", weight) != TT_OK)
        return NULL;
    a.rows = weight->dims[0];
    a.padding = opt != NULL ? opt->padding_idx : 0;
    a.sparse = opt != NULL && opt->sparse_grad;
    if (tti_embedding_padding("embedding", a.rows, opt != NULL && opt->has_padding_idx,
                              &a.padding) != TT_OK)
        return NULL;
    return embedding_with(weight, index, &a);
}
