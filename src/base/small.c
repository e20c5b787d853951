/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of freed small blocks, one set per thread, given back when the thread ends. */
#include "base/small.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/tls.h"

#if defined(__SANITIZE_ADDRESS__)
#define BYPASS true /* let the sanitizer see every free */
#else
#define BYPASS false
#endif

#define STEP 64u
#define N_CLASSES 16u
#define KEEP 256 /* blocks per class */

typedef struct block {
    struct block *next;
} block;

typedef struct small_cache {
    block *lists[N_CLASSES];
    int counts[N_CLASSES];
} small_cache;

static TTI_HOT_TLS small_cache *mine;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void thread_exit(void *ctx)
{
    small_cache *c = ctx;

    mine = NULL;
    for (unsigned i = 0; i < N_CLASSES; i++)
        while (c->lists[i] != NULL) {
            block *b = c->lists[i];

            c->lists[i] = b->next;
            free(b);
        }
    free(c);
}

static void make_exit_key(void)
{
    pthread_key_create(&exit_key, thread_exit);
}

/* The first free of a thread makes its lists; without memory for them blocks are simply freed. */
static small_cache *make_cache(void)
{
    pthread_once(&exit_once, make_exit_key);
    mine = calloc(1, sizeof *mine);
    if (mine != NULL)
        pthread_setspecific(exit_key, mine);
    return mine;
}

static unsigned class_of(size_t bytes)
{
    return bytes != 0 ? (unsigned)((bytes - 1) / STEP) : 0;
}

void *tti_small_alloc(size_t bytes)
{
    unsigned c = class_of(bytes);
    small_cache *cache = mine;
    block *b;

    if (BYPASS || c >= N_CLASSES)
        return tti_malloc(bytes);
    if (tt_likely(cache != NULL && cache->lists[c] != NULL)) {
        if (tt_unlikely(tti_alloc_should_fail()))
            return TT_FAIL_NULL(TT_ERR_NOMEM, "out of memory: %zu bytes wanted", bytes);
        b = cache->lists[c];
        cache->lists[c] = b->next;
        cache->counts[c]--;
        return b;
    }
    return tti_malloc((c + 1) * STEP);
}

void tti_small_free(void *p, size_t bytes)
{
    unsigned c = class_of(bytes);
    small_cache *cache = mine;
    block *b = p;

    if (p == NULL)
        return;
    if (tt_unlikely(cache == NULL))
        cache = make_cache();
    if (BYPASS || c >= N_CLASSES || cache == NULL || cache->counts[c] >= KEEP) {
        tti_mfree(p);
        return;
    }
    b->next = cache->lists[c];
    cache->lists[c] = b;
    cache->counts[c]++;
}
