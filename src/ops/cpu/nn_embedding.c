/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables on the CPU: lookups, bags, and their gradients. Gradients are added column strip by
 * column strip, one thread each, so that the order of the sums does not depend on the threads. */
#include <string.h>

#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/parallel.h"
#include "tutti/functional.h"

enum { ROW_GRAIN = 16384 }; /* elements worth a thread */

#define BAGS TTI_ISA_PICK(tti_bag_table)

static tt_status check_index(const char *name, const tt_tensor *index, int64_t rows)
{
    const int64_t *at = tti_data(index);
    bool bad = false;

    for (int64_t i = 0; i < index->numel; i++)
        bad |= (uint64_t)at[i] >= (uint64_t)rows;
    for (int64_t i = 0; bad && i < index->numel; i++)
        if ((uint64_t)at[i] >= (uint64_t)rows)
            return TT_FAIL(TT_ERR_INVALID,
                           "%s: expected indices from 0 to %lld, got %lld at position %lld", name,
                           (long long)rows - 1, (long long)at[i], (long long)i);
    return TT_OK;
}

static tt_status check_offsets(const tti_bags *b)
{
    const int64_t *at = tti_data(b->offsets);
    int64_t n = b->index->numel, bags = b->offsets->numel - 1;

    if (bags > 0 && at[0] != 0)
        return TT_FAIL(TT_ERR_INVALID, "embedding_bag: expected the first offset to be 0, got %lld",
                       (long long)at[0]);
    for (int64_t i = 0; i < bags; i++)
        if (at[i + 1] < at[i] || at[i + 1] > n)
            return TT_FAIL(TT_ERR_INVALID,
                           "embedding_bag: expected offsets that do not decrease and are at most "
                           "%lld, got %lld after %lld at position %lld",
                           (long long)n, (long long)at[i + 1], (long long)at[i], (long long)i + 1);
    return TT_OK;
}

/* ---- lookup ----------------------------------------------------------------------------------- */

tt_status tti_embedding_cpu(tt_tensor *out, const tt_tensor *weight, const tt_tensor *index)
{
    const int64_t *at = tti_data(index);
    size_t bytes = (size_t)weight->dims[1] * tti_esize(weight);
    const char *from = tti_data(weight);
    char *to = tti_data(out);

    TT_TRY(check_index("embedding", index, weight->dims[0]));
    TTI_PARALLEL_FOR(tti_threads_for(out->numel, 4 * ROW_GRAIN), i, index->numel, 1,
                     memcpy(to + (size_t)i * bytes, from + (size_t)at[i] * bytes, bytes));
    return TT_OK;
}

/* ---- gradients by column strips ------------------------------------------------------------------ */

static void clear(tt_tensor *t)
{
    char *at = tti_data(t);
    int64_t bytes = (int64_t)((size_t)t->numel * tti_esize(t));
    int64_t piece = 1 << 18;

    TTI_PARALLEL_FOR(tti_threads_for(bytes, piece), i, bytes, piece,
                     memset(at + i, 0, (size_t)(bytes - i < piece ? bytes - i : piece)));
}

static void by_columns(tti_bag_fn fn, const tti_bag_job *job)
{
    int64_t strips = (job->dim + 15) / 16;
    int threads = tti_threads_for(job->n * job->dim, ROW_GRAIN);
    int parts = threads < strips ? threads : (int)strips;

    TTI_PARALLEL_FOR(parts > 0 ? parts : 1, i, parts, 1, {
        int64_t end = (i + 1) * strips / parts * 16;

        fn(job, i * strips / parts * 16, end < job->dim ? end : job->dim);
    });
}

static void by_bags(tti_bag_fn fn, const tti_bag_job *job)
{
    int64_t piece = 16;

    TTI_PARALLEL_FOR(tti_threads_for(job->n * job->dim, ROW_GRAIN), i, job->bags, piece,
                     fn(job, i, i + piece < job->bags ? i + piece : job->bags));
}

tt_status tti_embedding_grad_cpu(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *index,
                                 int64_t skip)
{
    tti_bag_job job = { .out = tti_data(dw),
                        .dy = tti_data(dy),
                        .index = tti_data(index),
                        .n = index->numel,
                        .bags = index->numel,
                        .dim = dw->dims[1],
                        .padding = skip };

    clear(dw);
    by_columns(BAGS->grad[dw->dtype == TT_F64], &job);
    return TT_OK;
}

/* ---- bags -------------------------------------------------------------------------------------- */

static tti_bag_job job_of(const tti_bags *b, const tt_tensor *counts, const tt_tensor *argmax)
{
    return (tti_bag_job){ .mean = b->mode == TT_BAG_MEAN,
                          .counts = counts != NULL ? tti_data(counts) : NULL,
                          .argmax = argmax != NULL ? tti_data(argmax) : NULL,
                          .sample = b->sample != NULL ? tti_data(b->sample) : NULL,
                          .index = tti_data(b->index),
                          .offsets = tti_data(b->offsets),
                          .n = b->index->numel,
                          .bags = b->offsets->numel - 1,
                          .padding = b->padding };
}

