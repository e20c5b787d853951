/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, scans and sorting: values on sizes that fill vectors and threads, against plain
 * loops; types, special values and messages. */
#include <math.h>
#include <stdlib.h>

#include "ops/op.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

static tt_tensor *noise(tt_shape shape, tt_dtype dtype)
{
    tt_tensor *t = tt_empty(shape, TT_F32, TT_CPU);
    float *p = t != NULL ? tt_tensor_data(t) : NULL;
    uint32_t state = (uint32_t)tt_test_seed() | 1;

    TT_REQUIRE_NOT_NULL(t);
    for (int64_t i = 0; i < tt_tensor_numel(t); i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)((int)(state >> 16) - 32768) / 8192.0f;
    }
    return tt_to_dtype(t, dtype);
}

/* Both as double, row-major. */
static double *doubles(tt_tensor *t)
{
    double *d = malloc((size_t)tt_tensor_numel(t) * sizeof *d + 8);

    TT_REQUIRE_NOT_NULL(t);
    TT_REQUIRE_OK(tt_copy_out_f64(t, d, (size_t)tt_tensor_numel(t)));
    return d;
}

typedef struct expected {
    double sum, sumsq, abs, cube, largest, smallest, mean, var, lse;
    int64_t at_largest, at_smallest;
} expected;

static expected expect(const double *x, int64_t n, int64_t stride)
{
    expected e = { .largest = -INFINITY, .smallest = INFINITY };

    for (int64_t i = 0; i < n; i++) {
        double v = x[i * stride];

        e.sum += v;
        e.sumsq += v * v;
        e.abs += fabs(v);
        e.cube += pow(fabs(v), 3.0);
        if (v > e.largest) {
            e.largest = v;
            e.at_largest = i;
        }
        if (v < e.smallest) {
            e.smallest = v;
            e.at_smallest = i;
        }
        e.lse += exp(v);
    }
    e.mean = e.sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        e.var += (x[i * stride] - e.mean) * (x[i * stride] - e.mean);
    e.var /= (double)(n - 1);
    e.lse = log(e.lse);
    return e;
}

/* Reductions of a matrix along dim, each compared in every result. */
static void check_matrix(tt_tensor *x, int dim, double tol)
{
    int64_t rows = x->dims[0], cols = x->dims[1];
    int64_t results = dim == 0 ? cols : rows, n = dim == 0 ? rows : cols;
    tt_tensor *at_max, *at_min;
    double *v = doubles(x);
    double *got[] = { doubles(tt_norm_dims(x, 2.0, &dim, 1, false)),
                      doubles(tt_norm_dims(x, 1.0, &dim, 1, false)),
                      doubles(tt_norm_dims(x, 3.0, &dim, 1, false)),
                      doubles(tt_amax(x, &dim, 1, false)),
                      doubles(tt_amin(x, &dim, 1, false)),
                      doubles(tt_var_dims(x, &dim, 1, 1.0, false)),
                      doubles(tt_logsumexp(x, dim, false)),
                      doubles(tt_max_dim(x, dim, false, &at_max)),
                      doubles(tt_min_dim(x, dim, false, &at_min)),
                      doubles(tt_mean_dim(x, dim, false)),
                      doubles(at_max),
                      doubles(at_min) };

    for (int64_t r = 0; r < results; r++) {
        expected e = expect(v + (dim == 0 ? r : r * cols), n, dim == 0 ? cols : 1);
        const double want[] = { sqrt(e.sumsq),
                                e.abs,
                                pow(e.cube, 1.0 / 3.0),
                                e.largest,
                                e.smallest,
                                e.var,
                                e.lse,
                                e.largest,
                                e.smallest,
                                e.mean,
                                (double)e.at_largest,
                                (double)e.at_smallest };

        for (int k = 0; k < 12; k++)
            TT_REQUIRE_NEAR(got[k][r], want[k], tol * (1.0 + fabs(want[k])) * (k < 10));
    }
    for (int k = 0; k < 12; k++)
        free(got[k]);
    free(v);
}

