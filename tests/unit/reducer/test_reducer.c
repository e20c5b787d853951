/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in plain memory, reduced over threads and processes in worlds of one to four. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/collective.h"
#include "tutti/ops.h"
#include "tutti/reducer.h"
#include "tutti/testing.h"
#include "tutti/testing_tools.h"

enum { N = 9, ITERATIONS = 5 };

static const int64_t sizes[N] = { 1, 300, 17, 0, 64, 1000, 5, 33, 128 };

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Element k of gradient i of a rank; odd enough that the order of additions shows. */
static float value(int rank, int i, int64_t k, int iteration)
{
    return sinf((float)(rank * 7919 + i * 131 + k * 3 + iteration * 17)) * (float)(1 + rank);
}

static void shuffle(int *order, int n, uint64_t *state)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(next_random(state) % (uint64_t)(i + 1)), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
}

/* What the group itself makes of gradient i, alone. */
static void check_bits(const float *got, int i, int iteration)
{
    float *mine;
    tt_tensor *t = tt_empty(TT_SHAPE(sizes[i]), TT_F32, TT_CPU);

    TT_REQUIRE_NOT_NULL(t);
    mine = tt_tensor_data(t);
    for (int64_t k = 0; k < sizes[i]; k++)
        mine[k] = value(tt_test_rank(), i, k, iteration);
    TT_REQUIRE_OK(
        tt_pg_all_reduce(tt_test_pg(), t, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
    TT_CHECK_MEM(got, mine, (size_t)sizes[i] * sizeof *mine);
}

/* Several iterations; each rank makes its gradients ready in an order of its own. */
static void iterate(tt_reducer *r)
{
    uint64_t state = tt_test_seed() * 2654435761u + (uint64_t)tt_test_rank() + 1;
    int order[N];

    for (int it = 0; it < ITERATIONS; it++) {
        shuffle(order, N, &state);
        for (int k = 0; k < N; k++) {
            float *g = tt_reducer_data(r, order[k]);

            for (int64_t e = 0; e < sizes[order[k]]; e++)
                g[e] = value(tt_test_rank(), order[k], e, it);
            TT_REQUIRE_OK(tt_reducer_ready(r, order[k]));
        }
        TT_REQUIRE_OK(tt_reducer_wait(r));
        TT_CHECK_EQ(tt_reducer_iterations(r), it + 1);
        TT_SCOPE {
            for (int i = 0; i < N; i++)
                check_bits(tt_reducer_data(r, i), i, it);
        }
    }
}

/* Memory of the caller, of the reducer, and both in turns. */
static void reduces(void)
{
    static _Thread_local float memory[N][1000];

    for (int mode = 0; mode < 3; mode++)
        for (size_t cap = 0; cap < 4000; cap += 1000) {
            tt_reducer_grad grads[N] = { 0 };
            tt_reducer_options opt = { .bucket_bytes = cap, .first_to_last = cap == 2000 };
            tt_reducer *r;

            for (int i = 0; i < N; i++) {
                grads[i].n = sizes[i];
                grads[i].data = mode == 0 || (mode == 2 && i % 2) ? memory[i] : NULL;
            }
            r = tt_reducer_new(tt_test_pg(), grads, N, &opt);
            TT_REQUIRE_NOT_NULL(r);
            TT_CHECK(cap == 0 ? tt_reducer_n_buckets(r) == 1 : tt_reducer_n_buckets(r) > 1);
            iterate(r);
            tt_reducer_free(r);
        }
}

TT_TEST_THREADS(1, reducer, averages_in_any_order_alone)
{
    reduces();
}
TT_TEST_THREADS(2, reducer, averages_in_any_order_2_threads)
{
    reduces();
}
TT_TEST_THREADS(3, reducer, averages_in_any_order_3_threads)
{
    reduces();
}
TT_TEST_THREADS(4, reducer, averages_in_any_order_4_threads)
{
    reduces();
}
TT_TEST_RANKS(2, reducer, averages_in_any_order_2_processes)
{
    reduces();
}
TT_TEST_RANKS(3, reducer, averages_in_any_order_3_processes)
{
    reduces();
}
TT_TEST_RANKS(4, reducer, averages_in_any_order_4_processes)
{
    reduces();
}

/* ---- types and operations -------------------------------------------------------------------- */

TT_TEST_THREADS(2, reducer, reduces_every_type_of_the_library)
{
    tt_reducer_grad grads[TT_N_DTYPES] = { 0 };
    tt_reducer *r;

    for (int d = 0; d < TT_N_DTYPES; d++)
        grads[d] = (tt_reducer_grad){ .n = 10 + d, .dtype = (tt_dtype)d };
    r = tt_reducer_new(tt_test_pg(), grads, TT_N_DTYPES,
                       &(tt_reducer_options){ .op = TT_REDUCER_SUM });
    TT_REQUIRE_NOT_NULL(r);
    TT_CHECK_EQ(tt_reducer_n_buckets(r), TT_N_DTYPES);
    TT_SCOPE {
        for (int d = 0; d < TT_N_DTYPES; d++) {
            tt_tensor *ones = tt_ones(TT_SHAPE(10 + d), (tt_dtype)d, TT_CPU);

            memcpy(tt_reducer_data(r, d), tt_tensor_data(ones),
                   (size_t)(10 + d) * tt_dtype_size((tt_dtype)d));
            TT_REQUIRE_OK(tt_reducer_ready(r, d));
        }
        TT_REQUIRE_OK(tt_reducer_wait(r));
        for (int d = 0; d < TT_N_DTYPES; d++) {
            tt_tensor *two = tt_full(TT_SHAPE(10 + d), 2, (tt_dtype)d, TT_CPU);

            TT_CHECK_MEM(tt_reducer_data(r, d), tt_tensor_data(two),
                         (size_t)(10 + d) * tt_dtype_size((tt_dtype)d));
        }
    }
    tt_reducer_free(r);
}

/* One element on each of 3 ranks: 6, 12, 3. */
static float reduced(tt_reducer_op op)
{
    static const float mine[] = { 6, 12, 3 };
    float x = mine[tt_test_rank()];
    tt_reducer *r = tt_reducer_new(tt_test_pg(), &(tt_reducer_grad){ .data = &x, .n = 1 }, 1,
                                   &(tt_reducer_options){ .op = op });

    TT_REQUIRE_NOT_NULL(r);
    TT_CHECK_OK(tt_reducer_ready(r, 0));
    TT_CHECK_OK(tt_reducer_wait(r));
    tt_reducer_free(r);
    return x;
}

TT_TEST_THREADS(3, reducer, knows_four_operations)
{
    TT_CHECK(reduced(TT_REDUCER_MEAN) == 7);
    TT_CHECK(reduced(TT_REDUCER_SUM) == 21);
    TT_CHECK(reduced(TT_REDUCER_MIN) == 3);
    TT_CHECK(reduced(TT_REDUCER_MAX) == 12);
}

/* ---- buckets ---------------------------------------------------------------------------------- */

TT_TEST_THREADS(1, reducer, fills_buckets_from_the_last_gradient_to_the_first)
{
    tt_reducer_grad grads[] = { { .n = 100 }, { .n = 100 }, { .n = 50 }, { .n = 20 } };
    tt_reducer_options opt = { .bucket_bytes = 500, .first_bucket_bytes = 100 };
    tt_reducer *r = tt_reducer_new(tt_test_pg(), grads, 4, &opt);

    TT_REQUIRE_NOT_NULL(r);
    TT_CHECK_EQ(tt_reducer_n_buckets(r), 2); /* 80 bytes are not yet 100 */
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 3), 0);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 2), 0);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 1), 1);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 0), 1);
    TT_CHECK_EQ(tt_reducer_bucket_bytes(r, 0), 280);
    TT_CHECK_EQ(tt_reducer_bucket_bytes(r, 1), 800);
    tt_reducer_free(r);
    opt.first_to_last = true;
    r = tt_reducer_new(tt_test_pg(), grads, 4, &opt);
    TT_REQUIRE_NOT_NULL(r);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 0), 0);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 1), 1);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 2), 1);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 3), 2);
    tt_reducer_free(r);
}

