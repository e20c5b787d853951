/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of pointwise operators, and gradients of those, against central differences in float64. */
#include <math.h>
#include <stdio.h>
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

/* Values away from kinks, the last row positive and below 1. */
static const double as[] = { -1.3, 0.7, 2.1, -0.4, 0.25, 0.9 };
static const double bs[] = { 0.8, -1.1, 0.45, 1.7, 0.6, -2.2 };
static const double cs[] = { 1.9, 0.35, -0.75, 1.2, -1.6, 0.5 };
static const double positive[] = { 0.3, 1.2, 2.5, 0.9, 0.05, 4.0 };

static tt_tensor *leaf(const double *v, tt_shape shape)
{
    return tt_require_grad(tt_from_data(v, shape, TT_F64));
}

typedef struct grad_case {
    const char *name;
    tti_test_fn fn;
    int n;         /* operands */
    bool positive; /* the first one must be */
    bool once;     /* no second derivative to check */
} grad_case;

#define ONE(name, expr)                          \
    static tt_tensor *name(tt_tensor *const *in) \
    {                                            \
        tt_tensor *a = in[0];                    \
        return expr;                             \
    }
#define TWO(name, expr)                          \
    static tt_tensor *name(tt_tensor *const *in) \
    {                                            \
        tt_tensor *a = in[0], *b = in[1];        \
        return expr;                             \
    }
#define THREE(name, expr)                             \
    static tt_tensor *name(tt_tensor *const *in)      \
    {                                                 \
        tt_tensor *a = in[0], *b = in[1], *c = in[2]; \
        return expr;                                  \
    }

TWO(add, tt_add(a, b))
TWO(sub, tt_sub(a, b))
TWO(mul, tt_mul(a, b))
TWO(divide, tt_div(a, b))
TWO(add_scaled, tt_add_scaled(a, b, -1.5))
TWO(fmodulo, tt_fmod(a, b))
TWO(modulo, tt_remainder(a, b))
TWO(power, tt_pow(a, b))
TWO(maximum, tt_maximum(a, b))
TWO(minimum, tt_minimum(a, b))
TWO(angle, tt_atan2(a, b))
TWO(lerp, tt_lerp(a, b, 0.3))
THREE(addcmul, tt_addcmul(a, b, c, 0.7))
THREE(addcdiv, tt_addcdiv(a, b, c, 0.7))
THREE(clamp_both, tt_clamp_tensor(a, tt_minimum(b, c), tt_maximum(b, c)))
TWO(clamp_low, tt_clamp_tensor(a, b, NULL))
TWO(clamp_high, tt_clamp_tensor(a, NULL, b))
TWO(where, tt_where(tt_gt(a, b), a, b))
ONE(add_number, tt_add_scalar(a, 2.5))
ONE(sub_number, tt_sub_scalar(a, 2.5))
ONE(rsub_number, tt_rsub_scalar(a, 2.5))
ONE(mul_number, tt_mul_scalar(a, -2.5))
ONE(div_number, tt_div_scalar(a, -2.5))
ONE(rdiv_number, tt_rdiv_scalar(a, 2.5))
ONE(pow_3, tt_pow_scalar(a, 3))
ONE(pow_2, tt_pow_scalar(a, 2))
ONE(pow_half, tt_pow_scalar(a, 0.5))
ONE(pow_0, tt_pow_scalar(a, 0))
ONE(pow_fraction, tt_pow_scalar(a, -1.7))
ONE(rpow, tt_rpow_scalar(a, 1.7))
ONE(neg, tt_neg(a))
ONE(absolute, tt_abs(a))
ONE(square, tt_square(a))
ONE(reciprocal, tt_reciprocal(a))
ONE(exponential, tt_exp(a))
ONE(expm1_, tt_expm1(a))
ONE(log_, tt_log(a))
ONE(log1p_, tt_log1p(a))
ONE(log2_, tt_log2(a))
ONE(log10_, tt_log10(a))
ONE(sqrt_, tt_sqrt(a))
ONE(rsqrt_, tt_rsqrt(a))
ONE(sin_, tt_sin(a))
ONE(cos_, tt_cos(a))
ONE(tanh_, tt_tanh(a))
ONE(sigmoid, tt_sigmoid(a))
ONE(erf_, tt_erf(a))
ONE(floor_, tt_floor(a))
ONE(clamp, tt_clamp(a, -0.5, 1.0))
ONE(nan_to_num, tt_nan_to_num(a, 0, 1, -1))
ONE(masked, tt_masked_fill(a, tt_gt_scalar(a, 0.5), 3.0))
ONE(relu, tt_relu(a))
ONE(gelu, tt_gelu(a))
ONE(gelu_tanh, tt_gelu_tanh(a))
ONE(silu, tt_silu(a))
ONE(elu, tt_elu(a, 1.4))
ONE(celu, tt_celu(a, 1.4))
ONE(leaky_relu, tt_leaky_relu(a, 0.1))
ONE(softplus, tt_softplus(a, 1.5, 2.0))
ONE(hardtanh, tt_hardtanh(a, -0.5, 1.0))
ONE(clone, tt_clone(a))
ONE(contiguous, tt_contiguous(tt_transpose(a, 0, 1)))
ONE(to_float, tt_to_dtype(tt_to_dtype(a, TT_C128), TT_F64))
ONE(parts, tt_add(tt_real(tt_mul(tt_to_dtype(a, TT_C128), tt_to_dtype(a, TT_C128))),
                  tt_imag(tt_to_dtype(a, TT_C128))))
