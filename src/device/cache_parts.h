/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the caching allocator.
 *
 *     tti_cache (a device) --> tti_pool (a stream) --> bins of free blocks
 *            \--> tti_segment (from the driver) --> tti_block <-> tti_block <-> ... (by address, no gaps)
 *
 * A freed block first lies on a quick list of its size, not merged, where the next request for that size takes it
 * with a few instructions. A request that finds no block there settles all quick blocks of the pool, small or
 * large (merges them with free neighbours, puts them into the bins), then takes the best fit and splits it.
 *
 * Locks. `lock` guards everything here but for what `grow` guards. `grow` is held by whoever gets segments from
 * the driver or gives them back; it is taken before `lock`, never inside. Nobody calls a driver or waits
 * with `lock` held, except to ask whether a mark has been passed. */
#ifndef TTI_DEVICE_CACHE_PARTS_H
#define TTI_DEVICE_CACHE_PARTS_H

#include "device/cache.h"
#include "device/cache_lock.h"

#define TTI_UNIT ((size_t)512)
#define TTI_SMALL_MAX ((size_t)1 << 20)     /* the largest small block */
#define TTI_SMALL_SEGMENT ((size_t)2 << 20) /* small blocks are cut from these */
#define TTI_LARGE_SEGMENT ((size_t)20 << 20)
#define TTI_LARGE_OWN \
    ((size_t)10 << 20) /* from here on a segment is as large as asked, rounded up to: */
#define TTI_SEGMENT_UNIT ((size_t)2 << 20)
#define TTI_ABSURD ((size_t)1 << 62) /* nobody has that much, and sums with it could overflow */

#define TTI_N_QUICK (TTI_SMALL_MAX / TTI_UNIT)
#define TTI_N_BINS (TTI_SMALL_SEGMENT / TTI_UNIT)
#define TTI_N_QUICK_LARGE 64

typedef struct tti_cache tti_cache;
typedef struct tti_pool tti_pool;
typedef struct tti_segment tti_segment;
typedef struct tti_block tti_block;
typedef struct tti_use tti_use;

typedef enum tti_block_state {
    TTI_BLOCK_FREE,    /* in a bin, or leaving with its segment */
    TTI_BLOCK_QUICK,   /* on a quick list; counts as free */
    TTI_BLOCK_USED,    /* a tensor's */
    TTI_BLOCK_PENDING, /* freed; other streams have not passed yet */
} tti_block_state;

/* A stream besides its own that uses a block. */
struct tti_use {
    tti_use *next;
    tt_stream *stream;
    tti_mark *mark; /* NULL before the free */
};

struct tti_block {
    char *p;
    size_t size, requested;
    tti_block *next, *prev; /* in its list; quick and pending ones have only next */
    tti_use *uses;
    tti_block *before, *after; /* neighbours in the segment */
    tti_segment *segment;
    tti_pool *pool;
    tti_block **list; /* the quick list it goes onto when freed; set when it is used */
    uint64_t packed;  /* 1 block and its units, as in tti_lane */
    uint8_t state;    /* tti_block_state */
    uint8_t half;
    bool quick; /* goes onto a quick list when freed */
    bool plain; /* small, quick, and no other stream uses it: freed without further ado */
};

struct tti_segment {
    tti_segment *next, *prev; /* of the device */
    char *p;
    size_t size;
    tti_pool *pool;
    tti_block *first;
    tti_segment *leaving; /* grow */
    uint8_t half;
};

struct tti_pool {
    tti_pool *next;
    tti_cache *cache;
    tt_stream *stream;
    tti_block *quick[TTI_N_QUICK];
    uint64_t quick_bits[TTI_N_QUICK / 64]; /* lists that ever had something */
    tti_block *bins[TTI_N_BINS];           /* small blocks, by size */
    uint64_t bin_bits[TTI_N_BINS / 64];
    uint64_t bin_words; /* which of bin_bits are not 0 */
    tti_block *quick_large[TTI_N_QUICK_LARGE];
    uint64_t quick_large_bits;
    tti_block **sorted; /* large blocks, by size, then address */
    size_t n_sorted, cap_sorted;
    size_t n_large; /* large blocks in any state: sorted has room for them all */
};

enum { TTI_SMALL, TTI_LARGE };

typedef enum tti_stat {
    TTI_STAT_BLOCKS, /* allocated */
    TTI_STAT_BYTES,
    TTI_STAT_REQUESTED, /* of allocated and pending blocks */
    TTI_STAT_HOLES,     /* free blocks of split segments */
    TTI_STAT_HOLE_BYTES,
    TTI_STAT_SEGMENTS,
    TTI_STAT_RESERVED,
    TTI_STAT_PENDING,
    TTI_STAT_PENDING_BYTES,
    TTI_N_STATS
} tti_stat;

/* What went out is in - now. */
typedef struct tti_tally {
    int64_t now, peak, in;
} tti_tally;

