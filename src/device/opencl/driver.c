/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the OpenCL driver. */
#include "device/cache.h"
#include "device/opencl/cache_file.h"
#include "device/opencl/cl.h"

static tt_status properties(int index, tt_device_properties *p)
{
    *p = tti_cl_all.devices[index].properties;
    return TT_OK;
}

static tt_status native(int index, tt_device_native *n)
{
    *n =
        (tt_device_native){ .context = tti_cl_all.context, .device = tti_cl_all.devices[index].id };
    return TT_OK;
}

static void *trouble(int index)
{
    return tti_cl_all.devices[index].trouble->base;
}

static const tti_accel accel_cl = {
    .properties = properties,
    .native = native,
    .segment_new = tti_cl_segment_new,
    .segment_free = tti_cl_segment_free,
    .memory_info = tti_cl_memory_info,
    .host_new = tti_cl_host_new,
    .host_free = tti_cl_host_free,
    .queue_new = tti_cl_queue_new,
    .queue_wrap = tti_cl_queue_wrap,
    .queue_free = tti_cl_queue_free,
    .queue_close = tti_cl_queue_close,
    .queue_open = tti_cl_queue_open,
    .queue_native = tti_cl_queue_native,
    .priorities = tti_cl_priorities,
    .queue_query = tti_cl_queue_query,
    .queue_sync = tti_cl_queue_sync,
    .mark = tti_cl_mark,
    .mark_copy = tti_cl_mark_copy,
    .mark_free = tti_cl_mark_free,
    .mark_query = tti_cl_mark_query,
    .mark_sync = tti_cl_mark_sync,
    .mark_elapsed = tti_cl_mark_elapsed,
    .wait = tti_cl_queue_wait,
    .sleep = tti_cl_sleep,
    .call = tti_cl_call,
    .copy = tti_cl_copy,
    .copy_in = tti_cl_copy_in,
    .copy_out = tti_cl_copy_out,
    .kernel = tti_cl_kernel,
    .kernel_cache = tti_cl_cache_directory,
    .launch = tti_cl_launch,
    .has_gemm = tti_cl_has_gemm,
    .gemm = tti_cl_gemm,
    .trouble = trouble,
};

static tt_device at(int index)
{
    return (tt_device){ TT_DEVICE_CL, (int16_t)index };
}

/* The queue of the current stream, or NULL, recorded. */
static tti_queue *queue_at(int index)
{
    tt_stream *s = tti_cl_usable(index) == TT_OK ? tti_stream_of(at(index)) : NULL;

    return s != NULL ? s->queue : NULL;
}

static void *alloc(int index, size_t bytes)
{
    tt_stream *s = tti_cl_usable(index) == TT_OK ? tti_stream_of(at(index)) : NULL;

    return s != NULL ? tti_cache_alloc(at(index), s, bytes) : NULL;
}

/* In a forked child locks may be held by threads that are not there. */
static void release(int index, void *p, size_t bytes)
{
    if (!tti_cl_forked())
        tti_cache_free(at(index), p, bytes);
}

static tt_status sync_all(int index)
{
    TT_TRY(tti_cl_usable(index));
    return tti_streams_sync(at(index));
}

static tt_memory_stats stats(int index)
{
    return tti_cache_stats(at(index));
}

static void reset_peak(int index)
{
    tti_cache_reset_peak(at(index));
}

static void empty_cache(int index)
{
    tti_cache_empty(at(index));
}

/* Through the current stream; what kernels had to report comes out with what is read. */
static tt_status copy_in(int index, void *dst, const void *host, size_t bytes)
{
    tti_queue *q = queue_at(index);

    return q != NULL ? tti_cl_copy_in(q, dst, host, bytes, false) : tt_last_status();
}

static tt_status copy_out(int index, void *host, const void *src, size_t bytes)
{
    tti_queue *q = queue_at(index);

    if (q == NULL)
        return tt_last_status();
    TT_TRY(tti_cl_copy_out(q, host, src, bytes, false));
    return tti_trouble_check(at(index));
}

static tt_status copy(int index, void *dst, const void *src, size_t bytes)
{
    tti_queue *q = queue_at(index);

    return q != NULL ? tti_cl_copy(q, dst, src, bytes) : tt_last_status();
}

const tti_driver tti_driver_cl = {
    .kind = TT_DEVICE_CL,
    .name = "cl",
    .accel = &accel_cl,
    .count = tti_cl_count,
    .missing = tti_cl_missing,
    .alloc = alloc,
    .free = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
    .sync = sync_all,
    .stats = stats,
    .reset_peak = reset_peak,
    .empty_cache = empty_cache,
};
