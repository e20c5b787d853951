/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one operand, comparisons, logic, selection and activations: values at ordinary and at
 * odd places. */
#include <float.h>
#include <math.h>
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

typedef struct unary_case {
    const char *name;
    tt_tensor *(*fn)(tt_tensor *x);
    double (*want)(double x);
} unary_case;

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * M_SQRT1_2));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double relu(double x)
{
    return x < 0 ? 0 : x;
}

static double reciprocal(double x)
{
    return 1 / x;
}

static const unary_case unary_cases[] = {
    { "exp", tt_exp, exp },
    { "expm1", tt_expm1, expm1 },
    { "log", tt_log, log },
    { "log1p", tt_log1p, log1p },
    { "log2", tt_log2, log2 },
    { "log10", tt_log10, log10 },
    { "sqrt", tt_sqrt, sqrt },
    { "rsqrt", tt_rsqrt, rsqrt },
    { "sin", tt_sin, sin },
    { "cos", tt_cos, cos },
    { "tanh", tt_tanh, tanh },
    { "sigmoid", tt_sigmoid, sigmoid },
    { "erf", tt_erf, erf },
    { "floor", tt_floor, floor },
    { "ceil", tt_ceil, ceil },
    { "round", tt_round, rint },
    { "trunc", tt_trunc, trunc },
    { "abs", tt_abs, fabs },
    { "gelu", tt_gelu, gelu },
    { "gelu_tanh", tt_gelu_tanh, gelu_tanh },
    { "silu", tt_silu, silu },
    { "relu", tt_relu, relu },
    { "reciprocal", tt_reciprocal, reciprocal },
};

static const double places[] = {
    -3.75, -2.5, -1.5, -0.5, -0.125, 0.0625, 0.5, 1.5, 2.5, 9.25, NAN
};
enum { N_PLACES = sizeof places / sizeof places[0] };

static void check_unary(const unary_case *k, tt_dtype d, double tol)
{
    double want[N_PLACES];

    for (int i = 0; i < N_PLACES; i++)
        want[i] = k->want(places[i]);
    TT_SCOPE {
        tt_tensor *x = tt_to_dtype(tt_from_data(places, TT_SHAPE(N_PLACES), TT_F64), d);
        tt_tensor *strided = tt_select(tt_stack((tt_tensor *[]){ x, x }, 2, 1), 1, 0);

        if (!tti_test_close(__FILE__, __LINE__, k->fn(x), want, N_PLACES, tol) ||
            !tti_test_close(__FILE__, __LINE__, k->fn(strided), want, N_PLACES, tol))
            TT_FAIL_TEST("%s of %s", k->name, tt_dtype_name(d));
    }
}

TT_TEST(elementwise, unary_functions_in_every_floating_type)
{
    for (size_t i = 0; i < sizeof unary_cases / sizeof unary_cases[0]; i++) {
        check_unary(&unary_cases[i], TT_F64, 1e-14);
        check_unary(&unary_cases[i], TT_F32, 1e-6);
        check_unary(&unary_cases[i], TT_F16, 2e-3);
        check_unary(&unary_cases[i], TT_BF16, 1e-2);
    }
}

TT_TEST(elementwise, unary_functions_of_integers)
{
    TT_SCOPE {
        tt_tensor *i = TT_INTS(-2, 0, 3);

        TT_CHECK_VALUES(tt_neg(i), 2, 0, -3);
        TT_CHECK_VALUES(tt_abs(i), 2, 0, 3);
        TT_CHECK_VALUES(tt_sign(i), -1, 0, 1);
        TT_CHECK_EQ(tt_tensor_dtype(tt_floor(i)), TT_I64);
        TT_CHECK_CLOSE(tt_exp(i), 1e-6, exp(-2), 1, exp(3));
        TT_CHECK_VALUES(tt_relu(i), 0, 0, 3);
        TT_CHECK_VALUES(tt_clamp(i, -1, 2), -1, 0, 2);
        TT_CHECK_EQ(tt_tensor_dtype(tt_clamp(i, -1, INFINITY)), TT_I64);
        TT_CHECK_VALUES(tt_clamp(i, -0.5, INFINITY), -0.5, 0, 3);
        TT_CHECK_VALUES(tt_bitwise_not(i), 1, -1, -4);
        TT_CHECK_VALUES(tt_sign(TT_FLOATS(-2.5, 0, 7)), -1, 0, 1);
    }
}

