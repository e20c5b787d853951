/* SPDX-License-Identifier: Apache-2.0 */
/* Large all_reduce: each chunk is cut into one slice per rank. In step k a rank puts the others' slices of chunk k into
 * its window, reduces its own slice of chunk k - 1 from everybody's windows, and copies the others' results of chunk
 * k - 2. One flag per step says that all three are done.
 *
 * What was put for chunk k is read in step k + 1, and the results of chunk k, made in step k + 1, in step k + 2; when a
 * rank begins step k everybody is at least at step k - 1. So of four buffers none is overwritten before it was read. */
#include <string.h>

#include "coll/internal.h"

typedef struct line {
    tti_team *team;
    const char *in;
    char *out;
    size_t bytes, chunk;
    tt_dtype dtype;
} line;

/* Smaller than those of tti_buffer_of, so that all of them stay in the second cache. */
static char *buffer_of(const line *l, int rank, uint64_t g)
{
    return l->team->peers[rank].window + g % TTI_BUFFERS * 2 * l->chunk;
}

/* Slice `rank` of chunk k: where it begins in the chunk, and its size. */
static size_t slice(const line *l, uint64_t k, int rank, size_t *at_p)
{
    size_t left = l->bytes - k * l->chunk;
    size_t chunk = left < l->chunk ? left : l->chunk;
    size_t each = (chunk / (size_t)l->team->size + 64) / 64 * 64;
    size_t at = each * (size_t)rank;

    *at_p = at < chunk ? at : chunk;
    return chunk - *at_p < each ? chunk - *at_p : each;
}

static void put(const line *l, uint64_t k, uint64_t g)
{
    int me = l->team->rank;
    char *buffer = buffer_of(l, me, g);
    const char *in = l->in + k * l->chunk;
    size_t at, n = slice(l, k, me, &at);
    size_t left = l->bytes - k * l->chunk;
    size_t chunk = left < l->chunk ? left : l->chunk;

    memcpy(buffer, in, at); /* what comes before my slice, and what comes after */
    memcpy(buffer + at + n, in + at + n, chunk - at - n);
}

/* Pieces of this size are still in the nearest cache when they are copied for the others. */
#define NEAR_BYTES ((size_t)16 << 10)

static void reduce(const line *l, uint64_t k, uint64_t g)
{
    tti_team *team = l->team;
    size_t at, n = slice(l, k, team->rank, &at);
    char *out = l->out + k * l->chunk + at;
    char *result = buffer_of(l, team->rank, g) + l->chunk;

    for (size_t from = 0; from < n; from += NEAR_BYTES) {
        size_t m = n - from < NEAR_BYTES ? n - from : NEAR_BYTES;

        for (int r = 0; r < team->size; r++)
            team->inputs[r] =
                r == team->rank ? l->in + k * l->chunk + at + from : buffer_of(l, r, g) + at + from;
        team->reduce(out + from, team->inputs, team->size, tti_fold_count(l->dtype, m),
                     team->factors);
        memcpy(result + from, out + from, m);
    }
}

static void collect(const line *l, uint64_t k, uint64_t g)
{
    const tti_team *team = l->team;

    for (int i = 1; i < team->size; i++) {
        int r = (team->rank + i) % team->size;
        size_t at, n = slice(l, k, r, &at);

        memcpy(l->out + k * l->chunk + at, buffer_of(l, r, g) + l->chunk, n);
    }
}

/* 128 KB was the best of 32 to 256 KB at 2 ranks and 2 MB of second cache. */
static size_t pipeline_chunk(const tti_team *team)
{
    size_t most = tti_buffer_bytes(team) / 2;

    return most < ((size_t)128 << 10) ? most : (size_t)128 << 10;
}

tt_status tti_run_pipeline(tti_team *team, const tti_coll *c)
{
    line l = { team, c->in.data, c->out.data, c->in.bytes, pipeline_chunk(team), c->dtype };
    uint64_t base = team->phase, n_chunks = (l.bytes + l.chunk - 1) / l.chunk;

    team->last_phase = base + n_chunks + 2;
    TT_TRY(tti_await_phases(team, base)); /* the windows are free */
    for (uint64_t k = 0; k < n_chunks + 2; k++) {
        uint64_t g = base + k;

        if (k < n_chunks)
            put(&l, k, g);
        if (k == 1) {
            TT_TRY(tti_await_arrivals(team));
            for (int r = 0; r < team->size; r++)
                team->factors[r] = tti_slot_of(team, r, team->n)->factor;
        }
        if (k > 0)
            TT_TRY(tti_await_phases(team, g));
        if (k > 0 && k <= n_chunks)
            reduce(&l, k - 1, g - 1);
        if (k > 1)
            collect(&l, k - 2, g - 2);
        tti_set_phase(team, g + 1);
    }
    return TT_OK;
}
