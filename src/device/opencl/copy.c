/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: within a device, between devices, to and from the host. */
#include <string.h>

#include "base/mem.h"
#include "device/opencl/cl.h"

#define INLINE_BYTES 4096 /* of host memory that travels with a command */

tt_status tti_cl_copy(tti_queue *q, void *dst, const void *src, size_t bytes)
{
    uint64_t to = 0, from = 0;
    tti_cl_segment *d, *s;
    cl_event e = NULL;
    cl_int code;

    if (bytes == 0)
        return TT_OK;
    d = tti_cl_at(dst, &to);
    s = d != NULL ? tti_cl_at(src, &from) : NULL;
    if (s == NULL)
        return tt_last_status();
    TT_TRY(tti_cl_begin(q));
    code = tti_cl.EnqueueCopyBuffer(q->q, s->mem, d->mem, from, to, bytes, 0, NULL, &e);
    return tti_cl_end(q, "copy", code, e, NULL);
}

typedef struct inline_copy {
    void *dst;
    size_t bytes;
    char data[INLINE_BYTES];
} inline_copy;

static void do_inline_copy(void *arg)
{
    inline_copy *c = arg;

    memcpy(c->dst, c->data, c->bytes);
}

static void CL_CALLBACK free_copy(cl_event e, cl_int status, void *data)
{
    (void)status;
    tti_cl.ReleaseEvent(e);
    tti_mfree(data);
}

/* A little from a copy of its own, so that the host need not wait for what the queue has to do before. */
static tt_status copy_in_apart(tti_queue *q, cl_mem to, uint64_t at, const void *host, size_t bytes)
{
    void *data = tti_malloc(bytes);
    cl_event e = NULL, own = NULL;
    tt_status st;
    cl_int code;

    if (data == NULL)
        return TT_ERR_NOMEM;
    memcpy(data, host, bytes);
    st = tti_cl_begin(q);
    if (st == TT_OK) {
        code = tti_cl.EnqueueWriteBuffer(q->q, to, CL_FALSE, at, bytes, data, 0, NULL, &e);
        st = tti_cl_end(q, "copy from the host", code, e, &own);
    }
    if (st != TT_OK) {
        tti_mfree(data);
        return st;
    }
    if (tti_cl.SetEventCallback(own, CL_COMPLETE, free_copy, data) == CL_SUCCESS)
        return TT_OK;
    st = tti_cl_wait(own);
    tti_mfree(data);
    return st;
}

tt_status tti_cl_copy_in(tti_queue *q, void *dst, const void *host, size_t bytes, bool later)
{
    uint64_t to = 0;
    tti_cl_segment *d;
    cl_event e = NULL, wait = NULL;
    cl_int code;

    if (bytes == 0)
        return TT_OK;
    d = tti_cl_at(dst, &to);
    if (d == NULL)
        return tt_last_status();
    if (!later && tti_cl_all.is_cpu && bytes <= INLINE_BYTES) {
        inline_copy c;

        c.dst = dst;
        c.bytes = bytes;
        memcpy(c.data, host, bytes);
        return tti_cl_call(q, do_inline_copy, &c, offsetof(inline_copy, data) + bytes);
    }
    if (!later && bytes <= INLINE_BYTES)
        return copy_in_apart(q, d->mem, to, host, bytes);
    TT_TRY(tti_cl_begin(q));
    code = tti_cl.EnqueueWriteBuffer(q->q, d->mem, CL_FALSE, to, bytes, host, 0, NULL, &e);
    TT_TRY(tti_cl_end(q, "copy from the host", code, e, later ? NULL : &wait));
    return later ? TT_OK : tti_cl_wait(wait);
}

tt_status tti_cl_copy_out(tti_queue *q, void *host, const void *src, size_t bytes, bool later)
{
    uint64_t from = 0;
    tti_cl_segment *s;
    cl_event e = NULL, wait = NULL;
    cl_int code;

    if (bytes == 0)
        return TT_OK;
    s = tti_cl_at(src, &from);
    if (s == NULL)
        return tt_last_status();
    TT_TRY(tti_cl_begin(q));
    code = tti_cl.EnqueueReadBuffer(q->q, s->mem, CL_FALSE, from, bytes, host, 0, NULL, &e);
    TT_TRY(tti_cl_end(q, "copy to the host", code, e, later ? NULL : &wait));
    return later ? TT_OK : tti_cl_wait(wait);
}
