/* SPDX-License-Identifier: Apache-2.0 */
/* Consecutive pieces of a dimension, as views: split, chunk. The gradient joins the pieces' own. */
#include "ops/view.h"

#define MAX_RESULTS 8 /* of one node; more pieces are recorded one by one */

typedef struct split_attrs {
    int dim;
    int n;
    tt_shape in;
    int64_t sizes[MAX_RESULTS];
} split_attrs;

static tt_status split_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const split_attrs *a = tti_attrs(n);
    tt_tensor *pieces[MAX_RESULTS];
    const tt_tensor *some = NULL;
    tt_shape shape = a->in;

    for (int i = 0; i < a->n; i++)
        some = grad_out[i] != NULL ? grad_out[i] : some;
    for (int i = 0; i < a->n; i++) {
        shape.dims[a->dim] = a->sizes[i];
        pieces[i] = grad_out[i] != NULL ? grad_out[i] : tti_zeros_shape(shape, some);
    }
    return tti_give(&grad_in[0], tt_cat(pieces, a->n, a->dim));
}

static const tti_op op_split = { "split", split_backward, 0 };

static tt_status check_sizes(const tt_tensor *x, const int64_t *sizes, int n, int dim)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum))
            return TT_FAIL(TT_ERR_INVALID, "split: piece %d has size %lld", i, (long long)sizes[i]);
    if (n < 1 || sum != x->dims[dim])
        return TT_FAIL(TT_ERR_INVALID,
                       "split: expected %d sizes that add up to %lld, dimension %d of shape %s, "
                       "got %lld",
                       n, (long long)x->dims[dim], dim, TTI_SHAPE_OF(x), (long long)sum);
    return TT_OK;
}

static tt_status split_into(tti_call *c, const split_attrs *a, tt_tensor **out)
{
    tt_tensor *x = c->in[0];
    tt_tensor *base = x->base != NULL ? x->base : x;
    int64_t dims[TT_MAX_DIMS], at = 0;
    tt_status st = TT_OK;

    for (int i = 0; i < x->n_dims; i++)
        dims[i] = x->dims[i];
    for (int i = 0; i < a->n && st == TT_OK; i++) {
        dims[a->dim] = a->sizes[i];
        out[i] = tti_view_raw(x, dims, x->strides, x->n_dims, x->offset + at * x->strides[a->dim]);
        at += a->sizes[i];
        st = tti_made(out[i]);
        if (st == TT_OK && c->wants_grad)
            out[i]->base = tt_tensor_retain(base);
    }
    c->attrs = a;
    c->attrs_bytes = sizeof *a;
    return tti_call_end_many(c, out, a->n, st);
}

tt_status tt_split_sizes(tt_tensor *x, const int64_t *sizes, int n, int dim, tt_tensor **out)
{
    tti_call c = { .op = &op_split, .in = &x, .n_in = 1 };
    split_attrs a = { .n = n };
    int64_t at = 0;

    if (!tti_call_begin(&c))
        return tt_last_status();
    TT_TRY(tti_wrap_dim("split", &dim, x->n_dims));
    if (x->n_dims == 0)
        return TT_FAIL(TT_ERR_INVALID, "split: a tensor without dimensions cannot be split");
    TT_TRY(check_sizes(x, sizes, n, dim));
    if (n <= MAX_RESULTS) {
        a.dim = dim;
        a.in = tt_tensor_shape(x);
        for (int i = 0; i < n; i++)
            a.sizes[i] = sizes[i];
        return split_into(&c, &a, out);
    }
    for (int i = 0; i < n; i++) {
        out[i] = tt_narrow(x, dim, at, sizes[i]);
        TT_TRY(tti_made(out[i]));
        at += sizes[i];
    }
    return TT_OK;
}

tt_status tt_split(tt_tensor *x, int64_t size, int dim, tt_tensor **out, int *n_p)
{
    int64_t *sizes, total, n;
    int64_t few[MAX_RESULTS];
    tt_status st;

    if (x == NULL)
        return tt_split_sizes(x, NULL, 0, dim, out);
    TT_TRY(tti_wrap_dim("split", &dim, x->n_dims));
    if (x->n_dims == 0)
        return TT_FAIL(TT_ERR_INVALID, "split: a tensor without dimensions cannot be split");
    total = x->dims[dim];
    if (size < 1 && !(size == 0 && total == 0))
        return TT_FAIL(TT_ERR_INVALID, "split: expected pieces of at least 1, got %lld",
                       (long long)size);
    n = total == 0 ? 1 : (total - 1) / size + 1;
    if (n_p == NULL || n > *n_p)
        return TT_FAIL(TT_ERR_INVALID, "split: there are %lld pieces, but room for %d",
                       (long long)n, n_p != NULL ? *n_p : 0);
    sizes = n <= MAX_RESULTS ? few : tti_malloc((size_t)n * sizeof *sizes);
    if (sizes == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        sizes[i] = i < n - 1 ? size : total - (n - 1) * size;
    st = tt_split_sizes(x, sizes, (int)n, dim, out);
    if (st == TT_OK)
        *n_p = (int)n;
    if (sizes != few)
        tti_mfree(sizes);
    return st;
}

tt_status tt_chunk(tt_tensor *x, int chunks, int dim, tt_tensor **out, int *n_p)
{
    int at = dim;

    if (x == NULL)
        return tt_split_sizes(x, NULL, 0, dim, out);
    TT_TRY(tti_wrap_dim("chunk", &at, x->n_dims));
    if (chunks < 1)
        return TT_FAIL(TT_ERR_INVALID, "chunk: expected at least 1 chunk, got %d", chunks);
    if (x->n_dims == 0)
        return TT_FAIL(TT_ERR_INVALID, "chunk: a tensor without dimensions cannot be split");
    return tt_split(x, (x->dims[at] + chunks - 1) / chunks, dim, out, n_p);
}
