/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in pinned host memory, and copies from and to it that the host does not wait for. */
#include "base/error.h"
#include "device/pinned.h"
#include "ops/op.h"
#include "tutti/memory.h"
#include "tensor/debug.h"

static void release(void *ctx, void *data)
{
    (void)ctx;
    tti_pinned_free(data);
}

tt_tensor *tt_pinned_empty(tt_shape shape, tt_dtype dtype)
{
    const tti_accel *accel = tti_pinned_accel();
    tt_tensor *t = accel != NULL ? tti_bare(shape.dims, shape.n_dims, dtype, TT_CPU) : NULL;
    void *p = NULL;

    if (t == NULL)
        return NULL;
    if (t->numel != 0) {
        p = tti_pinned_alloc(accel, tt_tensor_bytes(t));
        if (p == NULL)
            return NULL;
    }
    t = tt_wrap(p, shape, NULL, dtype, release, NULL);
    if (t == NULL && p != NULL)
        tti_pinned_free(p);
    return t;
}

bool tt_tensor_is_pinned(const tt_tensor *t)
{
    return tti_alive(t, "is_pinned") && t->storage != NULL && t->storage->release == release;
}

tt_tensor *tt_pin(tt_tensor *t)
{
    tt_tensor *p;

    if (t == NULL)
        return TT_NULL_GIVEN("pin", "a tensor");
    if (tti_check_alive(t, "pin") != TT_OK)
        return NULL;
    if (tt_tensor_is_pinned(t))
        return t;
    if (t->storage == NULL || t->device.kind != TT_DEVICE_CPU)
        return TT_FAIL_NULL(TT_ERR_INVALID, "pin: expected a dense tensor on cpu, got %s",
                            t->storage == NULL ? "a sparse one" : "one on an accelerator");
    p = tt_pinned_empty(tt_tensor_shape(t), (tt_dtype)t->dtype);
    return p != NULL && tti_copy(p, t) == TT_OK ? p : NULL;
}

/* Both dense and alike, one pinned and the other on an accelerator, and nothing to record. */
static bool can_be_later(const tt_tensor *dst, const tt_tensor *src)
{
    const tt_tensor *host = dst->device.kind == TT_DEVICE_CPU ? dst : src;
    const tt_tensor *other = host == dst ? src : dst;

    return tt_tensor_is_pinned(host) && other->storage != NULL &&
           other->device.kind != TT_DEVICE_CPU && tti_is_contiguous(dst) &&
           tti_is_contiguous(src) && dst->dtype == src->dtype && tti_same_shape(dst, src) &&
           (dst->flags & TTI_REQUIRES_GRAD) == 0 && (src->flags & TTI_REQUIRES_GRAD) == 0 &&
           dst->base == NULL;
}

static tt_status copy_later(tt_tensor *dst, const tt_tensor *src)
{
    bool out = dst->device.kind == TT_DEVICE_CPU;
    tt_stream *s = tti_stream_of(out ? src->device : dst->device);
    size_t bytes = tt_tensor_bytes(src);

    if (s == NULL)
        return tt_last_status();
    if (bytes == 0)
        return TT_OK;
    if (out)
        TT_TRY(s->accel->copy_out(s->queue, tti_data(dst), tti_data(src), bytes, true));
    else
        TT_TRY(s->accel->copy_in(s->queue, tti_data(dst), tti_data(src), bytes, true));
    tti_bump_version(dst);
    return tti_pinned_record(tti_data(out ? dst : src), s);
}

tt_status tt_copy_async_(tt_tensor *dst, tt_tensor *src)
{
    TT_TRY(tti_check_alive(dst, "copy_async_"));
    TT_TRY(tti_check_alive(src, "copy_async_"));
    if (dst != NULL && src != NULL && can_be_later(dst, src))
        return copy_later(dst, src);
    return tti_made(tt_copy_(dst, src));
}

tt_tensor *tt_to_device_async(tt_tensor *t, tt_device d)
{
    tt_tensor *y;

    if (t == NULL)
        return TT_NULL_GIVEN("to_device_async", "a tensor");
    if (!tti_alive(t, "to_device_async") || tt_device_resolve(d, &d) != TT_OK)
        return NULL;
    if (tt_device_equal(t->device, d) || t->storage == NULL || (t->flags & TTI_REQUIRES_GRAD) != 0)
        return tt_to_device(t, d);
    t = tti_contiguous(t);
    if (t == NULL)
        return NULL;
    y = d.kind == TT_DEVICE_CPU ? tt_pinned_empty(tt_tensor_shape(t), (tt_dtype)t->dtype)
                                : tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, d);
    if (y == NULL)
        return NULL;
    if (can_be_later(y, t))
        return copy_later(y, t) == TT_OK ? y : NULL;
    return tti_copy(y, t) == TT_OK ? y : NULL;
}
