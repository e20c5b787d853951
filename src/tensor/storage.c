/* SPDX-License-Identifier: Apache-2.0 */
/* Storages: one block of memory on one device, shared by the tensors that view it. */
#include "base/refcount.h"
#include "base/small.h"
#include "tensor/tensor.h"

/* Nothing to hold costs nothing on an accelerator; on the CPU even an empty tensor has an address. */
tt_storage *tti_storage_new(size_t bytes, tt_device device)
{
    const tti_driver *drv = tti_driver_of(device);
    tt_storage *s;

    if (drv == NULL)
        return NULL;
    s = tti_small_alloc(sizeof *s);
    if (s == NULL)
        return NULL;
    if (bytes == 0 && drv->accel == NULL)
        bytes = 1;
    *s = (tt_storage){ .device = device, .driver = drv, .bytes = bytes };
    atomic_init(&s->refs, 1);
    if (bytes == 0)
        return s;
    s->data = drv->alloc(device.index, s->bytes);
    if (s->data == NULL) {
        tti_small_free(s, sizeof *s);
        return NULL;
    }
    return s;
}

tt_storage *tti_storage_retain(tt_storage *s)
{
    tti_ref(&s->refs);
    return s;
}

static void part_release(void *ctx, void *data)
{
    (void)data;
    tti_storage_free(ctx);
}

tt_storage *tti_storage_part(tt_storage *whole, size_t at, size_t bytes)
{
    tt_storage *s = tti_small_alloc(sizeof *s);

    assert(at + bytes <= whole->bytes);
    if (s == NULL)
        return NULL;
    *s = (tt_storage){ .device = whole->device,
                       .driver = whole->driver,
                       .data = (char *)whole->data + at,
                       .bytes = bytes,
                       .release = part_release,
                       .release_ctx = tti_storage_retain(whole) };
    atomic_init(&s->refs, 1);
    return s;
}

tt_storage *tti_storage_whole(tt_storage *s)
{
    return s->release == part_release ? s->release_ctx : s;
}

void tti_storage_free(tt_storage *s)
{
    if (s == NULL || !tti_unref(&s->refs))
        return;
    if (s->release != NULL)
        s->release(s->release_ctx, s->data);
    else if (s->driver != NULL && s->data != NULL)
        s->driver->free(s->device.index, s->data, s->bytes);
    tti_small_free(s, sizeof *s);
}
