/* SPDX-License-Identifier: Apache-2.0 */
/* The text of tensors. What is expected was printed by PyTorch, without its module's name. */
#include <math.h>
#include <string.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

static void prints(tt_tensor *t, const char *want)
{
    char *text = tt_tensor_text(t, NULL);

    TT_REQUIRE_NOT_NULL(text);
    TT_CHECK_STR(text, want);
    tt_text_free(text);
}

TT_TEST(print, zero_d)
{
    TT_SCOPE {
        prints(tt_full(TT_SHAPE_SCALAR, 3.5, TT_F32, TT_CPU), "tensor(3.5000)");
    }
}

TT_TEST(print, whole)
{
    TT_SCOPE {
        prints(TT_FLOATS(1, 2, -3), "tensor([ 1.,  2., -3.])");
    }
}

TT_TEST(print, fractions)
{
    TT_SCOPE {
        prints(tt_view(TT_FLOATS(1.5f, -2, 0.25f, 1000), TT_SHAPE(2, 2)),
               "tensor([[ 1.5000e+00, -2.0000e+00],\n"
               "        [ 2.5000e-01,  1.0000e+03]])");
    }
}

TT_TEST(print, exponents)
{
    TT_SCOPE {
        prints(TT_FLOATS(1e-5f, 1, 2.5f), "tensor([1.0000e-05, 1.0000e+00, 2.5000e+00])");
    }
}

TT_TEST(print, large_whole)
{
    TT_SCOPE {
        prints(TT_FLOATS(1, 100000), "tensor([1.0000e+00, 1.0000e+05])");
    }
}

TT_TEST(print, not_finite)
{
    TT_SCOPE {
        prints(TT_FLOATS(1, INFINITY, NAN, -INFINITY, 0), "tensor([1., inf, nan, -inf, 0.])");
    }
}

TT_TEST(print, not_finite_fractions)
{
    TT_SCOPE {
        prints(TT_FLOATS(0.5f, INFINITY, -NAN), "tensor([0.5000,    inf,    nan])");
    }
}

TT_TEST(print, zeros)
{
    TT_SCOPE {
        prints(tt_zeros(TT_SHAPE(2, 3), TT_F32, TT_CPU), "tensor([[0., 0., 0.],\n"
                                                         "        [0., 0., 0.]])");
    }
}

TT_TEST(print, only_nan)
{
    TT_SCOPE {
        prints(TT_FLOATS(NAN, 0), "tensor([nan, 0.])");
    }
}

TT_TEST(print, integers)
{
    TT_SCOPE {
        prints(tt_view(TT_INTS(1, -20, 300, 4), TT_SHAPE(2, 2)), "tensor([[  1, -20],\n"
                                                                 "        [300,   4]])");
    }
}

TT_TEST(print, truth)
{
    TT_SCOPE {
        prints(tt_ne_scalar(TT_INTS(1, 0, 2), 0), "tensor([ True, False,  True])");
    }
}

TT_TEST(print, small_integers)
{
    TT_SCOPE {
        prints(tt_to_dtype(TT_INTS(1, 2), TT_I8), "tensor([1, 2], dtype=int8)");
    }
}

TT_TEST(print, doubles)
{
    TT_SCOPE {
        prints(tt_to_dtype(TT_FLOATS(1.25f, 2), TT_F64), "tensor([1.2500, 2.0000], dtype=float64)");
    }
}

TT_TEST(print, halves)
{
    TT_SCOPE {
        prints(tt_to_dtype(TT_FLOATS(1.25f, 2), TT_BF16),
               "tensor([1.2500, 2.0000], dtype=bfloat16)");
    }
}

TT_TEST(print, three_d)
{
    TT_SCOPE {
        prints(tt_reshape(tt_arange(0, 12, 1, TT_F32, TT_CPU), TT_SHAPE(2, 2, 3)),
               "tensor([[[ 0.,  1.,  2.],\n"
               "         [ 3.,  4.,  5.]],\n"
               "\n"
               "        [[ 6.,  7.,  8.],\n"
               "         [ 9., 10., 11.]]])");
    }
}