/* The books of small blocks between two operations that are not quick. A quick allocation or free of a small
 * block moves the same amounts between the accounts "used" and "hole" and can be recorded by adding one word:
 * the number of blocks in its upper half, their units in its lower half, each below a bit that is always 0
 * and that catches what overflows or becomes negative. Peaks are not touched as long as `used` stays between
 * two such words; when it does not, or when the sums get too large, the lane is closed: put into the books proper, peaks
 * raised, opened again. Everything else in the allocator runs with the lane closed. */
typedef struct tti_lane {
    uint64_t used;  /* now */
    uint64_t top;   /* `used` up to here raises no peak of used or active blocks */
    uint64_t floor; /* `used` down to here raises no peak of holes */
    uint64_t in;    /* allocated since it was opened */
    int64_t requested, requested_top;
    int64_t requested_in;
    uint64_t at_open; /* `used` then */
} tti_lane;

#define TTI_LANE_BLOCK ((uint64_t)1 << 32)
#define TTI_LANE_CATCH ((uint64_t)1 << 63 | (uint64_t)1 << 31)
#define TTI_LANE_MOST (((uint64_t)1 << 31) - 1) /* units: 1 TiB of small blocks */

struct tti_cache {
    tti_bias_lock lock;
    tt_device device;
    const tti_accel *accel;
    bool caching;
    /* Blocks that are used, pending or quick by address: open addressing, linear probing. */
    tti_block **map;
    size_t map_mask, n_map;
    int map_shift;
    tti_pool *recent; /* of the last request */
    tti_block *last,
        none; /* the last quick one: what is freed next, as a rule. It is no dropped one. */
    tti_lane lane;
    /* Active blocks are the used and the pending ones. Without pending ones since the last reset their peaks are those of
     * the used ones, and nobody keeps active_peak up to date. */
    bool has_active_peak;
    tti_tally stats[2][TTI_N_STATS];
    int64_t all_peak[TTI_N_STATS];
    int64_t active_peak[3][2]; /* small, large, all; number, bytes */
    uint64_t n_segment_new, n_segment_free, n_sync_all, n_retries, n_ooms;
    tti_pool *pools;
    tti_segment *segments;
    tti_block *pending, **pending_tail;
    tti_block *spare; /* descriptors */
    uint64_t limit;   /* of reserved bytes */
    pthread_mutex_t grow;
};

/* ---- books: inlined, because every allocation passes here ------------------------------------ */

static inline void tti_stat_up(tti_cache *c, int half, tti_stat k, size_t n)
{
    tti_tally *t = &c->stats[half][k];
    int64_t all;

    t->in += (int64_t)n;
    t->now += (int64_t)n;
    all = t->now + c->stats[1 - half][k].now;
    if (t->now > t->peak)
        t->peak = t->now;
    if (all > c->all_peak[k])
        c->all_peak[k] = all;
}

static inline void tti_stat_down(tti_cache *c, int half, tti_stat k, size_t n)
{
    c->stats[half][k].now -= (int64_t)n;
}

static inline bool tti_is_split(const tti_block *b)
{
    return b->before != NULL || b->after != NULL;
}

static inline void tti_hole_up(tti_block *b)
{
    if (!tti_is_split(b))
        return;
    tti_stat_up(b->pool->cache, b->half, TTI_STAT_HOLES, 1);
    tti_stat_up(b->pool->cache, b->half, TTI_STAT_HOLE_BYTES, b->size);
}

static inline void tti_hole_down(tti_block *b)
{
    if (!tti_is_split(b))
        return;
    tti_stat_down(b->pool->cache, b->half, TTI_STAT_HOLES, 1);
    tti_stat_down(b->pool->cache, b->half, TTI_STAT_HOLE_BYTES, b->size);
}

void tti_note_active(tti_cache *c); /* active_peak, after the number of active blocks grew */

void tti_lane_close(tti_cache *c); /* cache_lane.c */
void tti_lane_open(tti_cache *c);

/* Whether a quick operation left the bounds of the lane. */
static inline bool tti_lane_over(const tti_lane *l)
{
    return ((((l->top | TTI_LANE_CATCH) - l->used) & ~l->in & TTI_LANE_CATCH) != TTI_LANE_CATCH) |
           (l->requested > l->requested_top);
}

static inline bool tti_lane_under(const tti_lane *l)
{
    return (((l->used | TTI_LANE_CATCH) - l->floor) & TTI_LANE_CATCH) != TTI_LANE_CATCH;
}

/* The lock with the lane closed: for everything but quick operations. */
static inline bool tti_cache_enter(tti_cache *c)
{
    bool biased = tti_bias_lock_take(&c->lock);

    tti_lane_close(c);
    return biased;
}

static inline void tti_cache_leave(tti_cache *c, bool biased)
{
    tti_lane_open(c);
    tti_bias_unlock(&c->lock, biased);
}

/* Peaks are those of the books between two operations: a block that changes hands is first taken out of one
 * account and then put into the other, and is never in both. */

