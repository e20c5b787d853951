/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic: values per type, promotion, broadcasting, strides, and division in all its forms. */
#include <math.h>
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

static tt_tensor *of_type(tt_dtype d)
{
    return tt_to_dtype(TT_FLOATS(1, 2, 3), d);
}

TT_TEST(arith, adds_and_multiplies)
{
    TT_SCOPE {
        tt_tensor *a = TT_FLOATS(1, 2, 3), *b = TT_FLOATS(10, -20, 0.5);

        TT_CHECK_VALUES(tt_add(a, b), 11, -18, 3.5);
        TT_CHECK_VALUES(tt_sub(a, b), -9, 22, 2.5);
        TT_CHECK_VALUES(tt_mul(a, b), 10, -40, 1.5);
        TT_CHECK_CLOSE(tt_div(a, b), 1e-7, 0.1, -0.1, 6);
        TT_CHECK_VALUES(tt_add_scaled(a, b, 2), 21, -38, 4);
    }
}

TT_TEST(arith, works_in_every_type)
{
    const tt_dtype types[] = { TT_F32, TT_F64, TT_F16, TT_BF16, TT_I8,  TT_U8,
                               TT_I16, TT_I32, TT_I64, TT_C64,  TT_C128 };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        TT_SCOPE {
            tt_tensor *a = of_type(types[i]);

            TT_CHECK_EQ(tt_tensor_dtype(tt_add(a, a)), types[i]);
            TT_CHECK_VALUES(tt_add(a, a), 2, 4, 6);
            TT_CHECK_VALUES(tt_sub(a, a), 0, 0, 0);
            TT_CHECK_VALUES(tt_mul(a, a), 1, 4, 9);
            TT_CHECK_VALUES(tt_div(a, a), 1, 1, 1);
            TT_CHECK_VALUES(tt_add_scaled(a, a, 3), 4, 8, 12);
            TT_CHECK_VALUES(tt_add_scalar(a, 2), 3, 4, 5);
            TT_CHECK_VALUES(tt_rsub_scalar(a, 4), 3, 2, 1);
            TT_CHECK_CLOSE(tt_pow_scalar(a, 3), 1e-6, 1, 8, 27);
            TT_CHECK_VALUES(tt_addcmul(a, a, a, 2), 3, 10, 21);
            TT_CHECK_VALUES(tt_square(a), 1, 4, 9);
        }
}

TT_TEST(arith, promotes_types)
{
    TT_SCOPE {
        tt_tensor *i8 = of_type(TT_I8), *u8 = of_type(TT_U8), *i64 = of_type(TT_I64);
        tt_tensor *f16 = of_type(TT_F16), *bf16 = of_type(TT_BF16), *f32 = of_type(TT_F32);
        tt_tensor *f64_0d = tt_full(TT_SHAPE_SCALAR, 1, TT_F64, TT_CPU);

        TT_CHECK_EQ(tt_tensor_dtype(tt_add(i8, u8)), TT_I16);
        TT_CHECK_EQ(tt_tensor_dtype(tt_add(i64, f16)), TT_F16);
        TT_CHECK_EQ(tt_tensor_dtype(tt_add(f16, bf16)), TT_F32);
        TT_CHECK_EQ(tt_tensor_dtype(tt_add(f32, f64_0d)), TT_F32);
        TT_CHECK_EQ(tt_tensor_dtype(tt_add(i64, f64_0d)), TT_F64);
        TT_CHECK_EQ(tt_tensor_dtype(tt_add(i64, tt_number(0.5))), TT_F32);
        TT_CHECK_EQ(tt_tensor_dtype(tt_mul(f32, of_type(TT_C64))), TT_C64);
        TT_CHECK_EQ(tt_tensor_dtype(tt_div(i64, i64)), TT_F32);
        TT_CHECK_EQ(tt_tensor_dtype(tt_add_scalar(i64, 2)), TT_I64);
        TT_CHECK_EQ(tt_tensor_dtype(tt_add_scalar(i64, 2.5)), TT_F32);
        TT_CHECK_EQ(tt_tensor_dtype(tt_mul_scalar(of_type(TT_BOOL), 2)), TT_I64);
        TT_CHECK_EQ(tt_tensor_dtype(tt_exp(i64)), TT_F32);
        TT_CHECK_EQ(tt_tensor_dtype(tt_abs(of_type(TT_C128))), TT_F64);
        TT_CHECK_EQ(tt_tensor_dtype(tt_eq(f32, i64)), TT_BOOL);
    }
}