TT_TEST_THREADS(1, reducer, a_rare_type_does_not_hold_up_the_others)
{
    /* From the last: f64 opens, f32 fills two buckets, f64 closes with gradient 0. */
    tt_reducer_grad grads[] = {
        { .n = 1, .dtype = TT_F64 }, { .n = 100 }, { .n = 100 }, { .n = 1, .dtype = TT_F64 }
    };
    tt_reducer_options opt = { .bucket_bytes = 400 };
    tt_reducer *r = tt_reducer_new(tt_test_pg(), grads, 4, &opt);

    TT_REQUIRE_NOT_NULL(r);
    TT_CHECK_EQ(tt_reducer_n_buckets(r), 3);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 2), 0);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 1), 1);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 0), 2);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 3), 2);
    TT_CHECK_EQ(tt_reducer_bucket_of(r, 4), -1);
    for (int i = 0; i < 4; i++)
        TT_CHECK_EQ((uintptr_t)tt_reducer_data(r, i) % 64, 0);
    tt_reducer_free(r);
}

/* How many reductions have begun: after the gradients of both buckets in the wrong order, after all waited, and
 * after the first bucket of the next iteration. */
static void check_leaving(const char *way, uint64_t full, uint64_t first_again)
{
    tt_reducer_grad grads[] = { { .n = 1000 }, { .n = 1000 } };
    tt_reducer *r;
    uint64_t before;

    TT_REQUIRE_EQ(setenv("TUTTI_OVERLAP", way, 1), 0);
    r = tt_reducer_new(tt_test_pg(), grads, 2, &(tt_reducer_options){ .bucket_bytes = 4000 });
    TT_REQUIRE_NOT_NULL(r);
    before = tt_pg_seq(tt_test_pg());
    TT_CHECK_OK(tt_reducer_ready(r, 0)); /* bucket 1: waits for bucket 0 */
    TT_CHECK_EQ(tt_pg_seq(tt_test_pg()) - before, 0);
    TT_CHECK_OK(tt_reducer_ready(r, 1));
    TT_CHECK_EQ(tt_pg_seq(tt_test_pg()) - before, full);
    TT_CHECK_OK(tt_reducer_wait(r));
    TT_CHECK_EQ(tt_pg_seq(tt_test_pg()) - before, 2);
    TT_CHECK_OK(tt_reducer_ready(r, 1));
    TT_CHECK_EQ(tt_pg_seq(tt_test_pg()) - before, first_again);
    TT_CHECK_OK(tt_reducer_ready(r, 0));
    TT_CHECK_OK(tt_reducer_wait(r));
    tt_reducer_free(r);
}

