/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of the caching allocator: the map from addresses, the bins, splitting and merging. Everything here is
 * called with the lock of the cache held. */
#include <string.h>

#include "base/mem.h"
#include "device/cache_parts.h"

/* ---- the map ------------------------------------------------------------------------------- */

void tti_map_put(tti_cache *c, tti_block *b)
{
    size_t i = tti_map_slot(c, b->p);

    while (c->map[i] != NULL)
        i = (i + 1) & c->map_mask;
    c->map[i] = b;
    c->n_map++;
}

/* What follows the gap moves up, unless it would come before its own slot. */
void tti_map_remove(tti_cache *c, const tti_block *b)
{
    size_t gap = tti_map_slot(c, b->p);

    while (c->map[gap] != b)
        gap = (gap + 1) & c->map_mask;
    for (size_t i = (gap + 1) & c->map_mask; c->map[i] != NULL; i = (i + 1) & c->map_mask) {
        size_t home = tti_map_slot(c, c->map[i]->p);

        if (((i - home) & c->map_mask) < ((i - gap) & c->map_mask))
            continue;
        c->map[gap] = c->map[i];
        gap = i;
    }
    c->map[gap] = NULL;
    c->n_map--;
}

static tt_status map_grow(tti_cache *c)
{
    size_t n = 2 * (c->map_mask + 1);
    tti_block **old = c->map, **map = tti_calloc(n, sizeof *map);

    if (map == NULL)
        return TT_ERR_NOMEM;
    c->map = map;
    c->map_mask = n - 1;
    c->map_shift--;
    c->n_map = 0;
    for (size_t i = 0; i < n / 2; i++)
        if (old[i] != NULL)
            tti_map_put(c, old[i]);
    tti_mfree(old);
    return TT_OK;
}

/* ---- descriptors --------------------------------------------------------------------------- */

tt_status tti_blocks_reserve(tti_cache *c, tti_pool *pool)
{
    if (2 * (c->n_map + 1) > c->map_mask + 1)
        TT_TRY(map_grow(c));
    /* Two descriptors: the first block of a segment, and what is left after splitting it. */
    for (int have = 0; have < 2; have++) {
        tti_block *b;

        if (c->spare != NULL && (have == 0 || c->spare->next != NULL))
            continue;
        b = tti_malloc(sizeof *b);
        if (b == NULL)
            return TT_ERR_NOMEM;
        b->next = c->spare;
        c->spare = b;
    }
    return tti_vec_reserve((void **)&pool->sorted, &pool->cap_sorted, pool->n_large + 2,
                           sizeof(tti_block *));
}

tti_block *tti_block_new(tti_cache *c)
{
    tti_block *b = c->spare;

    c->spare = b->next;
    memset(b, 0, sizeof *b);
    return b;
}

void tti_block_drop(tti_cache *c, tti_block *b)
{
    if (c->last == b)
        c->last = &c->none;
    b->pool->n_large -= b->half == TTI_LARGE;
    b->next = c->spare;
    c->spare = b;
}

/* ---- bins ------------------------------------------------------------------------------------ */