TT_TEST(elementwise, compares)
{
    TT_SCOPE {
        tt_tensor *a = TT_FLOATS(1, 2, 3, NAN), *b = TT_FLOATS(2, 2, 2, NAN);

        TT_CHECK_VALUES(tt_eq(a, b), 0, 1, 0, 0);
        TT_CHECK_VALUES(tt_ne(a, b), 1, 0, 1, 1);
        TT_CHECK_VALUES(tt_lt(a, b), 1, 0, 0, 0);
        TT_CHECK_VALUES(tt_le(a, b), 1, 1, 0, 0);
        TT_CHECK_VALUES(tt_gt(a, b), 0, 0, 1, 0);
        TT_CHECK_VALUES(tt_ge(a, b), 0, 1, 1, 0);
        TT_CHECK_VALUES(tt_lt_scalar(a, 2), 1, 0, 0, 0);
        TT_CHECK_VALUES(tt_lt_scalar(TT_INTS(1, 2, 3), 2.5), 1, 1, 0);
        TT_CHECK_VALUES(tt_lt_scalar(tt_to_dtype(TT_INTS(1, 255), TT_U8), 300), 1, 1);
        TT_CHECK_VALUES(tt_gt_scalar(TT_INTS(INT64_MAX, 0), -1), 1, 1);
        TT_CHECK_VALUES(tt_isnan(a), 0, 0, 0, 1);
        TT_CHECK_VALUES(tt_isinf(TT_FLOATS(1, -INFINITY, NAN)), 0, 1, 0);
        TT_CHECK_VALUES(tt_isfinite(TT_FLOATS(1, -INFINITY, NAN)), 1, 0, 0);
        TT_CHECK_VALUES(tt_eq(TT_INTS(1, 2), TT_FLOATS(1, 2.5)), 1, 0);
    }
}

TT_TEST(elementwise, logic_and_bits)
{
    TT_SCOPE {
        tt_tensor *a = TT_FLOATS(0, 0, 2, NAN), *b = TT_FLOATS(0, 3, 0, 1);

        TT_CHECK_VALUES(tt_logical_and(a, b), 0, 0, 0, 1);
        TT_CHECK_VALUES(tt_logical_or(a, b), 0, 1, 1, 1);
        TT_CHECK_VALUES(tt_logical_xor(a, b), 0, 1, 1, 0);
        TT_CHECK_VALUES(tt_logical_not(a), 1, 1, 0, 0);
        TT_CHECK_VALUES(tt_bitwise_and(TT_INTS(6, -1), TT_INTS(3, 5)), 2, 5);
        TT_CHECK_VALUES(tt_bitwise_or(TT_INTS(6, -1), TT_INTS(3, 5)), 7, -1);
        TT_CHECK_VALUES(tt_bitwise_xor(TT_INTS(6, -1), TT_INTS(3, 5)), 5, -6);
        TT_CHECK_NULL(tt_bitwise_and(a, b));
        TT_CHECK_CONTAINS(tt_last_error(), "float32");
    }
}

TT_TEST(elementwise, selects)
{
    TT_SCOPE {
        tt_tensor *c = tt_to_dtype(TT_FLOATS(1, 0, 1), TT_BOOL);
        tt_tensor *m =
            tt_to_dtype(tt_from_data((float[]){ 1, 0 }, TT_SHAPE(2, 1), TT_F32), TT_BOOL);

        TT_CHECK_VALUES(tt_where(c, TT_FLOATS(1, 2, 3), TT_FLOATS(4, 5, 6)), 1, 5, 3);
        TT_CHECK_VALUES(tt_where(c, TT_FLOATS(1, 2, 3), tt_number(0)), 1, 0, 3);
        TT_CHECK_VALUES(tt_where(m, TT_FLOATS(1, 2, 3), TT_FLOATS(4, 5, 6)), 1, 2, 3, 4, 5, 6);
        TT_CHECK_EQ(tt_tensor_dtype(tt_where(c, TT_INTS(1), TT_FLOATS(2))), TT_F32);
        TT_CHECK_NULL(tt_where(TT_FLOATS(1), TT_FLOATS(1), TT_FLOATS(1)));
        TT_CHECK_VALUES(tt_masked_fill(TT_FLOATS(1, 2, 3), c, -INFINITY), -INFINITY, 2, -INFINITY);
        TT_CHECK_VALUES(tt_masked_fill(TT_INTS(1, 2, 3), m, 9), 9, 9, 9, 1, 2, 3);
        TT_CHECK_NULL(tt_masked_fill(TT_INTS(1, 2, 3), c, 0.5));
    }
}