TT_TEST(reduce_values, agree_with_plain_loops)
{
    TT_SCOPE {
        check_matrix(noise(TT_SHAPE(70, 1030), TT_F32), 1, 2e-6);
        check_matrix(noise(TT_SHAPE(1030, 70), TT_F32), 0, 2e-6);
        check_matrix(noise(TT_SHAPE(3, 5000), TT_F64), 1, 1e-12);
        check_matrix(noise(TT_SHAPE(600, 5), TT_F64), 0, 1e-12);
        check_matrix(noise(TT_SHAPE(9, 300), TT_F16), 1, 1e-3);
        check_matrix(noise(TT_SHAPE(300, 9), TT_BF16), 0, 8e-3);
    }
}

TT_TEST(reduce_values, of_transposed_and_sliced_matrices)
{
    TT_SCOPE {
        tt_tensor *x = noise(TT_SHAPE(90, 80), TT_F32);

        check_matrix(tt_transpose(x, 0, 1), 0, 2e-6);
        check_matrix(tt_transpose(x, 0, 1), 1, 2e-6);
        check_matrix(tt_slice(x, 1, 0, 80, 3), 1, 2e-6);
        check_matrix(tt_slice(x, 0, 1, 90, 7), 0, 2e-6);
    }
}

TT_TEST(reduce_values, nan_wins)
{
    TT_SCOPE {
        tt_tensor *x = noise(TT_SHAPE(4, 200), TT_F32), *at;
        float *p = tt_tensor_data(x);

        p[200 + 77] = p[200 + 150] = NAN;
        TT_CHECK(isnan(tt_item(tt_max(x))));
        TT_CHECK(isnan(tt_item(tt_min(x))));
        TT_CHECK(isnan(tt_item(tt_sum(x))));
        TT_CHECK(isnan(tt_item(tt_norm(x, INFINITY))));
        TT_CHECK_EQ(tt_item_int(tt_argmax(x)), 277);
        TT_CHECK(isnan(tt_at(tt_max_dim(x, 1, false, &at), (const int64_t[]){ 1 })));
        TT_CHECK_EQ((int64_t)tt_at(at, (const int64_t[]){ 1 }), 77);
        TT_CHECK(!isnan(tt_at(tt_amin(x, (const int[]){ 1 }, 1, false), (const int64_t[]){ 0 })));
    }
}

TT_TEST(reduce_values, of_integers_and_bool)
{
    TT_SCOPE {
        const int8_t small[4] = { 100, 100, 100, -128 };
        const uint8_t truth[4] = { 1, 0, 1, 1 };
        tt_tensor *i = tt_from_data(small, TT_SHAPE(4), TT_I8);
        tt_tensor *b = tt_from_data(truth, TT_SHAPE(4), TT_BOOL);
        tt_tensor *s = tt_sum(i), *c = tt_cumsum(b, 0);

        TT_CHECK_EQ(tt_tensor_dtype(s), TT_I64);
        TT_CHECK_EQ(tt_item_int(s), 172);
        TT_CHECK_EQ(tt_item_int(tt_prod(i)), -128000000);
        TT_CHECK_EQ(tt_item_int(tt_max(i)), 100);
        TT_CHECK_EQ(tt_tensor_dtype(tt_min(i)), TT_I8);
        TT_CHECK_EQ(tt_item_int(tt_min(i)), -128);
        TT_CHECK_EQ(tt_item_int(tt_sum(b)), 3);
        TT_CHECK_EQ(tt_tensor_dtype(c), TT_I64);
        TT_CHECK_EQ((int64_t)tt_at(c, (const int64_t[]){ 3 }), 3);
        TT_CHECK_EQ(tt_tensor_dtype(tt_all(i)), TT_BOOL);
        TT_CHECK_EQ(tt_item_int(tt_all(b)), 0);
        TT_CHECK_EQ(tt_item_int(tt_any(b)), 1);
        TT_CHECK_EQ(tt_tensor_dtype(tt_any(tt_to_dtype(i, TT_U8))), TT_U8);
    }
}