/* The place of the first large block that is not below (size, p). */
static size_t sorted_place(const tti_pool *pool, size_t size, const char *p)
{
    size_t lo = 0, hi = pool->n_sorted;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        const tti_block *b = pool->sorted[mid];

        if (b->size < size || (b->size == size && b->p < p))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void tti_bin_add(tti_block *b)
{
    tti_pool *pool = b->pool;
    size_t i = b->size / TTI_UNIT - 1;

    b->state = TTI_BLOCK_FREE;
    if (b->half == TTI_LARGE) {
        i = sorted_place(pool, b->size, b->p);
        memmove(pool->sorted + i + 1, pool->sorted + i,
                (pool->n_sorted - i) * sizeof *pool->sorted);
        pool->sorted[i] = b;
        pool->n_sorted++;
        return;
    }
    b->prev = NULL;
    b->next = pool->bins[i];
    if (b->next != NULL)
        b->next->prev = b;
    pool->bins[i] = b;
    pool->bin_bits[i / 64] |= (uint64_t)1 << i % 64;
    pool->bin_words |= (uint64_t)1 << i / 64;
}

void tti_bin_remove(tti_block *b)
{
    tti_pool *pool = b->pool;
    size_t i = b->size / TTI_UNIT - 1;

    if (b->half == TTI_LARGE) {
        i = sorted_place(pool, b->size, b->p);
        pool->n_sorted--;
        memmove(pool->sorted + i, pool->sorted + i + 1,
                (pool->n_sorted - i) * sizeof *pool->sorted);
        return;
    }
    if (b->next != NULL)
        b->next->prev = b->prev;
    if (b->prev != NULL) {
        b->prev->next = b->next;
        return;
    }
    pool->bins[i] = b->next;
    if (b->next == NULL) {
        pool->bin_bits[i / 64] &= ~((uint64_t)1 << i % 64);
        if (pool->bin_bits[i / 64] == 0)
            pool->bin_words &= ~((uint64_t)1 << i / 64);
    }
}

/* The smallest free block of at least `size` bytes. */
static tti_block *best_fit(tti_pool *pool, size_t size)
{
    size_t i = size / TTI_UNIT - 1, word = i / 64;
    uint64_t bits;

    if (size > TTI_SMALL_MAX) {
        i = sorted_place(pool, size, NULL);
        return i < pool->n_sorted ? pool->sorted[i] : NULL;
    }
    bits = pool->bin_bits[word] & ~(uint64_t)0 << i % 64;
    if (bits == 0) {
        bits = word < 63 ? pool->bin_words & ~(uint64_t)0 << (word + 1) : 0;
        if (bits == 0)
            return NULL;
        word = (size_t)__builtin_ctzll(bits);
        bits = pool->bin_bits[word];
    }
    return pool->bins[word * 64 + (size_t)__builtin_ctzll(bits)];
}

void tti_block_take(tti_cache *c, tti_block *b, size_t bytes)
{
    size_t i = tti_round(bytes) / TTI_UNIT - 1;

    b->state = TTI_BLOCK_USED;
    b->requested = bytes;
    b->plain = b->quick && b->half == TTI_SMALL;
    if (b->plain) {
        b->list = &b->pool->quick[i];
        b->packed = TTI_LANE_BLOCK + b->size / TTI_UNIT;
        b->pool->quick_bits[i / 64] |= (uint64_t)1 << i % 64;
    }
    tti_stat_up(c, b->half, TTI_STAT_BLOCKS, 1);
    tti_stat_up(c, b->half, TTI_STAT_BYTES, b->size);
    tti_stat_up(c, b->half, TTI_STAT_REQUESTED, bytes);
    if (c->has_active_peak)
        tti_note_active(c);
}

/* ---- merging and splitting --------------------------------------------------------------------- */

/* b, which does not count as a hole now, swallows the free block after it. */
static void merge_after(tti_cache *c, tti_block *b)
{
    tti_block *n = b->after;

    tti_bin_remove(n);
    tti_hole_down(n);
    b->size += n->size;
    b->after = n->after;
    if (b->after != NULL)
        b->after->before = b;
    tti_block_drop(c, n);
}

void tti_block_settle(tti_block *b)
{
    tti_cache *c = b->pool->cache;
    tti_block *before = b->before;

    tti_map_remove(c, b);
    if (b->after != NULL && b->after->state == TTI_BLOCK_FREE)
        merge_after(c, b);
    if (before != NULL && before->state == TTI_BLOCK_FREE) {
        tti_bin_remove(before);
        tti_hole_down(before);
        before->size += b->size;
        before->after = b->after;
        if (b->after != NULL)
            b->after->before = before;
        tti_block_drop(c, b);
        b = before;
    }
    tti_hole_up(b);
    tti_bin_add(b);
}

static void settle_list(tti_block **list)
{
    tti_block *b = *list;

    *list = NULL;
    while (b != NULL) {
        tti_block *next = b->next;

        tti_hole_down(b);
        tti_block_settle(b);
        b = next;
    }
}

void tti_pool_settle(tti_pool *pool, int half)
{
    for (size_t word = 0; half == TTI_SMALL && word < TTI_N_QUICK / 64; word++)
        for (uint64_t bits = pool->quick_bits[word]; bits != 0; bits &= bits - 1)
            settle_list(&pool->quick[word * 64 + (size_t)__builtin_ctzll(bits)]);
    for (uint64_t bits = pool->quick_large_bits; half == TTI_LARGE && bits != 0; bits &= bits - 1)
        settle_list(&pool->quick_large[__builtin_ctzll(bits)]);
}

/* The first `size` bytes stay b, which is in no list and no hole; the rest goes into a bin. */
static void split(tti_block *b, size_t size)
{
    tti_cache *c = b->pool->cache;
    tti_block *rest = tti_block_new(c);

    rest->p = b->p + size;
    rest->size = b->size - size;
    rest->before = b;
    rest->after = b->after;
    if (rest->after != NULL)
        rest->after->before = rest;
    rest->segment = b->segment;
    rest->pool = b->pool;
    rest->half = b->half;
    rest->quick = b->quick;
    b->pool->n_large += b->half == TTI_LARGE;
    b->after = rest;
    b->size = size;
    tti_hole_up(rest);
    tti_bin_add(rest);
}

tti_block *tti_pool_find(tti_pool *pool, size_t size)
{
    tti_block *b;

    tti_pool_settle(pool, size <= TTI_SMALL_MAX ? TTI_SMALL : TTI_LARGE);
    b = best_fit(pool, size);
    if (b == NULL)
        return NULL;
    tti_bin_remove(b);
    tti_hole_down(b);
    if (b->size - size >= (b->half == TTI_LARGE ? TTI_SMALL_MAX + TTI_UNIT : TTI_UNIT))
        split(b, size);
    tti_map_put(pool->cache, b);
    return b;
}
