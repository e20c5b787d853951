/* SPDX-License-Identifier: Apache-2.0 */
/* Golden operators that work element by element: arithmetic, functions, comparisons, activations. */
#include <math.h>
#include <string.h>

#include "golden/golden.h"

static void add(golden_call *c)
{
    if (golden_has(c, "alpha"))
        c->out[0] = tt_add_scaled(c->in[0], c->in[1], golden_real(c, "alpha", 1));
    else
        c->out[0] = tt_add(c->in[0], c->in[1]);
}

static void sub(golden_call *c)
{
    if (golden_has(c, "alpha"))
        c->out[0] = tt_add_scaled(c->in[0], c->in[1], -golden_real(c, "alpha", 1));
    else
        c->out[0] = tt_sub(c->in[0], c->in[1]);
}

static void clamp(golden_call *c)
{
    bool lo = golden_has(c, "min"), hi = golden_has(c, "max");

    if ((!lo || golden_is_plain(c, "min", c->in[0])) &&
        (!hi || golden_is_plain(c, "max", c->in[0])))
        c->out[0] =
            tt_clamp(c->in[0], golden_real(c, "min", -INFINITY), golden_real(c, "max", INFINITY));
    else
        c->out[0] = tt_clamp_tensor(c->in[0], golden_number(c, "min"), golden_number(c, "max"));
}

static void clamp_tensor(golden_call *c)
{
    c->out[0] = tt_clamp_tensor(c->in[0], c->in[1], c->in[2]);
}

static void lerp(golden_call *c)
{
    c->out[0] = tt_lerp(c->in[0], c->in[1], golden_real(c, "weight", 0));
}

static void lerp_tensor(golden_call *c)
{
    c->out[0] = tt_add(c->in[0], tt_mul(c->in[2], tt_sub(c->in[1], c->in[0])));
}

static void addcmul(golden_call *c)
{
    c->out[0] = tt_addcmul(c->in[0], c->in[1], c->in[2], golden_real(c, "value", 1));
}

static void addcdiv(golden_call *c)
{
    c->out[0] = tt_addcdiv(c->in[0], c->in[1], c->in[2], golden_real(c, "value", 1));
}

static void where(golden_call *c)
{
    c->out[0] = tt_where(c->in[0], c->in[1], c->in[2]);
}

static void to(golden_call *c)
{
    c->out[0] = tt_to_dtype(c->in[0], golden_dtype(golden_word(c, "dtype", "float32")));
}

/* ---- activations ------------------------------------------------------------------------- */

static void gelu(golden_call *c)
{
    bool tanh_form = strcmp(golden_word(c, "approximate", "none"), "tanh") == 0;

    c->out[0] = tanh_form ? tt_gelu_tanh(c->in[0]) : tt_gelu(c->in[0]);
}

static void celu(golden_call *c)
{
    c->out[0] = tt_celu(c->in[0], golden_real(c, "alpha", 1));
}

static void elu(golden_call *c)
{
    c->out[0] = tt_elu(c->in[0], golden_real(c, "alpha", 1));
}

static void leaky_relu(golden_call *c)
{
    c->out[0] = tt_leaky_relu(c->in[0], golden_real(c, "slope", 0.01));
}

static void softplus(golden_call *c)
{
    c->out[0] = tt_softplus(c->in[0], golden_real(c, "beta", 1), golden_real(c, "threshold", 20));
}

static void hardtanh(golden_call *c)
{
    c->out[0] = tt_hardtanh(c->in[0], golden_real(c, "min", -1), golden_real(c, "max", 1));
}

/* x in the type that the attribute asks for, if it does */
static tt_tensor *in_dtype(const golden_call *c)
{
    const char *name = golden_word(c, "dtype", NULL);

    return name != NULL ? tt_to_dtype(c->in[0], golden_dtype(name)) : c->in[0];
}

static void softmax(golden_call *c)
{
    c->out[0] = tt_softmax(in_dtype(c), (int)golden_int(c, "dim", -1));
}

static void log_softmax(golden_call *c)
{
    c->out[0] = tt_log_softmax(in_dtype(c), (int)golden_int(c, "dim", -1));
}

