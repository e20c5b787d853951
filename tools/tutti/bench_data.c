/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are cheap to write and outputs that are cheap to check: all ranks' elements come from
 * short blocks of small whole numbers, on which every reduction is exact in every type. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { PERIOD = 1021 }; /* a prime: no power of two leads back to the same element */

struct tti_bench_data {
    tti_bench_case c;
    size_t element;
    char *
        blocks; /* a block per rank, then the reduced one; each twice, so that any phase is whole */
};

static size_t block_bytes(const tti_bench_data *d)
{
    return 2 * PERIOD * d->element;
}

static const char *block(const tti_bench_data *d, int rank)
{
    return d->blocks + (size_t)rank * block_bytes(d);
}

/* The number at place i of a rank's block. */
static int64_t number(const tti_bench_case *c, int rank, int i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u;

    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    if (c->opt->dtype == TT_BOOL)
        return h % 2;
    if (c->opt->redop == TT_REDUCE_AVG)
        return (int64_t)(h % 3) * c->size;
    return c->opt->redop == TT_REDUCE_PRODUCT ? 1 + h % 2 : 1 + h % 3;
}

static int64_t combine(const tti_bench_case *c, int64_t a, int64_t b)
{
    bool logical = c->opt->dtype == TT_BOOL;

    switch (c->opt->redop) {
    case TT_REDUCE_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case TT_REDUCE_MIN:
        return a < b ? a : b;
    case TT_REDUCE_MAX:
        return a > b ? a : b;
    case TT_REDUCE_BAND:
        return a & b;
    case TT_REDUCE_BOR:
        return a | b;
    case TT_REDUCE_BXOR:
        return a ^ b;
    default:
        return logical ? a | b : a + b;
    }
}

static int64_t reduced(const tti_bench_case *c, int i)
{
    int64_t value = number(c, 0, i);

    for (int r = 1; r < c->size; r++)
        value = combine(c, value, number(c, r, i));
    return c->opt->redop == TT_REDUCE_AVG ? value / c->size : value;
}

/* Writes the numbers as elements of the type. */
static bool make_block(tti_bench_data *d, int rank)
{
    int64_t numbers[2 * PERIOD];
    const tti_bench_case *c = &d->c;
    char *to = d->blocks + (size_t)rank * block_bytes(d);
    bool ok = false;

    for (int i = 0; i < 2 * PERIOD; i++)
        numbers[i] = rank < c->size ? number(c, rank, i % PERIOD) : reduced(c, i % PERIOD);
    TT_SCOPE {
        tt_tensor *t =
            tt_to_dtype(tt_from_data(numbers, TT_SHAPE(2 * PERIOD), TT_I64), c->opt->dtype);

        ok = t != NULL;
        if (ok)
            memcpy(to, tt_tensor_data(t), block_bytes(d));
    }
    return ok;
}

tti_bench_data *tti_bench_data_new(const tti_bench_case *c)
{
    tti_bench_data *d = calloc(1, sizeof *d);
    bool ok = d != NULL;

    if (ok) {
        d->c = *c;
        d->element = tt_dtype_size(c->opt->dtype);
        d->blocks = malloc((size_t)(c->size + 1) * block_bytes(d));
        ok = d->blocks != NULL;
    }
    if (!ok)
        tt_fail(TT_ERR_NOMEM, "no memory for the inputs of %d ranks", c->size);
    for (int r = 0; ok && r <= c->size; r++)
        ok = make_block(d, r);
    if (!ok) {
        tti_bench_data_free(d);
        return NULL;
    }
    return d;
}

void tti_bench_data_free(tti_bench_data *d)
{
    if (d != NULL)
        free(d->blocks);
    free(d);
}

/* Elements from `start` on of the endless row that a block makes. */
static void write_row(const tti_bench_data *d, char *to, int64_t n, int rank, int64_t start)
{
    const char *from = block(d, rank) + (size_t)(start % PERIOD) * d->element;

    for (int64_t i = 0; i < n; i += PERIOD) {
        int64_t m = n - i < PERIOD ? n - i : PERIOD;

        memcpy(to + (size_t)i * d->element, from, (size_t)m * d->element);
    }
}

static long long wrong_in_row(const tti_bench_data *d, const char *got, int64_t n, int rank,
                              int64_t start)
{
    const char *want = block(d, rank) + (size_t)(start % PERIOD) * d->element;
    long long wrong = 0;

    for (int64_t i = 0; i < n; i += PERIOD) {
        int64_t m = n - i < PERIOD ? n - i : PERIOD;
        const char *at = got + (size_t)i * d->element;

        if (memcmp(at, want, (size_t)m * d->element) == 0)
            continue;
        for (int64_t k = 0; k < m; k++)
            wrong +=
                memcmp(at + (size_t)k * d->element, want + (size_t)k * d->element, d->element) != 0;
    }
    return wrong;
}

void tti_bench_fill(const tti_bench_data *d, const tti_bench_slot *s, int phase)
{
    write_row(d, tt_tensor_data(s->in), tt_tensor_numel(s->in), d->c.rank, phase);
}

/* Every rank's piece of the output comes from another block. */
static long long wrong_in_pieces(const tti_bench_data *d, const char *got, int64_t start)
{
    const tti_bench_case *c = &d->c;
    long long wrong = 0;

    for (int r = 0; r < c->size; r++)
        wrong += wrong_in_row(d, got + (size_t)(r * c->part) * d->element, c->part, r, start);
    return wrong;
}

long long tti_bench_wrong(const tti_bench_data *d, const tti_bench_slot *s, int phase)
{
    const tti_bench_case *c = &d->c;
    const char *got = tt_tensor_data(s->out);
    int64_t n = tt_tensor_numel(s->out);
    int from;

    switch (c->op->result) {
    case TTI_RESULT_REDUCED:
        return wrong_in_row(d, got, n, c->size, phase);
    case TTI_RESULT_ROOT:
        return c->rank == 0 ? wrong_in_row(d, got, n, c->size, phase) : 0;
    case TTI_RESULT_PIECE:
        return wrong_in_row(d, got, n, c->size, phase + c->rank * c->part);
    case TTI_RESULT_GATHERED:
        return wrong_in_pieces(d, got, phase);
    case TTI_RESULT_TURNED:
        return wrong_in_pieces(d, got, phase + c->rank * c->part);
    case TTI_RESULT_FROM:
        from = c->op->from != NULL ? c->op->from(c) : 0;
        /* Who has no partner gets nothing. */
        if (from == c->rank && c->op->needs_two)
            return 0;
        return wrong_in_row(d, got, n, from, phase);
    case TTI_RESULT_NOTHING:
        break;
    }
    return 0;
}
