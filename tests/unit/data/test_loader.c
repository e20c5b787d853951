/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: the order of batches with any number of threads, errors of samples, ends at any moment. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/data.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

/* ---- datasets in memory ---------------------------------------------------------------------------- */

static tt_dataset *numbers(int64_t n)
{
    tt_dataset *ds = NULL;

    TT_SCOPE {
        tt_tensor *x = tt_empty(TT_SHAPE(n, 3), TT_F32, TT_CPU);
        tt_tensor *y = tt_empty(TT_SHAPE(n), TT_I64, TT_CPU);

        for (int64_t i = 0; i < n; i++) {
            for (int c = 0; c < 3; c++)
                ((float *)tt_tensor_data(x))[3 * i + c] = (float)(10 * i + c);
            ((int64_t *)tt_tensor_data(y))[i] = i;
        }
        ds = tt_tensor_dataset_new((tt_tensor *[]){ x, y }, 2);
    }
    TT_REQUIRE_NOT_NULL(ds);
    return ds;
}

static int64_t label(tt_batch b, int64_t i)
{
    return ((int64_t *)tt_tensor_data(b.y))[i];
}

TT_TEST(data, an_epoch_of_tensors_comes_in_order)
{
    tt_dataset *ds = numbers(10);
    tt_loader *l = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 4 });
    int64_t seen = 0, batches = 0;

    tt_dataset_free(ds); /* the loader keeps it */
    TT_REQUIRE_NOT_NULL(l);
    TT_CHECK_EQ(tt_loader_batches(l), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        while (tt_loader_more(l)) {
            TT_SCOPE {
                tt_batch b = tt_loader_next(l);

                TT_REQUIRE_NOT_NULL(b.x);
                TT_CHECK_EQ(b.epoch, epoch);
                TT_CHECK_EQ(b.number, batches % 3);
                TT_CHECK_EQ(b.size, batches % 3 == 2 ? 2 : 4);
                TT_CHECK_EQ(tt_tensor_size(b.x, 0), b.size);
                TT_CHECK_EQ(tt_tensor_size(b.x, 1), 3);
                for (int64_t i = 0; i < b.size; i++, seen++) {
                    TT_CHECK_EQ(label(b, i), seen % 10);
                    TT_CHECK_NEAR(((float *)tt_tensor_data(b.x))[3 * i + 2],
                                  (double)(10 * (seen % 10) + 2), 0);
                }
                batches++;
            }
        }
    }
    TT_CHECK_EQ(seen, 20);
    TT_CHECK_EQ(batches, 6);
    TT_CHECK_EQ(tt_loader_epoch(l), 2);
    tt_loader_free(l);
}

TT_TEST(data, next_alone_goes_from_epoch_to_epoch)
{
    tt_dataset *ds = numbers(5);
    tt_loader *l = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 2, .drop_last = true });

    for (int i = 0; i < 7; i++) {
        TT_SCOPE {
            tt_batch b = tt_loader_next(l);

            TT_CHECK_EQ(b.epoch, i / 2);
            TT_CHECK_EQ(label(b, 0), i % 2 * 2);
        }
    }
    TT_CHECK(tt_loader_more(l));
    tt_loader_free(l);
    tt_dataset_free(ds);
}

TT_TEST(data, tensor_dataset_checks_its_fields)
{
    TT_SCOPE {
        tt_tensor *a = TT_FLOATS(1, 2, 3), *b = TT_FLOATS(1, 2);
        tt_dataset *ds;

        TT_CHECK_NULL(tt_tensor_dataset_new((tt_tensor *[]){ a, b }, 2));
        TT_CHECK_CONTAINS(tt_last_error(), "expected 3 rows in each field, field 1 has 2");
        TT_CHECK_NULL(tt_tensor_dataset_new((tt_tensor *[]){ a }, 0));
        ds = tt_tensor_dataset_new((tt_tensor *[]){ a }, 1);
        TT_CHECK_ERR_SAYS(tt_dataset_get(ds, (tt_sample_at){ .index = 3 }, (tt_tensor *[1]){ 0 }),
                          TT_ERR_INVALID, "below 3, got 3");
        tt_dataset_free(ds);
    }
}