TT_TEST(print, long_vector)
{
    TT_SCOPE {
        prints(tt_arange(0, 40, 1, TT_F32, TT_CPU),
               "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
               "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
               "        28., 29., 30., 31., 32., 33., 34., 35., 36., 37., 38., 39.])");
    }
}

TT_TEST(print, summary)
{
    TT_SCOPE {
        prints(tt_reshape(tt_arange(0, 4000, 1, TT_F32, TT_CPU), TT_SHAPE(40, 100)),
               "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,\n"
               "         9.9000e+01],\n"
               "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02, 1.9800e+02,\n"
               "         1.9900e+02],\n"
               "        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02, 2.9800e+02,\n"
               "         2.9900e+02],\n"
               "        ...,\n"
               "        [3.7000e+03, 3.7010e+03, 3.7020e+03,  ..., 3.7970e+03, 3.7980e+03,\n"
               "         3.7990e+03],\n"
               "        [3.8000e+03, 3.8010e+03, 3.8020e+03,  ..., 3.8970e+03, 3.8980e+03,\n"
               "         3.8990e+03],\n"
               "        [3.9000e+03, 3.9010e+03, 3.9020e+03,  ..., 3.9970e+03, 3.9980e+03,\n"
               "         3.9990e+03]])");
    }
}

TT_TEST(print, summary_3d)
{
    TT_SCOPE {
        prints(tt_reshape(tt_arange(0, 2000, 1, TT_I64, TT_CPU), TT_SHAPE(10, 2, 100)),
               "tensor([[[   0,    1,    2,  ...,   97,   98,   99],\n"
               "         [ 100,  101,  102,  ...,  197,  198,  199]],\n"
               "\n"
               "        [[ 200,  201,  202,  ...,  297,  298,  299],\n"
               "         [ 300,  301,  302,  ...,  397,  398,  399]],\n"
               "\n"
               "        [[ 400,  401,  402,  ...,  497,  498,  499],\n"
               "         [ 500,  501,  502,  ...,  597,  598,  599]],\n"
               "\n"
               "        ...,\n"
               "\n"
               "        [[1400, 1401, 1402,  ..., 1497, 1498, 1499],\n"
               "         [1500, 1501, 1502,  ..., 1597, 1598, 1599]],\n"
               "\n"
               "        [[1600, 1601, 1602,  ..., 1697, 1698, 1699],\n"
               "         [1700, 1701, 1702,  ..., 1797, 1798, 1799]],\n"
               "\n"
               "        [[1800, 1801, 1802,  ..., 1897, 1898, 1899],\n"
               "         [1900, 1901, 1902,  ..., 1997, 1998, 1999]]])");
    }
}

