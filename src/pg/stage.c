/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors to and from host memory, for calls of groups. */
#include "pg/stage.h"

#include "device/launch.h"
#include "pg/pack.h"
#include "tutti/autograd.h"
#include "tutti/ops.h"

/* A copy on the host, filled if `in`. It waits for the device. */
static tt_status copy_device(tti_stage *s, tt_tensor *t, bool in)
{
    TT_NO_GRAD
    TT_SCOPE {
        tt_tensor *host = in ? tt_contiguous(tt_to_device(t, TT_CPU))
                             : tt_empty(tt_tensor_shape(t), (tt_dtype)t->dtype, TT_CPU);

        s->copy = tt_tensor_retain(host);
    }
    if (s->copy == NULL)
        return tt_last_status();
    s->data = tti_data(s->copy);
    return TT_OK;
}

static tt_status open_device(tti_stage *s, tt_tensor *t, bool in, bool apart)
{
    tt_stream *stream = tti_stream_of(t->device);

    if (stream == NULL)
        return tt_last_status();
    if (apart || !tti_device_is_cpu(t->device) || !tti_is_contiguous(t))
        return copy_device(s, t, in);
    s->accel = stream->accel;
    s->mark = s->accel->mark(stream->queue, false);
    return s->mark != NULL ? TT_OK : tt_last_status();
}

tt_status tti_stage_open(tti_stage *s, tt_tensor *t, bool in, bool apart)
{
    s->data = tti_data(t);
    s->packed = NULL;
    s->copy = NULL;
    s->mark = NULL;
    if (t->numel == 0)
        return TT_OK;
    if (tt_unlikely(t->device.kind != TT_DEVICE_CPU))
        return open_device(s, t, in, apart);
    if (tt_likely(!apart && tti_is_contiguous(t)))
        return TT_OK;
    s->packed = tti_malloc((size_t)t->numel * tti_esize(t));
    if (s->packed == NULL)
        return TT_ERR_NOMEM;
    s->data = s->packed;
    if (in)
        tti_pack(t, s->packed);
    return TT_OK;
}

tt_status tti_stage_wait(tti_stage *s)
{
    return s->mark != NULL ? s->accel->mark_sync(s->mark) : TT_OK;
}

tt_status tti_stage_back(tti_stage *s, tt_tensor *t)
{
    tt_status st = TT_OK;

    if (s->packed != NULL)
        tti_unpack(t, s->packed);
    if (s->copy == NULL) {
        tti_bump_version(t);
        return TT_OK;
    }
    TT_NO_GRAD
    TT_SCOPE {
        st = tt_copy_(t, s->copy) != NULL ? TT_OK : tt_last_status();
    }
    /* This thread's stream need not be the one that will use it. */
    return st == TT_OK ? tt_stream_sync(tti_stream_of(t->device)) : st;
}

void tti_stage_close(tti_stage *s)
{
    tti_mfree(s->packed);
    tt_tensor_free(s->copy);
    if (s->mark != NULL)
        s->accel->mark_free(s->mark);
}
