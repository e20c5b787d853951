/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: queues of work on an accelerator. Work of one stream is done in order; streams are
 * independent of each other and of the host. Events mark places in them.
 *
 *     tt_stream *side = tt_stream_new(tt_cl(0), NULL);
 *     tt_event  *done = tt_event_new(NULL);
 *
 *     TT_STREAM_SCOPE(side) {
 *         tt_tensor *y = tt_matmul(a, b);           // queued on `side`
 *         tt_event_record(done, NULL);              // NULL: the current stream
 *     }
 *     tt_stream_wait(tt_stream_current(tt_cl(0)), done);   // later work there comes after y
 *
 * A tensor is to be used on the stream it was made on, or after that stream was waited for; use
 * tt_tensor_record_stream for one that is freed while another stream still reads it. Copies between
 * devices are ordered after the current streams of both, and what either does next after the copy. */
#ifndef TUTTI_STREAM_H
#define TUTTI_STREAM_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_stream tt_stream;
typedef struct tt_event tt_event;

typedef struct tt_stream_options {
    int priority; /* within tt_stream_priorities; 0: the default */
} tt_stream_options;

/* A new stream of d (TT_CL: of the current device). Streams are given back with tt_stream_free; work that
 * is still queued gets done. */
TT_API tt_stream *tt_stream_new(tt_device d, const tt_stream_options *opt);
/* A stream around a native queue that somebody else made (OpenCL: an in-order cl_command_queue of the context
 * tt_device_native gives) and goes on owning. */
TT_API tt_stream *tt_stream_wrap(tt_device d, void *native);
TT_API void tt_stream_free(tt_stream *s); /* accepts NULL; nothing happens to default streams */

/* Borrowed. The default stream of a device, and the one that this thread uses on it. Fail (NULL) with
 * INVALID for the CPU. */
TT_API tt_stream *tt_stream_default(tt_device d);
TT_API tt_stream *tt_stream_current(tt_device d);
/* Make s current on its device, and its device the current one, in this thread. */
TT_API tt_status tt_stream_use(tt_stream *s);

TT_API tt_device tt_stream_device(const tt_stream *s);
TT_API void *tt_stream_native(const tt_stream *s); /* OpenCL: cl_command_queue */
TT_API int tt_stream_priority(const tt_stream *s);
TT_API bool tt_stream_equal(const tt_stream *a, const tt_stream *b); /* the same queue */
TT_API uint64_t tt_stream_hash(const tt_stream *s);

/* The range of priorities, from the least urgent to the most urgent (a smaller number). (0, 0) where the
 * device has none, which is so on OpenCL without cl_khr_priority_hints. */
TT_API tt_status tt_stream_priorities(tt_device d, int *least_p, int *greatest_p);

/* Whether all work queued so far is done; wait until it is; make later work of s wait for an event. */
TT_API tt_status tt_stream_query(tt_stream *s, bool *done_p);
TT_API tt_status tt_stream_sync(tt_stream *s);
TT_API tt_status tt_stream_wait(tt_stream *s, tt_event *e);
TT_API tt_status tt_stream_wait_stream(tt_stream *s, tt_stream *other);

/* Keep the stream busy for a while without using a core, for tests. 1 cycle is 1 ns, because OpenCL has no
 * device clock. */
TT_API tt_status tt_stream_sleep(tt_stream *s, uint64_t cycles);

/* Call fn(arg) in the stream, after all work before and before all work after it, on a thread of the
 * library or the driver. It must not call into a device. */
TT_API tt_status tt_stream_call(tt_stream *s, void (*fn)(void *arg), void *arg);

/* t's memory is in use on s too: freed, it is not handed out again before s has passed this place. */
TT_API tt_status tt_tensor_record_stream(tt_tensor *t, tt_stream *s);

typedef struct tt_stream_guard {
    tt_device device;  /* current before, of its kind */
    tt_stream *stream; /* current before on the new stream's device */
} tt_stream_guard;

TT_API tt_stream_guard tt_stream_guard_open(tt_stream *s);
TT_API void tt_stream_guard_close(tt_stream_guard *g);

/* TT_STREAM_SCOPE(s) { ... }: s and its device are current in the block. NULL changes nothing. */
#define TT_STREAM_SCOPE(s) TT_STREAM_SCOPE_NAMED(s, __COUNTER__)
#define TT_STREAM_SCOPE_NAMED(s, n) TT_STREAM_SCOPE_WITH(s, n)
#define TT_STREAM_SCOPE_WITH(s, n)                                                  \
    for (tt_stream_guard tt_guard_##n                                               \
         __attribute__((cleanup(tt_stream_guard_close))) = tt_stream_guard_open(s), \
         *tt_once_##n = &tt_guard_##n;                                              \
         tt_once_##n != NULL; tt_once_##n = NULL)

/* ---- events ------------------------------------------------------------------------------ */

typedef struct tt_event_options {
    bool timing;   /* can be asked for elapsed times */
    bool blocking; /* waits sleep rather than spin */
} tt_event_options;

TT_API tt_event *tt_event_new(const tt_event_options *opt);
TT_API void tt_event_free(tt_event *e); /* accepts NULL; fine before it is reached */

/* Mark the place after all work queued on s so far (NULL: the current stream of the current device).
 * Recording again moves the mark. */
TT_API tt_status tt_event_record(tt_event *e, tt_stream *s);
/* An event that was never recorded is done. */
TT_API tt_status tt_event_query(tt_event *e, bool *done_p);
TT_API tt_status tt_event_sync(tt_event *e);
/* False before it was recorded. */
TT_API bool tt_event_device(const tt_event *e, tt_device *d_p);
/* Milliseconds from one to the other. Both with timing, done, and of one device; else INVALID. */
TT_API tt_status tt_event_elapsed(tt_event *from, tt_event *to, double *ms_p);

/* ---- handles of the driver, for programs that also use it themselves -------------------------- */

typedef struct tt_device_native {
    void *context; /* OpenCL: cl_context */
    void *device;  /* OpenCL: cl_device_id */
} tt_device_native;

TT_API tt_status tt_device_native_get(tt_device d, tt_device_native *n);

/* The directory in which kernels of this kind of device are kept once they are built; NULL: they are not. */
TT_API const char *tt_device_kernel_cache(tt_device_kind kind);

#ifdef __cplusplus
}
#endif

#endif