TT_TEST_RANKS(2, reducer, buckets_leave_before_the_last_gradient_is_ready)
{
    check_leaving("engine", 2, 3);
    check_leaving("fill", 2, 3);
}

TT_TEST_RANKS(2, reducer, buckets_leave_at_the_end)
{
    check_leaving("end", 0, 2);
}

static void check_each_way(void)
{
    static const char *const ways[] = { "engine", "fill", "end" };

    for (int w = 0; w < 3; w++) {
        tt_reducer_grad grads[N] = { 0 };
        tt_reducer *r;

        for (int i = 0; i < N; i++)
            grads[i].n = sizes[i];
        TT_REQUIRE_EQ(setenv("TUTTI_OVERLAP", ways[w], 1), 0);
        r = tt_reducer_new(tt_test_pg(), grads, N, &(tt_reducer_options){ .bucket_bytes = 1000 });
        TT_REQUIRE_NOT_NULL(r);
        iterate(r);
        tt_reducer_free(r);
    }
}

TT_TEST_RANKS(3, reducer, every_way_to_reduce_has_the_bits_of_the_group)
{
    check_each_way();
}

typedef struct half {
    tt_reducer *r;
    int first;
} half;

static void *make_half_ready(void *ctx)
{
    half *h = ctx;

    for (int i = h->first; i < N; i += 2)
        TT_CHECK_OK(tt_reducer_ready(h->r, i));
    return NULL;
}

TT_TEST_RANKS(2, reducer, several_threads_of_a_rank_make_gradients_ready)
{
    tt_reducer_grad grads[N] = { 0 };
    tt_reducer *r;

    for (int i = 0; i < N; i++)
        grads[i].n = sizes[i];
    r = tt_reducer_new(tt_test_pg(), grads, N, &(tt_reducer_options){ .bucket_bytes = 500 });
    TT_REQUIRE_NOT_NULL(r);
    for (int it = 0; it < 20; it++) {
        half even = { r, 0 }, odd = { r, 1 };
        pthread_t thread;

        for (int i = 0; i < N; i++)
            for (int64_t e = 0; e < sizes[i]; e++)
                ((float *)tt_reducer_data(r, i))[e] = value(tt_test_rank(), i, e, it);
        TT_REQUIRE(pthread_create(&thread, NULL, make_half_ready, &even) == 0);
        make_half_ready(&odd);
        pthread_join(thread, NULL);
        TT_REQUIRE_OK(tt_reducer_wait(r));
        TT_SCOPE {
            for (int i = 0; i < N; i++)
                check_bits(tt_reducer_data(r, i), i, it);
        }
    }
    tt_reducer_free(r);
}