TT_TEST(arith, bool_sums_are_or_and_differences_are_refused)
{
    TT_SCOPE {
        tt_tensor *a = tt_to_dtype(TT_FLOATS(0, 0, 1, 1), TT_BOOL);
        tt_tensor *b = tt_to_dtype(TT_FLOATS(0, 1, 0, 1), TT_BOOL);

        TT_CHECK_VALUES(tt_add(a, b), 0, 1, 1, 1);
        TT_CHECK_VALUES(tt_mul(a, b), 0, 0, 0, 1);
        TT_CHECK_EQ(tt_tensor_dtype(tt_mul(a, b)), TT_BOOL);
        TT_CHECK_NULL(tt_sub(a, b));
        TT_CHECK_CONTAINS(tt_last_error(), "bool");
        TT_CHECK_NULL(tt_neg(a));
        TT_CHECK_NULL(tt_sub_scalar(a, 1));
    }
}

TT_TEST(arith, broadcasts)
{
    TT_SCOPE {
        tt_tensor *a = tt_from_data((float[]){ 1, 2, 3, 4, 5, 6 }, TT_SHAPE(2, 3), TT_F32);
        tt_tensor *column = tt_from_data((float[]){ 10, 20 }, TT_SHAPE(2, 1), TT_F32);
        tt_tensor *row = TT_FLOATS(100, 200, 300);

        TT_CHECK_VALUES(tt_add(a, column), 11, 12, 13, 24, 25, 26);
        TT_CHECK_VALUES(tt_add(row, a), 101, 202, 303, 104, 205, 306);
        TT_CHECK_VALUES(tt_sub(column, row), -90, -190, -290, -80, -180, -280);
        TT_CHECK_VALUES(tt_mul(a, tt_full(TT_SHAPE_SCALAR, 2, TT_F32, TT_CPU)), 2, 4, 6, 8, 10, 12);
        TT_CHECK_SHAPE(tt_add(tt_zeros(TT_SHAPE(0, 3), TT_F32, TT_CPU), row), 0, 3);
        TT_CHECK_NULL(tt_add(a, TT_FLOATS(1, 2)));
        TT_CHECK_CONTAINS(tt_last_error(), "[2, 3]");
    }
}

/* Every layout of two operands gives what plain loops give. */
TT_TEST(arith, strides_do_not_matter)
{
    TT_SCOPE {
        enum { A = 5, B = 18, C = 3 };
        tt_tensor *x = tt_reshape(tt_arange(0, A * B * C, 1, TT_F32, TT_CPU), TT_SHAPE(A, B, C));
        tt_tensor *views[] = {
            x,
            tt_transpose(tt_contiguous(tt_transpose(x, 0, 2)), 0, 2),
            tt_transpose(tt_contiguous(tt_transpose(x, 1, 2)), 1, 2),
            tt_slice(tt_cat((tt_tensor *[]){ x, x }, 2, 1), 1, 0, B, 1),
            tt_slice(tt_reshape(tt_stack((tt_tensor *[]){ x, x }, 2, 3), TT_SHAPE(A, B, 2 * C)), 2,
                     0, 2 * C, 2),
        };
        tt_tensor *want = tt_add_scalar(tt_mul_scalar(x, 2), 0);
        tt_tensor *rows = tt_expand(tt_narrow(x, 0, 1, 1), TT_SHAPE(A, B, C));

        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 5; j++)
                TT_CHECK_TENSOR(tt_add(views[i], views[j]), want, 0);
        for (int i = 0; i < 5; i++) {
            tt_tensor *y = tt_sub(views[i], rows);

            for (int64_t a = 0; a < A; a++)
                for (int64_t b = 0; b < B; b++)
                    TT_REQUIRE_NEAR(tt_at(y, (int64_t[]){ a, b, 1 }), (double)((a - 1) * B * C), 0);
        }
    }
}

