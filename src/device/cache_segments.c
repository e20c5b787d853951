/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of the caching allocator: where they come from, when they go back, and the streams they belong to. */
#include <string.h>

#include "base/env.h"
#include "base/mem.h"
#include "device/cache_parts.h"

_Atomic(tti_cache *) tti_caches[TTI_N_KINDS][TTI_MAX_DEVICES];

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* ---- caches and pools -------------------------------------------------------------------------- */

#define MAP_BITS 10

static tti_cache *cache_new(tt_device d, const tti_accel *accel)
{
    tti_cache *c = tti_calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    c->map = tti_calloc((size_t)1 << MAP_BITS, sizeof *c->map);
    if (c->map == NULL) {
        tti_mfree(c);
        return NULL;
    }
    c->map_mask = ((size_t)1 << MAP_BITS) - 1;
    c->map_shift = 64 - MAP_BITS;
    c->device = d;
    c->accel = accel;
    c->caching = tti_env_int(TTI_ENV_CL_NO_CACHE, 0, 1, 0) == 0;
    c->limit = tti_cache_default_limit(d, accel);
    c->pending_tail = &c->pending;
    c->last = &c->none;
    tti_bias_init(&c->lock);
    pthread_mutex_init(&c->grow, NULL);
    return c;
}

tti_cache *tti_cache_get(tt_device d, const tti_accel *accel)
{
    tti_cache *c = tti_cache_of(d);

    if (c != NULL)
        return c;
    pthread_mutex_lock(&making);
    c = tti_cache_of(d);
    if (c == NULL) {
        c = cache_new(d, accel);
        atomic_store_explicit(&tti_caches[d.kind][d.index], c, memory_order_release);
    }
    pthread_mutex_unlock(&making);
    return c;
}

tti_cache *tti_cache_known(tt_device d)
{
    tti_cache *c = tti_cache_of(d);
    const tti_accel *accel = c == NULL ? tti_accel_of("memory", d) : NULL;

    return accel != NULL ? tti_cache_get(d, accel) : c;
}

tti_pool *tti_pool_of(tti_cache *c, tt_stream *s)
{
    tti_pool *pool = c->pools;

    while (pool != NULL && pool->stream != s)
        pool = pool->next;
    if (pool != NULL)
        return pool;
    pool = tti_calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->cache = c;
    pool->stream = s;
    pool->next = c->pools;
    c->pools = pool;
    return pool;
}

/* ---- a new segment ------------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static size_t segment_size(const tti_cache *c, size_t bytes)
{
    size_t size = tti_round(bytes);

    if (!c->caching)
        return bytes;
    if (size <= TTI_SMALL_MAX)
        return TTI_SMALL_SEGMENT;
    return size < TTI_LARGE_OWN ? TTI_LARGE_SEGMENT : round_up(size, TTI_SEGMENT_UNIT);
}

static int64_t reserved(const tti_cache *c)
{
    return c->stats[0][TTI_STAT_RESERVED].now + c->stats[1][TTI_STAT_RESERVED].now;
}

/* With lock held; memory was reserved for all of it. One block as large as the segment, in no list and no hole. */
static tti_block *segment_add(tti_cache *c, tti_pool *pool, tti_segment *g)
{
    tti_block *b = tti_block_new(c);

    g->pool = pool;
    g->first = b;
    g->next = c->segments;
    if (g->next != NULL)
        g->next->prev = g;
    c->segments = g;
    b->p = g->p;
    b->size = g->size;
    b->segment = g;
    b->pool = pool;
    b->half = g->half;
    b->quick = c->caching;
    pool->n_large += g->half == TTI_LARGE;
    tti_stat_up(c, g->half, TTI_STAT_SEGMENTS, 1);
    tti_stat_up(c, g->half, TTI_STAT_RESERVED, g->size);
    c->n_segment_new++;
    return b;
}

void tti_segment_unlink(tti_cache *c, tti_segment *g)
{
    if (g->next != NULL)
        g->next->prev = g->prev;
    if (g->prev != NULL)
        g->prev->next = g->next;
    else
        c->segments = g->next;
    tti_stat_down(c, g->half, TTI_STAT_SEGMENTS, 1);
    tti_stat_down(c, g->half, TTI_STAT_RESERVED, g->size);
    c->n_segment_free++;
    tti_block_drop(c, g->first);
    tti_mfree(g);
}

/* With lock held. */
static tt_status place(tti_cache *c, tt_stream *s, tti_segment *g, size_t bytes, tti_block **b_p)
{
    tti_pool *pool = tti_pool_of(c, s);
    tti_block *b;

    if (pool == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tti_blocks_reserve(c, pool));
    b = segment_add(c, pool, g);
    if (c->caching) {
        tti_bin_add(b);
        b = tti_pool_find(pool,
                          tti_round(bytes)); /* a block that became free meanwhile may fit better */
    } else {
        tti_map_put(c, b);
    }
    tti_block_take(c, b, bytes);
    *b_p = b;
    return TT_OK;
}

