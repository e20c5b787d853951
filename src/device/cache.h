/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator of accelerators, one per device, above the segments of tti_accel. It knows no kind of
 * accelerator. Drivers point alloc, free, stats, reset_peak and empty_cache of their tti_driver here.
 *
 * Frees are ordered by streams: a block is made for one stream and, once freed, handed out again for that stream at once,
 * because what the stream does next comes after what it did before. Other streams never get it, except by
 * way of the system. Streams are remembered for ever; they are never destroyed. A block that other streams use too (tti_cache_record_stream) stays pending after
 * its free until those streams have passed the place of the free. */
#ifndef TTI_DEVICE_CACHE_H
#define TTI_DEVICE_CACHE_H

#include "device/accel.h"
#include "tutti/memory.h"

/* Memory for work on s, a stream of d. bytes is not 0. NULL: NOMEM, recorded with a table of what is held. Any
 * thread; waits for the device only when there is no memory left otherwise. */
void *tti_cache_alloc(tt_device d, tt_stream *s, size_t bytes);

/* `bytes` as it was asked for. Any thread; never waits for the device. */
void tti_cache_free(tt_device d, void *p, size_t bytes);

/* The block that begins at p is in use on s too. */
tt_status tti_cache_record_stream(tt_device d, void *p, tt_stream *s);

/* Waits for the streams of d and gives everything that no tensor uses back to the system. */
void tti_cache_empty(tt_device d);

/* For tti_driver. */
tt_memory_stats tti_cache_stats(tt_device d);
void tti_cache_reset_peak(tt_device d);

/* All zero for a device that was never used. */
void tti_cache_report(tt_device d, tt_memory_report *report);
/* The most bytes to hold from the driver; accel is that of d. */
tt_status tti_cache_limit(tt_device d, const tti_accel *accel, uint64_t bytes);
/* NULL: NOMEM. Empty for a device that was never used. */
tt_memory_snapshot *tti_cache_snapshot(tt_device d);

#endif
