/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and conversions: of memory order, type and device. */
#include "ops/elementwise.h"
#include "ops/sparse.h"
#include "tensor/debug.h"

static tt_status same_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    out[0] = g[0];
    return TT_OK;
}

static tt_status to_device_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_to_device(g[0], *(const tt_device *)tti_attrs(n)));
}

static tt_status copy_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    out[1] = g[0]; /* nothing of what was there before is left */
    if (tti_needs(n, 0))
        return tti_give(&out[0], tt_zeros_like(g[0]));
    return TT_OK;
}

/* As copy_backward, of a copy from something that has no gradient. */
static tt_status overwrite_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_zeros_like(g[0]));
}

static const tti_op op_clone = { "clone", same_backward, 0 };
static const tti_op op_contiguous = { "contiguous", same_backward, 0 };
static const tti_op op_to_format = { "to_format", same_backward, 0 };
static const tti_op op_to_dtype = { "to_dtype", same_backward, 0 };
static const tti_op op_to_device = { "to_device", to_device_backward, 0 };
static const tti_op op_copy = { "copy_", copy_backward, 0 };
static const tti_op op_copy_from = { "copy_", overwrite_backward, 0 };

/* The end of all copies into a new tensor. */
static tt_tensor *filled(tti_call *c, tt_tensor *y, const tt_tensor *x)
{
    return tti_call_end(c, y, tti_copy(y, x));
}

tt_tensor *tt_clone(tt_tensor *x)
{
    tti_call c = { .op = &op_clone, .n_in = 1, .in = &x };

    if (tt_unlikely(tti_is_sparse(x)))
        return tti_sparse_with(x, tt_clone(tt_sparse_values(x)));
    if (!tti_call_begin(&c))
        return NULL;
    return filled(&c, tti_empty_like(x, (tt_dtype)x->dtype), x);
}

tt_tensor *tt_contiguous(tt_tensor *x)
{
    tti_call c = { .op = &op_contiguous, .n_in = 1, .in = &x };

    if (x != NULL && x->storage != NULL && tti_is_contiguous(x))
        return x;
    if (!tti_call_begin(&c))
        return NULL;
    return filled(&c, tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device), x);
}

tt_tensor *tt_to_format(tt_tensor *x, tt_memory_format format)
{
    tti_call c = { .op = &op_to_format, .n_in = 1, .in = &x };
    int64_t strides[TT_MAX_DIMS];
    int want = format == TT_FORMAT_CHANNELS_LAST ? 4 : 5;

    if (x != NULL && format == TT_FORMAT_PRESERVE)
        return x;
    if (format == TT_FORMAT_CONTIGUOUS)
        return tt_contiguous(x);
    if (!tti_call_begin(&c))
        return NULL;
    if (x->n_dims != want)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "to_format: channels-last needs %d dimensions, got shape %s", want,
                            TTI_SHAPE_OF(x));
    if (tt_tensor_is_contiguous(x, format))
        return x;
    tti_strides_format(x->dims, x->n_dims, format, strides);
    return filled(&c, tti_empty_strided(x->dims, strides, x->n_dims, (tt_dtype)x->dtype, x->device),
                  x);
}

tt_tensor *tt_to_dtype(tt_tensor *x, tt_dtype dtype)
{
    tti_call c = { .op = &op_to_dtype, .n_in = 1, .in = &x };

    if ((unsigned)dtype >= TT_N_DTYPES)
        return TT_FAIL_NULL(TT_ERR_INVALID, "to_dtype: unknown element type %d", (int)dtype);
    if (x != NULL && x->dtype == dtype)
        return x;
    if (tt_unlikely(tti_is_sparse(x)))
        return tti_sparse_with(x, tt_to_dtype(tt_sparse_values(x), dtype));
    if (!tti_call_begin(&c))
        return NULL;
    return filled(&c, tti_empty_like(x, dtype), x);
}

tt_tensor *tt_to_device(tt_tensor *x, tt_device device)
{
    tti_call c = { .op = &op_to_device, .n_in = 1, .in = &x };

    if (x != NULL && device.index == TT_CURRENT && tt_device_resolve(device, &device) != TT_OK)
        return NULL;
    if (tti_alive(x, "to_device") && tt_device_equal(x->device, device))
        return x;
    if (tt_unlikely(tti_is_sparse(x)))
        return tti_sparse_to_device(x, device);
    if (!tti_call_begin(&c))
        return NULL;
    c.attrs = &x->device;
    c.attrs_bytes = sizeof x->device;
    return filled(&c, tti_empty_like_on(x, (tt_dtype)x->dtype, device), x);
}

static tt_status check_fits(const tt_tensor *dst, const tt_tensor *src)
{
    int64_t dims[TT_MAX_DIMS];
    int n;

    if (tti_same_shape(dst, src))
        return TT_OK;
    if (tti_broadcast("copy_", dst->dims, dst->n_dims, src->dims, src->n_dims, dims, &n) == TT_OK &&
        n == dst->n_dims && tti_numel(dims, n) == dst->numel)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "copy_: a tensor of shape %s does not broadcast to shape %s",
                   TTI_SHAPE_OF(src), TTI_SHAPE_OF(dst));
}

/* From another device nothing is recorded of src: in the graph it is moved first. */
static tt_tensor *copy_from_device(tt_tensor *dst, tt_tensor *src)
{
    tti_call c = { .op = &op_copy_from, .n_in = 1, .in = &dst };

    if (!tti_call_begin_inplace(&c) || tti_check_writable("copy_", dst) != TT_OK ||
        check_fits(dst, src) != TT_OK)
        return NULL;
    return tti_call_end_inplace(&c, tti_copy(dst, src));
}

tt_tensor *tt_copy_(tt_tensor *dst, tt_tensor *src)
{
    tt_tensor *in[2] = { dst, src };
    tti_call c = { .op = &op_copy, .n_in = 2, .in = in };
    tt_tensor *from;

    if (dst != NULL && src != NULL && !tt_device_equal(dst->device, src->device)) {
        if (src->storage != NULL && (!tti_wants_grad(src) || tti_grad_mode != TT_GRAD_ON))
            return copy_from_device(dst, src);
        in[1] = src = tt_to_device(src, dst->device);
    }
    if (!tti_call_begin_inplace(&c) || tti_check_writable("copy_", dst) != TT_OK ||
        check_fits(dst, src) != TT_OK)
        return NULL;
    if (dst == src)
        return dst;
    from = tti_apart(dst, src);
    return tti_call_end_inplace(&c, tti_copy(dst, from));
}
