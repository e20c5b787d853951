/* SPDX-License-Identifier: Apache-2.0 */
/* What the caching allocator of a device holds, at one moment. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/cache_parts.h"

static void fill_block(tt_memory_segment *to, tt_memory_block *block, const tti_block *b)
{
    *block =
        (tt_memory_block){ .address = (uintptr_t)b->p, .size = b->size, .state = TT_BLOCK_FREE };
    if (b->state == TTI_BLOCK_USED || b->state == TTI_BLOCK_PENDING) {
        block->requested = b->requested;
        to->requested_size += b->requested;
        to->active_size += b->size;
        block->state = TT_BLOCK_PENDING;
    }
    if (b->state == TTI_BLOCK_USED) {
        to->allocated_size += b->size;
        block->state = TT_BLOCK_ACTIVE;
    }
}

static tt_memory_block *fill_segment(tt_memory_segment *to, tt_memory_block *blocks,
                                     const tti_cache *c, const tti_segment *g)
{
    *to = (tt_memory_segment){ .device = c->device,
                               .address = (uintptr_t)g->p,
                               .stream = (uintptr_t)g->pool->stream,
                               .total_size = g->size,
                               .is_large = g->half == TTI_LARGE,
                               .blocks = blocks };
    if (g->pool->stream->is_default)
        to->stream = 0; /* as the viewer expects of default streams */
    for (const tti_block *b = g->first; b != NULL; b = b->after)
        fill_block(to, &blocks[to->n_blocks++], b);
    return blocks + to->n_blocks;
}

static int by_address(const void *a, const void *b)
{
    const tt_memory_segment *x = a, *y = b;

    return (x->address > y->address) - (x->address < y->address);
}

/* With lock held. One piece of memory: the snapshot, its segments, their blocks. */
static tt_memory_snapshot *take(const tti_cache *c)
{
    size_t n_segments = 0, n_blocks = 0;
    tt_memory_snapshot *s;
    tt_memory_block *blocks;

    for (const tti_segment *g = c->segments; g != NULL; g = g->next) {
        n_segments++;
        for (const tti_block *b = g->first; b != NULL; b = b->after)
            n_blocks++;
    }
    s = tti_malloc(sizeof *s + n_segments * sizeof(tt_memory_segment) +
                   n_blocks * sizeof(tt_memory_block));
    if (s == NULL)
        return NULL;
    s->n_segments = 0;
    s->segments = (tt_memory_segment *)(s + 1);
    blocks = (tt_memory_block *)(s->segments + n_segments);
    for (const tti_segment *g = c->segments; g != NULL; g = g->next)
        blocks = fill_segment(&s->segments[s->n_segments++], blocks, c, g);
    tti_cache_report_locked(c, &s->report);
    return s;
}

tt_memory_snapshot *tti_cache_snapshot(tt_device d)
{
    tti_cache *c = tti_cache_known(d);
    tt_memory_snapshot *s;
    bool biased;

    if (c == NULL)
        return tti_calloc(1, sizeof *s);
    biased = tti_cache_enter(c);
    tti_pending_poll(c);
    s = take(c);
    tti_cache_leave(c, biased);
    if (s != NULL)
        qsort(s->segments, s->n_segments, sizeof *s->segments, by_address);
    return s;
}

void tt_memory_snapshot_free(tt_memory_snapshot *s)
{
    tti_mfree(s);
}
