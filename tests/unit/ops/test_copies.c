/* SPDX-License-Identifier: Apache-2.0 */
/* Making, copying, converting and reading tensors. */
#include <math.h>
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

TT_TEST(copies, makes_tensors)
{
    TT_SCOPE {
        TT_CHECK_VALUES(tt_zeros(TT_SHAPE(2), TT_C64, TT_CPU), 0, 0);
        TT_CHECK_VALUES(tt_ones(TT_SHAPE(3), TT_BF16, TT_CPU), 1, 1, 1);
        TT_CHECK_VALUES(tt_full(TT_SHAPE(2), -2.5, TT_F16, TT_CPU), -2.5, -2.5);
        TT_CHECK_VALUES(tt_full(TT_SHAPE(2), 7, TT_U8, TT_CPU), 7, 7);
        TT_CHECK_VALUES(tt_arange(1, 2, 0.25, TT_F32, TT_CPU), 1, 1.25, 1.5, 1.75);
        TT_CHECK_VALUES(tt_arange(5, 0, -2, TT_I64, TT_CPU), 5, 3, 1);
        TT_CHECK_EQ(tt_tensor_numel(tt_arange(0, 600, 1, TT_F16, TT_CPU)), 600);
        TT_CHECK_VALUES(tt_narrow(tt_arange(0, 600, 1, TT_F16, TT_CPU), 0, 254, 4), 254, 255, 256,
                        257);
        TT_CHECK_NULL(tt_arange(0, 1, 0, TT_F32, TT_CPU));
        TT_CHECK_NULL(tt_arange(0, 1, -1, TT_F32, TT_CPU));
        TT_CHECK_VALUES(tt_linspace(0, 1, 5, TT_F32, TT_CPU), 0, 0.25, 0.5, 0.75, 1);
        TT_CHECK_VALUES(tt_linspace(3, 9, 1, TT_F32, TT_CPU), 3);
        /* Both ends are of the type before anything is computed. */
        TT_CHECK_VALUES(tt_linspace(4.3, -3, 8, TT_I64, TT_CPU), 4, 3, 2, 1, 0, -1, -2, -3);
        TT_CHECK_VALUES(tt_linspace(-1.9, 2.9, 4, TT_I32, TT_CPU), -1, 0, 1, 2);
        TT_CHECK_VALUES(tt_eye(2, TT_I32, TT_CPU), 1, 0, 0, 1);
        TT_CHECK_VALUES(tt_ones_like(TT_INTS(4, 5)), 1, 1);
        TT_CHECK_EQ(tt_item_int(tt_number_int(INT64_MAX)), INT64_MAX);
    }
}

TT_TEST(copies, converts_between_all_types)
{
    for (int from = 0; from < TT_N_DTYPES; from++)
        for (int to = 0; to < TT_N_DTYPES; to++)
            TT_SCOPE {
                tt_tensor *x = tt_to_dtype(TT_FLOATS(0, 1, 3), (tt_dtype)from);
                tt_tensor *y = tt_to_dtype(x, (tt_dtype)to);
                double three = from == TT_BOOL || to == TT_BOOL ? 1 : 3;
                tt_tensor *strided = tt_select(tt_stack((tt_tensor *[]){ x, x }, 2, 1), 1, 1);

                TT_CHECK_EQ(tt_tensor_dtype(y), to);
                TT_CHECK_VALUES(y, 0, 1, three);
                TT_CHECK_VALUES(tt_to_dtype(strided, (tt_dtype)to), 0, 1, three);
            }
}

TT_TEST(copies, conversions_truncate_wrap_and_keep_nan_true)
{
    TT_SCOPE {
        TT_CHECK_VALUES(tt_to_dtype(TT_FLOATS(-1.7, 2.9), TT_I32), -1, 2);
        TT_CHECK_VALUES(tt_to_dtype(TT_FLOATS(-1, 257), TT_U8), 255, 1);
        TT_CHECK_VALUES(tt_to_dtype(TT_FLOATS(NAN, 0, -0.5), TT_BOOL), 1, 0, 1);
        TT_CHECK_VALUES(tt_to_dtype(TT_FLOATS(1e6, 1e-9), TT_F16), INFINITY, 0);
        TT_CHECK_VALUES(tt_to_dtype(TT_INTS(INT64_MAX), TT_I16), -1);
    }
}

TT_TEST(copies, returns_itself_when_nothing_is_to_do)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(TT_FLOATS(1, 2));

        TT_CHECK_PTR(tt_contiguous(x), x);
        TT_CHECK_PTR(tt_to_dtype(x, TT_F32), x);
        TT_CHECK_PTR(tt_to_device(x, TT_CPU), x);
        TT_CHECK_PTR(tt_conj(x), x);
        TT_CHECK_PTR(tt_real(x), x);
        TT_CHECK(tt_clone(x) != x);
        TT_CHECK_STR(tt_grad_fn_name(tt_clone(x)), "clone");
    }
}

