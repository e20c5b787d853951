/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of element by element kernels to the device of the result. */
#include <stdlib.h>

#include "device/accel.h"
#include "ops/element.h"

#define X(name) #name,
const char *const tti_unary_names[] = { TTI_UNARY_MAP(X) };
const char *const tti_binary_names[] = { TTI_BINARY_MAP(X) };
const char *const tti_ternary_names[] = { TTI_TERNARY_MAP(X) };
#undef X

tt_status tti_unary(tti_unary_op op, tt_tensor *out, const tt_tensor *x, const double *p)
{
    if (tt_unlikely(out == NULL || x == NULL))
        return tt_last_status();
    return TTI_RUN(tti_unary_names[op], out, pointwise, unary, op, out, x, p);
}

tt_status tti_binary(tti_binary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                     const double *p)
{
    if (tt_unlikely(out == NULL || a == NULL || b == NULL))
        return tt_last_status();
    return TTI_RUN(tti_binary_names[op], out, pointwise, binary, op, out, a, b, p);
}

tt_status tti_ternary(tti_ternary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                      const tt_tensor *c, const double *p)
{
    if (tt_unlikely(out == NULL || a == NULL || b == NULL || c == NULL))
        return tt_last_status();
    return TTI_RUN(tti_ternary_names[op], out, pointwise, ternary, op, out, a, b, c, p);
}

tt_status tti_fill(tt_tensor *x, double value)
{
    if (tt_unlikely(x == NULL))
        return tt_last_status();
    return TTI_RUN("fill", x, pointwise, fill, x, value, 0.0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Bytes of a dense tensor to one of the same layout on another device, in stream order. */
static tt_status transfer(tt_tensor *dst, const tt_tensor *src)
{
    size_t bytes = tt_tensor_bytes(src);

    if (bytes == 0)
        return TT_OK;
    if (dst->device.kind == TT_DEVICE_CPU)
        return src->storage->driver->copy_out(src->device.index, tti_data(dst), tti_data(src),
                                              bytes);
    if (src->device.kind == TT_DEVICE_CPU)
        return dst->storage->driver->copy_in(dst->device.index, tti_data(dst), tti_data(src),
                                             bytes);
    return tti_copy_across(dst->device, tti_data(dst), src->device, tti_data(src), bytes);
}

/* One element on the host goes along with a kernel: a fill has nothing to wait for. */
static bool fits_fill(const tt_tensor *src)
{
    return src->device.kind == TT_DEVICE_CPU && src->numel == 1 &&
           (src->dtype != TT_I64 || llabs(*(const int64_t *)tti_data(src)) <= INT64_C(1) << 53);
}

static bool same_layout(const tt_tensor *a, const tt_tensor *b)
{
    if (a->dtype != b->dtype || !tti_same_shape(a, b))
        return false;
    if (tti_is_contiguous(a) && tti_is_contiguous(b))
        return true;
    for (int i = 0; i < a->n_dims; i++)
        if (a->strides[i] != b->strides[i] && a->dims[i] != 1)
            return false;
    return tti_is_dense(a);
}

/* Types are converted on the host, or else before or after, so that fewer bytes move. */
static tt_status copy_between(tt_tensor *dst, tt_tensor *src)
{
    bool to_host = dst->device.kind == TT_DEVICE_CPU;
    tt_tensor *there;

    if (!to_host && (src->device.kind == TT_DEVICE_CPU || tti_esize(src) > tti_esize(dst)))
        src = tti_cast(src, (tt_dtype)dst->dtype);
    if (src == NULL)
        return tt_last_status();
    if (!to_host && fits_fill(src)) {
        tti_element e = tti_element_at(src, 0);

        return TTI_RUN("fill", dst, pointwise, fill, dst, e.re, e.im);
    }
    if (same_layout(dst, src))
        return transfer(dst, src);
    src = tti_contiguous(src);
    if (src == NULL)
        return tt_last_status();
    if (same_layout(dst, src))
        return transfer(dst, src);
    there = tti_empty(src->dims, src->n_dims, (tt_dtype)src->dtype, dst->device);
    if (there == NULL)
        return tt_last_status();
    TT_TRY(transfer(there, src));
    return TTI_RUN("copy", dst, pointwise, copy, dst, there);
}

tt_status tti_copy(tt_tensor *dst, const tt_tensor *src)
{
    if (tt_unlikely(dst == NULL || src == NULL))
        return tt_last_status();
    if (tt_unlikely(!tt_device_equal(dst->device, src->device)))
        return copy_between(dst, (tt_tensor *)src);
    return TTI_RUN("copy", dst, pointwise, copy, dst, src);
}