/* One attempt. NULL with the status of why, NOMEM when it is worth to give something back first. */
static tti_block *try_segment(tti_cache *c, tt_stream *s, size_t size, size_t bytes,
                              tt_status *st_p)
{
    tti_segment *g;
    tti_block *b = NULL;
    bool biased;

    *st_p = TT_ERR_NOMEM;
    if ((uint64_t)reserved(c) + size > c->limit) /* only holders of grow change both */
        return NULL;
    if (tti_round(bytes) <= TTI_SMALL_MAX &&
        (uint64_t)c->stats[TTI_SMALL][TTI_STAT_RESERVED].now + size > TTI_LANE_MOST * TTI_UNIT)
        return NULL;
    g = tti_calloc(1, sizeof *g);
    if (g == NULL)
        return NULL;
    g->size = size;
    g->half = tti_round(bytes) <= TTI_SMALL_MAX ? TTI_SMALL : TTI_LARGE;
    g->p = c->accel->segment_new(c->device.index, size);
    if (g->p == NULL) {
        *st_p = tt_last_status();
        tti_mfree(g);
        return NULL;
    }
    biased = tti_cache_enter(c);
    *st_p = place(c, s, g, bytes, &b);
    tti_cache_leave(c, biased);
    if (b == NULL) {
        c->accel->segment_free(c->device.index, g->p, size);
        tti_mfree(g);
    }
    return b;
}

/* What became free while waiting may do. */
static tti_block *try_cached(tti_cache *c, tt_stream *s, size_t bytes)
{
    tti_block *b = NULL;
    bool biased = tti_cache_enter(c);
    tti_pool *pool = tti_pool_of(c, s);

    if (c->caching && pool != NULL && tti_blocks_reserve(c, pool) == TT_OK)
        b = tti_pool_find(pool, tti_round(bytes));
    if (b != NULL)
        tti_block_take(c, b, bytes);
    tti_cache_leave(c, biased);
    return b;
}

static void count(tti_cache *c, uint64_t *counter)
{
    bool biased = tti_cache_enter(c);

    ++*counter;
    tti_cache_leave(c, biased);
}

tti_block *tti_cache_grow(tti_cache *c, tt_stream *s, size_t bytes)
{
    tt_status st = TT_ERR_NOMEM;
    tti_block *b = NULL;
    size_t size, least;

    if (bytes < TTI_ABSURD) {
        size = segment_size(c, bytes);
        least = size == TTI_LARGE_SEGMENT ? round_up(bytes, TTI_SEGMENT_UNIT) : size;
        b = try_segment(c, s, size, bytes, &st);
        if (b != NULL || st != TT_ERR_NOMEM)
            return b;
        count(c, &c->n_retries);
        tti_pending_wait(c);
        b = try_cached(c, s, bytes);
        if (b == NULL) {
            tti_cache_release(c);
            b = try_segment(c, s, size, bytes, &st);
        }
        if (b == NULL && st == TT_ERR_NOMEM && least != size)
            b = try_segment(c, s, least, bytes, &st);
    }
    if (b == NULL && st == TT_ERR_NOMEM) {
        count(c, &c->n_ooms);
        tti_cache_oom(c, bytes);
    }
    return b;
}

/* ---- giving back --------------------------------------------------------------------------------- */

/* With lock held: segments without a used or pending block, taken out of the bins so that nobody gets them. They stay in
 * the books until the driver has them back. */
static tti_segment *collect(tti_cache *c)
{
    tti_segment *leaving = NULL;

    for (tti_pool *pool = c->pools; pool != NULL; pool = pool->next) {
        tti_pool_settle(pool, TTI_SMALL);
        tti_pool_settle(pool, TTI_LARGE);
    }
    for (tti_segment *g = c->segments; g != NULL; g = g->next) {
        if (g->first->state != TTI_BLOCK_FREE || g->first->after != NULL)
            continue;
        tti_bin_remove(g->first);
        g->leaving = leaving;
        leaving = g;
    }
    return leaving;
}

/* New pools come in front, and none ever goes: what follows the first one is read without the lock. */
static void sync_streams(tti_cache *c)
{
    const tti_pool *pool;
    bool biased = tti_cache_enter(c);

    pool = c->pools;
    c->n_sync_all++;
    tti_cache_leave(c, biased);
    for (; pool != NULL; pool = pool->next)
        c->accel->queue_sync(pool->stream->queue);
}

void tti_cache_release(tti_cache *c)
{
    tti_segment *leaving;
    bool biased;

    tti_pending_wait(c);
    biased = tti_cache_enter(c);
    leaving = collect(c);
    tti_cache_leave(c, biased);
    sync_streams(c);
    for (tti_segment *g = leaving; g != NULL; g = g->leaving)
        c->accel->segment_free(c->device.index, g->p, g->size);
    biased = tti_cache_enter(c);
    while (leaving != NULL) {
        tti_segment *g = leaving;

        leaving = g->leaving;
        tti_segment_unlink(c, g);
    }
    tti_cache_leave(c, biased);
}

void tti_cache_empty(tt_device d)
{
    tti_cache *c = tti_cache_known(d);

    if (c == NULL)
        return;
    pthread_mutex_lock(&c->grow);
    tti_cache_release(c);
    pthread_mutex_unlock(&c->grow);
}
