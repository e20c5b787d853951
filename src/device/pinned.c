/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of pinned host memory. Blocks have sizes of powers of two, at least a page. There are few of them, and
 * each is worth many microseconds, so lists and one lock do. */
#include "device/pinned.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "device/driver.h"

#define LEAST_SHIFT 12

typedef struct use {
    struct use *next;
    const tt_stream *stream;
    tti_mark *mark;
} use;

typedef struct block {
    struct block *next;
    char *p;
    size_t size;
    const tti_accel *accel;
    use *uses;
    bool taken, locked;
} block;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;         /* mu: all there are */
static tt_pinned_stats stats; /* mu */

static size_t rounded(size_t bytes)
{
    size_t size = (size_t)1 << LEAST_SHIFT;

    while (size < bytes && size <= SIZE_MAX / 4)
        size *= 2;
    return size;
}

static void use_free(const block *b, use *u)
{
    b->accel->mark_free(u->mark);
    tti_mfree(u);
}

/* With mu held: drops what has been passed; a mark of a lost device has. */
static bool passed(block *b)
{
    for (use **at = &b->uses; *at != NULL;) {
        use *u = *at;
        bool done = true;

        if (b->accel->mark_query(u->mark, &done) == TT_OK && !done) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        use_free(b, u);
    }
    return b->uses == NULL;
}

static block *find(const void *p)
{
    for (block *b = blocks; b != NULL; b = b->next)
        if ((const char *)p >= b->p && (const char *)p < b->p + b->size)
            return b;
    return NULL;
}

static block *block_new(const tti_accel *accel, size_t size)
{
    block *b = tti_calloc(1, sizeof *b);

    if (b == NULL)
        return NULL;
    *b = (block){ .size = size, .accel = accel, .taken = true, .p = accel->host_new(size) };
    if (b->p == NULL) {
        tti_mfree(b);
        return NULL;
    }
    b->locked = mlock(b->p, size) == 0; /* as far as the system lets us; copies work without */
    return b;
}

static block *reuse(const tti_accel *accel, size_t size)
{
    for (block *b = blocks; b != NULL; b = b->next)
        if (!b->taken && b->size == size && b->accel == accel && passed(b))
            return b;
    return NULL;
}

/* New blocks are made without mu: locking pages takes a while. */
void *tti_pinned_alloc(const tti_accel *accel, size_t bytes)
{
    size_t size = rounded(bytes);
    block *b;

    if (size < bytes)
        return TT_FAIL_NULL(TT_ERR_NOMEM, "out of memory: %zu bytes of pinned memory wanted",
                            bytes);
    pthread_mutex_lock(&mu);
    b = reuse(accel, size);
    if (b != NULL) {
        b->taken = true;
        stats.current += size;
    }
    pthread_mutex_unlock(&mu);
    if (b != NULL)
        return b->p;
    b = block_new(accel, size);
    if (b == NULL) {
        tt_pinned_empty_cache();
        b = block_new(accel, size);
    }
    if (b == NULL)
        return NULL;
    pthread_mutex_lock(&mu);
    b->next = blocks;
    blocks = b;
    stats.current += size;
    stats.reserved += size;
    stats.locked += b->locked ? size : 0;
    stats.n_blocks++;
    pthread_mutex_unlock(&mu);
    return b->p;
}

void tti_pinned_free(void *p)
{
    block *b;

    pthread_mutex_lock(&mu);
    b = find(p);
    if (b != NULL) {
        b->taken = false;
        stats.current -= b->size;
    }
    pthread_mutex_unlock(&mu);
}

/* The mark is made before mu is taken, because that calls the driver. */
tt_status tti_pinned_record(const void *p, tt_stream *s)
{
    use *u = tti_malloc(sizeof *u), *old = NULL;
    block *b;

    if (u == NULL || (u->mark = s->accel->mark(s->queue, false)) == NULL) {
        tti_mfree(u);
        return s->accel->queue_sync(s->queue); /* then nobody has to remember */
    }
    u->stream = s;
    pthread_mutex_lock(&mu);
    b = find(p);
    if (b != NULL) {
        use **at = &b->uses;

        while (*at != NULL && (*at)->stream != s)
            at = &(*at)->next;
        old = *at; /* passed before the new one: streams are in order */
        u->next = old != NULL ? old->next : NULL;
        *at = u;
    } else {
        old = u;
    }
    pthread_mutex_unlock(&mu);
    if (old != NULL) {
        s->accel->mark_free(old->mark);
        tti_mfree(old);
    }
    return TT_OK;
}

tt_pinned_stats tt_pinned_stats_get(void)
{
    tt_pinned_stats st;

    pthread_mutex_lock(&mu);
    st = stats;
    for (block *b = blocks; b != NULL; b = b->next)
        if (!b->taken && !passed(b))
            st.pending += b->size;
    pthread_mutex_unlock(&mu);
    return st;
}

/* Freed blocks are taken out first, so that nobody gets them while we wait. */
void tt_pinned_empty_cache(void)
{
    block *leaving = NULL;

    pthread_mutex_lock(&mu);
    for (block **at = &blocks; *at != NULL;) {
        block *b = *at;

        if (b->taken) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        b->next = leaving;
        leaving = b;
        stats.reserved -= b->size;
        stats.locked -= b->locked ? b->size : 0;
        stats.n_blocks--;
    }
    pthread_mutex_unlock(&mu);
    while (leaving != NULL) {
        block *b = leaving;

        leaving = b->next;
        while (b->uses != NULL) {
            use *u = b->uses;

            b->uses = u->next;
            b->accel->mark_sync(u->mark);
            use_free(b, u);
        }
        b->accel->host_free(b->p, b->size);
        tti_mfree(b);
    }
}

const tti_accel *tti_pinned_accel(void)
{
    for (int i = 0; tti_drivers[i] != NULL; i++)
        if (tti_drivers[i]->accel != NULL && tti_drivers[i]->count() > 0)
            return tti_drivers[i]->accel;
    return TT_FAIL_NULL(TT_ERR_NOT_FOUND, "pinned: expected an accelerator, found none: %s",
                        tt_device_missing(TT_DEVICE_CL));
}
