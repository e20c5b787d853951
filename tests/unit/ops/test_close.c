/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing tensors: tolerances by type, special values, and what the report says. */
#include <math.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

TT_TEST(close, the_report_names_count_first_and_worst)
{
    TT_SCOPE {
        tt_tensor *a = tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(2, 3));
        tt_tensor *b = tt_view(TT_FLOATS(1, 2.5f, 3, 4, 5, 8), TT_SHAPE(2, 3));
        tt_close_report r;

        TT_CHECK(!tt_compare(a, b, NULL, &r));
        TT_CHECK(!r.close);
        TT_CHECK_EQ(r.n_compared, 6);
        TT_CHECK_EQ(r.n_mismatched, 2);
        TT_CHECK_EQ(r.first[0], 0);
        TT_CHECK_EQ(r.first[1], 1);
        TT_CHECK_EQ(r.worst[0], 1);
        TT_CHECK_EQ(r.worst[1], 2);
        TT_CHECK_NEAR(r.worst_abs, 2, 0);
        TT_CHECK_NEAR(r.worst_rel, 0.25, 0);
        TT_CHECK_NEAR(r.worst_b, 8, 0);
        TT_CHECK_CONTAINS(r.text,
                          "2 of 6 elements differ, first at [0, 1]; worst at [1, 2]: 6 and 8");
        TT_CHECK(tt_compare(a, tt_t(tt_contiguous(tt_t(a))), NULL, &r));
        TT_CHECK_STR(r.text, "");
    }
}

TT_TEST(close, tolerances_follow_the_type)
{
    TT_SCOPE {
        tt_tensor *one = TT_FLOATS(1), *near = TT_FLOATS(1.00001f), *far = TT_FLOATS(1.0001f);
        tt_close_options wide = { .rtol = 1e-3 }, exact = { .exact = true };

        TT_CHECK(tt_allclose(one, near, NULL));
        TT_CHECK(!tt_allclose(one, far, NULL));
        TT_CHECK(tt_allclose(one, far, &wide));
        TT_CHECK(!tt_allclose(one, near, &exact));
        TT_CHECK(!tt_allclose(tt_to_dtype(one, TT_F64), tt_to_dtype(near, TT_F64), NULL));
        TT_CHECK(tt_allclose(tt_to_dtype(TT_FLOATS(100), TT_BF16),
                             tt_to_dtype(TT_FLOATS(101), TT_BF16), NULL));
        TT_CHECK(!tt_allclose(TT_INTS(1000000), TT_INTS(1000001), NULL));
        TT_CHECK(!tt_allclose(TT_INTS(INT64_MAX), TT_INTS(INT64_MAX - 1), NULL));
    }
}

TT_TEST(close, special_values)
{
    TT_SCOPE {
        tt_tensor *nan = TT_FLOATS(NAN), *inf = TT_FLOATS(INFINITY);
        tt_close_options strict = { .nan_differs = true };

        TT_CHECK(tt_allclose(nan, nan, NULL));
        TT_CHECK(!tt_allclose(nan, nan, &strict));
        TT_CHECK(!tt_allclose(nan, TT_FLOATS(1), NULL));
        TT_CHECK(tt_allclose(inf, inf, NULL));
        TT_CHECK(!tt_allclose(inf, TT_FLOATS(-INFINITY), NULL));
        TT_CHECK(!tt_allclose(TT_FLOATS(1e30f), inf, NULL));
        TT_CHECK(tt_allclose(TT_FLOATS(0), TT_FLOATS(-0.0f), NULL));
        TT_CHECK(!tt_equal(TT_FLOATS(0), TT_FLOATS(-0.0f)));
        TT_CHECK(tt_equal(inf, inf));
    }
}

TT_TEST(close, kinds_must_agree)
{
    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(1, 2);
        tt_close_options any_type = { .skip_dtype = true };
        tt_close_report r;

        TT_CHECK(!tt_compare(x, tt_view(x, TT_SHAPE(2, 1)), NULL, &r));
        TT_CHECK_STR(r.text, "shapes differ: [2] and [2, 1]");
        TT_CHECK(!tt_compare(x, tt_to_dtype(x, TT_F64), NULL, &r));
        TT_CHECK_STR(r.text, "element types differ: float32 and float64");
        TT_CHECK(tt_allclose(x, tt_to_dtype(x, TT_F64), &any_type));
        TT_CHECK(!tt_compare(x, NULL, NULL, &r));
        TT_CHECK_CONTAINS(r.text, "the second tensor is NULL");
        TT_CHECK(tt_allclose(tt_to_sparse(x, 1), x, NULL));
    }
}