TT_TEST(arith, large_tensors_use_threads)
{
    TT_SCOPE {
        int64_t n = 300001;
        tt_tensor *x, *y, *w;

        TT_REQUIRE_OK(tt_set_num_threads(3));
        x = tt_arange(0, (double)n, 1, TT_F64, TT_CPU);
        y = tt_add(x, tt_mul_scalar(x, 2));
        TT_CHECK_VALUES(tt_sum(tt_ne(y, tt_mul_scalar(x, 3))), 0);
        w = tt_to_dtype(tt_slice(x, 0, 0, n, 3), TT_F32);
        TT_CHECK_VALUES(
            tt_sum(tt_ne(w, tt_to_dtype(tt_contiguous(tt_slice(x, 0, 0, n, 3)), TT_F32))), 0);
        x = tt_reshape(tt_narrow(x, 0, 0, 300000), TT_SHAPE(500, 600));
        TT_CHECK_NEAR(tt_at(tt_contiguous(tt_transpose(x, 0, 1)), (int64_t[]){ 599, 498 }),
                      498 * 600 + 599, 0);
    }
}

TT_TEST(arith, division_rounds_down)
{
    TT_SCOPE {
        tt_tensor *a = TT_INTS(7, -7, 7, -7), *b = TT_INTS(2, 2, -2, -2);
        tt_tensor *fa = TT_FLOATS(7, -7, 7, -7), *fb = TT_FLOATS(2, 2, -2, -2);

        TT_CHECK_VALUES(tt_floor_divide(a, b), 3, -4, -4, 3);
        TT_CHECK_VALUES(tt_remainder(a, b), 1, 1, -1, -1);
        TT_CHECK_VALUES(tt_fmod(a, b), 1, -1, 1, -1);
        TT_CHECK_VALUES(tt_floor_divide(fa, fb), 3, -4, -4, 3);
        TT_CHECK_VALUES(tt_remainder(fa, fb), 1, 1, -1, -1);
        TT_CHECK_VALUES(tt_fmod(fa, fb), 1, -1, 1, -1);
        TT_CHECK_VALUES(tt_floor_divide(TT_FLOATS(1, -1, 0), TT_FLOATS(0, 0, 0)), INFINITY,
                        -INFINITY, NAN);
        TT_CHECK_NULL(tt_floor_divide(a, TT_INTS(1, 0, 1, 1)));
        TT_CHECK_CONTAINS(tt_last_error(), "by 0");
        TT_CHECK_VALUES(tt_floor_divide(TT_INTS(INT64_MIN), TT_INTS(-1)), (double)INT64_MIN);
    }
}

TT_TEST(arith, powers)
{
    TT_SCOPE {
        tt_tensor *i = TT_INTS(2, -1, 3, 0);

        TT_CHECK_VALUES(tt_pow(i, TT_INTS(10, 3, -1, 0)), 1024, -1, 0, 1);
        TT_CHECK_VALUES(tt_pow_scalar(i, 2), 4, 1, 9, 0);
        TT_CHECK_NULL(tt_pow_scalar(i, -1));
        TT_CHECK_CONTAINS(tt_last_error(), "negative");
        TT_CHECK_CLOSE(tt_pow_scalar(i, 0.5), 1e-6, M_SQRT2, NAN, 1.7320508, 0);
        TT_CHECK_CLOSE(tt_pow_scalar(TT_FLOATS(4, 2), -0.5), 1e-6, 0.5, M_SQRT1_2);
        TT_CHECK_CLOSE(tt_rpow_scalar(TT_FLOATS(3, -1, 0.5), 2), 1e-6, 8, 0.5, M_SQRT2);
        TT_CHECK_VALUES(tt_pow(TT_FLOATS(0, NAN, -8), TT_FLOATS(0, 0, 3)), 1, 1, -512);
        TT_CHECK_VALUES(tt_pow_scalar(TT_FLOATS(0, NAN, -8), 0), 1, 1, 1);
        TT_CHECK_VALUES(tt_pow_scalar(TT_FLOATS(-2, NAN, 0), 3), -8, NAN, 0);
        TT_CHECK_VALUES(tt_pow_scalar(TT_FLOATS(-2, NAN, 0), -3), -0.125, NAN, INFINITY);
    }
}

