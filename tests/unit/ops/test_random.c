/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: same seed, same numbers, whatever the threads; and the right distributions. */
#include <math.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "base/philox.h"
#include "harness/check_tensor.h"

enum { N = 100000 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double identity(double x)
{
    return x;
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

/* The greatest distance between the sample's distribution and the given one. */
static double ks_distance(tt_tensor *t, double (*cdf)(double))
{
    size_t n = (size_t)tt_tensor_numel(t);
    double *v = malloc(n * sizeof *v), worst = 0;

    TT_REQUIRE_OK(tt_copy_out_f64(t, v, n));
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < n; i++) {
        double c = cdf(v[i]);

        worst = fmax(worst, fmax(c - (double)i / (double)n, (double)(i + 1) / (double)n - c));
    }
    free(v);
    return worst;
}

/* The correlation of neighbours. */
static double correlation(tt_tensor *t, int lag)
{
    size_t n = (size_t)tt_tensor_numel(t);
    double *v = malloc(n * sizeof *v), mean = 0, var = 0, cov = 0;

    TT_REQUIRE_OK(tt_copy_out_f64(t, v, n));
    for (size_t i = 0; i < n; i++)
        mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (v[i] - mean) * (v[i] - mean);
    for (size_t i = 0; i + (size_t)lag < n; i++)
        cov += (v[i] - mean) * (v[i + (size_t)lag] - mean);
    free(v);
    return cov / var;
}

/* How many elements are outside of [0, 1). */
static int outside(tt_tensor *t)
{
    return (int)tt_item(tt_sum(tt_logical_or(tt_lt_scalar(t, 0), tt_ge_scalar(t, 1))));
}

TT_TEST(random, uniform_is_uniform)
{
    const tt_dtype types[] = { TT_F32, TT_F64 };

    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            tt_tensor *t;

            tt_seed(42);
            t = tt_rand(TT_SHAPE(N), types[i], TT_CPU);
            TT_CHECK_LT((int)(1e6 * ks_distance(t, identity)), (int)(1e6 * 1.95 / sqrt(N)));
            for (int lag = 1; lag < 5; lag++)
                TT_CHECK_NEAR(correlation(t, lag), 0, 4 / sqrt(N));
            TT_CHECK_EQ(outside(t), 0);
        }
}

TT_TEST(random, normal_is_normal)
{
    const tt_dtype types[] = { TT_F32, TT_F64 };

    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            tt_tensor *t;

            tt_seed(43);
            t = tt_randn(TT_SHAPE(N), types[i], TT_CPU);
            TT_CHECK_LT((int)(1e6 * ks_distance(t, normal_cdf)), (int)(1e6 * 1.95 / sqrt(N)));
            for (int lag = 1; lag < 5; lag++)
                TT_CHECK_NEAR(correlation(t, lag), 0, 4 / sqrt(N));
            tt_normal_(t, 5, 2, NULL);
            TT_CHECK_NEAR(tt_item(tt_mean(t)), 5, 0.03);
            TT_CHECK_NEAR(tt_item(tt_mean(tt_square(tt_sub_scalar(t, 5)))), 4, 0.08);
        }
}

TT_TEST(random, half_types_stay_below_the_upper_end)
{
    const tt_dtype types[] = { TT_F16, TT_BF16 };

    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            tt_tensor *t;

            tt_seed(44);
            t = tt_rand(TT_SHAPE(N), types[i], TT_CPU);
            TT_CHECK_EQ(outside(t), 0);
            TT_CHECK_NEAR(tt_item(tt_mean(tt_to_dtype(t, TT_F32))), 0.5, 0.005);
        }
}

TT_TEST(random, bernoulli_and_integers)
{
    TT_SCOPE {
        tt_tensor *t = tt_empty(TT_SHAPE(N), TT_BOOL, TT_CPU);
        tt_tensor *k;
        int64_t v[1000];
        int counts[7] = { 0 };

        tt_seed(45);
        tt_bernoulli_(t, 0.3, NULL);
        TT_CHECK_NEAR(tt_item(tt_mean(tt_to_dtype(t, TT_F64))), 0.3, 0.006);
        TT_CHECK_VALUES(tt_sum(tt_bernoulli_(t, 0, NULL)), 0);
        TT_CHECK_VALUES(tt_sum(tt_bernoulli_(t, 1, NULL)), N);
        k = tt_randint(-3, 4, TT_SHAPE(1000), TT_CPU);
        TT_REQUIRE_OK(tt_copy_out_i64(k, v, 1000));
        for (int i = 0; i < 1000; i++) {
            TT_REQUIRE(v[i] >= -3 && v[i] < 4);
            counts[v[i] + 3]++;
        }
        for (int i = 0; i < 7; i++)
            TT_CHECK_NEAR(counts[i], 1000.0 / 7, 45);
    }
}

