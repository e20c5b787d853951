/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: operators with one operand. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *neg_row(tt_tensor *const *in)
{
    return tt_neg(in[0]);
}

static tt_tensor *abs_row(tt_tensor *const *in)
{
    return tt_abs(in[0]);
}

static tt_tensor *sign_row(tt_tensor *const *in)
{
    return tt_sign(in[0]);
}

static tt_tensor *sgn_row(tt_tensor *const *in)
{
    return tt_sgn(in[0]);
}

static tt_tensor *square_row(tt_tensor *const *in)
{
    return tt_square(in[0]);
}

static tt_tensor *exp_row(tt_tensor *const *in)
{
    return tt_exp(in[0]);
}

static tt_tensor *expm1_row(tt_tensor *const *in)
{
    return tt_expm1(in[0]);
}

static tt_tensor *sin_row(tt_tensor *const *in)
{
    return tt_sin(in[0]);
}

static tt_tensor *cos_row(tt_tensor *const *in)
{
    return tt_cos(in[0]);
}

static tt_tensor *tanh_row(tt_tensor *const *in)
{
    return tt_tanh(in[0]);
}

static tt_tensor *sigmoid_row(tt_tensor *const *in)
{
    return tt_sigmoid(in[0]);
}

static tt_tensor *erf_row(tt_tensor *const *in)
{
    return tt_erf(in[0]);
}

static tt_tensor *floor_row(tt_tensor *const *in)
{
    return tt_floor(in[0]);
}

static tt_tensor *ceil_row(tt_tensor *const *in)
{
    return tt_ceil(in[0]);
}

static tt_tensor *round_row(tt_tensor *const *in)
{
    return tt_round(in[0]);
}

static tt_tensor *trunc_row(tt_tensor *const *in)
{
    return tt_trunc(in[0]);
}

static tt_tensor *reciprocal_row(tt_tensor *const *in)
{
    return tt_reciprocal(in[0]);
}

static tt_tensor *log_row(tt_tensor *const *in)
{
    return tt_log(in[0]);
}

static tt_tensor *log1p_row(tt_tensor *const *in)
{
    return tt_log1p(in[0]);
}

static tt_tensor *log2_row(tt_tensor *const *in)
{
    return tt_log2(in[0]);
}

static tt_tensor *log10_row(tt_tensor *const *in)
{
    return tt_log10(in[0]);
}

static tt_tensor *sqrt_row(tt_tensor *const *in)
{
    return tt_sqrt(in[0]);
}

static tt_tensor *rsqrt_row(tt_tensor *const *in)
{
    return tt_rsqrt(in[0]);
}

static tt_tensor *clamp_row(tt_tensor *const *in)
{
    return tt_clamp(in[0], -0.5, 0.5);
}

static tt_tensor *clamp_tensor_row(tt_tensor *const *in)
{
    return tt_clamp_tensor(in[0], in[1], in[2]);
}

static tt_tensor *nan_to_num_row(tt_tensor *const *in)
{
    return tt_nan_to_num(in[0], 0, 1, -1);
}

static tt_tensor *clamp__row(tt_tensor *const *in)
{
    return tt_clamp_(in[0], -0.5, 0.5);
}

static tt_tensor *sqrt__row(tt_tensor *const *in)
{
    return tt_sqrt_(in[0]);
}

static tt_tensor *exp__row(tt_tensor *const *in)
{
    return tt_exp_(in[0]);
}

static tt_tensor *neg__row(tt_tensor *const *in)
{
    return tt_neg_(in[0]);
}

static tt_tensor *isnan_row(tt_tensor *const *in)
{
    return tt_isnan(in[0]);
}

static tt_tensor *isinf_row(tt_tensor *const *in)
{
    return tt_isinf(in[0]);
}

static tt_tensor *isfinite_row(tt_tensor *const *in)
{
    return tt_isfinite(in[0]);
}

static const conform_row rows[] = {
    { "neg", neg_row, "fNx4", 0, 0 },
    { "abs", abs_row, "fNx4", 0, 0 },
    { "sign", sign_row, "fNx4", CONFORM_FIRST_ORDER, 0 },
    { "sgn", sgn_row, "fNx4", CONFORM_FIRST_ORDER, 0 },
    { "sgn.complex", sgn_row, "cNx4", 0, 0 },
    { "square", square_row, "fNx4", 0, 0 },
    { "exp", exp_row, "fNx4", 0, 0 },
    { "expm1", expm1_row, "fNx4", 0, 0 },
    { "expm1.complex", expm1_row, "cNx4", 0, 0 },
    { "sin", sin_row, "fNx4", 0, 0 },
    { "cos", cos_row, "fNx4", 0, 0 },
    { "tanh", tanh_row, "fNx4", 0, 0 },
    { "sigmoid", sigmoid_row, "fNx4", 0, 0 },
    { "erf", erf_row, "fNx4", 0, 0 },
    { "floor", floor_row, "fNx4", CONFORM_FIRST_ORDER, 0 },
    { "ceil", ceil_row, "fNx4", CONFORM_FIRST_ORDER, 0 },
    { "round", round_row, "fNx4", CONFORM_FIRST_ORDER, 0 },
    { "trunc", trunc_row, "fNx4", CONFORM_FIRST_ORDER, 0 },
    { "reciprocal", reciprocal_row, "pNx4", 0, 0 },
    { "log", log_row, "pNx4", 0, 0 },
    { "log1p", log1p_row, "pNx4", 0, 0 },
    { "log1p.complex", log1p_row, "cNx4", 0, 0 },
    { "log2", log2_row, "pNx4", 0, 0 },
    { "log2.complex", log2_row, "cNx4", 0, 0 },
    { "log10", log10_row, "pNx4", 0, 0 },
    { "log10.complex", log10_row, "cNx4", 0, 0 },
    { "sqrt", sqrt_row, "pNx4", 0, 0 },
    { "rsqrt", rsqrt_row, "pNx4", 0, 0 },
    { "clamp", clamp_row, "fNx4", 0, 0 },
    { "clamp_tensor", clamp_tensor_row, "fNx4 fNx4? pNx4?", 0, 0 },
    { "nan_to_num", nan_to_num_row, "fNx4", 0, 0 },
    { "clamp_", clamp__row, "fNx4", CONFORM_INPLACE, 0 },
    { "sqrt_", sqrt__row, "pNx4", CONFORM_INPLACE, 0 },
    { "exp_", exp__row, "fNx4", CONFORM_INPLACE, 0 },
    { "neg_", neg__row, "fNx4", CONFORM_INPLACE, 0 },
    { "isnan", isnan_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "isinf", isinf_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "isfinite", isfinite_row, "fNx4", CONFORM_NO_GRAD, 0 },
};

TT_TEST_TABLE(conformance_unary)
{
    conform_add("unary", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
