/* SPDX-License-Identifier: Apache-2.0 */
/* Views with dimensions in another order: permute, transpose, t. */
#include "ops/view.h"

typedef struct permute_attrs {
    int8_t from[TT_MAX_DIMS]; /* dimension i of the result is from[i] of the input */
} permute_attrs;

static tt_status permute_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const permute_attrs *a = tti_attrs(n);
    int inverse[TT_MAX_DIMS];

    for (int i = 0; i < grad_out[0]->n_dims; i++)
        inverse[a->from[i]] = i;
    return tti_give(&grad_in[0], tt_permute(grad_out[0], inverse, grad_out[0]->n_dims));
}

static const tti_op op_permute = { "permute", permute_backward, 0 };
static const tti_op op_transpose = { "transpose", permute_backward, 0 };
static const tti_op op_t = { "t", permute_backward, 0 };

static tt_tensor *end(tti_call *c, const permute_attrs *a)
{
    const tt_tensor *x = c->in[0];
    int64_t dims[TT_MAX_DIMS], strides[TT_MAX_DIMS];

    for (int i = 0; i < x->n_dims; i++) {
        dims[i] = x->dims[a->from[i]];
        strides[i] = x->strides[a->from[i]];
    }
    c->attrs = a;
    c->attrs_bytes = sizeof *a;
    return tti_view_end(c, tti_view_raw(x, dims, strides, x->n_dims, x->offset));
}

tt_tensor *tt_permute(tt_tensor *x, const int *dims, int n_dims)
{
    tti_call c = { .op = &op_permute, .in = &x, .n_in = 1 };
    permute_attrs a;
    unsigned seen = 0;

    if (!tti_call_begin(&c))
        return NULL;
    if (n_dims != x->n_dims || (dims == NULL && n_dims > 0))
        return TT_FAIL_NULL(TT_ERR_INVALID, "permute: expected %d dimensions, got %d", x->n_dims,
                            n_dims);
    for (int i = 0; i < n_dims; i++) {
        int dim = dims[i];

        if (tti_wrap_dim("permute", &dim, x->n_dims) != TT_OK)
            return NULL;
        if ((seen >> dim & 1) != 0)
            return TT_FAIL_NULL(TT_ERR_INVALID, "permute: dimension %d is given twice", dim);
        seen |= 1u << dim;
        a.from[i] = (int8_t)dim;
    }
    return end(&c, &a);
}

static tt_tensor *swap(tti_call *c, int first, int second)
{
    const tt_tensor *x = c->in[0];
    permute_attrs a;

    for (int i = 0; i < x->n_dims; i++)
        a.from[i] = (int8_t)i;
    if (x->n_dims > 0) {
        a.from[first] = (int8_t)second;
        a.from[second] = (int8_t)first;
    }
    return end(c, &a);
}

tt_tensor *tt_transpose(tt_tensor *x, int first, int second)
{
    tti_call c = { .op = &op_transpose, .in = &x, .n_in = 1 };

    if (!tti_call_begin(&c) || tti_wrap_dim("transpose", &first, x->n_dims) != TT_OK ||
        tti_wrap_dim("transpose", &second, x->n_dims) != TT_OK)
        return NULL;
    return swap(&c, first, second);
}

tt_tensor *tt_t(tt_tensor *x)
{
    tti_call c = { .op = &op_t, .in = &x, .n_in = 1 };

    if (!tti_call_begin(&c))
        return NULL;
    if (x->n_dims > 2)
        return TT_FAIL_NULL(TT_ERR_INVALID, "t: expected at most 2 dimensions, got shape %s",
                            TTI_SHAPE_OF(x));
    return swap(&c, 0, x->n_dims == 2 ? 1 : 0);
}
