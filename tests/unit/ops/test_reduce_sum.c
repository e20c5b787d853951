/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and means: values against plain loops in double, over every layout of the operand, and the
 * same bits for every number of threads. */
#include <math.h>
#include <string.h>

#include "ops/reduce.h"
#include "tutti/testing.h"

/* A contiguous float32 tensor with small numbers that are exact in float. */
static tt_tensor *filled(tt_shape shape)
{
    tt_tensor *t = tt_empty(shape, TT_F32, TT_CPU);
    float *p = t != NULL ? tt_tensor_data(t) : NULL;
    uint32_t state = 12345;

    TT_REQUIRE_NOT_NULL(t);
    for (int64_t i = 0; i < tt_tensor_numel(t); i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)((int)(state >> 20) - 2048) / 64.0f;
    }
    return t;
}

/* Element i (row-major) of a float tensor with any strides. */
static double element(const tt_tensor *t, int64_t i)
{
    int64_t at = 0;

    for (int d = t->n_dims - 1; d >= 0; d--) {
        at += i % t->dims[d] * t->strides[d];
        i /= t->dims[d];
    }
    return ((const float *)tti_data(t))[at];
}

/* The result that element i goes into, with reduced dimensions left out. */
static int64_t result_of(const tt_tensor *t, uint32_t mask, int64_t i)
{
    int64_t index[TT_MAX_DIMS], at = 0;

    for (int d = t->n_dims - 1; d >= 0; d--) {
        index[d] = i % t->dims[d];
        i /= t->dims[d];
    }
    for (int d = 0; d < t->n_dims; d++)
        if ((mask >> d & 1) == 0)
            at = at * t->dims[d] + index[d];
    return at;
}

static void check_sum(tt_tensor *x, uint32_t mask)
{
    double want[4096] = { 0 };
    int dims[TT_MAX_DIMS], n = 0;
    tt_tensor *sum, *mean;

    for (int d = 0; d < x->n_dims; d++)
        if ((mask >> d & 1) != 0)
            dims[n++] = d;
    for (int64_t i = 0; i < x->numel; i++)
        want[result_of(x, mask, i)] += element(x, i);
    sum = tt_sum_dims(x, dims, n, false);
    mean = tt_mean_dims(x, dims, n, true);
    TT_REQUIRE_NOT_NULL(sum);
    TT_REQUIRE_NOT_NULL(mean);
    TT_CHECK_EQ(sum->n_dims, x->n_dims - n);
    TT_CHECK_EQ(mean->n_dims, x->n_dims);
    for (int64_t i = 0; i < sum->numel; i++) {
        double w = want[i], count = (double)x->numel / (double)sum->numel;

        if (!TT_CHECK_NEAR(((float *)tti_data(sum))[i], w, 1e-6 * count + 1e-6 * fabs(w)) ||
            !TT_CHECK_NEAR(((float *)tti_data(mean))[i], w / count, 1e-6 + 1e-6 * fabs(w)))
            return;
    }
}

TT_TEST(reduce_sum, agrees_with_plain_loops_for_every_set_of_dimensions)
{
    TT_SCOPE {
        tt_tensor *x = filled(TT_SHAPE(3, 5, 7, 9));

        for (uint32_t mask = 1; mask < 16; mask++)
            check_sum(x, mask);
    }
}

TT_TEST(reduce_sum, agrees_for_other_strides)
{
    TT_SCOPE {
        tt_tensor *x = filled(TT_SHAPE(6, 10, 14));
        const int64_t dims[3] = { 14, 5, 3 };
        const int64_t swapped[3] = { 1, 28, 140 * 2 };
        const int64_t repeated[3] = { 1, 0, 14 };

        for (uint32_t mask = 1; mask < 8; mask++) {
            check_sum(tti_view_raw(x, dims, swapped, 3, 0), mask);
            check_sum(tti_view_raw(x, dims, repeated, 3, 3), mask);
        }
    }
}

TT_TEST(reduce_sum, agrees_for_wide_and_tall_matrices)
{
    TT_SCOPE {
        check_sum(filled(TT_SHAPE(3, 1300)), 1);
        check_sum(filled(TT_SHAPE(3, 1300)), 2);
        check_sum(filled(TT_SHAPE(1700, 37)), 1);
        check_sum(filled(TT_SHAPE(1700, 37)), 2);
        check_sum(filled(TT_SHAPE(2, 70000)), 2);
        check_sum(filled(TT_SHAPE(70000, 2)), 1);
        check_sum(filled(TT_SHAPE(300, 4, 300)), 5);
    }
}

TT_TEST(reduce_sum, is_accurate_over_many_elements)
{
    TT_SCOPE {
        int64_t n = 1 << 22;
        tt_tensor *x = tt_empty(TT_SHAPE(n), TT_F32, TT_CPU);
        float *p = tti_data(x);
        double want = 0;

        for (int64_t i = 0; i < n; i++) {
            p[i] = 0.1f + (float)(i % 7);
            want += p[i];
        }
        TT_CHECK_NEAR(*(float *)tti_data(tt_sum(x)) / want, 1.0, 5e-7);
    }
}

static void check_bits(tt_tensor *x, int dim)
{
    tt_tensor *one, *two;

    TT_REQUIRE_OK(tt_set_num_threads(1));
    one = tt_sum_dims(x, &dim, dim < 0 ? 0 : 1, false);
    TT_REQUIRE_OK(tt_set_num_threads(2));
    two = tt_sum_dims(x, &dim, dim < 0 ? 0 : 1, false);
    TT_REQUIRE_NOT_NULL(one);
    TT_REQUIRE_NOT_NULL(two);
    TT_CHECK_MEM(tti_data(one), tti_data(two), (size_t)one->numel * sizeof(float));
}