ONE(as_complex, tt_abs(tt_view_as_complex(tt_reshape(a, TT_SHAPE(3, 2)))))
ONE(as_real, tt_view_as_real(tt_exp(tt_view_as_complex(tt_reshape(a, TT_SHAPE(3, 2))))))
ONE(complex_chain,
    tt_view_as_real(tt_div(tt_conj(tt_view_as_complex(tt_reshape(a, TT_SHAPE(3, 2)))),
                           tt_sqrt(tt_log(tt_view_as_complex(tt_reshape(a, TT_SHAPE(3, 2))))))))

static const grad_case cases[] = {
    { "add", add, 2, 0, 0 },
    { "sub", sub, 2, 0, 0 },
    { "mul", mul, 2, 0, 0 },
    { "div", divide, 2, 0, 0 },
    { "add_scaled", add_scaled, 2, 0, 0 },
    { "fmod", fmodulo, 2, 0, 0 },
    { "remainder", modulo, 2, 0, 0 },
    { "pow", power, 2, 1, 0 },
    { "maximum", maximum, 2, 0, 0 },
    { "minimum", minimum, 2, 0, 0 },
    { "atan2", angle, 2, 0, 0 },
    { "lerp", lerp, 2, 0, 0 },
    { "addcmul", addcmul, 3, 0, 0 },
    { "addcdiv", addcdiv, 3, 0, 0 },
    { "clamp_tensor", clamp_both, 3, 0, 0 },
    { "clamp_low", clamp_low, 2, 0, 0 },
    { "clamp_high", clamp_high, 2, 0, 0 },
    { "where", where, 2, 0, 0 },
    { "add_scalar", add_number, 1, 0, 0 },
    { "sub_scalar", sub_number, 1, 0, 0 },
    { "rsub_scalar", rsub_number, 1, 0, 0 },
    { "mul_scalar", mul_number, 1, 0, 0 },
    { "div_scalar", div_number, 1, 0, 0 },
    { "rdiv_scalar", rdiv_number, 1, 0, 0 },
    { "pow_3", pow_3, 1, 0, 0 },
    { "pow_2", pow_2, 1, 0, 0 },
    { "pow_half", pow_half, 1, 1, 0 },
    { "pow_0", pow_0, 1, 0, 0 },
    { "pow_fraction", pow_fraction, 1, 1, 0 },
    { "rpow", rpow, 1, 0, 0 },
    { "neg", neg, 1, 0, 0 },
    { "abs", absolute, 1, 0, 0 },
    { "square", square, 1, 0, 0 },
    { "reciprocal", reciprocal, 1, 0, 0 },
    { "exp", exponential, 1, 0, 0 },
    { "expm1", expm1_, 1, 0, 0 },
    { "log", log_, 1, 1, 0 },
    { "log1p", log1p_, 1, 1, 0 },
    { "log2", log2_, 1, 1, 0 },
    { "log10", log10_, 1, 1, 0 },
    { "sqrt", sqrt_, 1, 1, 0 },
    { "rsqrt", rsqrt_, 1, 1, 0 },
    { "sin", sin_, 1, 0, 0 },
    { "cos", cos_, 1, 0, 0 },
    { "tanh", tanh_, 1, 0, 0 },
    { "sigmoid", sigmoid, 1, 0, 0 },
    { "erf", erf_, 1, 0, 0 },
    { "floor", floor_, 1, 0, 0 },
    { "clamp", clamp, 1, 0, 0 },
    { "nan_to_num", nan_to_num, 1, 0, 0 },
    { "masked_fill", masked, 1, 0, 0 },
    { "relu", relu, 1, 0, 0 },
    { "gelu", gelu, 1, 0, 0 },
    { "gelu_tanh", gelu_tanh, 1, 0, 0 },
    { "silu", silu, 1, 0, 0 },
    { "elu", elu, 1, 0, 0 },
    { "celu", celu, 1, 0, 0 },
    { "leaky_relu", leaky_relu, 1, 0, 0 },
    { "softplus", softplus, 1, 0, 0 },
    { "hardtanh", hardtanh, 1, 0, 0 },
    { "clone", clone, 1, 0, 0 },
    { "contiguous", contiguous, 1, 0, 0 },
    { "to_dtype", to_float, 1, 0, 0 },
    { "complex_parts", parts, 1, 0, 0 },
    { "complex_abs", as_complex, 1, 0, 0 },
    { "complex_exp", as_real, 1, 0, 0 },
    { "complex_chain", complex_chain, 1, 1, 0 },
};

