/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of accelerators, and host memory that they read while the host goes on.
 *
 * Tensors on an accelerator come from a cache: the device is asked for large segments, which are cut into
 * blocks. A block that is freed is used again by the next tensor of the same stream, at once. What another
 * stream may still read has to be said with tt_tensor_record_stream. Sizes are rounded up to 512 bytes; blocks of up to
 * 1 MiB (small) are cut from segments of 2 MiB, larger ones from 20 MiB or from a segment of their own.
 *
 * A device given as TT_CL is the current one. The CPU has no such cache: INVALID. */
#ifndef TUTTI_MEMORY_H
#define TUTTI_MEMORY_H

#include "tutti/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statistics: exact, whoever asks whenever -------------------------------------------------- */

typedef struct tt_memory_tally {
    int64_t current;
    int64_t peak;             /* the most `current` has been since tt_memory_reset_peak */
    int64_t allocated, freed; /* the sum of all that came and went, ever */
} tt_memory_tally;

typedef struct tt_memory_row {
    tt_memory_tally all, small, large;
} tt_memory_row;

typedef struct tt_memory_report {
    tt_memory_row allocations; /* blocks of tensors */
    tt_memory_row segments;    /* pieces from the driver */
    tt_memory_row active; /* blocks of tensors, and freed ones that a stream has still to pass */
    tt_memory_row inactive_split; /* free blocks beside others in a segment */
    tt_memory_row allocated_bytes, reserved_bytes, active_bytes;
    tt_memory_row requested_bytes; /* what was asked for, of active blocks: without rounding */
    tt_memory_row inactive_split_bytes;
    uint64_t num_device_alloc, num_device_free; /* segments from and to the driver */
    uint64_t num_sync_all_streams;              /* once for every time the cache was emptied */
    uint64_t num_alloc_retries;                 /* out of memory at first */
    uint64_t num_ooms;                          /* out of memory even after emptying the cache */
    uint64_t limit;                             /* of reserved bytes */
} tt_memory_report;

TT_API tt_status tt_memory_report_get(tt_device d, tt_memory_report *report);

/* The figures asked for most: bytes in blocks of tensors, bytes held from the driver, and the most they were. 0 when
 * d has none. tt_memory_reset_peak(d) makes all peaks the current values. */
TT_API uint64_t tt_memory_allocated(tt_device d);
TT_API uint64_t tt_memory_reserved(tt_device d);
TT_API uint64_t tt_memory_max_allocated(tt_device d);
TT_API uint64_t tt_memory_max_reserved(tt_device d);

/* Bytes of a device from below the cache: in all, and not taken by segments. OpenCL cannot say what other
 * processes use. */
TT_API tt_status tt_memory_info(tt_device d, uint64_t *free_p, uint64_t *total_p);

/* The most that the cache may hold on d; asking for more is NOMEM. What it holds already, it keeps. At first all of the
 * device's memory, or TUTTI_CL_MEMORY_LIMIT. */
TT_API tt_status tt_memory_limit_bytes(tt_device d, uint64_t bytes);
TT_API tt_status tt_memory_limit_fraction(tt_device d, double fraction); /* of all, in [0, 1] */

/* Memory of the cache without a tensor around it, for work on the current stream of d: for programs with kernels of
 * their own. `bytes` is not 0, and the same for both. NULL: recorded. An address means nothing to the host unless the
 * device is a CPU. */
TT_API void *tt_memory_alloc(tt_device d, size_t bytes);
TT_API void tt_memory_free(tt_device d, void *p, size_t bytes); /* accepts NULL */

/* ---- snapshots ------------------------------------------------------------------------------------ */

typedef enum tt_block_state {
    TT_BLOCK_ACTIVE,  /* a tensor's */
    TT_BLOCK_PENDING, /* freed; a stream has still to pass */
    TT_BLOCK_FREE,
} tt_block_state;

typedef struct tt_memory_block {
    uint64_t address, size;
    uint64_t requested; /* 0: free */
    tt_block_state state;
} tt_memory_block;

typedef struct tt_memory_segment {
    tt_device device;
    uint64_t address, stream;
    uint64_t total_size;
    uint64_t allocated_size; /* in active blocks */
    uint64_t active_size;    /* in active and pending blocks */
    uint64_t requested_size; /* of active and pending blocks */
    bool is_large, is_expandable;
    size_t n_blocks;
    const tt_memory_block *blocks; /* by address, without gaps */
} tt_memory_segment;

typedef struct tt_memory_snapshot {
    tt_memory_report report; /* of the same moment: the segments add up to it */
    size_t n_segments;
    tt_memory_segment *segments; /* by address */
} tt_memory_snapshot;

TT_API tt_memory_snapshot *tt_memory_snapshot_new(tt_device d);
TT_API void tt_memory_snapshot_free(tt_memory_snapshot *s); /* accepts NULL */
/* As JSON; free it with tt_text_free. */
TT_API char *tt_memory_snapshot_json(const tt_memory_snapshot *s);
/* To a file: JSON when its name ends in ".json", else the pickle that PyTorch's memory viewer opens
 * (https://pytorch.org/memory_viz, or python -m torch.cuda._memory_viz). */
TT_API tt_status tt_memory_snapshot_save(const tt_memory_snapshot *s, const char *path);

/* ---- pinned host memory ------------------------------------------------------------------------- */

/* A tensor on the CPU in memory that devices can copy from and to while the host goes on. Locked into RAM if the
 * system lets us. When it is freed while copies are queued, its memory waits for them. */
TT_API tt_tensor *tt_pinned_empty(tt_shape shape, tt_dtype dtype);
/* t itself when it is pinned, else a copy that is. */
TT_API tt_tensor *tt_pin(tt_tensor *t);
TT_API bool tt_tensor_is_pinned(const tt_tensor *t);

typedef struct tt_pinned_stats {
    uint64_t current;          /* bytes in blocks of tensors */
    uint64_t reserved;         /* bytes held, cached ones included */
    uint64_t pending;          /* bytes in freed blocks that streams have still to pass */
    uint64_t n_blocks, locked; /* blocks held; bytes the system agreed to lock */
} tt_pinned_stats;

TT_API tt_pinned_stats tt_pinned_stats_get(void);
TT_API void tt_pinned_empty_cache(void); /* waits for copies of freed blocks */

/* As tt_to_device and tt_copy_, but do not wait for a copy between pinned memory and a device: it is done when
 * the device's current stream has passed. Other pairs are copied as those do. To the CPU the result is pinned. */
TT_API tt_tensor *tt_to_device_async(tt_tensor *t, tt_device d);
TT_API tt_status tt_copy_async_(tt_tensor *dst, tt_tensor *src);

/* ---- leaks ---------------------------------------------------------------------------------------- */

#define TT_LEAK_DEVICES 16

/* What is held on all accelerators at some moment. */
typedef struct tt_leak_check {
    int n_devices;
    tt_device_kind kind;
    uint64_t allocated[TT_LEAK_DEVICES]; /* in blocks of tensors */
    uint64_t held[TT_LEAK_DEVICES];      /* taken from the device, as the driver layer counts */
} tt_leak_check;

/* Around any code: _end fails with INVALID, naming the device, when tensors that were made in between are still
 * there. Both wait for all devices and empty their caches. */
TT_API tt_status tt_leak_check_begin(tt_leak_check *check);
TT_API tt_status tt_leak_check_end(const tt_leak_check *check);
/* fn(arg) in between. Its own error comes first. */
TT_API tt_status tt_leak_check_call(tt_status (*fn)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