TT_TEST(reduce_sum, has_the_same_bits_for_any_number_of_threads)
{
    TT_SCOPE {
        tt_tensor *x = filled(TT_SHAPE(3000, 301));

        for (int64_t i = 0; i < x->numel; i++)
            ((float *)tti_data(x))[i] *= 1.1f;
        for (int dim = -1; dim < 2; dim++)
            check_bits(x, dim);
        check_bits(filled(TT_SHAPE(200000, 3)), 0);
        check_bits(filled(TT_SHAPE(3, 200000)), 1);
    }
}

TT_TEST(reduce_sum, of_nothing_is_zero_and_its_mean_is_nan)
{
    TT_SCOPE {
        tt_tensor *x = tt_empty(TT_SHAPE(0, 3), TT_F32, TT_CPU);
        tt_tensor *s = tt_sum_dim(x, 0, false);

        TT_CHECK_NEAR(*(float *)tti_data(tt_sum(x)), 0.0, 0.0);
        TT_CHECK(isnan(*(float *)tti_data(tt_mean(x))));
        TT_REQUIRE_NOT_NULL(s);
        TT_CHECK_EQ(s->dims[0], 3);
        TT_CHECK_NEAR(((float *)tti_data(s))[2], 0.0, 0.0);
        TT_CHECK_EQ(tt_tensor_numel(tt_sum_dim(x, 1, true)), 0);
    }
}

TT_TEST(reduce_sum, of_a_scalar_is_the_scalar)
{
    TT_SCOPE {
        tt_tensor *x = filled(TT_SHAPE_SCALAR);
        tt_tensor *s = tt_sum_dim(x, -1, false);

        TT_REQUIRE_NOT_NULL(s);
        TT_CHECK_EQ(s->n_dims, 0);
        TT_CHECK_NEAR(*(float *)tti_data(s), *(float *)tti_data(x), 0.0);
    }
}

TT_TEST(reduce_sum, other_types)
{
    TT_SCOPE {
        const double d[3] = { 0.1, 0.2, 0.3 };
        const int64_t i[3] = { INT64_MAX, 1, 5 };
        const float c[4] = { 1, 2, 3, -5 };
        const uint16_t h[3] = { 0x3c00, 0x4000, 0xc200 }; /* 1, 2, -3 */
        const uint16_t b[3] = { 0x3f80, 0x4000, 0xc0c0 }; /* 1, 2, -6 */
        tt_tensor *cs = tt_sum(tt_from_data(c, TT_SHAPE(2), TT_C64));
        tt_tensor *cm = tt_mean(tt_from_data(c, TT_SHAPE(2), TT_C64));

        TT_CHECK_NEAR(*(double *)tti_data(tt_sum(tt_from_data(d, TT_SHAPE(3), TT_F64))), 0.6,
                      1e-15);
        TT_CHECK_EQ(*(int64_t *)tti_data(tt_sum(tt_from_data(i, TT_SHAPE(3), TT_I64))),
                    INT64_MIN + 5);
        TT_CHECK_NEAR(((float *)tti_data(cs))[0], 4, 0);
        TT_CHECK_NEAR(((float *)tti_data(cs))[1], -3, 0);
        TT_CHECK_NEAR(((float *)tti_data(cm))[1], -1.5, 0);
        TT_CHECK_EQ(*(uint16_t *)tti_data(tt_sum(tt_from_data(h, TT_SHAPE(3), TT_F16))), 0);
        TT_CHECK_EQ(*(uint16_t *)tti_data(tt_mean(tt_from_data(b, TT_SHAPE(3), TT_BF16))), 0xbf80);
    }
}

TT_TEST(reduce_sum, sixteen_bits_in_rows_and_columns)
{
    TT_SCOPE {
        tt_tensor *x = tt_empty(TT_SHAPE(40, 2100), TT_BF16, TT_CPU);
        tt_tensor *rows, *columns;

        for (int64_t i = 0; i < x->numel; i++)
            ((uint16_t *)tti_data(x))[i] = 0x3f80;
        rows = tt_sum_dim(x, 1, false);
        columns = tt_sum_dim(x, 0, false);
        for (int64_t i = 0; i < 40; i++)
            TT_CHECK_EQ(((uint16_t *)tti_data(rows))[i], 0x4503); /* 2096: 2100 with 8 bits */
        for (int64_t i = 0; i < 2100; i++)
            TT_REQUIRE_EQ(((uint16_t *)tti_data(columns))[i], 0x4220);
    }
}

TT_TEST(reduce_sum, says_what_is_wrong)
{
    TT_SCOPE {
        tt_tensor *x = filled(TT_SHAPE(2, 3));
        const int twice[2] = { 1, -1 };

        TT_CHECK_NULL(tt_sum_dims(x, twice, 2, false));
        TT_CHECK_CONTAINS(tt_last_error(), "sum: expected each dimension once, got 1 twice");
        TT_CHECK_NULL(tt_sum_dim(x, 2, false));
        TT_CHECK_CONTAINS(tt_last_error(), "sum: ");
        TT_CHECK_NULL(tt_mean(TT_INTS(1, 2)));
        TT_CHECK_CONTAINS(tt_last_error(),
                          "mean: expected a floating or complex tensor, got int64");
        TT_CHECK_NULL(tt_sum(NULL));
    }
}
