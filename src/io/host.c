/* SPDX-License-Identifier: Apache-2.0 */
/* Between tensors and bytes. */
#include "io/host.h"

#include <string.h>

tt_tensor *tti_host_contiguous(tt_tensor *t)
{
    tt_tensor *host;

    if (t->device.kind == TT_DEVICE_CPU)
        return tti_contiguous(t);
    host = tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, TT_CPU);
    return tti_copy(host, t) == TT_OK ? host : NULL;
}

static void release(void *ctx, void *data)
{
    (void)data;
    tti_bytes_free(ctx);
}

tt_tensor *tti_over_bytes(tti_bytes *bytes, size_t offset, tt_shape shape, const int64_t *strides,
                          tt_dtype dtype)
{
    size_t e = tt_dtype_size(dtype);
    size_t align = tt_dtype_is_complex(dtype) ? e / 2 : e;
    tt_tensor *t;

    if (((uintptr_t)(bytes->data + offset) % align) != 0) {
        t = strides != NULL ? tti_empty_strided(shape.dims, strides, shape.n_dims, dtype, TT_CPU)
                            : tti_empty(shape.dims, shape.n_dims, dtype, TT_CPU);
        if (t != NULL)
            memcpy(tti_data(t), bytes->data + offset, tt_tensor_bytes(t));
        return t;
    }
    tti_bytes_retain(bytes);
    t = tt_wrap(bytes->data + offset, shape, strides, dtype, release, bytes);
    if (t == NULL)
        tti_bytes_free(bytes);
    return t;
}