const golden_op golden_ops_pointwise[] = {
    { "add", .run = add },
    { "sub", .run = sub },
    { "mul", .binary = tt_mul },
    { "div", .binary = tt_div },
    { "fmod", .binary = tt_fmod },
    { "remainder", .binary = tt_remainder },
    { "pow", .binary = tt_pow },
    { "maximum", .binary = tt_maximum },
    { "minimum", .binary = tt_minimum },
    { "add_scalar", .scalar = tt_add_scalar, .binary = tt_add, .number_right = true },
    { "sub_scalar", .scalar = tt_sub_scalar, .binary = tt_sub, .number_right = true },
    { "rsub_scalar", .scalar = tt_rsub_scalar, .binary = tt_sub, .number_left = true },
    { "mul_scalar", .scalar = tt_mul_scalar, .binary = tt_mul, .number_right = true },
    { "div_scalar", .scalar = tt_div_scalar, .binary = tt_div, .number_right = true },
    { "fmod_scalar", .binary = tt_fmod, .number_right = true },
    { "remainder_scalar", .binary = tt_remainder, .number_right = true },
    { "pow_scalar", .scalar = tt_pow_scalar, .binary = tt_pow, .number_right = true },
    { "scalar_pow", .scalar = tt_rpow_scalar, .binary = tt_pow, .number_left = true },
    { "lerp", .run = lerp },
    { "lerp_tensor", .run = lerp_tensor },
    { "addcmul", .run = addcmul },
    { "addcdiv", .run = addcdiv },
    { "clamp", .run = clamp },
    { "clamp_tensor", .run = clamp_tensor },
    { "where", .run = where },
    { "to", .run = to },

    { "eq", .binary = tt_eq },
    { "ne", .binary = tt_ne },
    { "lt", .binary = tt_lt },
    { "le", .binary = tt_le },
    { "gt", .binary = tt_gt },
    { "ge", .binary = tt_ge },
    { "eq_scalar", .scalar = tt_eq_scalar, .binary = tt_eq, .number_right = true },
    { "lt_scalar", .scalar = tt_lt_scalar, .binary = tt_lt, .number_right = true },
    { "ge_scalar", .scalar = tt_ge_scalar, .binary = tt_ge, .number_right = true },
    { "logical_and", .binary = tt_logical_and },
    { "logical_or", .binary = tt_logical_or },
    { "logical_xor", .binary = tt_logical_xor },
    { "logical_not", .unary = tt_logical_not },
    { "bitwise_and", .binary = tt_bitwise_and },
    { "bitwise_or", .binary = tt_bitwise_or },
    { "bitwise_xor", .binary = tt_bitwise_xor },
    { "bitwise_not", .unary = tt_bitwise_not },
    { "isnan", .unary = tt_isnan },
    { "isinf", .unary = tt_isinf },
    { "isfinite", .unary = tt_isfinite },

    { "neg", .unary = tt_neg },
    { "abs", .unary = tt_abs },
    { "exp", .unary = tt_exp },
    { "expm1", .unary = tt_expm1 },
    { "log", .unary = tt_log },
    { "log1p", .unary = tt_log1p },
    { "log2", .unary = tt_log2 },
    { "log10", .unary = tt_log10 },
    { "sqrt", .unary = tt_sqrt },
    { "rsqrt", .unary = tt_rsqrt },
    { "tanh", .unary = tt_tanh },
    { "sigmoid", .unary = tt_sigmoid },
    { "sin", .unary = tt_sin },
    { "cos", .unary = tt_cos },
    { "reciprocal", .unary = tt_reciprocal },
    { "square", .unary = tt_square },
    { "erf", .unary = tt_erf },
    { "sign", .unary = tt_sign },
    { "floor", .unary = tt_floor },
    { "ceil", .unary = tt_ceil },
    { "round", .unary = tt_round },
    { "trunc", .unary = tt_trunc },

    { "relu", .unary = tt_relu },
    { "silu", .unary = tt_silu },
    { "gelu", .run = gelu },
    { "celu", .run = celu },
    { "elu", .run = elu },
    { "leaky_relu", .run = leaky_relu },
    { "softplus", .run = softplus },
    { "hardtanh", .run = hardtanh },
    { "softmax", .run = softmax },
    { "log_softmax", .run = log_softmax },
    { NULL },
};
