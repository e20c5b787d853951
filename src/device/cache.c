/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator of accelerators: its entries. What every operator passes is here; the rest is in
 * cache_blocks.c and cache_segments.c. */
#include "device/cache.h"

#include <assert.h>

#include "base/mem.h"
#include "device/cache_parts.h"

/* ---- allocate -------------------------------------------------------------------------------- */

/* From the quick list of this size and stream. */
static inline tti_block *quick_get(tti_cache *c, const tt_stream *s, size_t size)
{
    tti_pool *pool = c->recent;
    tti_block **list, *b;

    if (tt_unlikely(pool == NULL || pool->stream != s))
        return NULL;
    list = tti_quick_list(pool, size);
    b = *list;
    if (b == NULL || (size - 1 >= TTI_SMALL_MAX && tti_round(b->requested) != size))
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
    b = quick_get(c, s, tti_round(bytes));
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
    bool biased = tti_bias_lock_take(&c->lock);

    b = find_cached(c, s, bytes, &st);
    tti_bias_unlock(&c->lock, biased);
    if (b != NULL || st != TT_OK)
        return b != NULL ? b->p : NULL;
    pthread_mutex_lock(&c->grow);
    biased = tti_bias_lock_take(&c->lock); /* somebody else may have grown it for this stream */
    b = find_cached(c, s, bytes, &st);
    tti_bias_unlock(&c->lock, biased);
    if (b == NULL && st == TT_OK)
        b = tti_cache_grow(c, s, bytes);
    pthread_mutex_unlock(&c->grow);
    return b != NULL ? b->p : NULL;
}

static __attribute__((noinline)) void *alloc_first(tt_device d, tt_stream *s, size_t bytes)
{
    tti_cache *c = tti_cache_get(d, s->accel);

    return c != NULL ? alloc_slow(c, s, bytes) : NULL;
}

void *tti_cache_alloc(tt_device d, tt_stream *s, size_t bytes)
{
    tti_cache *c = tti_cache_of(d);
    tti_block *b;
    bool biased;

    if (tt_unlikely(tti_alloc_should_fail()))
        return TT_FAIL_NULL(TT_ERR_NOMEM, "out of memory: %zu bytes wanted", bytes);
    if (tt_unlikely(c == NULL))
        return alloc_first(d, s, bytes);
    biased = tti_bias_lock_take(&c->lock);
    b = quick_get(c, s, tti_round(bytes));
    if (tt_likely(b != NULL)) {
        void *p = b->p;

        tti_block_take(c, b, bytes);
        tti_bias_unlock(&c->lock, biased);
        return p;
    }
    tti_bias_unlock(&c->lock, biased);
    return alloc_slow(c, s, bytes);
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
    biased = tti_bias_lock_take(&c->lock);
    b->next = NULL;
    *c->pending_tail = b;
    c->pending_tail = &b->next;
    tti_bias_unlock(&c->lock, biased);
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
    biased = tti_bias_lock_take(&c->lock);
    tti_uses_free(c, b);
    tti_map_remove(c, b);
    tti_block_give(c, b);
    tti_segment_unlink(c, b->segment);
    tti_bias_unlock(&c->lock, biased);
    pthread_mutex_unlock(&c->grow);
}

static inline void quick_put(tti_cache *c, tti_block *b)
{
    size_t size = tti_round(b->requested), i = size / TTI_UNIT - 1;
    tti_pool *pool = b->pool;
    tti_block **list = tti_quick_list(pool, size);

    tti_block_give(c, b);
    if (size > TTI_SMALL_MAX) {
        if (*list != NULL && tti_round((*list)->requested) != size) {
            tti_block_settle(b);
            return;
        }
        pool->quick_large_bits |= (uint64_t)1 << (list - pool->quick_large);
    } else {
        pool->quick_bits[i / 64] |= (uint64_t)1 << i % 64;
    }
    tti_hole_up(b);
    b->state = TTI_BLOCK_QUICK;
    b->next = *list;
    *list = b;
}

static __attribute__((noinline)) void free_slow(tti_cache *c, tti_block *b)
{
    bool biased;

    if (!b->quick) {
        free_segment(c, b);
        return;
    }
    biased = tti_bias_lock_take(&c->lock);
    tti_block_pend(c, b);
    tti_bias_unlock(&c->lock, biased);
    free_pending(c, b);
}

void tti_cache_free(tt_device d, void *p, size_t bytes)
{
    tti_cache *c = tti_cache_of(d);
    bool biased = tti_bias_lock_take(&c->lock);
    tti_block *b = tti_map_find(c, p);

    (void)bytes;
    assert(b != NULL && b->state == TTI_BLOCK_USED && b->requested == bytes);
    if (tt_likely(b->uses == NULL && b->quick)) {
        quick_put(c, b);
        tti_bias_unlock(&c->lock, biased);
        return;
    }
    tti_bias_unlock(&c->lock, biased);
    free_slow(c, b);
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
        biased = tti_bias_lock_take(&c->lock);
        b = tti_map_find(c, p);
        for (tti_use *known = b != NULL ? b->uses : NULL; known != NULL; known = known->next)
            if (known->stream == s)
                b = NULL;
        if (b != NULL && b->pool->stream != s) {
            u->next = b->uses;
            b->uses = u;
            u = NULL;
        }
        tti_bias_unlock(&c->lock, biased);
    }
    tti_mfree(u);
    return TT_OK;
}
