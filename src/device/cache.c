/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator of accelerators: its entries. What every operator passes is here; the rest is in
 * cache_blocks.c and cache_segments.c. */
#include "device/cache.h"

#include <assert.h>

#include "base/alloc_fault.h"
#include "base/mem.h"
#include "device/cache_parts.h"

/* ---- allocate -------------------------------------------------------------------------------- */

/* From the quick list of this size, with the lane closed. */
static tti_block *quick_get(tti_pool *pool, size_t size)
{
    tti_block **list = tti_quick_list(pool, size), *b = *list;

    if (b == NULL || (size > TTI_SMALL_MAX && tti_round(b->requested) != size))
        return NULL;
    *list = b->next;
    tti_hole_down(b);
    return b;
}

/* From what is cached for this stream, with `lock` held. NULL with *st_p = TT_OK: there is none. */
static tti_block *find_cached(tti_cache *c, tt_stream *s, size_t bytes, tt_status *st_p)
{
    tti_pool *pool = tti_pool_of(c, s);
    tti_block *b;

    if (pool == NULL) {
        *st_p = TT_ERR_NOMEM;
        return NULL;
    }
    c->recent = pool;
    tti_pending_poll(c);
    *st_p = tti_blocks_reserve(c, pool);
    if (*st_p != TT_OK || !c->caching || bytes >= TTI_ABSURD)
        return NULL;
    b = quick_get(pool, tti_round(bytes));
    if (b == NULL)
        b = tti_pool_find(pool, tti_round(bytes));
    if (b != NULL)
        tti_block_take(c, b, bytes);
    return b;
}

static __attribute__((noinline)) void *alloc_slow(tti_cache *c, tt_stream *s, size_t bytes)
{
    tt_status st = TT_OK;
    tti_block *b;
    bool biased = tti_cache_enter(c);

    b = find_cached(c, s, bytes, &st);
    tti_cache_leave(c, biased);
    if (b != NULL || st != TT_OK)
        return b != NULL ? b->p : NULL;
    pthread_mutex_lock(&c->grow);
    biased = tti_cache_enter(c); /* somebody else may have grown it for this stream */
    b = find_cached(c, s, bytes, &st);
    tti_cache_leave(c, biased);
    if (b == NULL && st == TT_OK)
        b = tti_cache_grow(c, s, bytes);
    pthread_mutex_unlock(&c->grow);
    return b != NULL ? b->p : NULL;
}

/* The functions below are apart so that the way of a quick operation has no calls and saves no registers. */
#define APART static __attribute__((noinline))

APART void *alloc_failed(size_t bytes)
{
    return TT_FAIL_NULL(TT_ERR_NOMEM, "out of memory: %zu bytes wanted", bytes);
}

APART void *alloc_first(tt_device d, tt_stream *s, size_t bytes)
{
    tti_cache *c = tti_cache_get(d, s->accel);

    return c != NULL ? alloc_slow(c, s, bytes) : NULL;
}

/* The lane is left: its sums go into the books, peaks are raised, and it starts anew. */
APART void *alloc_over(tti_cache *c, tti_block *b)
{
    tti_lane_close(c);
    tti_lane_open(c);
    tti_bias_leave();
    return b->p;
}

APART void *alloc_leave(tti_cache *c, tt_stream *s, size_t bytes)
{
    tti_bias_leave();
    return alloc_slow(c, s, bytes);
}

void *tti_cache_alloc(tt_device d, tt_stream *s, size_t bytes)
{
    tti_cache *c = tti_cache_of(d);
    size_t i = (bytes - 1) / TTI_UNIT;
    tti_block *b;

    if (tt_unlikely(tti_alloc_fault()))
        return alloc_failed(bytes);
    if (tt_unlikely(c == NULL))
        return alloc_first(d, s, bytes);
    if (tt_unlikely(i >= TTI_N_QUICK || !tti_bias_try(&c->lock)))
        return alloc_slow(c, s, bytes);
    if (tt_unlikely(c->recent == NULL || c->recent->stream != s))
        return alloc_leave(c, s, bytes);
    b = c->recent->quick[i];
    if (tt_unlikely(b == NULL))
        return alloc_leave(c, s, bytes);
    *b->list = b->next;
    c->last = b;
    b->state = TTI_BLOCK_USED;
    b->requested = bytes;
    c->lane.used += b->packed;
    c->lane.in += b->packed;
    c->lane.requested += (int64_t)bytes;
    c->lane.requested_in += (int64_t)bytes;
    if (tt_unlikely(tti_lane_over(&c->lane)))
        return alloc_over(c, b);
    tti_bias_leave();
    return b->p;
}

/* ---- free ---------------------------------------------------------------------------------------- */