/* A block that is in no list and no hole becomes used. */
void tti_block_take(tti_cache *c, tti_block *b, size_t bytes);

/* A used block becomes free; it is in no list and no hole yet. */
static inline void tti_block_give(tti_cache *c, tti_block *b)
{
    tti_stat_down(c, b->half, TTI_STAT_BLOCKS, 1);
    tti_stat_down(c, b->half, TTI_STAT_BYTES, b->size);
    tti_stat_down(c, b->half, TTI_STAT_REQUESTED, b->requested);
}

/* ---- blocks: cache_blocks.c; with `lock` held ---------------------------------------------------- */

static inline size_t tti_map_slot(const tti_cache *c, const void *p)
{
    return (size_t)(((uintptr_t)p * 0x9E3779B97F4A7C15u) >> c->map_shift);
}

/* The block that begins at p and is used, pending or quick; or NULL. */
static inline tti_block *tti_map_find(const tti_cache *c, const void *p)
{
    for (size_t i = tti_map_slot(c, p);; i = (i + 1) & c->map_mask) {
        tti_block *b = c->map[i];

        if (tt_likely(b == NULL || b->p == p))
            return b;
    }
}

void tti_map_put(tti_cache *c, tti_block *b); /* reserved before */
void tti_map_remove(tti_cache *c, const tti_block *b);

static inline tti_block *tti_block_at(const tti_cache *c, const void *p)
{
    return tt_likely(c->last->p == p) ? c->last : tti_map_find(c, p);
}

/* Memory for one more block in every structure, so that nothing after this can fail. */
tt_status tti_blocks_reserve(tti_cache *c, tti_pool *pool);
tti_block *tti_block_new(tti_cache *c); /* from spare; reserved before */
void tti_block_drop(tti_cache *c, tti_block *b);

static inline size_t tti_round(size_t bytes)
{
    return (bytes + TTI_UNIT - 1) & ~(TTI_UNIT - 1);
}

/* The list that blocks wait on for a request of `size` bytes. */
static inline tti_block **tti_quick_list(tti_pool *pool, size_t size)
{
    if (tt_likely(size - 1 < TTI_SMALL_MAX)) /* 0, rounded up from SIZE_MAX, is not small */
        return &pool->quick[size / TTI_UNIT - 1];
    return &pool->quick_large[(size / TTI_UNIT * 0x9E3779B97F4A7C15u) >> 58];
}

/* A free block for `size` bytes (a multiple of TTI_UNIT), cut to size, in no list and no hole; or NULL. */
tti_block *tti_pool_find(tti_pool *pool, size_t size);
/* A block that became free, in no list and no hole: merged and put into the bins. */
void tti_block_settle(tti_block *b);
void tti_pool_settle(tti_pool *pool, int half);
/* A free block into its bin or out of it. */
void tti_bin_add(tti_block *b);
void tti_bin_remove(tti_block *b);

/* ---- segments, pending blocks: cache_segments.c ------------------------------------------------------ */

/* By kind and index; NULL: not used yet. Stored once, with release, when the cache is ready. */
extern _Atomic(tti_cache *) tti_caches[TTI_N_KINDS][TTI_MAX_DEVICES];

static inline tti_cache *tti_cache_of(tt_device d)
{
    return atomic_load_explicit(&tti_caches[d.kind][d.index], memory_order_acquire);
}

tti_cache *tti_cache_get(tt_device d, const tti_accel *accel); /* made if need be; NULL: recorded */
tti_cache *tti_cache_known(tt_device d);           /* made if d is a device; NULL: recorded */
tti_pool *tti_pool_of(tti_cache *c, tt_stream *s); /* lock; NULL: recorded */
/* With grow held: a used block of a new segment, if need be after giving back what is cached; NULL: recorded. */
tti_block *tti_cache_grow(tti_cache *c, tt_stream *s, size_t bytes);
/* With grow held: waits for pending blocks and all streams, and gives back what is cached. */
void tti_cache_release(tti_cache *c);
/* lock: forget a segment that the driver has back; its one block is free, in no list and no hole. */
void tti_segment_unlink(tti_cache *c, tti_segment *g);

/* A used block becomes pending, and, once its marks have been passed, free. With `lock` held. */
void tti_block_pend(tti_cache *c, tti_block *b);
void tti_block_unpend(tti_cache *c, tti_block *b);
void tti_pending_poll(tti_cache *c);
void tti_pending_wait(tti_cache *c); /* with grow held, not lock: for all that are pending now */
void tti_uses_free(tti_cache *c, tti_block *b);

/* What TUTTI_CL_MEMORY_LIMIT says, else all memory of the device: cache_limit.c. */
uint64_t tti_cache_default_limit(tt_device d, const tti_accel *accel);

void tti_cache_report_locked(const tti_cache *c, tt_memory_report *report); /* lock */

/* Records NOMEM with a table of what is held: cache_oom.c. */
void tti_cache_oom(tti_cache *c, size_t bytes);

#endif