TT_TEST(random, follows_the_documented_layout)
{
    TT_SCOPE {
        tt_generator *g = tt_generator_new(99);
        tt_generator_state s = { .seed = 99, .offset = 10 };
        tt_tensor *t = tt_empty(TT_SHAPE(7), TT_F32, TT_CPU);
        tt_tensor *d = tt_empty(TT_SHAPE(3), TT_F64, TT_CPU);
        const float *f = tt_tensor_data(t);
        const double *u = tt_tensor_data(d);

        tt_generator_set(g, s);
        tt_uniform_(t, 0, 1, g);
        for (uint64_t i = 0; i < 7; i++)
            TT_CHECK_NEAR(f[i], tti_unit_float(tti_philox(99, 10 + i / 4, 0).w[i % 4]), 0);
        TT_CHECK_EQ(tt_generator_get(g).offset, 12);
        tt_uniform_(d, 0, 1, g);
        for (uint64_t i = 0; i < 3; i++) {
            tti_philox_block b = tti_philox(99, 12 + i / 2, 0);

            TT_CHECK_NEAR(u[i], tti_unit_double(b.w[i % 2 * 2], b.w[i % 2 * 2 + 1]), 0);
        }
        TT_CHECK_EQ(tt_generator_get(g).offset, 14);
        tt_generator_free(g);
    }
}

TT_TEST(random, does_not_depend_on_threads)
{
    TT_SCOPE {
        tt_tensor *one, *two;

        TT_REQUIRE_OK(tt_set_num_threads(1));
        tt_seed(7);
        one = tt_randn(TT_SHAPE(33333), TT_F32, TT_CPU);
        TT_REQUIRE_OK(tt_set_num_threads(3));
        tt_seed(7);
        two = tt_randn(TT_SHAPE(33333), TT_F32, TT_CPU);
        TT_CHECK_TENSOR(one, two, 0);
        two = tt_randn(TT_SHAPE(33333), TT_F32, TT_CPU);
        TT_CHECK(tt_item(tt_sum(tt_ne(one, two))) > 33000); /* the stream goes on */
    }
}

TT_TEST(random, strided_tensors_get_the_same_numbers)
{
    TT_SCOPE {
        tt_tensor *plain = tt_empty(TT_SHAPE(5, 7), TT_F32, TT_CPU);
        tt_tensor *turned = tt_transpose(tt_empty(TT_SHAPE(7, 5), TT_F32, TT_CPU), 0, 1);

        tt_seed(8);
        tt_uniform_(plain, -1, 1, NULL);
        tt_seed(8);
        tt_uniform_(turned, -1, 1, NULL);
        TT_CHECK_TENSOR(turned, plain, 0);
    }
}

TT_TEST(random, permutations)
{
    TT_SCOPE {
        int64_t v[1000], moved = 0;
        bool seen[1000] = { false };
        tt_tensor *p;

        tt_seed(9);
        p = tt_randperm(1000, TT_CPU, NULL);
        TT_REQUIRE_OK(tt_copy_out_i64(p, v, 1000));
        for (int i = 0; i < 1000; i++) {
            TT_REQUIRE(v[i] >= 0 && v[i] < 1000 && !seen[v[i]]);
            seen[v[i]] = true;
            moved += v[i] != i;
        }
        TT_CHECK_GT(moved, 980);
        TT_CHECK_SHAPE(tt_randperm(0, TT_CPU, NULL), 0);
        TT_CHECK_NULL(tt_randperm(-1, TT_CPU, NULL));
    }
}

TT_TEST(random, multinomial)
{
    TT_SCOPE {
        tt_tensor *w = TT_FLOATS(1, 0, 3, 6);
        tt_tensor *k;
        int64_t v[20000];
        int counts[4] = { 0 };

        tt_seed(10);
        k = tt_multinomial(w, 20000, true, NULL);
        TT_REQUIRE_OK(tt_copy_out_i64(k, v, 20000));
        for (int i = 0; i < 20000; i++)
            counts[v[i]]++;
        TT_CHECK_NEAR(counts[0], 2000, 200);
        TT_CHECK_EQ(counts[1], 0);
        TT_CHECK_NEAR(counts[2], 6000, 300);
        for (int i = 0; i < 4; i++)
            counts[i] = 0;
        for (int i = 0; i < 2000; i++) { /* how often each is first, and never twice in a row */
            TT_SCOPE {
                TT_REQUIRE_OK(tt_copy_out_i64(tt_multinomial(w, 3, false, NULL), v, 3));
                TT_REQUIRE(v[0] != v[1] && v[1] != v[2] && v[0] != v[2]);
                counts[v[0]]++;
            }
        }
        TT_CHECK_NEAR(counts[3], 1200, 100);
        TT_CHECK_EQ(counts[1], 0);
        TT_CHECK_NULL(tt_multinomial(w, 4, false, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "multinomial");
        TT_CHECK_SHAPE(tt_multinomial(tt_ones(TT_SHAPE(2, 5), TT_F64, TT_CPU), 3, false, NULL), 2,
                       3);
        TT_CHECK_NULL(tt_multinomial(TT_FLOATS(0, 0), 1, true, NULL));
        TT_CHECK_NULL(tt_multinomial(TT_FLOATS(1, -1), 1, true, NULL));
    }
}

TT_TEST(random, refuses_nonsense)
{
    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1, 2);

        TT_CHECK_NULL(tt_uniform_(t, 2, 1, NULL));
        TT_CHECK_NULL(tt_normal_(t, 0, -1, NULL));
        TT_CHECK_NULL(tt_bernoulli_(t, 1.5, NULL));
        TT_CHECK_NULL(tt_randint_(t, 3, 3, NULL));
        TT_CHECK_NULL(tt_uniform_(TT_INTS(1), 0, 1, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "uniform_");
    }
}
