/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices at their edges: integers, sizes of 0, half types, vectors. */
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

TT_TEST(products, an_integer_linear_adds_its_bias)
{
    const tt_dtype types[] = { TT_I64, TT_I32, TT_I16, TT_I8, TT_U8 };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        TT_SCOPE {
            tt_tensor *x = tt_to_dtype(TT_INTS(1, 2, 3), types[i]);
            tt_tensor *w = tt_reshape(TT_INTS(1, 0, 0, 0, 1, 0), TT_SHAPE(2, 3));
            tt_tensor *b = tt_to_dtype(TT_INTS(10, 20), types[i]), *rows;

            w = tt_to_dtype(w, types[i]);
            TT_CHECK_VALUES(tt_linear(x, w, b), 11, 22);
            TT_CHECK_VALUES(tt_linear(x, w, NULL), 1, 2);
            rows = tt_cat((tt_tensor *[]){ tt_unsqueeze(x, 0), tt_unsqueeze(x, 0) }, 2, 0);
            TT_CHECK_VALUES(tt_linear(rows, w, b), 11, 22, 11, 22);
        }
}

/* Rows without elements are still rows: the result is the bias, and the gradient of the weight is empty. */
TT_TEST(products, linear_of_no_features_can_be_differentiated_twice)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(tt_zeros(TT_SHAPE(2, 3, 0), TT_F32, TT_CPU));
        tt_tensor *w = tt_require_grad(tt_zeros(TT_SHAPE(2, 0), TT_F32, TT_CPU));
        tt_tensor *b = tt_require_grad(TT_FLOATS(5, 7)), *in[] = { x, w, b }, *grads[3];
        tt_tensor *y = tt_linear(x, w, b), *out = tt_sum(tt_mul(y, y));

        TT_CHECK_SHAPE(y, 2, 3, 2);
        TT_CHECK_VALUES(y, 5, 7, 5, 7, 5, 7, 5, 7, 5, 7, 5, 7);
        TT_REQUIRE_OK(tt_grad(&out, 1, in, 3, &(tt_grad_options){ .create_graph = true }, grads));
        TT_CHECK_SHAPE(grads[0], 2, 3, 0);
        TT_CHECK_SHAPE(grads[1], 2, 0);
        TT_CHECK_VALUES(grads[2], 60, 84);
        TT_CHECK_OK(tt_backward(tt_sum(grads[2])));
        TT_CHECK_VALUES(tt_grad_of(b), 12, 12);
    }
}

/* Beside integers the factors are whole numbers, as in PyTorch. */
TT_TEST(products, integers_take_whole_factors)
{
    TT_SCOPE {
        tt_tensor *m = tt_reshape(TT_INTS(1, 2, 3, 4), TT_SHAPE(2, 2));
        tt_tensor *y = tt_addmm(tt_full(TT_SHAPE(2, 2), 10, TT_I64, TT_CPU), m, m, 1.5, 2.5);

        TT_CHECK_EQ(tt_tensor_dtype(y), TT_I64);
        TT_CHECK_VALUES(y, 24, 30, 40, 54);
        m = tt_unsqueeze(m, 0);
        TT_CHECK_VALUES(tt_baddbmm(m, m, m, 0.5, 1.0), 7, 10, 15, 22);
    }
}

static tt_tensor *values(tt_shape shape, double from, tt_dtype dtype)
{
    int64_t n = 1;

    for (int i = 0; i < shape.n_dims; i++)
        n *= shape.dims[i];
    return tt_to_dtype(tt_reshape(tt_linspace(from, 1.7, n, TT_F32, TT_CPU), shape), dtype);
}

/* A sum of a scaled tensor and a scaled product in half types is rounded once. */
TT_TEST(products, half_types_are_rounded_once)
{
    const tt_dtype types[] = { TT_F16, TT_BF16 };

    for (int t = 0; t < 2; t++)
        TT_SCOPE {
            tt_tensor *a = values(TT_SHAPE(2, 3, 5), -1.1, types[t]);
            tt_tensor *b = values(TT_SHAPE(2, 5, 4), -2.3, types[t]);
            tt_tensor *c = values(TT_SHAPE(2, 3, 4), 0.3, types[t]);
            tt_tensor *wide = tt_baddbmm(tt_to_dtype(c, TT_F32), tt_to_dtype(a, TT_F32),
                                         tt_to_dtype(b, TT_F32), 0.3, 1.7);

            TT_CHECK_TENSOR(tt_baddbmm(c, a, b, 0.3, 1.7), tt_to_dtype(wide, types[t]), 0.0);
            TT_CHECK_TENSOR(
                tt_addmm(tt_select(c, 0, 1), tt_select(a, 0, 1), tt_select(b, 0, 1), 0.3, 1.7),
                tt_to_dtype(tt_select(wide, 0, 1), types[t]), 0.0);
        }
}

/* The bits of long sums do not depend on how many threads share them. */
TT_TEST(products, vectors_do_not_depend_on_threads)
{
    const int64_t sizes[][2] = { { 1, 100003 }, { 5, 70001 }, { 40, 9000 }, { 1500, 300 } };

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        TT_SCOPE {
            int64_t rows = sizes[s][0], terms = sizes[s][1];
            tt_tensor *m = tt_randn(TT_SHAPE(rows, terms), TT_F32, TT_CPU), *got[3][4];
            tt_tensor *turned = tt_contiguous(tt_t(m)),
                      *x = tt_randn(TT_SHAPE(terms), TT_F32, TT_CPU);
            tt_tensor *exact = tt_mv(tt_to_dtype(m, TT_F64), tt_to_dtype(x, TT_F64));
            tt_tensor *spread =
                tt_select(tt_contiguous(tt_stack((tt_tensor *[]){ x, x }, 2, 1)), 1, 0);

            for (int threads = 1; threads <= 3; threads++) {
                tt_tensor **here = got[threads - 1];

                TT_REQUIRE_OK(tt_set_num_threads(threads));
                here[0] = tt_mv(m, x);
                here[1] = tt_matmul(spread, turned);
                here[2] = tt_mv(tt_t(turned), spread);
                for (int i = 0; i < 3; i++) {
                    TT_CHECK_TENSOR(tt_to_dtype(here[i], TT_F64), exact, 2e-3);
                    TT_CHECK_TENSOR(here[i], got[0][i], 0.0);
                }
                here[3] = tt_dot(tt_select(m, 0, 0), x);
                TT_CHECK_NEAR(tt_item(here[3]), tt_item(tt_select(exact, 0, 0)), 2e-3);
                TT_CHECK_TENSOR(here[3], got[0][3], 0.0);
            }
        }
}

TT_TEST(products, linear_with_a_weight_that_is_a_vector)
{
    TT_SCOPE {
        tt_tensor *x = tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(2, 3));
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 0, -1)), *y;

        y = tt_linear(x, w, tt_full(TT_SHAPE_SCALAR, 10, TT_F32, TT_CPU));
        TT_CHECK(tt_equal(tt_detach(y), TT_FLOATS(8, 8)));
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK(tt_equal(tt_grad_of(w), TT_FLOATS(5, 7, 9)));
        TT_CHECK_NEAR(tt_item(tt_linear(TT_FLOATS(3, 1, 1), tt_detach(w), NULL)), 2, 0);
        TT_CHECK(tt_linear(x, TT_FLOATS(1, 2), NULL) == NULL);
        TT_CHECK_CONTAINS(tt_last_error(), "linear: expected an input [..., in], a weight [in]");
    }
}
