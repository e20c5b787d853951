/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that give the same elements other sizes, in the same row-major order: view, reshape,
 * flatten, unflatten, squeeze, unsqueeze. The gradient of each is its input's shape again. */
#include "ops/view.h"

static tt_status view_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tt_shape *in = tti_attrs(n);

    return tti_give(&grad_in[0], tt_reshape(grad_out[0], *in));
}

static const tti_op op_view = { "view", view_backward, 0 };
static const tti_op op_reshape = { "reshape", view_backward, 0 };
static const tti_op op_flatten = { "flatten", view_backward, 0 };
static const tti_op op_unflatten = { "unflatten", view_backward, 0 };
static const tti_op op_squeeze = { "squeeze", view_backward, 0 };
static const tti_op op_unsqueeze = { "unsqueeze", view_backward, 0 };

tt_tensor *tti_view_end(tti_call *c, tt_tensor *out)
{
    tt_tensor *x = c->in[0];

    if (tt_unlikely(c->wants_grad) && out != NULL)
        out->base = tt_tensor_retain(x->base != NULL ? x->base : x);
    return tti_call_end(c, out, TT_OK);
}

tt_tensor *tti_zeros_shape(tt_shape s, const tt_tensor *like)
{
    tt_tensor *z = tti_empty(s.dims, s.n_dims, (tt_dtype)like->dtype, like->device);

    return z != NULL && tti_fill(z, 0.0) == TT_OK ? z : NULL;
}

tt_tensor *tti_iota(int64_t n, int64_t start, int64_t step, tt_device device)
{
    tt_tensor *t = tti_empty(&n, 1, TT_I64, device);

    if (t == NULL ||
        TTI_RUN("arange", t, pointwise, arange, t, (double)start, (double)step) != TT_OK)
        return NULL;
    return t;
}

static tt_status bad_shape(const char *name, const tt_tensor *from, const tt_shape *want)
{
    char text[TTI_SHAPE_TEXT];

    return TT_FAIL(TT_ERR_INVALID, "%s: shape %s does not hold the %lld elements of shape %s", name,
                   tti_shape_text(want->dims, want->n_dims, text, sizeof text),
                   (long long)from->numel, TTI_SHAPE_OF(from));
}

tt_status tti_infer_shape(const char *name, const tt_tensor *from, int64_t numel, tt_shape *want)
{
    int64_t known = 1;
    int unknown = -1;

    if (want->n_dims < 0 || want->n_dims > TT_MAX_DIMS)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected 0 to %d dimensions, got %d", name, TT_MAX_DIMS,
                       want->n_dims);
    for (int i = 0; i < want->n_dims; i++) {
        if (want->dims[i] == -1 && unknown < 0)
            unknown = i;
        else if (want->dims[i] < 0 || __builtin_mul_overflow(known, want->dims[i], &known))
            return bad_shape(name, from, want);
    }
    if (unknown < 0)
        return known == numel ? TT_OK : bad_shape(name, from, want);
    if (known == 0 || numel % known != 0)
        return bad_shape(name, from, want);
    want->dims[unknown] = numel / known;
    return TT_OK;
}

/* The shape of an input as an attribute, only when it will be kept. */
static void keep_shape(tti_call *c, tt_shape *room)
{
    if (tt_likely(!c->wants_grad))
        return;
    *room = tt_tensor_shape(c->in[0]);
    c->attrs = room;
    c->attrs_bytes = sizeof *room;
}

tt_tensor *tt_view(tt_tensor *x, tt_shape shape)
{
    tti_call c = { .op = &op_view, .in = &x, .n_in = 1 };
    int64_t strides[TT_MAX_DIMS];
    tt_shape in;
    char text[TTI_SHAPE_TEXT];

    if (!tti_call_begin(&c) || tti_infer_shape("view", x, x->numel, &shape) != TT_OK)
        return NULL;
    if (!tti_view_strides(x->dims, x->strides, x->n_dims, shape.dims, shape.n_dims, strides))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "view: the strides of a tensor of shape %s do not allow shape %s "
                            "without a copy: use tt_reshape",
                            TTI_SHAPE_OF(x),
                            tti_shape_text(shape.dims, shape.n_dims, text, sizeof text));
    keep_shape(&c, &in);
    return tti_view_end(&c, tti_view_raw(x, shape.dims, strides, shape.n_dims, x->offset));
}

/* A view of x as `shape`, or a copy where strides do not allow one. */
static tt_tensor *reshape_as(const tti_op *op, tt_tensor *x, tt_shape shape)
{
    tti_call c = { .op = op, .in = &x, .n_in = 1 };
    int64_t strides[TT_MAX_DIMS];
    tt_tensor *y, *as_x;
    tt_shape in;

    if (!tti_call_begin(&c))
        return NULL;
    keep_shape(&c, &in);
    if (tt_likely(
            tti_view_strides(x->dims, x->strides, x->n_dims, shape.dims, shape.n_dims, strides)))
        return tti_view_end(&c, tti_view_raw(x, shape.dims, strides, shape.n_dims, x->offset));
    y = tti_empty(shape.dims, shape.n_dims, (tt_dtype)x->dtype, x->device);
    if (y == NULL)
        return tti_call_end(&c, NULL, TT_ERR_NOMEM);
    tti_strides_contiguous(x->dims, x->n_dims, strides);
    as_x = tti_view_raw(y, x->dims, strides, x->n_dims, 0);
    return tti_call_end(&c, y, tti_copy(as_x, x));
}

