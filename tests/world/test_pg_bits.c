/* SPDX-License-Identifier: Apache-2.0 */
/* The same bits on every rank, every run and every split of a message; half-precision sums rounded once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

enum { N = 200000 };

/* What rank r has, the same in every run: values of very different size, so that order matters. */
static void fill_random(float *x, int64_t n, uint64_t seed)
{
    uint64_t s = seed * 2654435761u + 88172645463325252u;

    for (int64_t i = 0; i < n; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        float m = (float)(int32_t)s / 2147483648.0f;
        x[i] = ldexpf(m, (int)(s >> 33) % 24 - 12);
    }
}

static void expected_sum(float *sum, int64_t n, int size, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x);

    fill_random(sum, n, seed);
    for (int r = 1; r < size; r++) {
        fill_random(x, n, seed + (uint64_t)r);
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i];
    }
    free(x);
}

/* all_reduce of the whole, cut into pieces of `piece` elements. */
static void reduce_in_pieces(tt_pg *pg, float *x, int64_t n, int64_t piece)
{
    for (int64_t at = 0; at < n; at += piece) {
        int64_t m = n - at < piece ? n - at : piece;
        TT_SCOPE {
            tt_tensor *t = tt_wrap(x + at, TT_SHAPE(m), NULL, TT_F32, NULL, NULL);
            TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
        }
    }
}

static void check_every_split(tt_pg *pg)
{
    static const int64_t pieces[] = { N, N / 2 + 1, 40000, 9973, 2048, 500 };
    float *want = malloc(N * sizeof *want), *x = malloc(N * sizeof *x);
    uint64_t seed = 11;

    expected_sum(want, N, tt_test_size(), seed);
    for (int run = 0; run < 100; run++) {
        int64_t piece = pieces[run % 6];
        fill_random(x, N, seed + (uint64_t)tt_test_rank());
        if (run % 12 == 11) { /* buffers of the group are reduced in place */
            float *shared = tt_pg_alloc_bytes(pg, N * sizeof *x);
            TT_REQUIRE(shared != NULL);
            memcpy(shared, x, N * sizeof *x);
            reduce_in_pieces(pg, shared, N, piece);
            memcpy(x, shared, N * sizeof *x);
            tt_pg_free_bytes(pg, shared);
        } else {
            reduce_in_pieces(pg, x, N, piece);
        }
        TT_REQUIRE_MEM(x, want, N * sizeof *x);
    }
    free(want);
    free(x);
}

TT_TEST_RANKS(3, pg_bits, processes_get_the_same_in_every_run_and_split)
{
    check_every_split(tt_test_pg());
}

TT_TEST_RANKS(2, pg_bits, two_processes_get_the_same_in_every_run_and_split)
{
    check_every_split(tt_test_pg());
}

TT_TEST_THREADS(3, pg_bits, threads_get_the_same_in_every_run_and_split)
{
    check_every_split(tt_test_pg());
}

/* float16 and bfloat16: the sum in float32, rounded once at the end. */
static void check_halves(tt_pg *pg, tt_dtype dtype, int64_t n)
{
    int size = tt_test_size();
    float *sum = calloc((size_t)n, sizeof *sum), *x = malloc((size_t)n * sizeof *x);

    TT_SCOPE {
        tt_tensor *mine = NULL;
        for (int r = 0; r < size; r++) {
            fill_random(x, n, 100 + (uint64_t)r);
            tt_tensor *h = tt_to_dtype(tt_from_data(x, TT_SHAPE(n), TT_F32), dtype);
            TT_REQUIRE_OK(tt_copy_out_f32(h, x, (size_t)n));
            for (int64_t i = 0; i < n; i++)
                sum[i] = r == 0 ? x[i] : sum[i] + x[i];
            if (r == tt_test_rank())
                mine = h;
        }
        tt_tensor *want = tt_to_dtype(tt_from_data(sum, TT_SHAPE(n), TT_F32), dtype);
        TT_REQUIRE_OK(tt_pg_all_reduce(pg, mine, NULL, NULL));
        TT_CHECK(tt_equal(mine, want));
    }
    free(sum);
    free(x);
}

TT_TEST_RANKS(3, pg_bits, halves_are_rounded_once)
{
    for (int64_t n = 5; n < 500000; n *= 31) {
        check_halves(tt_test_pg(), TT_F16, n);
        check_halves(tt_test_pg(), TT_BF16, n);
    }
}

TT_TEST_THREADS(4, pg_bits, halves_of_threads_are_rounded_once)
{
    for (int64_t n = 5; n < 500000; n *= 31) {
        check_halves(tt_test_pg(), TT_F16, n);
        check_halves(tt_test_pg(), TT_BF16, n);
    }
}