TT_TEST(print, summary_vector)
{
    TT_SCOPE {
        prints(tt_arange(0, 1001, 1, TT_I64, TT_CPU),
               "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    }
}

TT_TEST(print, empty)
{
    TT_SCOPE {
        prints(tt_empty(TT_SHAPE(0), TT_F32, TT_CPU), "tensor([])");
    }
}

TT_TEST(print, empty_2d)
{
    TT_SCOPE {
        prints(tt_empty(TT_SHAPE(2, 0), TT_F32, TT_CPU), "tensor([], size=(2, 0))");
    }
}

TT_TEST(print, empty_integers)
{
    TT_SCOPE {
        prints(tt_empty(TT_SHAPE(0, 3), TT_I64, TT_CPU), "tensor([], size=(0, 3), dtype=int64)");
    }
}

TT_TEST(print, complex)
{
    TT_SCOPE {
        prints(tt_view_as_complex(tt_view(TT_FLOATS(1, -2, 3.5f, 0.25f), TT_SHAPE(2, 2))),
               "tensor([1.0000-2.0000j, 3.5000+0.2500j])");
    }
}

TT_TEST(print, complex_zero_d)
{
    TT_SCOPE {
        prints(tt_reshape(tt_view_as_complex(tt_view(TT_FLOATS(1, 2), TT_SHAPE(1, 2))),
                          TT_SHAPE_SCALAR),
               "tensor(1.+2.j)");
    }
}

TT_TEST(print, wants_gradient)
{
    TT_SCOPE {
        prints(tt_require_grad(TT_FLOATS(1, 2)), "tensor([1., 2.], requires_grad=True)");
    }
}

TT_TEST(print, has_history)
{
    TT_SCOPE {
        prints(tt_mul_scalar(tt_require_grad(TT_FLOATS(1, 2)), 2),
               "tensor([2., 4.], grad_fn=<mul_scalar>)");
    }
}

TT_TEST(print, transposed)
{
    TT_SCOPE {
        prints(tt_t(tt_view(TT_FLOATS(1, 2, 3, 4), TT_SHAPE(2, 2))), "tensor([[1., 3.],\n"
                                                                     "        [2., 4.]])");
    }
}

TT_TEST(print, long_suffix)
{
    TT_SCOPE {
        prints(tt_require_grad(tt_to_dtype(tt_arange(0, 17, 1, TT_F32, TT_CPU), TT_F64)),
               "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
               "        14., 15., 16.], dtype=float64, requires_grad=True)");
    }
}

TT_TEST(print, long_suffix_18)
{
    TT_SCOPE {
        prints(tt_require_grad(tt_to_dtype(tt_arange(0, 15, 1, TT_F32, TT_CPU), TT_F64)),
               "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
               "        14.], dtype=float64, requires_grad=True)");
    }
}

TT_TEST(print, sparse)
{
    TT_SCOPE {
        prints(tt_sparse_coo(tt_view(TT_INTS(0, 1, 2, 0), TT_SHAPE(2, 2)), TT_FLOATS(3, 4.5f),
                             TT_SHAPE(2, 3)),
               "tensor(indices=tensor([[0, 1],\n"
               "                       [2, 0]]),\n"
               "       values=tensor([3.0000, 4.5000]),\n"
               "       size=(2, 3), nnz=2, layout=sparse_coo)");
    }
}

TT_TEST(print, sparse_empty)
{
    TT_SCOPE {
        prints(tt_sparse_coo(tt_empty(TT_SHAPE(1, 0), TT_I64, TT_CPU),
                             tt_empty(TT_SHAPE(0, 2), TT_F32, TT_CPU), TT_SHAPE(4, 2)),
               "tensor(indices=tensor([], size=(1, 0)),\n"
               "       values=tensor([], size=(0, 2)),\n"
               "       size=(4, 2), nnz=0, layout=sparse_coo)");
    }
}

TT_TEST(print, options)
{
    TT_SCOPE {
        tt_print_options o = { .precision = 2, .threshold = 5, .edge_items = 1 };
        tt_tensor *t = tt_view(TT_FLOATS(1.234f, 2, 3, 4, 5, 6, 7, 8, 9), TT_SHAPE(3, 3));
        char *text = tt_tensor_text(t, &o);

        TT_CHECK_STR(text,
                     "tensor([[1.23,  ..., 3.00],\n        ...,\n        [7.00,  ..., 9.00]])");
        tt_text_free(text);
    }
}

TT_TEST(print, to_a_file)
{
    char buffer[64] = { 0 };
    FILE *f = fmemopen(buffer, sizeof buffer, "w");

    TT_SCOPE {
        TT_CHECK_OK(tt_fprint(f, TT_FLOATS(1, 2)));
    }
    fclose(f);
    TT_CHECK_STR(buffer, "tensor([1., 2.])\n");
    tt_clear_error();
    TT_CHECK_ERR_SAYS(tt_print(NULL), TT_ERR_INVALID, "expected a tensor, got NULL");
}

static tt_status print_once(void *ctx)
{
    char *text = tt_tensor_text(ctx, NULL);

    tt_text_free(text);
    return text != NULL ? TT_OK : tt_last_status();
}

TT_TEST(print, survives_every_failed_allocation)
{
    TT_SCOPE {
        TT_CHECK_GT(
            tt_test_fail_allocs(print_once, tt_t(tt_zeros(TT_SHAPE(20, 20), TT_F32, TT_CPU))), 3);
    }
}