TT_TEST(arith, extremes_pass_nan_on)
{
    TT_SCOPE {
        tt_tensor *a = TT_FLOATS(1, NAN, 3, NAN), *b = TT_FLOATS(2, 1, NAN, NAN);

        TT_CHECK_VALUES(tt_maximum(a, b), 2, NAN, NAN, NAN);
        TT_CHECK_VALUES(tt_minimum(a, b), 1, NAN, NAN, NAN);
        TT_CHECK_CLOSE(tt_atan2(TT_FLOATS(1, -1, 0), TT_FLOATS(1, -1, -1)), 1e-6, M_PI_4,
                       -3 * M_PI_4, M_PI);
        TT_CHECK_VALUES(tt_lerp(TT_FLOATS(0, 10), TT_FLOATS(4, 20), 0.25), 1, 12.5);
        TT_CHECK_VALUES(tt_addcdiv(TT_FLOATS(1, 1), TT_FLOATS(4, 6), TT_FLOATS(2, 3), 0.5), 2, 2);
    }
}

TT_TEST(arith, complex_numbers)
{
    TT_SCOPE {
        float av[] = { 3, 4, 0, 1 }, bv[] = { 1, -2, 0, -1 };
        tt_tensor *a = tt_from_data(av, TT_SHAPE(2), TT_C64);
        tt_tensor *b = tt_from_data(bv, TT_SHAPE(2), TT_C64);

        TT_CHECK_VALUES(tt_view_as_real(tt_add(a, b)), 4, 2, 0, 0);
        TT_CHECK_VALUES(tt_view_as_real(tt_mul(a, b)), 11, -2, 1, 0);
        TT_CHECK_CLOSE(tt_view_as_real(tt_div(a, b)), 1e-6, -1, 2, -1, 0);
        TT_CHECK_VALUES(tt_abs(a), 5, 1);
        TT_CHECK_VALUES(tt_real(a), 3, 0);
        TT_CHECK_VALUES(tt_imag(a), 4, 1);
        TT_CHECK_VALUES(tt_imag(tt_conj(a)), -4, -1);
        TT_CHECK_CLOSE(tt_view_as_real(tt_exp(b)), 1e-6, M_E * cos(2), -M_E * sin(2), cos(1),
                       -sin(1));
        TT_CHECK_CLOSE(tt_view_as_real(tt_sqrt(a)), 1e-6, 2, 1, M_SQRT1_2, M_SQRT1_2);
        TT_CHECK_VALUES(tt_eq(a, tt_conj(tt_conj(a))), 1, 1);
        TT_CHECK_NULL(tt_lt(a, b));
        TT_CHECK_CONTAINS(tt_last_error(), "complex64");
    }
}

/* A single value keeps its precision beside half types: it is not rounded first. */
TT_TEST(arith, single_values_are_not_rounded_to_half_types)
{
    TT_SCOPE {
        tt_tensor *x = tt_to_dtype(TT_FLOATS(1, 3), TT_F16);
        tt_tensor *b = tt_to_dtype(TT_FLOATS(1, 3, 96), TT_BF16);
        tt_tensor *s = tt_full(TT_SHAPE_SCALAR, 0.1, TT_F32, TT_CPU);
        tt_tensor *scale = tt_full(TT_SHAPE_SCALAR, 1.00390625, TT_F64, TT_CPU);

        /* 0.1 is rounded up to float32, and down to float16. */
        TT_CHECK_VALUES(tt_floor_divide(x, s), 9, 29);
        TT_CHECK_EQ(tt_tensor_dtype(tt_mul(b, scale)), TT_BF16);
        TT_CHECK_VALUES(tt_mul(b, scale), 1, 3.015625, 96.5);
        TT_CHECK_VALUES(tt_mul(scale, b), 1, 3.015625, 96.5);
        TT_CHECK_VALUES(tt_mul_(tt_clone(b), scale), 1, 3.015625, 96.5);
    }
}
