/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of index kernels, and those that move whole slices: index_select and index_put. A
 * tensor is seen as [outer, size of dim, inner]. */
#include "ops/cpu/index.h"

#include <string.h>

#include "tensor/shape.h"

static tt_status bad_index(const char *name, const tt_tensor *index, int64_t at, int dim,
                           int64_t size)
{
    const int64_t *p = tti_data(index);
    int64_t where[TT_MAX_DIMS], rest = at;
    char text[TTI_SHAPE_TEXT];

    for (int i = index->n_dims - 1; i >= 0; i--) {
        where[i] = rest % index->dims[i];
        rest /= index->dims[i];
    }
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: index %lld at %s is out of range for dimension %d of size %lld", name,
                   (long long)p[at], tti_shape_text(where, index->n_dims, text, sizeof text), dim,
                   (long long)size);
}

tt_status tti_index_check(const char *name, const tt_tensor *index, int dim, int64_t size)
{
    const int64_t *p = tti_data(index);
    int bad = 0;

    for (int64_t i = 0; i < index->numel; i++)
        bad |= (uint64_t)p[i] >= (uint64_t)size;
    if (tt_likely(bad == 0))
        return TT_OK;
    for (int64_t i = 0; i < index->numel; i++)
        if ((uint64_t)p[i] >= (uint64_t)size)
            return bad_index(name, index, i, dim, size);
    return TT_OK;
}

/* [outer, size, inner] of dimension dim; a tensor without dimensions is [1, 1, 1]. */
typedef struct slab {
    int64_t outer, size, inner;
} slab;

static slab slab_of(const tt_tensor *t, int dim)
{
    slab s = { 1, 1, 1 };

    for (int i = 0; i < t->n_dims; i++) {
        if (i < dim)
            s.outer *= t->dims[i];
        else if (i == dim)
            s.size = t->dims[i];
        else
            s.inner *= t->dims[i];
    }
    return s;
}

/* `out` and `in` as bytes, `width` per slice. */
typedef struct select_job {
    char *out;
    const char *in;
    const int64_t *index;
    int64_t n, size; /* slices of out and of in per outer step */
    size_t width;
} select_job;

static void select_slices(const select_job *j, int64_t from, int64_t to)
{
    for (int64_t at = from; at < to; at++) {
        int64_t o = at / j->n, i = at % j->n;

        memcpy(j->out + (size_t)at * j->width,
               j->in + (size_t)(o * j->size + j->index[i]) * j->width, j->width);
    }
}

static void select_rows(const select_job *j, int64_t outer, size_t e)
{
    tti_row_fn gather = tti_row_gather(e);
    tti_index_row row = { .index = j->index, .n = j->n, .step = 0, .stride = 1 };

    TTI_PARALLEL_FOR(
        tti_index_threads((size_t)(outer * j->n) * e), o, outer, 1,
        gather(j->out + (size_t)(o * j->n) * e, j->in + (size_t)(o * j->size) * e, &row));
}

static tt_status index_select(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    slab s = slab_of(x, dim);
    size_t e = tti_esize(x);
    select_job j = { .out = tti_data(out),
                     .in = tti_data(x),
                     .index = tti_data(index),
                     .n = index->numel,
                     .size = s.size,
                     .width = (size_t)s.inner * e };
    int64_t total = s.outer * j.n;

    TT_TRY(tti_index_check("index_select", index, dim, s.size));
    if (out->numel == 0)
        return TT_OK;
    if (s.inner == 1) {
        select_rows(&j, s.outer, e);
        return TT_OK;
    }
    TTI_PARALLEL_FOR(tti_index_threads((size_t)total * j.width), at, total, 1,
                     select_slices(&j, at, at + 1));
    return TT_OK;
}

/* Columns [from, to) of every slice: any split of columns gives the same sums. */
typedef struct put_job {
    char *out;
    const char *src;
    const int64_t *index;
    int64_t n;
    slab s;
    size_t e;
    tti_run_fn add; /* NULL: overwrite */
} put_job;

static void put_columns(const put_job *j, int64_t from, int64_t to)
{
    for (int64_t o = 0; o < j->s.outer; o++)
        for (int64_t i = 0; i < j->n; i++) {
            int64_t at = (o * j->s.size + j->index[i]) * j->s.inner + from;
            int64_t src = (o * j->n + i) * j->s.inner + from;

            if (j->add != NULL)
                j->add(j->out + (size_t)at * j->e, j->src + (size_t)src * j->e, to - from);
            else
                memcpy(j->out + (size_t)at * j->e, j->src + (size_t)src * j->e,
                       (size_t)(to - from) * j->e);
        }
}

static void put_rows(const put_job *j, tt_dtype dtype)
{
    tti_row_fn put = j->add != NULL ? tti_row_put_add(dtype) : tti_row_put(j->e);
    tti_index_row row = { .index = j->index, .n = j->n, .step = 0, .stride = 1 };

    for (int64_t o = 0; o < j->s.outer; o++)
        put(j->out + (size_t)(o * j->s.size) * j->e, j->src + (size_t)(o * j->n) * j->e, &row);
}

static tt_status index_put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                           bool add)
{
    put_job j = { .out = tti_data(out),
                  .src = tti_data(src),
                  .index = tti_data(index),
                  .n = index->numel,
                  .s = slab_of(out, dim),
                  .e = tti_esize(out),
                  .add = add ? tti_run_add((tt_dtype)out->dtype) : NULL };
    int threads = tti_index_threads((size_t)src->numel * tti_esize(src));
    int64_t chunk;

    TT_TRY(tti_index_check(add ? "index_add" : "index_copy", index, dim, j.s.size));
    if (src->numel == 0)
        return TT_OK;
    if (j.s.inner == 1) {
        put_rows(&j, (tt_dtype)out->dtype);
        return TT_OK;
    }
    if (threads == 1 || j.s.inner < 32 * threads) {
        put_columns(&j, 0, j.s.inner);
        return TT_OK;
    }
    chunk = (j.s.inner / threads + 16) & ~(int64_t)15;
    TTI_PARALLEL_FOR(threads, from, j.s.inner, chunk,
                     put_columns(&j, from, from + chunk < j.s.inner ? from + chunk : j.s.inner));
    return TT_OK;
}

const tti_index_kernels tti_index_cpu = {
    .index_select = index_select,
    .index_put = index_put,
    .gather = tti_cpu_gather,
    .scatter = tti_cpu_scatter,
    .count_nonzero = tti_cpu_count_nonzero,
    .nonzero = tti_cpu_nonzero,
    .masked_select = tti_cpu_masked_select,
    .masked_scatter = tti_cpu_masked_scatter,
    .one_hot = tti_cpu_one_hot,
    .tri = tti_cpu_tri,
    .sort_keys = tti_cpu_sort_keys,
};
