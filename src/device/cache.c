/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator of accelerators. */
#include "device/cache.h"

#include <pthread.h>

#include "base/mem.h"

typedef struct block {
    struct block *next;
    void *p;
    size_t bytes, room;
    tt_stream *stream;
    bool used;
} block;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static block *blocks[3][TTI_MAX_DEVICES];         /* mu */
static tt_memory_stats stats[3][TTI_MAX_DEVICES]; /* mu */

static block *find(tt_device d, const void *p, const tt_stream *s, size_t room)
{
    for (block *b = blocks[d.kind][d.index]; b != NULL; b = b->next)
        if (p != NULL ? b->p == p : !b->used && b->stream == s && b->room == room)
            return b;
    return NULL;
}

static block *grow(tt_device d, tt_stream *s, size_t room)
{
    block *b = tti_calloc(1, sizeof *b);

    if (b == NULL)
        return NULL;
    b->p = s->accel->segment_new(d.index, room);
    if (b->p == NULL) {
        tti_mfree(b);
        return NULL;
    }
    b->room = room;
    b->stream = s;
    b->next = blocks[d.kind][d.index];
    blocks[d.kind][d.index] = b;
    stats[d.kind][d.index].reserved += room;
    stats[d.kind][d.index].n_system++;
    return b;
}

void *tti_cache_alloc(tt_device d, tt_stream *s, size_t bytes)
{
    tt_memory_stats *st = &stats[d.kind][d.index];
    size_t room = (bytes + 511) & ~(size_t)511;
    block *b;

    pthread_mutex_lock(&mu);
    b = find(d, NULL, s, room);
    if (b == NULL)
        b = grow(d, s, room);
    if (b != NULL) {
        b->used = true;
        b->bytes = bytes;
        st->current += bytes;
        st->n_allocations++;
        if (st->peak < st->current)
            st->peak = st->current;
    }
    pthread_mutex_unlock(&mu);
    return b != NULL ? b->p : NULL;
}

void tti_cache_free(tt_device d, void *p, size_t bytes)
{
    block *b;

    pthread_mutex_lock(&mu);
    b = find(d, p, NULL, 0);
    if (b != NULL) {
        b->used = false;
        stats[d.kind][d.index].current -= bytes;
        stats[d.kind][d.index].n_frees++;
    }
    pthread_mutex_unlock(&mu);
}

tt_status tti_cache_record_stream(tt_device d, void *p, tt_stream *s)
{
    (void)d;
    (void)p;
    (void)s;
    return TT_OK;
}

void tti_cache_empty(tt_device d)
{
    pthread_mutex_lock(&mu);
    for (block **at = &blocks[d.kind][d.index]; *at != NULL;) {
        block *b = *at;

        if (b->used) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        b->stream->accel->queue_sync(b->stream->queue);
        b->stream->accel->segment_free(d.index, b->p, b->room);
        stats[d.kind][d.index].reserved -= b->room;
        tti_mfree(b);
    }
    pthread_mutex_unlock(&mu);
}

void tti_cache_forget_stream(tt_stream *s)
{
    tti_cache_empty(s->device);
}

tt_memory_stats tti_cache_stats(tt_device d)
{
    tt_memory_stats st;

    pthread_mutex_lock(&mu);
    st = stats[d.kind][d.index];
    pthread_mutex_unlock(&mu);
    return st;
}

void tti_cache_reset_peak(tt_device d)
{
    pthread_mutex_lock(&mu);
    stats[d.kind][d.index].peak = stats[d.kind][d.index].current;
    pthread_mutex_unlock(&mu);
}
