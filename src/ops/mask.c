/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing by a mask: masked_select with its gradient, nonzero; and one_hot. */
#include "ops/element.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/view.h"

/* x as a contiguous tensor of `dims`, stretched where it broadcasts; no recording. */
static tt_tensor *stretch(tt_tensor *x, const int64_t *dims, int n)
{
    int64_t strides[TT_MAX_DIMS];

    tti_broadcast_strides(x->dims, x->strides, x->n_dims, n, dims, strides);
    return tti_contiguous(tti_view_raw(x, dims, strides, n, x->offset));
}

static tt_tensor *select_grad(tt_tensor *g, tt_tensor *mask);

/* The engine sums the gradient to x's shape if x was broadcast. */
static tt_status select_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], select_grad(grad_out[0], tti_saved_get(n, 0)));
}

static tt_status select_grad_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], tt_masked_select(grad_out[0], tti_saved_get(n, 0)));
}

static const tti_op op_masked_select = { "masked_select", select_backward, 0 };
static const tti_op op_select_grad = { "masked_select_grad", select_grad_backward, 0 };

/* Zeros of the mask's shape with the elements of g where it is set. */
static tt_tensor *select_grad(tt_tensor *g, tt_tensor *mask)
{
    tt_tensor *in[] = { g, mask };
    tti_call c = { .op = &op_select_grad, .in = in, .n_in = 2 };
    tt_tensor *out;
    tt_tensor *from;

    if (!tti_call_begin(&c))
        return NULL;
    out = tti_zeros_shape(tt_tensor_shape(mask), g);
    from = tti_contiguous(g);
    if (out == NULL || from == NULL)
        return NULL;
    tti_call_save(&c, mask);
    return tti_call_end(&c, out,
                        TTI_RUN("masked_select_grad", g, index, masked_scatter, out, mask, from));
}

tt_tensor *tt_masked_select(tt_tensor *x, tt_tensor *mask)
{
    tt_tensor *in[] = { x, mask };
    tti_call c = { .op = &op_masked_select, .in = in, .n_in = 2 };
    int64_t dims[TT_MAX_DIMS], count;
    tt_tensor *from, *set, *out;
    tt_status st;
    int n;

    if (!tti_call_begin(&c))
        return NULL;
    if (mask->dtype != TT_BOOL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "masked_select: expected a mask of type bool, got %s",
                            tt_dtype_name((tt_dtype)mask->dtype));
    if (tti_broadcast("masked_select", x->dims, x->n_dims, mask->dims, mask->n_dims, dims, &n) !=
        TT_OK)
        return NULL;
    mask = tti_operand(mask, TT_BOOL, x->device);
    from = mask != NULL ? stretch(x, dims, n) : NULL;
    set = from != NULL ? stretch(mask, dims, n) : NULL;
    if (set == NULL || TTI_RUN("masked_select", x, index, count_nonzero, set, &count) != TT_OK)
        return NULL;
    out = tti_empty(&count, 1, (tt_dtype)x->dtype, x->device);
    tti_call_save(&c, set);
    st = out != NULL ? TTI_RUN("masked_select", x, index, masked_select, out, from, set)
                     : tt_last_status();
    return tti_call_end(&c, out, st);
}

static const tti_op op_nonzero = { "nonzero", NULL, 0 };

tt_tensor *tt_nonzero(tt_tensor *x)
{
    tti_call c = { .op = &op_nonzero, .in = &x, .n_in = 1 };
    int64_t dims[2];
    tt_tensor *from, *out;

    if (!tti_call_begin(&c))
        return NULL;
    from = tti_contiguous(x);
    if (from == NULL || TTI_RUN("nonzero", x, index, count_nonzero, from, &dims[0]) != TT_OK)
        return NULL;
    dims[1] = x->n_dims;
    out = tti_empty(dims, 2, TT_I64, x->device);
    return tti_call_end(
        &c, out, out != NULL ? TTI_RUN("nonzero", x, index, nonzero, out, from) : tt_last_status());
}

static const tti_op op_one_hot = { "one_hot", NULL, 0 };

/* One more than the largest index. */
static tt_status count_classes(tt_tensor *index, int64_t *n_p)
{
    const int64_t *p;
    int64_t most = -1;

    if (index->numel == 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "one_hot: the number of classes cannot be found from no indices");
    index = tti_host_copy(index);
    if (index == NULL)
        return tt_last_status();
    p = tti_data(index);
    for (int64_t i = 0; i < index->numel; i++)
        most = p[i] > most ? p[i] : most;
    *n_p = most + 1;
    return TT_OK;
}

tt_tensor *tt_one_hot(tt_tensor *index, int64_t n_classes)
{
    tti_call c = { .op = &op_one_hot, .in = &index, .n_in = 1 };
    tt_tensor *plain, *out;
    tt_shape s;

    if (!tti_call_begin(&c))
        return NULL;
    if (n_classes == 0 || n_classes < -1)
        return TT_FAIL_NULL(TT_ERR_INVALID, "one_hot: expected at least 1 class or -1, got %lld",
                            (long long)n_classes);
    plain = tti_index_plain("one_hot", index, index);
    if (plain == NULL || (n_classes == -1 && count_classes(plain, &n_classes) != TT_OK))
        return NULL;
    if (index->n_dims == TT_MAX_DIMS)
        return TT_FAIL_NULL(TT_ERR_INVALID, "one_hot: at most %d dimensions, got shape %s",
                            TT_MAX_DIMS - 1, TTI_SHAPE_OF(index));
    s = tt_tensor_shape(index);
    s.dims[s.n_dims++] = n_classes;
    out = tti_empty(s.dims, s.n_dims, TT_I64, index->device);
    return tti_call_end(&c, out,
                        out != NULL ? TTI_RUN("one_hot", out, index, one_hot, out, plain)
                                    : tt_last_status());
}