static void count_members(const tti_bag_job *j)
{
    for (int64_t b = 0; b < j->bags; b++) {
        int64_t n = j->offsets[b + 1] - j->offsets[b];

        for (int64_t i = j->offsets[b]; j->padding >= 0 && i < j->offsets[b + 1]; i++)
            n -= j->index[i] == j->padding;
        j->counts[b] = n;
    }
}

tt_status tti_embedding_bag_cpu(tt_tensor *out, tt_tensor *counts, tt_tensor *argmax,
                                const tt_tensor *weight, const tti_bags *b)
{
    tti_bag_job job = job_of(b, counts, argmax);

    job.out = tti_data(out);
    job.weight = tti_data(weight);
    job.dim = weight->dims[1];
    TT_TRY(check_offsets(b));
    TT_TRY(check_index("embedding_bag", b->index, weight->dims[0]));
    count_members(&job);
    by_bags(b->mode == TT_BAG_MAX ? BAGS->max[weight->dtype] : BAGS->sum[weight->dtype], &job);
    return TT_OK;
}

tt_status tti_embedding_bag_grad_cpu(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *counts,
                                     const tt_tensor *argmax, const tti_bags *b)
{
    tti_bag_job job = job_of(b, counts, argmax);

    job.out = tti_data(dw);
    job.dy = tti_data(dy);
    job.dim = dw->dims[1];
    clear(dw);
    by_columns(argmax != NULL ? BAGS->max_grad[dw->dtype == TT_F64]
                              : BAGS->grad[dw->dtype == TT_F64],
               &job);
    return TT_OK;
}

/* Members behind the last bag belong to none: their part of `out` is zero. */
static void clear_rest(tt_tensor *out, const tti_bag_job *job, int64_t dim)
{
    int64_t used = job->bags > 0 ? job->offsets[job->bags] : 0;
    size_t bytes = (size_t)dim * tti_esize(out);

    memset((char *)tti_data(out) + (size_t)used * bytes, 0, (size_t)(job->n - used) * bytes);
}

tt_status tti_embedding_bag_rows_cpu(tt_tensor *rows, const tt_tensor *dy, const tt_tensor *counts,
                                     const tti_bags *b)
{
    tti_bag_job job = job_of(b, counts, NULL);

    job.out = tti_data(rows);
    job.dy = tti_data(dy);
    job.dim = rows->dims[1];
    clear_rest(rows, &job, job.dim);
    by_bags(BAGS->rows[rows->dtype == TT_F64], &job);
    return TT_OK;
}

/* owner[i]: the bag of member i; starts[g]: where group g begins in the order, and its place. */
static void find_groups(const tti_bag_job *j, int64_t *owner, int64_t *starts, int64_t *places)
{
    int64_t g = 0;

    for (int64_t i = 0; i < j->n; i++)
        owner[i] = -1;
    for (int64_t b = 0; b < j->bags; b++)
        for (int64_t i = j->offsets[b]; i < j->offsets[b + 1]; i++)
            owner[i] = b;
    for (int64_t at = 0; at < j->n; at++) {
        int64_t row = j->index[j->order[at]];

        if (at == 0 || row != places[g - 1]) {
            starts[g] = at;
            places[g++] = row;
        }
    }
    starts[g] = j->n;
}

tt_status tti_embedding_bag_sums_cpu(tt_tensor *rows_places[2], const tt_tensor *dy,
                                     const tt_tensor *counts, const tt_tensor *order,
                                     const tti_bags *b)
{
    tt_tensor *rows = rows_places[0];
    tti_bag_job job = job_of(b, counts, NULL);
    int64_t groups = rows->dims[0], piece = 128;
    int64_t *owner = tti_malloc((size_t)(job.n + groups + 1) * sizeof *owner);
    int64_t *starts = owner + job.n;
    tti_bag_fn fn = BAGS->sums[rows->dtype == TT_F64];

    if (owner == NULL)
        return TT_ERR_NOMEM;
    job.out = tti_data(rows);
    job.dy = tti_data(dy);
    job.dim = rows->dims[1];
    job.order = tti_data(order);
    find_groups(&job, owner, starts, tti_data(rows_places[1]));
    job.owner = owner;
    job.starts = starts;
    TTI_PARALLEL_FOR(tti_threads_for(job.n * job.dim, ROW_GRAIN), i, groups, piece,
                     fn(&job, i, i + piece < groups ? i + piece : groups));
    tti_mfree(owner);
    return TT_OK;
}

tt_status tti_embedding_bag_weights_grad_cpu(tt_tensor *dsample, const tt_tensor *dy,
                                             const tt_tensor *weight, const tti_bags *b)
{
    tti_bag_job job = job_of(b, NULL, NULL);

    job.out = tti_data(dsample);
    job.dy = tti_data(dy);
    job.weight = tti_data(weight);
    job.dim = weight->dims[1];
    clear_rest(dsample, &job, 1);
    by_bags(BAGS->sample_grad[dsample->dtype == TT_F64], &job);
    return TT_OK;
}
