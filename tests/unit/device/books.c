/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of device memory against statistics. */
#include "books.h"

#include <string.h>

#include "device/cache.h"
#include "tutti/testing.h"

/* What the segments of one size say. */
typedef struct sums {
    int64_t segments, reserved, blocks, allocated, active, active_bytes, requested, holes,
        hole_bytes;
} sums;

static void add_segment(sums *t, const tt_memory_segment *g)
{
    uint64_t at = g->address, allocated = 0, active = 0, requested = 0;

    t->segments++;
    t->reserved += (int64_t)g->total_size;
    for (size_t i = 0; i < g->n_blocks; i++) {
        const tt_memory_block *b = &g->blocks[i];

        TT_REQUIRE_EQ(b->address, at);
        TT_REQUIRE_GT(b->size, 0);
        at += b->size;
        if (b->state == TT_BLOCK_FREE) {
            TT_REQUIRE_EQ(b->requested, 0);
            t->holes += g->n_blocks > 1;
            t->hole_bytes += g->n_blocks > 1 ? (int64_t)b->size : 0;
            continue;
        }
        TT_REQUIRE_GE(b->size, b->requested);
        TT_REQUIRE_GT(b->requested, 0);
        active += b->size;
        requested += b->requested;
        t->active++;
        if (b->state == TT_BLOCK_ACTIVE) {
            t->blocks++;
            allocated += b->size;
        }
    }
    TT_REQUIRE_EQ(at, g->address + g->total_size);
    TT_REQUIRE_EQ(g->allocated_size, allocated);
    TT_REQUIRE_EQ(g->active_size, active);
    TT_REQUIRE_EQ(g->requested_size, requested);
    TT_REQUIRE(!g->is_expandable);
    t->allocated += (int64_t)allocated;
    t->active_bytes += (int64_t)active;
    t->requested += (int64_t)requested;
}

static void tally_check(const tt_memory_tally *t, int64_t current, const char *what)
{
    if (!TT_CHECK_EQ(t->current, current) || !TT_CHECK_LE(t->current, t->peak) ||
        !TT_CHECK_EQ(t->allocated - t->freed, t->current) || !TT_CHECK_GE(t->freed, 0))
        TT_FAIL_TEST("the books of %s are wrong", what);
}

static void row_check(const tt_memory_row *r, int64_t small, int64_t large, const char *what)
{
    tally_check(&r->small, small, what);
    tally_check(&r->large, large, what);
    tally_check(&r->all, small + large, what);
    TT_REQUIRE_EQ(r->all.allocated, r->small.allocated + r->large.allocated);
    TT_REQUIRE_LE(r->small.peak, r->all.peak);
    TT_REQUIRE_LE(r->large.peak, r->all.peak);
    TT_REQUIRE_LE(r->all.peak, r->small.peak + r->large.peak);
}

void books_check(const tt_memory_snapshot *s)
{
    const tt_memory_report *r = &s->report;
    sums t[2] = { 0 };

    for (size_t i = 0; i < s->n_segments; i++) {
        add_segment(&t[s->segments[i].is_large], &s->segments[i]);
        if (i > 0)
            TT_REQUIRE_GE(s->segments[i].address,
                          s->segments[i - 1].address + s->segments[i - 1].total_size);
    }
#define ROW(field, sum) row_check(&r->field, t[0].sum, t[1].sum, #field)
    ROW(allocations, blocks);
    ROW(segments, segments);
    ROW(active, active);
    ROW(inactive_split, holes);
    ROW(allocated_bytes, allocated);
    ROW(reserved_bytes, reserved);
    ROW(active_bytes, active_bytes);
    ROW(requested_bytes, requested);
    ROW(inactive_split_bytes, hole_bytes);
#undef ROW
    TT_REQUIRE_EQ(r->num_device_alloc - r->num_device_free, r->segments.all.current);
    TT_REQUIRE_EQ(r->num_device_alloc, r->segments.all.allocated);
}

tt_memory_report books_of(tt_device d)
{
    tt_memory_snapshot *s;
    tt_memory_report r = { 0 }, again;

    if (d.index == TT_CURRENT)
        d = tt_device_current((tt_device_kind)d.kind);
    s = tti_cache_snapshot(d);
    TT_REQUIRE_NOT_NULL(s);
    books_check(s);
    r = s->report;
    tt_memory_snapshot_free(s);
    tti_cache_report(d, &again);
    if (r.active.all.current ==
        r.allocations.all.current) /* else some may have been passed since */
        TT_REQUIRE_MEM(&r, &again, sizeof r);
    return r;
}