/* A used block that other streams use too: it is pending until they have passed this place. Marks are made
 * without the lock, because that calls the driver; nobody else touches b meanwhile. */
static void free_pending(tti_cache *c, tti_block *b)
{
    bool biased;

    for (tti_use *u = b->uses; u != NULL; u = u->next) {
        u->mark = c->accel->mark(u->stream->queue, false);
        if (u->mark == NULL)
            c->accel->queue_sync(u->stream->queue);
    }
    biased = tti_cache_enter(c);
    b->next = NULL;
    *c->pending_tail = b;
    c->pending_tail = &b->next;
    tti_cache_leave(c, biased);
}

/* Without a cache a block is its segment, which goes back when its streams have passed. */
static void free_segment(tti_cache *c, tti_block *b)
{
    bool biased;

    pthread_mutex_lock(&c->grow);
    for (tti_use *u = b->uses; u != NULL; u = u->next)
        c->accel->queue_sync(u->stream->queue);
    c->accel->queue_sync(b->pool->stream->queue);
    c->accel->segment_free(c->device.index, b->p, b->segment->size);
    biased = tti_cache_enter(c);
    tti_uses_free(c, b);
    tti_map_remove(c, b);
    tti_block_give(c, b);
    tti_segment_unlink(c, b->segment);
    tti_cache_leave(c, biased);
    pthread_mutex_unlock(&c->grow);
}

/* A block that no other stream uses becomes free, with the lane closed. */
static void quick_put(tti_cache *c, tti_block *b)
{
    tti_block **list = tti_quick_list(b->pool, tti_round(b->requested));

    tti_block_give(c, b);
    if (b->half == TTI_LARGE && *list != NULL &&
        tti_round((*list)->requested) != tti_round(b->requested)) {
        tti_block_settle(b);
        return;
    }
    if (b->half == TTI_LARGE)
        b->pool->quick_large_bits |= (uint64_t)1 << (list - b->pool->quick_large);
    tti_hole_up(b);
    b->state = TTI_BLOCK_QUICK;
    b->next = *list;
    *list = b;
}

APART void free_slow(tti_cache *c, void *p)
{
    bool biased = tti_cache_enter(c), is_own;
    tti_block *b = tti_map_find(c, p);

    assert(b != NULL && b->state == TTI_BLOCK_USED);
    is_own = !b->quick;
    if (!is_own && b->uses == NULL) {
        quick_put(c, b);
        b = NULL; /* anybody's now */
    } else if (!is_own) {
        tti_block_pend(c, b);
    }
    tti_cache_leave(c, biased);
    if (is_own)
        free_segment(c, b);
    else if (b != NULL)
        free_pending(c, b);
}

APART void free_leave(tti_cache *c, void *p)
{
    tti_bias_leave();
    free_slow(c, p);
}

APART void free_under(tti_cache *c)
{
    tti_lane_close(c);
    tti_lane_open(c);
    tti_bias_leave();
}

void tti_cache_free(tt_device d, void *p, size_t bytes)
{
    tti_cache *c = tti_cache_of(d);
    tti_block *b;

    (void)bytes;
    if (tt_unlikely(!tti_bias_try(&c->lock))) {
        free_slow(c, p);
        return;
    }
    b = tti_block_at(c, p);
    assert(b != NULL && b->state == TTI_BLOCK_USED && b->requested == bytes);
    if (tt_unlikely(!b->plain)) {
        free_leave(c, p);
        return;
    }
    b->state = TTI_BLOCK_QUICK;
    b->next = *b->list;
    *b->list = b;
    c->lane.used -= b->packed;
    c->lane.requested -= (int64_t)b->requested;
    if (tt_unlikely(tti_lane_under(&c->lane))) {
        free_under(c);
        return;
    }
    tti_bias_leave();
}

/* ---- streams ----------------------------------------------------------------------------------- */

tt_status tti_cache_record_stream(tt_device d, void *p, tt_stream *s)
{
    tti_cache *c = tti_cache_of(d);
    tti_use *u = tti_malloc(sizeof *u);
    tti_block *b;
    bool biased;

    if (u == NULL)
        return TT_ERR_NOMEM;
    *u = (tti_use){ .stream = s };
    if (c != NULL) {
        biased = tti_cache_enter(c);
        b = tti_map_find(c, p);
        for (tti_use *known = b != NULL ? b->uses : NULL; known != NULL; known = known->next)
            if (known->stream == s)
                b = NULL;
        if (b != NULL && b->pool->stream != s) {
            u->next = b->uses;
            b->uses = u;
            b->plain = false;
            u = NULL;
        }
        tti_cache_leave(c, biased);
    }
    tti_mfree(u);
    return TT_OK;
}
