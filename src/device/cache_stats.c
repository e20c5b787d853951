/* SPDX-License-Identifier: Apache-2.0 */
/* The books of the caching allocator, read. */
#include <string.h>

#include "device/cache_parts.h"

static tt_memory_tally tally(const tti_tally *t)
{
    return (tt_memory_tally){
        .current = t->now, .peak = t->peak, .allocated = t->in, .freed = t->in - t->now
    };
}

static tt_memory_row row(const tti_cache *c, tti_stat k)
{
    tt_memory_row r = { .small = tally(&c->stats[TTI_SMALL][k]),
                        .large = tally(&c->stats[TTI_LARGE][k]) };

    r.all = (tt_memory_tally){ .current = r.small.current + r.large.current,
                               .peak = c->all_peak[k],
                               .allocated = r.small.allocated + r.large.allocated,
                               .freed = r.small.freed + r.large.freed };
    return r;
}

/* Pending blocks are active still: they came as used ones and have not gone yet. */
static tt_memory_row active_row(const tti_cache *c, int which)
{
    tt_memory_row r = row(c, TTI_STAT_BLOCKS + (tti_stat)which);
    tt_memory_row pending = row(c, TTI_STAT_PENDING + (tti_stat)which);
    tt_memory_tally *to[3] = { &r.small, &r.large, &r.all };
    const tt_memory_tally *from[3] = { &pending.small, &pending.large, &pending.all };

    for (int i = 0; i < 3; i++) {
        to[i]->current += from[i]->current;
        to[i]->freed -= from[i]->current;
        if (c->has_active_peak)
            to[i]->peak = c->active_peak[i][which];
    }
    return r;
}

void tti_cache_report_locked(const tti_cache *c, tt_memory_report *r)
{
    *r = (tt_memory_report){ .allocations = row(c, TTI_STAT_BLOCKS),
                             .segments = row(c, TTI_STAT_SEGMENTS),
                             .active = active_row(c, 0),
                             .inactive_split = row(c, TTI_STAT_HOLES),
                             .allocated_bytes = row(c, TTI_STAT_BYTES),
                             .reserved_bytes = row(c, TTI_STAT_RESERVED),
                             .active_bytes = active_row(c, 1),
                             .requested_bytes = row(c, TTI_STAT_REQUESTED),
                             .inactive_split_bytes = row(c, TTI_STAT_HOLE_BYTES),
                             .num_device_alloc = c->n_segment_new,
                             .num_device_free = c->n_segment_free,
                             .num_sync_all_streams = c->n_sync_all,
                             .num_alloc_retries = c->n_retries,
                             .num_ooms = c->n_ooms,
                             .limit = c->limit };
}

void tti_cache_report(tt_device d, tt_memory_report *report)
{
    tti_cache *c = tti_cache_known(d);
    bool biased;

    memset(report, 0, sizeof *report);
    if (c == NULL)
        return;
    biased = tti_cache_enter(c);
    tti_pending_poll(c);
    tti_cache_report_locked(c, report);
    tti_cache_leave(c, biased);
}

tt_memory_stats tti_cache_stats(tt_device d)
{
    tt_memory_report r;

    tti_cache_report(d, &r);
    return (tt_memory_stats){ .current = (uint64_t)r.requested_bytes.all.current,
                              .peak = (uint64_t)r.requested_bytes.all.peak,
                              .reserved = (uint64_t)r.reserved_bytes.all.current,
                              .n_allocations = (uint64_t)r.allocations.all.allocated,
                              .n_frees = (uint64_t)r.allocations.all.freed,
                              .n_system = r.num_device_alloc };
}

void tti_cache_reset_peak(tt_device d)
{
    tti_cache *c = tti_cache_of(d);
    bool biased;

    if (c == NULL)
        return;
    biased = tti_cache_enter(c);
    tti_pending_poll(c);
    for (int k = 0; k < TTI_N_STATS; k++) {
        for (int half = 0; half < 2; half++)
            c->stats[half][k].peak = c->stats[half][k].now;
        c->all_peak[k] = c->stats[0][k].now + c->stats[1][k].now;
    }
    memset(c->active_peak, 0, sizeof c->active_peak);
    tti_note_active(c);
    c->has_active_peak = c->all_peak[TTI_STAT_PENDING] != 0;
    tti_cache_leave(c, biased);
}
