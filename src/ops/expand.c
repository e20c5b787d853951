/* SPDX-License-Identifier: Apache-2.0 */
/* The same elements several times: expand (a view with stride 0) and repeat (a copy). */
#include "ops/view.h"

/* The engine sums a gradient over the dimensions that were stretched. */
static tt_status expand_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    (void)n;
    return tti_give(&grad_in[0], grad_out[0]);
}

static const tti_op op_expand = { "expand", expand_backward, 0 };

tt_tensor *tt_expand(tt_tensor *x, tt_shape shape)
{
    tti_call c = { .op = &op_expand, .in = &x, .n_in = 1 };
    int64_t strides[TT_MAX_DIMS];
    tt_shape want = shape;
    char text[TTI_SHAPE_TEXT];
    bool ok;

    if (!tti_call_begin(&c))
        return NULL;
    ok = shape.n_dims >= x->n_dims && shape.n_dims <= TT_MAX_DIMS;
    for (int i = 0; ok && i < shape.n_dims; i++) {
        int j = i - (shape.n_dims - x->n_dims);
        int64_t have = j >= 0 ? x->dims[j] : 1;

        if (want.dims[i] == -1 && j >= 0)
            want.dims[i] = have;
        ok = want.dims[i] >= 0 && (have == want.dims[i] || have == 1);
        strides[i] = j >= 0 && have == want.dims[i] ? x->strides[j] : 0;
    }
    if (!ok || tti_numel(want.dims, want.n_dims) < 0)
        return TT_FAIL_NULL(
            TT_ERR_INVALID, "expand: shape %s cannot be expanded to %s", TTI_SHAPE_OF(x),
            tti_shape_text(shape.dims,
                           shape.n_dims >= 0 && shape.n_dims <= TT_MAX_DIMS ? shape.n_dims : 0,
                           text, sizeof text));
    return tti_view_end(&c, tti_view_raw(x, want.dims, strides, want.n_dims, x->offset));
}

/* `times` copies one after another along dimension `dim` of a tensor of these sizes. */
static tt_tensor *repeat_dim(tt_tensor *x, tt_shape sizes, int dim, int64_t times)
{
    int64_t before = 1, after = 1;
    tt_shape result = sizes;

    for (int i = 0; i < dim; i++)
        before *= sizes.dims[i];
    for (int i = dim; i < sizes.n_dims; i++)
        after *= sizes.dims[i];
    if (__builtin_mul_overflow(sizes.dims[dim], times, &result.dims[dim]))
        return TT_FAIL_NULL(TT_ERR_INVALID, "repeat: %lld times %lld elements are too many",
                            (long long)times, (long long)sizes.dims[dim]);
    x = tt_expand(tt_reshape(x, TT_SHAPE(before, 1, after)), TT_SHAPE(before, times, after));
    return tt_reshape(x, result);
}

tt_tensor *tt_repeat(tt_tensor *x, const int64_t *repeats, int n_repeats)
{
    tt_shape s = { .n_dims = n_repeats };
    tt_tensor *y = x;

    if (x == NULL)
        return tt_expand(x, s);
    if (n_repeats < x->n_dims || n_repeats > TT_MAX_DIMS || (repeats == NULL && n_repeats > 0))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "repeat: expected %d to %d numbers for a tensor of shape %s, got %d",
                            x->n_dims, TT_MAX_DIMS, TTI_SHAPE_OF(x), n_repeats);
    for (int i = 0; i < n_repeats; i++) {
        int j = i - (n_repeats - x->n_dims);

        if (repeats[i] < 0)
            return TT_FAIL_NULL(TT_ERR_INVALID, "repeat: expected no negative number, got %lld",
                                (long long)repeats[i]);
        s.dims[i] = j >= 0 ? x->dims[j] : 1;
    }
    y = tt_reshape(y, s);
    for (int i = n_repeats - 1; i >= 0 && y != NULL; i--)
        if (repeats[i] != 1)
            y = repeat_dim(y, tt_tensor_shape(y), i, repeats[i]);
    /* The last step may have made a view in which copies are one in memory. */
    return tt_tensor_shares_storage(x, y) ? tt_clone(y) : tt_contiguous(y);
}
