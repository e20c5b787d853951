/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose memory is used on other streams than the one it was made for. */
#include "base/error.h"
#include "device/cache.h"
#include "tensor/tensor.h"
#include "tensor/debug.h"

tt_status tt_tensor_record_stream(tt_tensor *t, tt_stream *s)
{
    tt_storage *whole;

    if (t != NULL && !tti_alive(t, "record_stream"))
        return tt_last_status();
    if (t == NULL || s == NULL)
        return tti_null_given("record_stream", "a tensor and a stream");
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
