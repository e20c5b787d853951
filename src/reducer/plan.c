/* SPDX-License-Identifier: Apache-2.0 */
/* Which gradient lies in which bucket, and the proof that all ranks think the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "reducer/reducer.h"

#define ALIGN_BYTES 64 /* where gradients begin */

/* ---- buckets ------------------------------------------------------------------------------- */

static void put(tt_reducer *r, int i, int bucket, int at)
{
    tti_reducer_grad *g = &r->grads[i];
    tti_reducer_bucket *b = &r->buckets[bucket];

    g->bucket = bucket;
    g->offset = b->extent;
    b->extent += (g->bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    b->bytes += g->bytes;
    b->last = at;
    b->n_grads++;
}

static int by_last(const void *x, const void *y)
{
    const tti_reducer_bucket *a = x, *b = y;

    return (a->last > b->last) - (a->last < b->last);
}

/* `last` is a place in the order and of one bucket only, so it identifies buckets while they move. */
static void number_by_last(tt_reducer *r)
{
    for (int i = 0; i < r->n_grads; i++)
        r->grads[i].bucket = r->buckets[r->grads[i].bucket].last;
    qsort(r->buckets, (size_t)r->n_buckets, sizeof *r->buckets, by_last);
    for (int i = 0; i < r->n_grads; i++) {
        tti_reducer_bucket key = { .last = r->grads[i].bucket };
        const tti_reducer_bucket *b =
            bsearch(&key, r->buckets, (size_t)r->n_buckets, sizeof key, by_last);

        r->grads[i].bucket = (int)(b - r->buckets);
    }
}

tt_status tti_reducer_plan(tt_reducer *r)
{
    int open[TT_N_DTYPES]; /* the bucket that is being filled, of each type */

    for (int d = 0; d < TT_N_DTYPES; d++)
        open[d] = -1;
    r->buckets = tti_calloc((size_t)r->n_grads, sizeof *r->buckets);
    if (r->buckets == NULL)
        return TT_ERR_NOMEM;
    for (int at = 0; at < r->n_grads; at++) {
        int i = r->first_to_last ? at : r->n_grads - 1 - at;
        int *now = &open[r->grads[i].dtype];

        if (*now < 0) {
            *now = r->n_buckets++;
            r->buckets[*now].dtype = r->grads[i].dtype;
        }
        put(r, i, *now, at);
        if (r->buckets[*now].bytes >= (*now == 0 ? r->first_cap : r->cap))
            *now = -1;
    }
    number_by_last(r);
    return TT_OK;
}

/* ---- agreeing ------------------------------------------------------------------------------ */

enum {
    N_HEAD = 5
}; /* of a list: count, op, caps, direction; then size and type of each gradient */

static void describe(const tt_reducer *r, int64_t *list)
{
    const int64_t head[N_HEAD] = { r->n_grads, r->how.op, (int64_t)r->cap, (int64_t)r->first_cap,
                                   r->first_to_last };

    memcpy(list, head, sizeof head);
    for (int i = 0; i < r->n_grads; i++) {
        list[N_HEAD + 2 * i] = r->grads[i].n;
        list[N_HEAD + 2 * i + 1] = r->grads[i].dtype;
    }
}

static const char *type_name(int64_t dtype)
{
    return dtype >= 0 && dtype < TT_N_DTYPES ? tt_dtype_name((tt_dtype)dtype) : "?";
}

/* Rank 0's list `a` against rank `rank`'s `b`. */
typedef tt_status (*compare_fn)(const tt_reducer *r, const int64_t *a, const int64_t *b, int rank);

static tt_status compare_heads(const tt_reducer *r, const int64_t *a, const int64_t *b, int rank)
{
    static const char *const names[N_HEAD] = { "the number of gradients", "the operation",
                                               "bucket_bytes", "first_bucket_bytes",
                                               "first_to_last" };

    (void)r;
    for (int k = 0; k < N_HEAD; k++)
        if (a[k] != b[k])
            return TT_FAIL(TT_ERR_INVALID, "reducer: %s is %lld on rank 0, but %lld on rank %d",
                           names[k], (long long)a[k], (long long)b[k], rank);
    return TT_OK;
}

static tt_status compare_grads(const tt_reducer *r, const int64_t *a, const int64_t *b, int rank)
{
    char name[TTI_REDUCER_NAME];

    for (int64_t i = 0; i < a[0]; i++) {
        const int64_t *x = a + N_HEAD + 2 * i, *y = b + N_HEAD + 2 * i;

        if (x[0] != y[0] || x[1] != y[1])
            return TT_FAIL(
                TT_ERR_INVALID,
                "reducer: gradient %lld%s has %lld elements of %s on rank 0, but %lld of "
                "%s on rank %d",
                (long long)i, tti_reducer_named(&r->grads[i], name), (long long)x[0],
                type_name(x[1]), (long long)y[0], type_name(y[1]), rank);
    }
    return TT_OK;
}

/* The first `n` numbers of everybody's list, each against rank 0's. */
static tt_status compare(tt_reducer *r, const int64_t *list, int64_t n, compare_fn fn)
{
    int size = tt_pg_size(r->pg);
    tt_tensor *mine = tt_from_data(list, TT_SHAPE(n), TT_I64);
    tt_tensor *all = tt_empty(TT_SHAPE((int64_t)size * n), TT_I64, TT_CPU);
    const int64_t *lists;

    if (mine == NULL || all == NULL)
        return tt_last_status();
    TT_TRY(tt_pg_all_gather_into(r->pg, mine, all, NULL, NULL));
    lists = tt_tensor_data(all);
    for (int k = 1; k < size; k++)
        TT_TRY(fn(r, lists, lists + k * n, k));
    return TT_OK;
}

tt_status tti_reducer_compare(tt_reducer *r)
{
    int64_t n = N_HEAD + 2 * (int64_t)r->n_grads;
    int64_t *list = tti_malloc((size_t)n * sizeof *list);
    tt_status st = list != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK)
        describe(r, list);
    TT_SCOPE {
        /* The heads first: lists of one length can be gathered. */
        if (st == TT_OK)
            st = compare(r, list, N_HEAD, compare_heads);
        if (st == TT_OK)
            st = compare(r, list, n, compare_grads);
    }
    tti_mfree(list);
    return st;
}
