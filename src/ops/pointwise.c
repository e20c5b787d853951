/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of element by element kernels to the device of the result. */
#include "ops/op.h"

#define POINTWISE(t) (tti_kernels_of(t)->pointwise)

tt_status tti_unary(tti_unary_op op, tt_tensor *out, const tt_tensor *x, const double *p)
{
    if (tt_unlikely(out == NULL || x == NULL))
        return tt_last_status();
    return POINTWISE(out)->unary(op, out, x, p);
}

tt_status tti_binary(tti_binary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                     const double *p)
{
    if (tt_unlikely(out == NULL || a == NULL || b == NULL))
        return tt_last_status();
    return POINTWISE(out)->binary(op, out, a, b, p);
}

tt_status tti_ternary(tti_ternary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                      const tt_tensor *c, const double *p)
{
    if (tt_unlikely(out == NULL || a == NULL || b == NULL || c == NULL))
        return tt_last_status();
    return POINTWISE(out)->ternary(op, out, a, b, c, p);
}

tt_status tti_fill(tt_tensor *x, double value)
{
    if (tt_unlikely(x == NULL))
        return tt_last_status();
    return POINTWISE(x)->fill(x, value, 0.0);
}

/* Bytes of a dense tensor to a dense one on another device, through the host if need be. */
static tt_status transfer(tt_tensor *dst, const tt_tensor *src)
{
    const tti_driver *to = dst->storage->driver, *from = src->storage->driver;
    size_t bytes = tt_tensor_bytes(src);
    void *host;
    tt_status st;

    if (bytes == 0)
        return TT_OK;
    if (dst->device.kind == TT_DEVICE_CPU)
        return from->copy_out(src->device.index, tti_data(dst), tti_data(src), bytes);
    if (src->device.kind == TT_DEVICE_CPU)
        return to->copy_in(dst->device.index, tti_data(dst), tti_data(src), bytes);
    host = tti_malloc(bytes);
    if (host == NULL)
        return TT_ERR_NOMEM;
    st = from->copy_out(src->device.index, host, tti_data(src), bytes);
    if (st == TT_OK)
        st = to->copy_in(dst->device.index, tti_data(dst), host, bytes);
    tti_mfree(host);
    return st;
}

static tt_status copy_between(tt_tensor *dst, tt_tensor *src)
{
    tt_tensor *there;

    src = tti_contiguous(tti_cast(src, (tt_dtype)dst->dtype));
    if (src == NULL)
        return tt_last_status();
    if (tti_is_contiguous(dst) && tti_same_shape(dst, src))
        return transfer(dst, src);
    there = tti_empty(src->dims, src->n_dims, (tt_dtype)src->dtype, dst->device);
    if (there == NULL)
        return tt_last_status();
    TT_TRY(transfer(there, src));
    return POINTWISE(dst)->copy(dst, there);
}

tt_status tti_copy(tt_tensor *dst, const tt_tensor *src)
{
    if (tt_unlikely(dst == NULL || src == NULL))
        return tt_last_status();
    if (tt_unlikely(!tt_device_equal(dst->device, src->device)))
        return copy_between(dst, (tt_tensor *)src);
    return POINTWISE(dst)->copy(dst, src);
}