static void run_case(void *ctx)
{
    const grad_case *k = ctx;

    TT_SCOPE {
        tt_tensor *in[3] = { leaf(k->positive ? positive : as, TT_SHAPE(2, 3)),
                             leaf(bs, TT_SHAPE(2, 3)), leaf(cs, TT_SHAPE(2, 3)) };

        TT_CHECK_GRADIENTS(k->fn, in, k->n, !k->once);
    }
}

TT_TEST_TABLE(pointwise_gradients)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tt_test_add("pointwise_gradients", cases[i].name, run_case, (void *)&cases[i])->together =
            true;
}

TT_TEST(pointwise_gradients, sums_over_broadcast_dimensions)
{
    TT_SCOPE {
        tt_tensor *in[3] = { leaf(as, TT_SHAPE(2, 1)), leaf(bs, TT_SHAPE(3)),
                             leaf(cs, TT_SHAPE(2, 3)) };

        TT_CHECK_GRADIENTS(mul, in, 2, true);
        TT_CHECK_GRADIENTS(addcdiv, in, 3, true);
        TT_CHECK_GRADIENTS(where, in, 2, true);
    }
}

/* The derivative by the divisor is minus the whole quotient that belongs to the remainder, also where a / b is rounded
 * up to a whole number. */
TT_TEST(pointwise_gradients, remainders_use_the_quotient_that_fits)
{
    const struct {
        tt_tensor *(*fn)(tt_tensor *a, tt_tensor *b);
        tt_dtype dtype;
        double a, b, quotient;
    } rows[] = {
        { tt_remainder, TT_F32, 1.0, 0.1, 9.0 },
        { tt_remainder, TT_F32, -1.0, 0.1, -10.0 },
        { tt_remainder, TT_F64, 1.0, 0.1, 9.0 },
        { tt_remainder, TT_F32, 7.0, -2.0, -4.0 },
        { tt_remainder, TT_BF16, 2.0, 0.2, 9.0 },
        { tt_remainder, TT_F16, 5.996, 3.0, 1.0 },
        { tt_fmod, TT_F32, 1.0, 0.1, 9.0 },
        { tt_fmod, TT_F32, -1.0, 0.1, -9.0 },
        { tt_fmod, TT_F64, -7.0, 2.0, -3.0 },
        { tt_fmod, TT_BF16, 1.9921875, 0.10009765625, 19.0 },
        { tt_fmod, TT_F16, 5.996, 0.59960937, 10.0 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        TT_SCOPE {
            tt_tensor *a = tt_full(TT_SHAPE(1), rows[i].a, rows[i].dtype, TT_CPU);
            tt_tensor *b = tt_full(TT_SHAPE(1), rows[i].b, rows[i].dtype, TT_CPU);

            TT_REQUIRE_NOT_NULL(tt_require_grad(a));
            TT_REQUIRE_NOT_NULL(tt_require_grad(b));
            TT_CHECK_OK(tt_backward(tt_sum(rows[i].fn(a, b))));
            TT_CHECK_VALUES(tt_grad_of(a), 1);
            if (!TT_CHECK_VALUES(tt_grad_of(b), -rows[i].quotient))
                printf("row %zu\n", i);
        }
}
