/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of complex numbers against C's own in long double, near 0 too, where they must not lose digits. */
#include <complex.h>
#include <math.h>
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

typedef long double complex wide;
typedef wide (*wide_fn)(wide z);

/* Tiny, small, and some of every quadrant; |1 + z| is close to 1 for the last. */
static const double points[][2] = {
    { 1e-9, 2e-9 }, { -3e-7, 1e-6 }, { 0.3, -0.7 }, { -2, 0.5 },  { 0.4, 3 },
    { -0.6, -4 },   { 5, -1.25 },    { 0, 0.75 },   { -0.25, 0 }, { -1.5, 0.8660254037844386 }
};
enum { N = sizeof points / sizeof points[0] };

/* Near 0 the difference to 1 cancels: four terms of the series are exact there. */
static wide wide_expm1(wide z)
{
    return cabsl(z) < 1e-4L ? z * (1 + z / 2 * (1 + z / 3 * (1 + z / 4))) : cexpl(z) - 1;
}

static wide wide_log1p(wide z)
{
    return cabsl(z) < 1e-4L ? z * (1 - z * (1 / 2.0L - z * (1 / 3.0L - z / 4))) : clogl(1 + z);
}

static wide wide_log2(wide z)
{
    return clogl(z) / logl(2);
}

static wide wide_log10(wide z)
{
    return clogl(z) / logl(10);
}

static wide wide_sgn(wide z)
{
    return z / cabsl(z);
}

static wide wide_silu(wide z)
{
    return z / (1 + cexpl(-z));
}

static tt_tensor *all_points(tt_dtype dtype)
{
    return tt_to_dtype(tt_view_as_complex(tt_from_data(points, TT_SHAPE(N, 2), TT_F64)), dtype);
}

/* The largest error in units of each value. */
static double error_of(tt_tensor *y, wide_fn fn, tt_dtype dtype)
{
    double re, im, most = 0;

    TT_REQUIRE_NOT_NULL(y);
    TT_CHECK_EQ(tt_tensor_dtype(y), dtype);
    for (int i = 0; i < N; i++) {
        tt_tensor *x = tt_select(all_points(dtype), 0, i);
        wide want;

        tt_item_complex(x, &re, &im); /* as it was rounded to the type */
        want = fn(re + (wide)im * I);
        tt_item_complex(tt_select(y, 0, i), &re, &im);
        most = fmax(most, (double)(cabsl(re + (wide)im * I - want) / cabsl(want)));
    }
    return most;
}

TT_TEST(complex_functions, are_as_exact_as_their_type)
{
    static const struct {
        tt_tensor *(*ours)(tt_tensor *x);
        wide_fn wide;
    } rows[] = { { tt_expm1, wide_expm1 }, { tt_log1p, wide_log1p }, { tt_log2, wide_log2 },
                 { tt_log10, wide_log10 }, { tt_sgn, wide_sgn },     { tt_silu, wide_silu } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        TT_SCOPE {
            tt_tensor *narrow = rows[i].ours(all_points(TT_C64));
            tt_tensor *exact = rows[i].ours(all_points(TT_C128));

            TT_CHECK_NEAR(error_of(narrow, rows[i].wide, TT_C64), 0, 5e-7);
            TT_CHECK_NEAR(error_of(exact, rows[i].wide, TT_C128), 0, 1e-15);
        }
}

TT_TEST(complex_functions, sgn_of_zero_and_of_real_numbers)
{
    TT_SCOPE {
        tt_tensor *zero = tt_require_grad(tt_zeros(TT_SHAPE(1), TT_C128, TT_CPU));
        tt_tensor *y = tt_sgn(zero);

        TT_CHECK_VALUES(tt_view_as_real(tt_detach(y)), 0, 0);
        TT_CHECK_OK(tt_backward(tt_sum(tt_real(y))));
        TT_CHECK_VALUES(tt_view_as_real(tt_grad_of(zero)), 0, 0);
        TT_CHECK_VALUES(tt_sgn(TT_FLOATS(-2, 0, 3)), -1, 0, 1);
        TT_CHECK_VALUES(tt_sgn(TT_INTS(-2, 0, 3)), -1, 0, 1);
        TT_CHECK_NULL(tt_sign(zero));
        TT_CHECK_CONTAINS(tt_last_error(), "use tt_sgn");
    }
}

/* Large real parts do not overflow; no terms give the logarithm of 0. */
TT_TEST(complex_functions, logsumexp)
{
    TT_SCOPE {
        double v[] = { 1000, 1, 1000, -1, 999, 0.5 };
        wide sum = cexpl(1 * I) + cexpl(-1 * I) + cexpl(-1 + 0.5 * I), want = 1000 + clogl(sum);
        tt_tensor *x = tt_from_data(v, TT_SHAPE(3, 1), TT_C128);
        tt_tensor *y = tt_logsumexp(x, 0, false);

        TT_CHECK_SHAPE(y, 1);
        TT_CHECK_CLOSE(tt_view_as_real(y), 1e-12, (double)creall(want), (double)cimagl(want));
        TT_CHECK_SHAPE(tt_logsumexp(x, 0, true), 1, 1);
        y = tt_logsumexp(tt_zeros(TT_SHAPE(0, 2), TT_C64, TT_CPU), 0, false);
        TT_CHECK_VALUES(tt_real(y), -INFINITY, -INFINITY);
    }
}

/* The squares are not those of the moduli; the numbers are PyTorch's. */
TT_TEST(complex_functions, rms_norm)
{
    TT_SCOPE {
        double v[] = { 0.3, -0.7, -2, 0.5, 0.4, 3 };
        tt_tensor *x = tt_from_data(v, TT_SHAPE(3), TT_C128), *w = TT_FLOATS(1, 2, 3);
        tt_tensor *y = tt_rms_norm(x, 1, NULL, 1e-5);

        TT_CHECK_CLOSE(tt_view_as_real(y), 1e-12, 0.517857674237028, 0.220823342835431,
                       -0.372302779277393, -1.47776598015508, -2.2171202405778, 0.299727304802656);
        TT_CHECK_TENSOR(tt_rms_norm(x, 1, w, 1e-5), tt_mul(y, w), 0.0);
    }
}

/* Both parts go together, and what stays is scaled. */
TT_TEST(complex_functions, dropout)
{
    TT_SCOPE {
        tt_tensor *x = tt_view_as_complex(tt_randn(TT_SHAPE(1000, 2), TT_F32, TT_CPU)), *y, *kept;

        y = tt_dropout(x, 0.25, true, NULL);
        TT_REQUIRE_NOT_NULL(y);
        kept = tt_ne_scalar(tt_abs(y), 0.0);
        TT_CHECK_NEAR(tt_item(tt_sum(kept)), 750, 100);
        TT_CHECK_TENSOR(y, tt_mul(tt_mul_scalar(x, 1 / 0.75), kept), 1e-6);
        TT_CHECK_PTR(tt_dropout(x, 0.25, false, NULL), x);
    }
}
