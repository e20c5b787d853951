/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting and the k largest on the CPU. Elements become 64-bit keys that order as they do (inverted
 * for descending order), so one stable radix sort serves all types. */
#include <string.h>

#include "ops/cpu/parallel.h"
#include "ops/cpu/reduce_line.h"
#include "ops/cpu/reduce_run.h"

#define FEW 24     /* elements below which insertion is quicker */
#define SMALL_K 64 /* up to here the k best are kept in order while scanning */

typedef struct item {
    uint64_t key;
    int64_t index;
} item;

static void insertion(item *a, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        item v = a[i];
        int64_t j = i;

        for (; j > 0 && a[j - 1].key > v.key; j--)
            a[j] = a[j - 1];
        a[j] = v;
    }
}

/* Stable, by bytes from the lowest; bytes in which all keys agree are skipped. */
static void radix(item *a, item *spare, int64_t n)
{
    uint64_t differ = 0;
    item *from = a, *to = spare;

    for (int64_t i = 1; i < n; i++)
        differ |= a[i].key ^ a[0].key;
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t start[257] = { 0 };
        item *swap = from;

        if ((differ >> shift & 255) == 0)
            continue;
        for (int64_t i = 0; i < n; i++)
            start[(from[i].key >> shift & 255) + 1]++;
        for (int b = 0; b < 256; b++)
            start[b + 1] += start[b];
        for (int64_t i = 0; i < n; i++)
            to[start[from[i].key >> shift & 255]++] = from[i];
        from = to;
        to = swap;
    }
    if (from != a)
        memcpy(a, from, (size_t)n * sizeof *a);
}

/* The k smallest keys, in order, at the front. */
static void best(item *a, int64_t n, int64_t k)
{
    insertion(a, k);
    for (int64_t i = k; i < n; i++) {
        item v = a[i];
        int64_t j = k - 1;

        if (v.key >= a[k - 1].key)
            continue;
        for (; j > 0 && a[j - 1].key > v.key; j--)
            a[j] = a[j - 1];
        a[j] = v;
    }
}

typedef struct sort_job {
    tt_tensor *values, *indices;
    const tt_tensor *x;
    int64_t n, k, x_stride, out_stride;
    bool descending;
    tti_loop lines;
} sort_job;

static void sort_line(const sort_job *j, int64_t line, item *a)
{
    int64_t esize = (int64_t)tti_esize(j->x), out;
    int64_t from = tti_loop_at(&j->lines, line, &out);
    const char *x = (const char *)tti_data(j->x) + from * esize;
    int64_t *indices = (int64_t *)tti_data(j->indices) + out;
    char *values = (char *)tti_data(j->values) + out * esize;

    tti_lines[j->x->dtype].keys(&a[0].key, x, j->n, j->x_stride);
    for (int64_t i = 0; i < j->n; i++) {
        a[i].index = i;
        if (j->descending)
            a[i].key = ~a[i].key;
    }
    if (j->k < j->n && j->k <= SMALL_K)
        best(a, j->n, j->k);
    else if (j->n <= FEW)
        insertion(a, j->n);
    else
        radix(a, a + j->n, j->n);
    for (int64_t i = 0; i < j->k; i++) {
        indices[i * j->out_stride] = a[i].index;
        memcpy(values + i * j->out_stride * esize, x + a[i].index * j->x_stride * esize,
               (size_t)esize);
    }
}

static tt_status sort_lines(sort_job *j, int dim)
{
    int threads = tti_threads_for(j->x->numel, 16384);
    bool scalar = j->x->n_dims == 0;
    item *room;

    j->n = scalar ? 1 : j->x->dims[dim];
    j->x_stride = scalar ? 1 : j->x->strides[dim];
    j->out_stride = scalar ? 1 : j->values->strides[dim];
    if (tti_lines[j->x->dtype].keys == NULL)
        return tti_no_kernel("sort", j->x);
    if (j->n == 0 || j->k == 0)
        return TT_OK;
    tti_lines_of(&j->lines, j->x, j->values, dim);
    room = tti_malloc((size_t)threads * 2 * (size_t)j->n * sizeof *room);
    if (room == NULL)
        return TT_ERR_NOMEM;
    TTI_PARALLEL_FOR(threads, i, j->lines.total, 1,
                     sort_line(j, i, room + tti_worker(threads) * 2 * j->n));
    tti_mfree(room);
    return TT_OK;
}

tt_status tti_sort_run(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                       bool descending)
{
    sort_job j = { .values = values, .indices = indices, .x = x, .descending = descending };

    j.k = x->n_dims == 0 ? 1 : x->dims[dim];
    return sort_lines(&j, dim);
}

tt_status tti_topk_run(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                       int64_t k, bool largest)
{
    sort_job j = { .values = values, .indices = indices, .x = x, .k = k, .descending = largest };

    return sort_lines(&j, dim);
}
