/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the memory of accelerators, and limits for it. */
#include "tutti/memory.h"

#include "base/status.h"
#include "device/cache_parts.h"

/* Devices are told by number here, and have been used before: nothing is left to check. */
static bool is_known(tt_device d)
{
    return (unsigned)d.kind <= TT_DEVICE_CUDA && (unsigned)d.index < TTI_MAX_DEVICES &&
           tti_cache_of(d) != NULL;
}

/* The accelerator table of d, which is made exact; NULL: recorded. */
static const tti_accel *resolve(const char *name, tt_device *d)
{
    return tt_device_resolve(*d, d) == TT_OK ? tti_accel_of(name, *d) : NULL;
}

tt_status tt_memory_report_get(tt_device d, tt_memory_report *report)
{
    const tti_accel *accel = resolve("memory_report_get", &d);

    if (accel == NULL)
        return tt_last_status();
    if (report == NULL)
        return TT_FAIL(TT_ERR_INVALID, "memory_report_get: expected a report to fill, got NULL");
    tti_cache_report(d, report);
    return TT_OK;
}

static tt_memory_report report_of(tt_device d)
{
    tt_memory_report r = { 0 };

    (void)tt_memory_report_get(d, &r);
    return r;
}

uint64_t tt_memory_allocated(tt_device d)
{
    return (uint64_t)report_of(d).allocated_bytes.all.current;
}

uint64_t tt_memory_reserved(tt_device d)
{
    return (uint64_t)report_of(d).reserved_bytes.all.current;
}

uint64_t tt_memory_max_allocated(tt_device d)
{
    return (uint64_t)report_of(d).allocated_bytes.all.peak;
}

uint64_t tt_memory_max_reserved(tt_device d)
{
    return (uint64_t)report_of(d).reserved_bytes.all.peak;
}

tt_status tt_memory_info(tt_device d, uint64_t *free_p, uint64_t *total_p)
{
    const tti_accel *accel = resolve("memory_info", &d);
    uint64_t free_bytes, total;

    if (accel == NULL)
        return tt_last_status();
    TT_TRY(accel->memory_info(d.index, &free_bytes, &total));
    if (free_p != NULL)
        *free_p = free_bytes;
    if (total_p != NULL)
        *total_p = total;
    return TT_OK;
}

tt_status tt_memory_limit_bytes(tt_device d, uint64_t bytes)
{
    const tti_accel *accel = resolve("memory_limit_bytes", &d);

    return accel != NULL ? tti_cache_limit(d, accel, bytes) : tt_last_status();
}

tt_status tt_memory_limit_fraction(tt_device d, double fraction)
{
    const tti_accel *accel = resolve("memory_limit_fraction", &d);
    uint64_t free_bytes, total;

    if (accel == NULL)
        return tt_last_status();
    if (!(fraction >= 0 && fraction <= 1))
        return TT_FAIL(TT_ERR_INVALID, "memory_limit_fraction: expected 0 to 1, got %g", fraction);
    TT_TRY(accel->memory_info(d.index, &free_bytes, &total));
    return tti_cache_limit(d, accel, (uint64_t)(fraction * (double)total));
}

tt_memory_snapshot *tt_memory_snapshot_new(tt_device d)
{
    const tti_accel *accel = resolve("memory_snapshot_new", &d);

    return accel != NULL ? tti_cache_snapshot(d) : NULL;
}

/* Apart, so that the usual way does not need the address of d. */
static __attribute__((noinline)) void *alloc_checked(tt_device d, size_t bytes)
{
    tt_stream *s;

    if (bytes == 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "memory_alloc: expected some bytes, got 0");
    if (resolve("memory_alloc", &d) == NULL)
        return NULL;
    s = tti_stream_of(d);
    return s != NULL ? tti_cache_alloc(d, s, bytes) : NULL;
}

static __attribute__((noinline)) void free_checked(tt_device d, void *p, size_t bytes)
{
    if (p != NULL && resolve("memory_free", &d) != NULL)
        tti_cache_free(d, p, bytes);
}

void *tt_memory_alloc(tt_device d, size_t bytes)
{
    tt_stream *s;

    if (tt_unlikely(bytes == 0 || !is_known(d)))
        return alloc_checked(d, bytes);
    s = tti_stream_of(d);
    return tt_likely(s != NULL) ? tti_cache_alloc(d, s, bytes) : NULL;
}

void tt_memory_free(tt_device d, void *p, size_t bytes)
{
    if (tt_unlikely(p == NULL || !is_known(d)))
        free_checked(d, p, bytes);
    else
        tti_cache_free(d, p, bytes);
}