static void *make_1_ready(void *r)
{
    TT_CHECK_OK(tt_reducer_ready(r, 1));
    return NULL;
}

/* While a thread is in the sum of a bucket, another one can make gradients ready: rank 1 comes only after that. */
TT_TEST_RANKS(2, reducer, a_running_sum_holds_up_no_other_thread)
{
    tt_reducer_grad grads[] = { { .n = 1000 }, { .n = 1000 } };
    tt_pg *pg = tt_test_pg();
    const char *key = "rank 0 is ready";
    tt_reducer *r;

    TT_REQUIRE_EQ(setenv("TUTTI_OVERLAP", "fill", 1), 0);
    r = tt_reducer_new(pg, grads, 2, &(tt_reducer_options){ .bucket_bytes = 4000 });
    TT_REQUIRE_NOT_NULL(r);
    uint64_t before = tt_pg_seq(pg);
    for (int i = 0; i < 2; i++)
        ((float *)tt_reducer_data(r, i))[999] = (float)(1 + i + 4 * tt_test_rank());
    if (tt_test_rank() == 0) {
        pthread_t thread;

        TT_REQUIRE(pthread_create(&thread, NULL, make_1_ready, r) == 0);
        while (tt_pg_seq(pg) == before)
            sched_yield(); /* until the sum of bucket 0 has begun */
        TT_CHECK_OK(tt_reducer_ready(r, 0));
        TT_CHECK_OK(tt_store_set(tt_test_store(), key, "1", 1));
        TT_CHECK_OK(tt_reducer_wait(r));
        pthread_join(thread, NULL);
    } else {
        TT_REQUIRE_OK(tt_store_wait(tt_test_store(), &key, 1, 60000));
        TT_CHECK_OK(tt_reducer_ready(r, 1));
        TT_CHECK_OK(tt_reducer_ready(r, 0));
        TT_CHECK_OK(tt_reducer_wait(r));
    }
    for (int i = 0; i < 2; i++)
        TT_CHECK((int)((float *)tt_reducer_data(r, i))[999] == 3 + i);
    tt_reducer_free(r);
}

/* ---- mistakes ---------------------------------------------------------------------------------- */

TT_TEST_THREADS(2, reducer, names_gradients_that_are_ready_twice_or_never)
{
    float a[2] = { 1, 2 }, b = 4;
    tt_reducer_grad grads[] = { { .data = a, .n = 2, .name = "wte" }, { .data = &b, .n = 1 } };
    tt_reducer *r = tt_reducer_new(tt_test_pg(), grads, 2, NULL);

    TT_REQUIRE_NOT_NULL(r);
    for (int it = 0; it < 2; it++) {
        TT_CHECK_ERR_SAYS(tt_reducer_wait(r), TT_ERR_INVALID, "2 are not ready: 0 (\"wte\"), 1");
        TT_CHECK_OK(tt_reducer_ready(r, 1));
        TT_CHECK_ERR_SAYS(tt_reducer_wait(r), TT_ERR_INVALID, "1 is not ready: 0 (\"wte\")");
        TT_CHECK_ERR_SAYS(tt_reducer_ready(r, 2), TT_ERR_INVALID, "no gradient 2: expected 0 to 1");
        TT_CHECK_ERR_SAYS(tt_reducer_ready(r, -1), TT_ERR_INVALID, "no gradient -1");
        TT_CHECK_ERR_SAYS(tt_reducer_ready(r, 1), TT_ERR_INVALID, "gradient 1 is ready for the");
        TT_CHECK_OK(tt_reducer_ready(r, 0));
        TT_CHECK_ERR_SAYS(tt_reducer_ready(r, 0), TT_ERR_INVALID, "gradient 0 (\"wte\") is ready");
        TT_CHECK_OK(tt_reducer_wait(r)); /* none of that did harm */
        TT_CHECK(a[0] == 1 && a[1] == 2 && b == 4);
    }
    TT_CHECK_EQ(tt_reducer_iterations(r), 2);
    TT_CHECK_NULL(tt_reducer_data(r, 2));
    tt_reducer_free(r);
}

