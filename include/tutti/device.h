/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory is and where work runs. A device is a small value: TT_CPU, or the result of
 * tt_device_parse("cl:0"). Work on the CPU is synchronous. This version has the CPU only.
 *
 *     tt_device d;
 *     if (tt_device_parse("cpu", &d) != TT_OK)
 *         fprintf(stderr, "%s\n", tt_last_error());
 *     printf("%llu bytes in use\n", (unsigned long long)tt_memory_stats_get(d).current);
 */
#ifndef TUTTI_DEVICE_H
#define TUTTI_DEVICE_H

#include "tutti/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tt_device_kind {
    TT_DEVICE_CPU,
    TT_DEVICE_CL,
    TT_DEVICE_CUDA,
} tt_device_kind;

typedef struct tt_device {
    int16_t kind; /* tt_device_kind */
    int16_t index;
} tt_device;

static const tt_device TT_CPU = { TT_DEVICE_CPU, 0 };

static inline bool tt_device_equal(tt_device a, tt_device b)
{
    return a.kind == b.kind && a.index == b.index;
}

/* "cpu", "cl:0": written to `text` (16 bytes are enough), which is returned. */
TT_API char *tt_device_name(tt_device d, char *text, size_t size);

/* "cpu", "cl", "cl:1", "cuda:0". Fails with INVALID for a text that is no device and with NOT_FOUND
 * for a device that this machine or this build does not have. */
TT_API tt_status tt_device_parse(const char *text, tt_device *device_p);

/* How many devices of this kind can be used here; 1 for the CPU. */
TT_API int tt_device_count(tt_device_kind kind);

/* The instruction set of the CPU kernels in use: "base", "avx2" or "avx512". The best that the CPU
 * has, unless TUTTI_ISA asks for less. */
TT_API const char *tt_cpu_kernels(void);

/* Wait until all work queued on the device is done. */
TT_API tt_status tt_device_sync(tt_device d);

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
