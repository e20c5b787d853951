/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the OpenCL driver: one platform, one context over its devices, made once. */
#ifndef TTI_DEVICE_OPENCL_CL_H
#define TTI_DEVICE_OPENCL_CL_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/launch.h"
#include "device/opencl/api.h"

typedef struct tti_cl_segment {
    cl_mem mem;
    char *base;
    size_t bytes;
    int index;
} tti_cl_segment;

typedef struct tti_cl_device {
    cl_device_id id; /* several devices of ours may share one of the driver's */
    tt_device_properties properties;
    tti_cl_segment *trouble;
    _Atomic uint64_t held; /* bytes of live segments: the driver-level count */
    _Atomic cl_int lost;   /* what ended it, or TTI_CL_FORKED; 0: it works */
} tti_cl_device;

typedef struct tti_cl_state {
    int n;
    cl_platform_id platform;
    cl_context context;
    bool is_cpu;   /* all of them compute in the host's memory, and run host functions in queues */
    bool is_pocl;  /* the platform */
    int group;     /* WG */
    char key[512]; /* device, driver and versions: part of the names of cached programs */
    bool alike;    /* what is built for one device is good for all */
    cl_device_id ids[TTI_MAX_DEVICES]; /* of the driver, each once */
    int n_ids;
    tti_cl_device devices[TTI_MAX_DEVICES];
} tti_cl_state;

extern tti_cl_state tti_cl_all; /* filled by the start; constant after it, but for `held` */

/* Start if need be. OK, or NOT_FOUND with what is missing, which in a child that was forked after
 * the start is everything: drivers have threads, which do not live there. */
tt_status tti_cl_start(void);
int tti_cl_count(void);
const char *tti_cl_missing(void);

/* For tests, before the start: where sysfs is looked for. */
void tti_cl_debug_sys(const char *dir);

/* Record the failure of a driver call: "cl: cannot <what>: CL_... (-n)". */
tt_status tti_cl_fail(const char *what, cl_int code);

/* ---- lost.c: devices that stopped working --------------------------------------------------- */

#define TTI_CL_FORKED 1 /* in a child, where nothing of the driver may be called */

tt_status tti_cl_unusable(int index); /* DEVICE, with what happened */

static inline tt_status tti_cl_usable(int index)
{
    if (tt_likely(atomic_load_explicit(&tti_cl_all.devices[index].lost, memory_order_relaxed) == 0))
        return TT_OK;
    return tti_cl_unusable(index);
}

/* Whether this process is a child that was forked after the start. */
bool tti_cl_forked(void);
void tti_cl_after_fork(void);

/* A command ended with an error: its device is lost. */
tt_status tti_cl_lose(cl_event e, cl_int code);

/* For tests: the next command of a device that is asked about ends with `code`. */
void tti_cl_debug_lose(int index, cl_int code);
/* The status of a command, as the driver or tti_cl_debug_lose says. */
cl_int tti_cl_status(cl_event e, cl_int *status_p);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* How many segments were closed, ever. */
extern _Atomic uint32_t tti_cl_n_closed;

tti_cl_segment *tti_cl_segment_open(int index, size_t bytes);
void tti_cl_segment_close(tti_cl_segment *s);
/* The segment an address is in, or NULL. Lock-free. */
tti_cl_segment *tti_cl_find(const void *address);
/* The same, or NULL with "not memory of an OpenCL device" recorded; *offset_p: place in it. */
tti_cl_segment *tti_cl_at(const void *address, uint64_t *offset_p);

void *tti_cl_segment_new(int index, size_t bytes);
void tti_cl_segment_free(int index, void *address, size_t bytes);
tt_status tti_cl_memory_info(int index, uint64_t *free_p, uint64_t *total_p);
void *tti_cl_host_new(size_t bytes);
void tti_cl_host_free(void *p, size_t bytes);

/* ---- queue.c, copy.c --------------------------------------------------------------------------- */

struct tti_queue {
    cl_command_queue q;   /* NULL: closed */
    pthread_mutex_t lock; /* order of enqueues and of `last` */
    cl_event last;        /* of the newest command; NULL: none yet */
    int index;
    bool external; /* others enqueue too */
};

/* Around one enqueue: take the lock (unless the device is lost or the queue closed: then the error); give it back
 * with the event of the new command (which becomes q's last) or the code of the failure. `retained_p`, unless
 * NULL, gets a reference to the event. */
tt_status tti_cl_begin(tti_queue *q);
tt_status tti_cl_end(tti_queue *q, const char *what, cl_int code, cl_event e, cl_event *retained_p);
tt_status tti_cl_wait(cl_event e); /* and releases it */
void tti_cl_flush(tti_queue *q);

tti_queue *tti_cl_queue_new(int index, int priority);
tti_queue *tti_cl_queue_wrap(int index, void *native);
void tti_cl_queue_free(tti_queue *q);
void tti_cl_queue_close(tti_queue *q);
tt_status tti_cl_queue_open(tti_queue *q, void *native);
void *tti_cl_queue_native(const tti_queue *q);
void tti_cl_priorities(int index, int *least_p, int *greatest_p);
tt_status tti_cl_queue_query(tti_queue *q, bool *done_p);
tt_status tti_cl_queue_sync(tti_queue *q);
tti_mark *tti_cl_mark(tti_queue *q, bool timing);
tti_mark *tti_cl_mark_copy(tti_mark *m);
void tti_cl_mark_free(tti_mark *m);
tt_status tti_cl_mark_query(tti_mark *m, bool *done_p);
tt_status tti_cl_mark_sync(tti_mark *m);
tt_status tti_cl_mark_elapsed(tti_mark *from, tti_mark *to, double *ms_p);
tt_status tti_cl_queue_wait(tti_queue *q, tti_mark *m);
tt_status tti_cl_sleep(tti_queue *q, uint64_t ns);
tt_status tti_cl_call(tti_queue *q, void (*fn)(void *arg), const void *arg, size_t bytes);

tt_status tti_cl_copy(tti_queue *q, void *dst, const void *src, size_t bytes);
tt_status tti_cl_copy_in(tti_queue *q, void *dst, const void *host, size_t bytes, bool later);
tt_status tti_cl_copy_out(tti_queue *q, void *host, const void *src, size_t bytes, bool later);

/* ---- timer.c: things to do at a time, or as soon as possible, on one thread ------------------------ */

/* After `ns` nanoseconds call fn (if not NULL) with arg, free arg, complete the user event and release it. */
tt_status tti_cl_timer_add(uint64_t ns, void (*fn)(void *arg), void *arg, cl_event user);

/* ---- program.c, kernel.c ------------------------------------------------------------------------- */

/* How often programs came from where, in this process, and how often a build waited for devices to rest. */
typedef struct tti_cl_builds {
    _Atomic int from_source, from_disk, kept, after_rest;
} tti_cl_builds;

extern tti_cl_builds tti_cl_build_counts;

/* Built for all devices, from the disk cache or from source. */
cl_program tti_cl_program_build(const tti_program *p, const char *options);
tti_kernel *tti_cl_kernel(const tti_program *p, const char *options, const char *name);
tt_status tti_cl_launch(tti_queue *q, tti_kernel *k, size_t groups, size_t group_size,
                        const tti_arg *args, int n_args);

/* ---- clblast.c ----------------------------------------------------------------------------------- */

bool tti_cl_has_gemm(void);
tt_status tti_cl_gemm(tti_queue *q, const tti_accel_gemm *g);

#endif
