/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose memory is used on other streams than the one it was made for. */
#include "device/cache.h"
#include "tensor/tensor.h"

tt_status tt_tensor_record_stream(tt_tensor *t, tt_stream *s)
{
    tt_storage *whole;

    if (t == NULL || s == NULL)
        return TT_FAIL(TT_ERR_INVALID, "record_stream: expected a tensor and a stream, got NULL");
    if (tti_accel_of("record_stream", t->device) == NULL)
        return tt_last_status();
    if (t->sparse != NULL) {
        TT_TRY(tt_tensor_record_stream(t->sparse->indices, s));
        return tt_tensor_record_stream(t->sparse->values, s);
    }
    whole = tti_storage_whole(t->storage);
    if (whole->data == NULL || whole->release != NULL)
        return TT_OK; /* empty, or not of our cache */
    return tti_cache_record_stream(t->device, whole->data, s);
}
