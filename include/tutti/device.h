/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory is and where work runs. A device is a small value: TT_CPU, tt_cl(1), or the result of
 * tt_device_parse("cl:1"). Work on the CPU is synchronous; work on an accelerator is queued on the current
 * stream (tutti/stream.h) and done later.
 *
 *     TT_DEVICE_SCOPE(tt_cl(1)) {
 *         tt_tensor *x = tt_ones(TT_SHAPE(4), TT_F32, TT_CL);          // on cl:1
 *         tt_tensor *y = tt_to_device(x, tt_cl(0));                    // named: on cl:0
 *     }
 */
#ifndef TUTTI_DEVICE_H
#define TUTTI_DEVICE_H

#include "tutti/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tt_device_kind {
    TT_DEVICE_CPU,
    TT_DEVICE_CL, /* OpenCL */
    TT_DEVICE_CUDA,
} tt_device_kind;

/* index TT_CURRENT means the current device of its kind, whichever that is when the value is used.
 * Tensors always say exactly where they are. */
typedef struct tt_device {
    int16_t kind; /* tt_device_kind */
    int16_t index;
} tt_device;

#define TT_CURRENT (-1)

static const tt_device TT_CPU = { TT_DEVICE_CPU, 0 };
static const tt_device TT_CL = { TT_DEVICE_CL, TT_CURRENT };

static inline tt_device tt_cl(int index)
{
    tt_device d = { TT_DEVICE_CL, (int16_t)index };

    return d;
}

static inline bool tt_device_equal(tt_device a, tt_device b)
{
    return a.kind == b.kind && a.index == b.index;
}

/* Equal devices have equal hashes. */
static inline uint64_t tt_device_hash(tt_device d)
{
    return ((uint64_t)(uint16_t)d.kind << 16 | (uint16_t)d.index) * 0x9E3779B97F4A7C15u;
}

/* "cpu", "cl:0", "cl" for the current one: written to `text` (16 bytes are enough), which is returned. */
TT_API char *tt_device_name(tt_device d, char *text, size_t size);

/* "cpu", "cl" (the current one), "cl:1", "cuda:0". Fails with INVALID for a text that is no device and
 * with NOT_FOUND for a device that this machine or this build does not have. */
TT_API tt_status tt_device_parse(const char *text, tt_device *device_p);

/* How many devices of this kind can be used here; 1 for the CPU. Starts the kind: the first call may
 * take a while, any thread may make it. When there are none, tt_device_missing says why. */
TT_API int tt_device_count(tt_device_kind kind);
/* Why there are no devices of this kind, in words to act on; "" when there are. */
TT_API const char *tt_device_missing(tt_device_kind kind);

typedef struct tt_device_properties {
    char name[96]; /* of the hardware, in its maker's words */
    char vendor[64];
    char driver[128];        /* platform and version */
    uint64_t memory;         /* bytes in all */
    uint64_t max_allocation; /* the largest single block */
    int units;               /* that compute at the same time */
    int max_group;           /* work-items that can share a barrier */
    int group;               /* work-items of the groups that our kernels use */
    bool is_cpu;             /* computes on cores of this machine, in its memory */
    bool has_fp16;           /* computes in float16; without it, float16 is stored and converted */
    bool has_fp64;
    bool has_priorities; /* of streams */
} tt_device_properties;

TT_API tt_status tt_device_properties_get(tt_device d, tt_device_properties *p);

/* The instruction set of the CPU kernels in use: "base", "avx2" or "avx512". The best that the CPU
 * has, unless TUTTI_ISA asks for less. */
TT_API const char *tt_cpu_kernels(void);

/* Wait until all work queued on an accelerator, on all of its streams, is done. What went wrong in that
 * work is reported here. Fails with INVALID for the CPU, which has no queues. */
TT_API tt_status tt_device_sync(tt_device d);

/* ---- the current device: thread-local, 0 in every new thread ------------------------------------ */

/* The current device of a kind; d.index is never TT_CURRENT. */
TT_API tt_device tt_device_current(tt_device_kind kind);
/* Make d the current device of its kind in this thread. Fails for one that does not exist. */
TT_API tt_status tt_device_use(tt_device d);
/* d with TT_CURRENT replaced. Fails, naming it, for a device that does not exist here. */
TT_API tt_status tt_device_resolve(tt_device d, tt_device *resolved_p);

/* TT_DEVICE_SCOPE(d) { ... }: d is current in the block; however it is left, the device that was current
 * before is current again, whatever the block did. A device that does not exist changes nothing
 * (recorded). The CPU changes nothing. */
typedef struct tt_device_guard {
    tt_device before;
} tt_device_guard;

TT_API tt_device_guard tt_device_guard_open(tt_device d);
TT_API void tt_device_guard_close(tt_device_guard *g);

#define TT_DEVICE_SCOPE(d) TT_DEVICE_SCOPE_NAMED(d, __COUNTER__)
#define TT_DEVICE_SCOPE_NAMED(d, n) TT_DEVICE_SCOPE_WITH(d, n)
#define TT_DEVICE_SCOPE_WITH(d, n)                                                  \
    for (tt_device_guard tt_guard_##n                                               \
         __attribute__((cleanup(tt_device_guard_close))) = tt_device_guard_open(d), \
         *tt_once_##n = &tt_guard_##n;                                              \
         tt_once_##n != NULL; tt_once_##n = NULL)

/* ---- memory in use; much more about accelerators is in tutti/memory.h ----------------------------- */

typedef struct tt_memory_stats {
    uint64_t current;       /* bytes in use by tensors, as requested */
    uint64_t peak;          /* the most `current` has been since the last reset */
    uint64_t reserved;      /* bytes held from the system, cached ones included */
    uint64_t n_allocations; /* how often memory was asked for, ever */
    uint64_t n_frees;
    uint64_t n_system; /* how often the system had to be asked */
} tt_memory_stats;

TT_API tt_memory_stats tt_memory_stats_get(tt_device d);
TT_API void tt_memory_reset_peak(tt_device d);
/* Give cached memory that no tensor uses back to the system. */
TT_API void tt_memory_empty_cache(tt_device d);

#ifdef __cplusplus
}
#endif

#endif