tt_tensor *tt_reshape(tt_tensor *x, tt_shape shape)
{
    if (x != NULL && tti_infer_shape("reshape", x, x->numel, &shape) != TT_OK)
        return NULL;
    return reshape_as(&op_reshape, x, shape);
}

tt_tensor *tt_flatten(tt_tensor *x, int first_dim, int last_dim)
{
    tt_shape s = { 0 };

    if (x == NULL)
        return reshape_as(&op_flatten, x, s);
    if (tti_wrap_dim("flatten", &first_dim, x->n_dims) != TT_OK ||
        tti_wrap_dim("flatten", &last_dim, x->n_dims) != TT_OK)
        return NULL;
    if (first_dim > last_dim)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "flatten: expected the first dimension not to come after the last, got "
                            "%d and %d",
                            first_dim, last_dim);
    if (x->n_dims == 0)
        return reshape_as(&op_flatten, x, TT_SHAPE(1));
    for (int i = 0; i < x->n_dims; i++) {
        if (i <= first_dim || i > last_dim)
            s.dims[s.n_dims++] = x->dims[i];
        else
            s.dims[s.n_dims - 1] *= x->dims[i];
    }
    return reshape_as(&op_flatten, x, s);
}

tt_tensor *tt_unflatten(tt_tensor *x, int dim, tt_shape sizes)
{
    tt_shape s = { 0 };

    if (x == NULL)
        return reshape_as(&op_unflatten, x, s);
    if (tti_wrap_dim("unflatten", &dim, x->n_dims) != TT_OK)
        return NULL;
    if (x->n_dims == 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "unflatten: a tensor without dimensions has none");
    if (tti_infer_shape("unflatten", x, x->dims[dim], &sizes) != TT_OK)
        return NULL;
    if (sizes.n_dims < 1 || x->n_dims - 1 + sizes.n_dims > TT_MAX_DIMS)
        return TT_FAIL_NULL(TT_ERR_INVALID, "unflatten: expected 1 to %d sizes, got %d",
                            TT_MAX_DIMS - x->n_dims + 1, sizes.n_dims);
    for (int i = 0; i < x->n_dims; i++) {
        if (i != dim)
            s.dims[s.n_dims++] = x->dims[i];
        for (int j = 0; i == dim && j < sizes.n_dims; j++)
            s.dims[s.n_dims++] = sizes.dims[j];
    }
    return reshape_as(&op_unflatten, x, s);
}

/* Leave out the dimensions of size 1 whose bit is set. */
static tt_tensor *squeeze(tt_tensor *x, unsigned which)
{
    tti_call c = { .op = &op_squeeze, .in = &x, .n_in = 1 };
    int64_t dims[TT_MAX_DIMS], strides[TT_MAX_DIMS];
    int n = 0;
    tt_shape in;

    if (!tti_call_begin(&c))
        return NULL;
    for (int i = 0; i < x->n_dims; i++) {
        if (x->dims[i] == 1 && (which >> i & 1) != 0)
            continue;
        dims[n] = x->dims[i];
        strides[n++] = x->strides[i];
    }
    keep_shape(&c, &in);
    return tti_view_end(&c, tti_view_raw(x, dims, strides, n, x->offset));
}

tt_tensor *tt_squeeze(tt_tensor *x)
{
    return squeeze(x, ~0u);
}

tt_tensor *tt_squeeze_dim(tt_tensor *x, int dim)
{
    if (x != NULL && tti_wrap_dim("squeeze", &dim, x->n_dims) != TT_OK)
        return NULL;
    return squeeze(x, 1u << dim);
}

tt_tensor *tt_unsqueeze(tt_tensor *x, int dim)
{
    tti_call c = { .op = &op_unsqueeze, .in = &x, .n_in = 1 };
    int64_t dims[TT_MAX_DIMS + 1], strides[TT_MAX_DIMS + 1];
    tt_shape in;

    if (!tti_call_begin(&c) || tti_wrap_dim("unsqueeze", &dim, x->n_dims + 1) != TT_OK)
        return NULL;
    for (int i = 0, j = 0; i <= x->n_dims; i++) {
        if (i == dim) {
            dims[i] = 1;
            strides[i] = j < x->n_dims ? x->dims[j] * x->strides[j] : 1;
        } else {
            dims[i] = x->dims[j];
            strides[i] = x->strides[j++];
        }
    }
    keep_shape(&c, &in);
    return tti_view_end(&c, tti_view_raw(x, dims, strides, x->n_dims + 1, x->offset));
}