static void check_sorted(tt_tensor *x, bool descending)
{
    int64_t rows = x->dims[0], n = x->dims[1];
    tt_tensor *at, *sorted = tt_sort(x, 1, descending, &at);
    double *v = doubles(x), *s = doubles(sorted), *index = doubles(at);

    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            int64_t from = (int64_t)index[r * n + i];

            TT_REQUIRE_NEAR(s[r * n + i], v[r * n + from], 0.0);
            if (i == 0)
                continue;
            TT_REQUIRE(descending ? s[r * n + i - 1] >= s[r * n + i]
                                  : s[r * n + i - 1] <= s[r * n + i]);
            if (s[r * n + i - 1] == s[r * n + i])
                TT_REQUIRE_LT(index[r * n + i - 1] < index[r * n + i] ? 0 : 1, 1); /* stable */
        }
    free(v);
    free(s);
    free(index);
}

TT_TEST(reduce_values, sorts_every_type)
{
    static const tt_dtype types[] = { TT_F32, TT_F64, TT_F16, TT_BF16, TT_I8,
                                      TT_I16, TT_I32, TT_I64, TT_BOOL };

    TT_SCOPE {
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            check_sorted(noise(TT_SHAPE(3, 1000), types[i]), i % 2 == 0);
            check_sorted(noise(TT_SHAPE(5, 11), types[i]), i % 2 == 1);
        }
        check_sorted(tt_transpose(noise(TT_SHAPE(100, 4), TT_F32), 0, 1), false);
    }
}

TT_TEST(reduce_values, topk_is_the_beginning_of_sorting)
{
    TT_SCOPE {
        tt_tensor *x = noise(TT_SHAPE(3, 500), TT_F32);
        static const int64_t sizes[] = { 1, 5, 64, 65, 500 };

        for (int i = 0; i < 5; i++) {
            tt_tensor *sorted_at, *at, *sorted = tt_sort(x, 1, true, &sorted_at);
            tt_tensor *top = tt_topk(x, sizes[i], 1, true, &at);

            TT_CHECK(tt_equal(top, tt_contiguous(tt_narrow(sorted, 1, 0, sizes[i]))));
            TT_CHECK(tt_equal(at, tt_contiguous(tt_narrow(sorted_at, 1, 0, sizes[i]))));
        }
        TT_CHECK_NULL(tt_topk(x, 501, 1, true, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "topk: expected k from 0 to 500, got 501");
    }
}

TT_TEST(reduce_values, says_what_is_wrong)
{
    TT_SCOPE {
        tt_tensor *none = tt_empty(TT_SHAPE(0, 2), TT_F32, TT_CPU);
        tt_tensor *ints = TT_INTS(1, 2);

        TT_CHECK_NULL(tt_max(none));
        TT_CHECK_CONTAINS(tt_last_error(), "max: expected at least one element");
        TT_CHECK_NULL(tt_argmin_dim(none, 0, false));
        TT_CHECK_CONTAINS(tt_last_error(), "argmin: expected at least one element");
        TT_CHECK_NOT_NULL(tt_max_dim(none, 1, false, NULL));
        TT_CHECK_NULL(tt_norm(none, INFINITY));
        TT_CHECK_CONTAINS(tt_last_error(), "norm: expected at least one element for p inf");
        TT_CHECK_NULL(tt_var_dims(ints, NULL, 0, 1.0, false));
        TT_CHECK_CONTAINS(tt_last_error(), "var: expected a floating tensor, got int64");
        TT_CHECK_NULL(tt_logsumexp(ints, 0, false));
        TT_CHECK_NULL(tt_sort(tt_zeros(TT_SHAPE(2), TT_C64, TT_CPU), 0, false, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "sort: expected a real tensor, got complex64");
        TT_CHECK_NULL(tt_cumsum(ints, 1));
        TT_CHECK_CONTAINS(tt_last_error(), "cumsum: ");
    }
}
