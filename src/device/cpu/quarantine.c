/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of freed blocks, the oldest first, bounded in number and in bytes. */
#include "device/cpu/quarantine.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/env.h"
#include "base/status.h"

#define RING 8192u /* most blocks */
#define FILL_MOST \
    ((size_t)1 << 20) /* bytes of a block that are filled: memory nobody touched stays so */
#define FILL 0xff     /* a NaN in every floating type, -1 in every integer */

typedef struct kept_block {
    unsigned char *p;
    size_t bytes;
} kept_block;

static pthread_mutex_t mu_ring = PTHREAD_MUTEX_INITIALIZER;
static kept_block ring[RING];     /* mu_ring */
static unsigned oldest, n_kept;   /* mu_ring */
static size_t bytes_kept;         /* mu_ring */
static size_t bytes_most;         /* mu_ring */
static bool quarantine_limit_set; /* mu_ring */

static size_t filled_part(size_t bytes)
{
    return bytes < FILL_MOST ? bytes : FILL_MOST;
}

/* The first byte of the filled part that is not as it was filled, or the size of that part. */
static size_t first_written(const kept_block *b)
{
    size_t n = filled_part(b->bytes), i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t word;

        memcpy(&word, b->p + i, sizeof word);
        if (word != UINT64_MAX)
            break;
    }
    while (i < n && b->p[i] == FILL)
        i++;
    return i;
}

static void let_go(kept_block b, tti_unkeep_fn unkeep)
{
    size_t at = first_written(&b);

    if (at < filled_part(b.bytes))
        tt_warn("tensor",
                "memory of %zu bytes was written at byte %zu after the last tensor over it was "
                "freed: who keeps its address from tt_tensor_data has to retain the tensor",
                b.bytes, at);
    unkeep(b.p, b.bytes);
}

/* Under mu_ring. */
static kept_block take_oldest(void)
{
    kept_block b = ring[oldest];

    oldest = (oldest + 1) % RING;
    n_kept--;
    bytes_kept -= b.bytes;
    return b;
}

/* Under mu_ring. */
static size_t quarantine_limit(void)
{
    if (!quarantine_limit_set)
        bytes_most = (size_t)tti_env_int(TTI_ENV_DEBUG_TENSORS_MEMORY, 0, 1 << 20, 64) << 20;
    quarantine_limit_set = true;
    return bytes_most;
}

/* One that has to leave so that `bytes` more fit: true, and the block in *b. */
static bool make_room(size_t bytes, kept_block *b)
{
    bool full;

    pthread_mutex_lock(&mu_ring);
    full = n_kept > 0 && (n_kept == RING || bytes_kept + bytes > quarantine_limit());
    if (full)
        *b = take_oldest();
    pthread_mutex_unlock(&mu_ring);
    return full;
}

void tti_quarantine_keep(void *p, size_t bytes, tti_unkeep_fn unkeep)
{
    kept_block b = { p, bytes }, old;
    bool kept = false;

    memset(p, FILL, filled_part(bytes));
    while (make_room(bytes, &old))
        let_go(old, unkeep);
    pthread_mutex_lock(&mu_ring);
    if (n_kept < RING && bytes_kept + bytes <= quarantine_limit()) {
        ring[(oldest + n_kept++) % RING] = b;
        bytes_kept += bytes;
        kept = true;
    }
    pthread_mutex_unlock(&mu_ring);
    if (!kept)
        unkeep(p, bytes);
}

void tti_quarantine_empty(tti_unkeep_fn unkeep)
{
    for (kept_block b; make_room(SIZE_MAX / 2, &b);)
        let_go(b, unkeep);
}
