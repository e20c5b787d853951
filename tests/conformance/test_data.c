/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders and samplers over many sizes: with every number of threads the same batches, and ranks that
 * share every epoch evenly. */
#include <stdlib.h>
#include <string.h>

#include "tutti/data.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

/* ---- loaders ----------------------------------------------------------------------------------- */

typedef struct trace {
    int64_t seen[400]; /* of each batch: its size and its labels */
    int n;
} trace;

static tt_status doubled(void *ctx, tt_tensor *const *samples, int64_t n, int n_fields,
                         tt_tensor **out)
{
    (void)ctx;
    for (int f = 0; f < n_fields; f++) {
        tt_tensor *column[16];

        for (int64_t i = 0; i < n; i++)
            column[i] = tt_mul_scalar(samples[i * n_fields + f], 2);
        out[f] = tt_stack(column, (int)n, 0);
        if (out[f] == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static tt_dataset *squares(int64_t n)
{
    tt_dataset *ds = NULL;

    TT_SCOPE {
        tt_tensor *x = tt_arange(0, (double)n, 1, TT_F32, TT_CPU);

        ds = tt_tensor_dataset_new((tt_tensor *[]){ tt_square(x), tt_to_dtype(x, TT_I64) }, 2);
    }
    TT_REQUIRE_NOT_NULL(ds);
    return ds;
}

/* What comes from batch `first` of epoch 0 to the end of epoch 1. */
static trace record(tt_dataset *ds, const tt_loader_options *o, int64_t first)
{
    tt_loader *l = tt_loader_new(ds, o);
    trace t = { .n = 0 };
    int64_t left;

    TT_REQUIRE_NOT_NULL(l);
    left = 2 * tt_loader_batches(l) - first;
    if (first > 0)
        TT_CHECK_OK(tt_loader_seek(l, 0, first));
    for (; left > 0; left--) {
        TT_SCOPE {
            tt_batch b = tt_loader_next(l);
            const int64_t *y;
            const float *x;

            TT_REQUIRE_OK(b.status);
            TT_REQUIRE_EQ(tt_tensor_size(b.y, 0), b.size);
            x = tt_tensor_data(b.x);
            y = tt_tensor_data(b.y);
            t.seen[t.n++] = b.size;
            for (int64_t i = 0; i < b.size; i++) {
                double scale = o->collate != NULL ? 2 : 1, label = (double)y[i] / scale;

                TT_CHECK_NEAR(x[i], scale * label * label, 0);
                t.seen[t.n++] = y[i];
            }
        }
    }
    tt_loader_free(l);
    return t;
}

TT_TEST(data_rules, threads_order_collation_and_seek_do_not_disturb_one_another)
{
    tt_dataset *ds = squares(23);

    for (int mix = 0; mix < 8; mix++) {
        tt_loader_options o = { .batch_size = 5,
                                .seed = 11,
                                .shuffle = mix & 1,
                                .drop_last = mix & 2,
                                .collate = mix & 4 ? doubled : NULL };
        trace alone = record(ds, &o, 0);
        int64_t skipped = 2 * 6; /* two batches of five with their sizes */

        TT_CHECK_EQ(alone.n, o.drop_last ? 2 * (4 + 20) : 2 * (5 + 23));
        TT_CHECK_EQ(memcmp(alone.seen, alone.seen + alone.n / 2,
                           (size_t)(alone.n / 2) * sizeof *alone.seen) != 0,
                    o.shuffle);
        for (o.n_threads = 1; o.n_threads <= 3; o.n_threads += 2) {
            trace many = record(ds, &o, 0), late = record(ds, &o, 2);

            TT_REQUIRE_EQ(many.n, alone.n);
            TT_CHECK_MEM(many.seen, alone.seen, (size_t)alone.n * sizeof *alone.seen);
            TT_REQUIRE_EQ(late.n, alone.n - skipped);
            TT_CHECK_MEM(late.seen, alone.seen + skipped, (size_t)late.n * sizeof *late.seen);
        }
    }
    tt_dataset_free(ds);
}

/* ---- ranks ------------------------------------------------------------------------------------- */

/* The interleaved orders of all ranks. */
static int64_t *world(int64_t n, int size, uint64_t epoch, tt_distributed_sampler_options o,
                      int64_t *per_rank_p)
{
    int64_t *all = calloc((size_t)(n + size), sizeof *all), *mine;

    TT_REQUIRE(all != NULL);
    for (int rank = 0; rank < size; rank++) {
        tt_sampler *s = tt_distributed_sampler_new(n, rank, size, &o);

        TT_REQUIRE_NOT_NULL(s);
        if (rank == 0)
            *per_rank_p = tt_sampler_length(s);
        TT_REQUIRE_EQ(tt_sampler_length(s), *per_rank_p);
        mine = calloc((size_t)*per_rank_p + 1, sizeof *mine);
        TT_REQUIRE(mine != NULL);
        TT_REQUIRE_OK(tt_sampler_order(s, epoch, mine));
        for (int64_t i = 0; i < *per_rank_p; i++)
            all[i * size + rank] = mine[i];
        free(mine);
        tt_sampler_free(s);
    }
    return all;
}

static void check_world(int64_t n, int size, bool drop_last)
{
    tt_distributed_sampler_options o = { .seed = 5, .drop_last = drop_last };
    int64_t per_rank, total, fewest = 9, most = 0;
    int64_t *a = world(n, size, 0, o, &per_rank), *b = world(n, size, 1, o, &per_rank);
    int *count = calloc((size_t)n, sizeof *count);

    TT_REQUIRE(count != NULL);
    total = per_rank * size;
    TT_CHECK_EQ(per_rank, drop_last ? n / size : (n + size - 1) / size);
    for (int64_t i = 0; i < total; i++) {
        TT_REQUIRE(a[i] >= 0 && a[i] < n);
        count[a[i]]++;
    }
    for (int64_t i = 0; i < n; i++) {
        fewest = count[i] < fewest ? count[i] : fewest;
        most = count[i] > most ? count[i] : most;
    }
    /* All once; those that fill up twice; those that are cut never. */
    TT_CHECK_EQ(fewest, drop_last && total < n ? 0 : 1);
    TT_CHECK_EQ(most, total > n ? 2 : 1);
    if (n >= 20)
        TT_CHECK(memcmp(a, b, (size_t)total * sizeof *a) != 0);
    o.in_order = true;
    free(b);
    b = world(n, size, 3, o, &per_rank);
    for (int64_t i = 0; i < total; i++)
        TT_CHECK_EQ(b[i], i % n);
    free(a);
    free(b);
    free(count);
}

TT_TEST(data_rules, ranks_share_every_epoch_evenly)
{
    static const int64_t lengths[] = { 8, 9, 16, 20, 31, 64, 97, 100, 128 };

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int size = 1; size <= 8; size++) {
            check_world(lengths[i], size, false);
            check_world(lengths[i], size, true);
        }
}

/* A world's order depends on the seed and not on the size. */
TT_TEST(data_rules, worlds_of_all_sizes_see_one_order)
{
    tt_distributed_sampler_options o = { .seed = 3 };
    int64_t n;
    int64_t *one = world(48, 1, 4, o, &n), *other;

    for (int size = 2; size <= 8; size *= 2) {
        other = world(48, size, 4, o, &n);
        TT_CHECK_MEM(one, other, 48 * sizeof *one);
        free(other);
    }
    o.seed = 4;
    other = world(48, 1, 4, o, &n);
    TT_CHECK(memcmp(one, other, 48 * sizeof *one) != 0);
    free(other);
    free(one);
}
