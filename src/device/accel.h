/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a kind of accelerator: raw memory, queues, marks in queues, and kernels compiled at run time.
 * It is the only thing that streams (stream.c), events (event.c), the caching allocator (cache.c), pinned memory
 * (pinned.c) and launches (launch.h) know of a driver. All functions may be called by any thread;
 * none of them blocks unless it says so. Objects are opaque to everyone but the driver. */
#ifndef TTI_DEVICE_ACCEL_H
#define TTI_DEVICE_ACCEL_H

#include "device/driver.h"
#include "tutti/stream.h"

#define TTI_MAX_DEVICES 16 /* of one kind */
#define TTI_N_KINDS (TT_DEVICE_CUDA + 1)

typedef struct tti_queue tti_queue;     /* a driver's queue */
typedef struct tti_mark tti_mark;       /* a place in a queue; refers to a driver's event */
typedef struct tti_kernel tti_kernel;   /* compiled, for all devices of the kind */
typedef struct tti_program tti_program; /* device/launch.h */
typedef struct tti_arg tti_arg;

/* c [m, n] = alpha * op(a) @ op(b) + beta * c for each matrix of a batch; row-major, c contiguous; lda and ldb are
 * the distances between rows as stored, steps those between matrices, in elements. */
typedef struct tti_accel_gemm {
    tt_dtype dtype; /* float32, float64, complex64 or complex128 */
    bool ta, tb;
    int64_t m, n, k, lda, ldb;
    int64_t batch, a_step, b_step;
    double alpha, beta;
    const void *a, *b;
    void *c;
} tti_accel_gemm;

struct tti_accel {
    tt_status (*properties)(int index, tt_device_properties *p);
    tt_status (*native)(int index, tt_device_native *n);

    /* ---- memory: the allocator cuts these segments into blocks ------------------------------- */
    /* A segment's address is real where the device computes in the host's memory, and else a reserved range
     * that only names it; either way `address + offset` names a place in it to all functions below. 2 MiB
     * aligned. NULL: there is no more (NOMEM, recorded). Backed by pages as they are touched, if the device can. */
    void *(*segment_new)(int index, size_t bytes);
    /* The caller knows that no queued work uses it. */
    void (*segment_free)(int index, void *address, size_t bytes);
    /* From below the cache. OpenCL has no such query: total is the device's, free is that without our segments. */
    tt_status (*memory_info)(int index, uint64_t *free_p, uint64_t *total_p);
    /* Host memory that the device reads and writes while the host goes on. */
    void *(*host_new)(size_t bytes);
    void (*host_free)(void *p, size_t bytes);

    /* ---- queues ------------------------------------------------------------------------------ */
    tti_queue *(*queue_new)(int index, int priority);
    tti_queue *(*queue_wrap)(int index, void *native); /* not owned */
    void (*queue_free)(tti_queue *q);
    /* A wrapped queue lets go of the native one, after waiting for its work; until it is opened around another, it
     * has no work and takes none. */
    void (*queue_close)(tti_queue *q);
    tt_status (*queue_open)(tti_queue *q, void *native);
    void *(*queue_native)(const tti_queue *q);
    void (*priorities)(int index, int *least_p, int *greatest_p);
    tt_status (*queue_query)(tti_queue *q, bool *done_p);
    tt_status (*queue_sync)(tti_queue *q); /* blocks, holding no lock */
    /* The work of q so far; `timing`: with the time it was reached. Release with mark_free, at any time. */
    tti_mark *(*mark)(tti_queue *q, bool timing);
    tti_mark *(*mark_copy)(tti_mark *m); /* another reference; NULL for NULL */
    void (*mark_free)(tti_mark *m);
    tt_status (*mark_query)(tti_mark *m, bool *done_p);
    tt_status (*mark_sync)(tti_mark *m); /* blocks, holding no lock */
    tt_status (*mark_elapsed)(tti_mark *from, tti_mark *to, double *ms_p);
    tt_status (*wait)(tti_queue *q,
                      tti_mark *m); /* later work of q waits for m, of any device of the kind */
    tt_status (*sleep)(tti_queue *q, uint64_t ns);
    /* arg is copied (`bytes` of it). Device addresses are real in fn where the device is_cpu. */
    tt_status (*call)(tti_queue *q, void (*fn)(void *arg), const void *arg, size_t bytes);

    /* ---- copies: ordered in q; bytes may be 0 --------------------------------------------------- */
    /* Within a device or between two devices of the kind. The areas do not overlap. */
    tt_status (*copy)(tti_queue *q, void *dst, const void *src, size_t bytes);
    /* The host memory may be reused when they return, unless `later`: then when q has passed. */
    tt_status (*copy_in)(tti_queue *q, void *dst, const void *host, size_t bytes, bool later);
    tt_status (*copy_out)(tti_queue *q, void *host, const void *src, size_t bytes, bool later);

    /* ---- kernels: see device/launch.h ----------------------------------------------------------- */
    tti_kernel *(*kernel)(const tti_program *p, const char *options, const char *name);
    const char *(*kernel_cache)(void); /* directory of built ones, or NULL */
    tt_status (*launch)(tti_queue *q, tti_kernel *k, size_t groups, size_t group_size,
                        const tti_arg *args, int n_args);
    /* ---- products of matrices by the kind's own library: NULL: there is none ---------------------- */
    bool (*has_gemm)(void); /* whether it can be opened */
    tt_status (*gemm)(tti_queue *q, const tti_accel_gemm *g);
    /* Kernels report bad indices here: tti_trouble, checked where somebody waits. Device memory. */
    void *(*trouble)(int index);
};

/* The accelerator table of d, or NULL: INVALID (recorded as "name: expected an accelerator, got cpu"). */
const tti_accel *tti_accel_of(const char *name, tt_device d);

/* ---- streams, inside ----------------------------------------------------------------------- */

struct tt_stream {
    tt_device device;
    const tti_accel *accel;
    tti_queue *queue;
    int priority;
    bool is_default, is_external;
    tt_stream *
        next; /* in the list of streams of its device: never unlinked; freed ones are given out again */
    bool in_use;
    int n_wraps; /* of an external one */
};

/* The current stream of an accelerator that exists; never NULL once the kind has started. Quick. */
tt_stream *tti_stream_of(tt_device d);

/* Wait for all streams of a device, then check for trouble. */
tt_status tti_streams_sync(tt_device d);
/* Whether nothing is queued on any stream of the device, as far as we know. */
bool tti_streams_idle(tt_device d);

/* `later` waits for what `earlier` has queued so far. Nothing happens when they are the same. */
tt_status tti_stream_after(tt_stream *later, tt_stream *earlier);

/* Bytes between devices (or within one), ordered after the current streams of both; later work of both is
 * ordered after it. */
tt_status tti_copy_across(tt_device to, void *dst, tt_device from, const void *src, size_t bytes);

/* Fails once with what a kernel of this device reported since the last check: INVALID "embedding: index 9
 * at position 3 is out of range for size 8". Call after a wait. */
tt_status tti_trouble_check(tt_device d);

#endif