TT_TEST(copies, memory_orders)
{
    TT_SCOPE {
        tt_tensor *x =
            tt_reshape(tt_arange(0, 2 * 3 * 4 * 5, 1, TT_F32, TT_CPU), TT_SHAPE(2, 3, 4, 5));
        tt_tensor *last = tt_to_format(x, TT_FORMAT_CHANNELS_LAST);
        tt_tensor *copy = tt_clone(last);
        tt_tensor *sum = tt_add(last, last);

        TT_CHECK(tt_tensor_is_contiguous(last, TT_FORMAT_CHANNELS_LAST));
        TT_CHECK_EQ(tt_tensor_strides(last)[1], 1);
        TT_CHECK_TENSOR(last, x, 0);
        TT_CHECK(tt_tensor_is_contiguous(copy, TT_FORMAT_CHANNELS_LAST));
        TT_CHECK_TENSOR(copy, x, 0);
        TT_CHECK(tt_tensor_is_contiguous(sum, TT_FORMAT_CHANNELS_LAST));
        TT_CHECK_TENSOR(tt_contiguous(last), x, 0);
        TT_CHECK_PTR(tt_to_format(last, TT_FORMAT_CHANNELS_LAST), last);
        TT_CHECK_NULL(tt_to_format(TT_FLOATS(1), TT_FORMAT_CHANNELS_LAST));
    }
}

TT_TEST(copies, transposes_of_all_element_sizes)
{
    const tt_dtype types[] = { TT_U8, TT_F16, TT_F32, TT_I64, TT_C128 };

    for (int i = 0; i < 5; i++)
        TT_SCOPE {
            tt_tensor *x = tt_to_dtype(
                tt_reshape(tt_arange(0, 35 * 70, 1, TT_F32, TT_CPU), TT_SHAPE(35, 70)), types[i]);
            tt_tensor *t = tt_contiguous(tt_transpose(x, 0, 1));

            for (int64_t a = 0; a < 70; a++)
                for (int64_t b = 0; b < 35; b++)
                    TT_REQUIRE_NEAR(tt_at(t, (int64_t[]){ a, b }), tt_at(x, (int64_t[]){ b, a }),
                                    0);
        }
}

TT_TEST(copies, reads_elements)
{
    TT_SCOPE {
        tt_tensor *x = tt_from_data((float[]){ 1, 2, 3, 4 }, TT_SHAPE(2, 2), TT_F32);
        double d[4], re, im;
        float f[4];
        int64_t n[4];

        TT_CHECK_NEAR(tt_at(tt_transpose(x, 0, 1), (int64_t[]){ 0, 1 }), 3, 0);
        TT_CHECK_OK(tt_copy_out_f32(tt_transpose(x, 0, 1), f, 4));
        TT_CHECK_NEAR(f[1], 3, 0);
        TT_CHECK_OK(tt_copy_out_i64(x, n, 4));
        TT_CHECK_EQ(n[3], 4);
        TT_CHECK_ERR_SAYS(tt_copy_out_f64(x, d, 3), TT_ERR_INVALID, "4 elements");
        tt_item_complex(tt_from_data((double[]){ 5, -6 }, TT_SHAPE_SCALAR, TT_C128), &re, &im);
        TT_CHECK_NEAR(re, 5, 0);
        TT_CHECK_NEAR(im, -6, 0);
        tt_clear_error();
        TT_CHECK_NEAR(tt_item(x), 0, 0);
        TT_CHECK_CONTAINS(tt_last_error(), "one element");
        tt_clear_error();
        TT_CHECK_NEAR(tt_at(x, (int64_t[]){ 2, 0 }), 0, 0);
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    }
}

TT_TEST(copies, complex_views_share_memory)
{
    TT_SCOPE {
        tt_tensor *x = tt_from_data((float[]){ 1, 2, 3, 4 }, TT_SHAPE(2), TT_C64);

        tt_fill_(tt_imag(x), 9);
        TT_CHECK_VALUES(tt_view_as_real(x), 1, 9, 3, 9);
        TT_CHECK(tt_tensor_shares_storage(x, tt_view_as_complex(tt_view_as_real(x))));
        TT_CHECK_NULL(tt_view_as_complex(TT_FLOATS(1, 2, 3)));
        TT_CHECK_NULL(tt_imag(TT_FLOATS(1)));
    }
}

TT_TEST(copies, mixed_types_have_gradients_of_their_own_type)
{
    TT_SCOPE {
        tt_tensor *h = tt_require_grad(tt_to_dtype(TT_FLOATS(1, 2), TT_BF16));
        tt_tensor *w = tt_require_grad(TT_FLOATS(3, 5));

        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(h, w))));
        TT_CHECK_EQ(tt_tensor_dtype(tt_grad_of(h)), TT_BF16);
        TT_CHECK_VALUES(tt_grad_of(h), 3, 5);
        TT_CHECK_EQ(tt_tensor_dtype(tt_grad_of(w)), TT_F32);
        TT_CHECK_VALUES(tt_grad_of(w), 1, 2);
    }
}