TT_TEST(data, subsets_choose_samples)
{
    tt_dataset *all = numbers(10);
    tt_dataset *part = tt_subset_dataset_new(all, (int64_t[]){ 7, 1, 7 }, 3);
    tt_loader *l = tt_loader_new(part, &(tt_loader_options){ .batch_size = 3 });

    tt_dataset_free(all);
    tt_dataset_free(part);
    TT_SCOPE {
        tt_batch b = tt_loader_next(l);

        TT_REQUIRE_NOT_NULL(b.y);
        TT_CHECK_EQ(label(b, 0), 7);
        TT_CHECK_EQ(label(b, 1), 1);
        TT_CHECK_EQ(label(b, 2), 7);
    }
    tt_loader_free(l);
}

/* ---- a dataset of one's own, with threads ------------------------------------------------------------ */

typedef struct slow_set {
    int64_t n, bad;    /* index of the sample that fails; -1: none */
    int64_t odd_shape; /* index of the sample of another shape; -1: none */
    atomic_int gets, frees;
} slow_set;

static int64_t slow_length(void *ctx)
{
    return ((slow_set *)ctx)->n;
}

/* Takes longer for some samples than for others, so that threads overtake one another. */
static tt_status slow_get(void *ctx, tt_sample_at at, tt_tensor **fields)
{
    slow_set *s = ctx;
    volatile double waste = 0;
    int64_t n = at.index == s->odd_shape ? 3 : 2;

    atomic_fetch_add(&s->gets, 1);
    for (int64_t i = 0; i < (at.index * 7919) % 50 * 1000; i++)
        waste += (double)i;
    if (at.index == s->bad)
        return tt_fail(TT_ERR_IO, "sample %d is unreadable", (int)at.index);
    fields[0] = tt_empty((tt_shape){ 1, { n } }, TT_I64, TT_CPU);
    if (fields[0] == NULL)
        return tt_last_status();
    ((int64_t *)tt_tensor_data(fields[0]))[0] = at.index;
    ((int64_t *)tt_tensor_data(fields[0]))[1] = (int64_t)(at.random >> 1);
    return TT_OK;
}

static void slow_free(void *ctx)
{
    atomic_fetch_add(&((slow_set *)ctx)->frees, 1);
}

static const tt_dataset_ops slow_ops = {
    .name = "slow", .length = slow_length, .get = slow_get, .free = slow_free
};

/* Everything a loader gives in three epochs, as one row of numbers. */
static int64_t *collect(tt_loader_options o, int64_t n, int64_t *count_p)
{
    slow_set set = { .n = n, .bad = -1, .odd_shape = -1 };
    tt_dataset *ds = tt_dataset_new(&slow_ops, &set, 1);
    tt_loader *l = tt_loader_new(ds, &o);
    int64_t *all = calloc((size_t)(6 * n + 1), sizeof *all), count = 0;

    tt_dataset_free(ds);
    TT_REQUIRE_NOT_NULL(l);
    for (int epoch = 0; epoch < 3; epoch++) {
        while (tt_loader_more(l)) {
            TT_SCOPE {
                tt_batch b = tt_loader_next(l);

                TT_REQUIRE_OK(b.status);
                memcpy(all + count, tt_tensor_data(b.x), tt_tensor_bytes(b.x));
                count += tt_tensor_numel(b.x);
            }
        }
    }
    TT_CHECK_EQ(atomic_load(&set.frees), 0);
    tt_loader_free(l);
    TT_CHECK_EQ(atomic_load(&set.frees), 1);
    *count_p = count;
    return all;
}

TT_TEST(data, threads_do_not_change_what_comes)
{
    tt_loader_options o = { .batch_size = 3, .shuffle = true, .seed = 4 };
    int64_t n0, n1, *alone = collect(o, 50, &n0), *many;

    TT_CHECK_EQ(n0, 3 * 50 * 2);
    for (int threads = 1; threads <= 4; threads++) {
        o.n_threads = threads;
        o.n_ahead = threads == 2 ? 1 : 0;
        many = collect(o, 50, &n1);
        TT_REQUIRE_EQ(n0, n1);
        TT_CHECK_MEM(alone, many, (size_t)n0 * sizeof *alone);
        free(many);
    }
    TT_CHECK_NE(memcmp(alone, alone + 100, 100 * sizeof *alone), 0);
    /* pairs of index and random number: the first sample has another number in the next epoch */
    for (int64_t i = 100; i < 200; i += 2)
        TT_CHECK(alone[i] != alone[0] || alone[i + 1] != alone[1]);
    free(alone);
}