TT_TEST_THREADS(3, reducer, says_which_rank_differs)
{
    int me = tt_test_rank();
    tt_reducer_grad grads[] = { { .n = 5 }, { .n = me == 2 ? 7 : 6 } };
    tt_reducer_options opt = { .bucket_bytes = me == 1 ? 8 : 0 };

    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), grads, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "gradient 1 has 6 elements of float32 on rank 0, but 7 of "
                                       "float32 on rank 2");
    grads[1].name = "fc.bias";
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), grads, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(),
                      "gradient 1 (\"fc.bias\") has 6 elements of float32 on rank 0");
    grads[1] = (tt_reducer_grad){ .n = 6, .dtype = me == 1 ? TT_F64 : TT_F32 };
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), grads, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "6 of float64 on rank 1");
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), grads, me == 2 ? 1 : 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "the number of gradients is 2 on rank 0, but 1 on rank 2");
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), grads, 2, &opt));
    TT_CHECK_CONTAINS(tt_last_error(), "bucket_bytes is 26214400 on rank 0, but 8 on rank 1");
}

TT_TEST_THREADS(1, reducer, refuses_what_is_no_list_of_gradients)
{
    tt_reducer_grad g = { .n = -1 };

    TT_CHECK_NULL(tt_reducer_new(NULL, &g, 1, NULL));
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), NULL, 1, NULL));
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), &g, 0, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "at least one gradient, got 0");
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), &g, 1, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "gradient 0 cannot have -1 elements");
    g = (tt_reducer_grad){ .n = INT64_MAX };
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), &g, 1, NULL));
    g = (tt_reducer_grad){ .n = 1, .dtype = (tt_dtype)99 };
    TT_CHECK_NULL(tt_reducer_new(tt_test_pg(), &g, 1, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "no type of the library: 99");
    g.dtype = TT_F32;
    TT_CHECK_NULL(
        tt_reducer_new(tt_test_pg(), &g, 1, &(tt_reducer_options){ .op = (tt_reducer_op)7 }));
    TT_CHECK_CONTAINS(tt_last_error(), "no operation has the number 7");
    tt_reducer_free(NULL);
    TT_CHECK_ERR(tt_reducer_wait(NULL), TT_ERR_INVALID);
}

static tt_status make_and_use(void *ctx)
{
    tt_reducer_grad grads[] = { { .n = 3, .name = "a" }, { .n = 4, .dtype = TT_F64 } };
    tt_reducer *r = tt_reducer_new(ctx, grads, 2, NULL);
    tt_status st;

    if (r == NULL)
        return tt_last_status();
    st = tt_reducer_ready(r, 0);
    if (st == TT_OK)
        st = tt_reducer_ready(r, 1);
    if (st == TT_OK)
        st = tt_reducer_wait(r);
    tt_reducer_free(r);
    return st;
}

TT_TEST_THREADS(1, reducer, survives_a_lack_of_memory)
{
    TT_CHECK_GT(tt_test_fail_allocs(make_and_use, tt_test_pg()), 5);
}

/* ---- ranks that leave ----------------------------------------------------------------------------- */

TT_TEST_RANKS(3, reducer, a_rank_that_dies_is_named)
{
    tt_reducer_grad g = { .n = 100000 };
    tt_reducer *r = tt_reducer_new(tt_test_pg(), &g, 1, NULL);
    tt_status st;

    TT_REQUIRE_NOT_NULL(r);
    tt_test_expect_exit(1, 3);
    if (tt_test_rank() == 1)
        _exit(3);
    st = tt_reducer_ready(r, 0);
    if (st == TT_OK)
        st = tt_reducer_wait(r);
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), "rank 1");
    tt_reducer_free(r);
}

TT_TEST_RANKS(2, reducer, can_be_freed_with_gradients_under_way)
{
    tt_reducer_grad grads[] = { { .n = 1000 }, { .n = 1000 } };
    tt_reducer *r =
        tt_reducer_new(tt_test_pg(), grads, 2, &(tt_reducer_options){ .bucket_bytes = 100 });

    TT_REQUIRE_NOT_NULL(r);
    TT_CHECK_OK(tt_reducer_ready(r, 1));
    tt_reducer_free(r);
    TT_CHECK_OK(tt_pg_barrier(tt_test_pg(), NULL, NULL));
}
