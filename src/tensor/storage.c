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