TT_TEST(data, threads_load_no_further_ahead_than_asked)
{
    slow_set set = { .n = 1000, .bad = -1, .odd_shape = -1 };
    tt_dataset *ds = tt_dataset_new(&slow_ops, &set, 1);
    tt_loader *l = tt_loader_new(ds, &(tt_loader_options){ .n_threads = 2, .n_ahead = 3 });

    for (int i = 0; i < 20; i++) {
        TT_SCOPE {
            (void)tt_loader_next(l);
        }
        TT_CHECK_LE(atomic_load(&set.gets), i + 1 + 3);
    }
    tt_loader_free(l); /* in the middle of an epoch, with batches nobody took */
    tt_dataset_free(ds);
}

TT_TEST(data, loaders_end_before_they_began_and_at_once)
{
    slow_set set = { .n = 100, .bad = -1, .odd_shape = -1 };
    tt_dataset *ds = tt_dataset_new(&slow_ops, &set, 1);

    for (int taken = 0; taken < 4; taken++) {
        tt_loader *l = tt_loader_new(ds, &(tt_loader_options){ .n_threads = 3 });

        for (int i = 0; i < taken; i++)
            TT_SCOPE {
                TT_CHECK_OK(tt_loader_next(l).status);
            }
        tt_loader_free(l);
    }
    tt_dataset_free(ds);
    tt_loader_free(NULL);
}

TT_TEST(data, the_error_of_a_sample_surfaces_in_its_batch)
{
    for (int threads = 0; threads < 3; threads += 2) {
        slow_set set = { .n = 10, .bad = 5, .odd_shape = -1 };
        tt_dataset *ds = tt_dataset_new(&slow_ops, &set, 1);
        tt_loader *l =
            tt_loader_new(ds, &(tt_loader_options){ .batch_size = 2, .n_threads = threads });

        for (int i = 0; i < 5; i++) {
            TT_SCOPE {
                tt_batch b = tt_loader_next(l);

                TT_CHECK_EQ(b.number, i);
                if (i == 2) {
                    TT_CHECK_NULL(b.x);
                    TT_CHECK_ERR_SAYS(b.status, TT_ERR_IO, "sample 5 is unreadable");
                } else {
                    TT_CHECK_OK(b.status);
                    TT_CHECK_NOT_NULL(b.x);
                }
            }
        }
        TT_CHECK(!tt_loader_more(l));
        tt_loader_free(l);
        tt_dataset_free(ds);
    }
}

static tt_status count_samples(void *ctx, tt_tensor *const *samples, int64_t n, int n_fields,
                               tt_tensor **out)
{
    (void)ctx;
    (void)n_fields;
    out[0] = TT_INTS(n, tt_tensor_numel(samples[n - 1]));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

TT_TEST(data, samples_of_different_shapes_need_a_collate_function)
{
    slow_set set = { .n = 4, .bad = -1, .odd_shape = 3 };
    tt_dataset *ds = tt_dataset_new(&slow_ops, &set, 1);
    tt_loader *l = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 4 });

    TT_SCOPE {
        TT_CHECK_ERR_SAYS(tt_loader_next(l).status, TT_ERR_INVALID, "as number 3 of the batch");
    }
    tt_loader_free(l);
    l = tt_loader_new(
        ds, &(tt_loader_options){ .batch_size = 4, .n_threads = 1, .collate = count_samples });
    TT_SCOPE {
        tt_batch b = tt_loader_next(l);

        TT_REQUIRE_NOT_NULL(b.x);
        TT_CHECK_EQ(((int64_t *)tt_tensor_data(b.x))[0], 4);
        TT_CHECK_EQ(((int64_t *)tt_tensor_data(b.x))[1], 3);
    }
    tt_loader_free(l);
    tt_dataset_free(ds);
}