TT_TEST(elementwise, limits)
{
    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(-2, 0.5, 3, NAN);

        TT_CHECK_VALUES(tt_clamp(x, -1, 1), -1, 0.5, 1, NAN);
        TT_CHECK_VALUES(tt_clamp(x, -INFINITY, 1), -2, 0.5, 1, NAN);
        TT_CHECK_VALUES(tt_clamp_tensor(x, TT_FLOATS(0, 1, 0, 0), NULL), 0, 1, 3, NAN);
        TT_CHECK_VALUES(tt_clamp_tensor(x, TT_FLOATS(0), TT_FLOATS(1)), 0, 0.5, 1, NAN);
        TT_CHECK_NULL(tt_clamp_tensor(x, NULL, NULL));
        TT_CHECK_VALUES(tt_nan_to_num(TT_FLOATS(NAN, INFINITY, -INFINITY, 2), 7, 8, 9), 7, 8, 9, 2);
        TT_CHECK_VALUES(tt_nan_to_num(TT_FLOATS(NAN, INFINITY, -INFINITY), 0, NAN, NAN), 0, FLT_MAX,
                        -FLT_MAX);
        TT_CHECK_VALUES(tt_hardtanh(x, -1, 1), -1, 0.5, 1, NAN);
    }
}

TT_TEST(elementwise, activations_with_parameters)
{
    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(-2, 0, 3);

        TT_CHECK_CLOSE(tt_elu(x, 1.5), 1e-6, 1.5 * expm1(-2), 0, 3);
        TT_CHECK_CLOSE(tt_celu(x, 2), 1e-6, 2 * expm1(-1), 0, 3);
        TT_CHECK_CLOSE(tt_leaky_relu(x, 0.1), 1e-6, -0.2, 0, 3);
        TT_CHECK_CLOSE(tt_softplus(x, 2, 5), 1e-6, log1p(exp(-4)) / 2, log(2) / 2, 3);
        TT_CHECK_NULL(tt_celu(x, 0));
        TT_CHECK_NULL(tt_hardtanh(x, 1, -1));
    }
}

/* Where a function has no derivative, the conventions people know. */
TT_TEST(elementwise, gradients_at_kinks)
{
    TT_SCOPE {
        tt_tensor *z = tt_require_grad(TT_FLOATS(0, NAN, -1, 1));
        tt_tensor *a = tt_require_grad(TT_FLOATS(1, 2)), *b = tt_require_grad(TT_FLOATS(1, 3));

        TT_CHECK_OK(tt_backward(tt_sum(tt_relu(z))));
        TT_CHECK_VALUES(tt_grad_of(z), 0, 1, 0, 1);
        TT_CHECK_OK(tt_set_grad(z, NULL));
        TT_CHECK_OK(tt_backward(tt_sum(tt_abs(z))));
        TT_CHECK_VALUES(tt_grad_of(z), 0, 0, -1, 1);
        TT_CHECK_OK(tt_set_grad(z, NULL));
        TT_CHECK_OK(tt_backward(tt_sum(tt_clamp(z, -1, 0.5))));
        TT_CHECK_VALUES(tt_grad_of(z), 1, 0, 0, 0);
        TT_CHECK_OK(tt_set_grad(z, NULL));
        TT_CHECK_OK(tt_backward(tt_sum(tt_hardtanh(z, -1, 0.5))));
        TT_CHECK_VALUES(tt_grad_of(z), 1, 1, 0, 0);
        TT_CHECK_OK(tt_backward(tt_sum(tt_maximum(a, b))));
        TT_CHECK_VALUES(tt_grad_of(a), 0.5, 0);
        TT_CHECK_VALUES(tt_grad_of(b), 0.5, 1);
    }
}

TT_TEST(elementwise, null_and_first_error_pass_through)
{
    TT_SCOPE {
        tt_tensor *bad = tt_add(TT_FLOATS(1, 2), TT_FLOATS(1, 2, 3));

        TT_CHECK_NULL(tt_relu(tt_mul(bad, TT_FLOATS(1))));
        TT_CHECK_CONTAINS(tt_last_error(), "add");
        tt_clear_error();
        TT_CHECK_NULL(tt_exp(NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "NULL");
    }
}

static tt_status chain(void *ctx)
{
    tt_tensor *y = NULL;
    tt_status st = TT_ERR_NOMEM;

    (void)ctx;
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(tt_full(TT_SHAPE(3, 4), 0.5, TT_F32, TT_CPU));

        y = tt_mul(tt_tanh(tt_add(x, tt_full(TT_SHAPE(4), 1, TT_F64, TT_CPU))),
                   tt_where(tt_gt_scalar(x, 0), x, tt_number(0)));
        y = tt_sum(tt_gelu(tt_clamp(tt_contiguous(tt_transpose(y, 0, 1)), -1, 1)));
        st = y != NULL ? tt_backward(y) : tt_last_status();
        if (st == TT_OK && tt_grad_of(x) == NULL)
            st = TT_ERR_INVALID;
    }
    return st;
}

TT_TEST(elementwise, any_allocation_may_fail)
{
    TT_CHECK_OK(chain(NULL));
    TT_CHECK_GT(tt_test_fail_allocs(chain, NULL), 20);
}