TT_TEST(data, seek_resumes_in_the_middle_of_an_epoch)
{
    tt_dataset *ds = numbers(20);
    tt_loader_options o = { .batch_size = 3, .shuffle = true, .seed = 1 };

    for (int threads = 0; threads < 3; threads += 2) {
        tt_loader *a, *b;

        o.n_threads = threads;
        a = tt_loader_new(ds, &o);
        b = tt_loader_new(ds, &o);
        TT_SCOPE {
            for (int i = 0; i < 7 + 4; i++)
                (void)tt_loader_next(a);
            (void)tt_loader_next(b);
            TT_REQUIRE_OK(tt_loader_seek(b, 1, 4));
            for (int i = 0; i < 5; i++) {
                tt_batch x = tt_loader_next(a), y = tt_loader_next(b);

                TT_CHECK_EQ(x.epoch, y.epoch);
                TT_CHECK_EQ(x.number, y.number);
                TT_CHECK_MEM(tt_tensor_data(x.y), tt_tensor_data(y.y), tt_tensor_bytes(x.y));
            }
            TT_CHECK_ERR(tt_loader_seek(b, 0, 7), TT_ERR_INVALID);
        }
        tt_loader_free(a);
        tt_loader_free(b);
    }
    tt_dataset_free(ds);
}

/* ---- what goes wrong ----------------------------------------------------------------------------------- */

static int64_t wild_length(void *ctx)
{
    (void)ctx;
    return 2;
}

static tt_status wild_order(void *ctx, uint64_t epoch, int64_t *out)
{
    (void)ctx;
    (void)epoch;
    out[0] = 0;
    out[1] = 99;
    return TT_OK;
}

TT_TEST(data, samplers_may_not_leave_the_dataset)
{
    static const tt_sampler_ops wild = { .name = "wild",
                                         .length = wild_length,
                                         .order = wild_order };
    tt_dataset *ds = numbers(3);
    tt_sampler *s = tt_sampler_new(&wild, NULL);
    tt_loader *l = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 2, .sampler = s });

    tt_sampler_free(s);
    TT_SCOPE {
        TT_CHECK_ERR_SAYS(tt_loader_next(l).status, TT_ERR_INVALID, "index 99 of a dataset of 3");
    }
    tt_loader_free(l);
    tt_dataset_free(ds);
}

TT_TEST(data, a_loader_without_batches_says_so)
{
    tt_dataset *ds = numbers(3);
    tt_loader *l = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 4, .drop_last = true });

    TT_CHECK(!tt_loader_more(l));
    TT_CHECK_ERR_SAYS(tt_loader_next(l).status, TT_ERR_INVALID, "no batch");
    tt_loader_free(l);
    TT_CHECK_NULL(tt_loader_new(ds, &(tt_loader_options){ .batch_size = -1 }));
    TT_CHECK_NULL(tt_loader_new(NULL, NULL));
    tt_dataset_free(ds);
}

static tt_status load_one(void *ctx)
{
    tt_dataset *ds = NULL;
    tt_loader *l = NULL;
    tt_status st = TT_ERR_NOMEM;

    (void)ctx;
    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(1, 2, 3);

        ds = x != NULL ? tt_tensor_dataset_new(&x, 1) : NULL;
        l = ds != NULL ? tt_loader_new(ds, &(tt_loader_options){ .batch_size = 2, .shuffle = true })
                       : NULL;
        if (l != NULL)
            st = tt_loader_next(l).status;
    }
    tt_loader_free(l);
    tt_dataset_free(ds);
    return st;
}

TT_TEST(data, failing_allocations_leak_nothing)
{
    TT_CHECK_GT(tt_test_fail_allocs(load_one, NULL), 8);
}

/* ---- sizes --------------------------------------------------------------------------------------- */

TT_TEST(loader, batches_that_no_memory_holds_are_refused)
{
    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(2), TT_F32, TT_CPU), *fields[] = { t, t, t, t };
        tt_dataset *ds = tt_tensor_dataset_new(fields, 4);
        int64_t wraps = (INT64_C(1) << 62) + 1; /* times 4 it is 4 */

        TT_REQUIRE_NOT_NULL(ds);
        TT_CHECK_NULL(tt_loader_new(ds, &(tt_loader_options){ .batch_size = wraps }));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
        tt_dataset_free(ds);
    }
}
