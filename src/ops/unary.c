/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one operand and their derivatives. */
#include "ops/elementwise.h"
#include "ops/sparse.h"

#include <math.h>

static tt_status neg_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_neg(g[0]));
}

/* The direction of x: its sign, or x / |x| when it is complex; 0 at 0. */
static tt_status abs_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x = tti_saved_get(n, 0), *size;

    if (x == NULL || !tt_dtype_is_complex((tt_dtype)x->dtype))
        return tti_give(&out[0], tt_mul(g[0], tt_sign(x)));
    size = tt_abs(x);
    return tti_give(&out[0],
                    tt_masked_fill(tt_mul(g[0], tt_div(x, size)), tt_eq_scalar(size, 0.0), 0.0));
}

/* Steps: constant between the places where they have no derivative. */
static tt_status step_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_zeros_like(g[0]));
}

/* What turns x moves its direction; what stretches it does not. 0 at 0. */
static tt_status sgn_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x = tti_saved_get(n, 0), *y = tti_saved_get(n, 2), *size, *along;

    size = tt_abs(x);
    along = tt_mul(y, tt_real(tt_mul(g[0], tt_conj(y))));
    return tti_give(
        &out[0], tt_masked_fill(tt_div(tt_sub(g[0], along), size), tt_eq_scalar(size, 0.0), 0.0));
}

static tt_status square_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_mul(g[0], tt_mul_scalar(tt_conj(tti_saved_get(n, 0)), 2.0)));
}

static tt_status reciprocal_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *y = tti_saved_get(n, 2);

    return tti_give(&out[0], tt_neg(tt_mul(g[0], tt_conj(tt_mul(y, y)))));
}

static tt_status exp_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_mul(g[0], tt_conj(tti_saved_get(n, 2))));
}

static tt_status expm1_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_mul(g[0], tt_add_scalar(tt_conj(tti_saved_get(n, 2)), 1.0)));
}

static tt_status log_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_div(g[0], tt_conj(tti_saved_get(n, 0))));
}

static tt_status log1p_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_div(g[0], tt_add_scalar(tt_conj(tti_saved_get(n, 0)), 1.0)));
}

static tt_status log2_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_div(g[0], tt_mul_scalar(tt_conj(tti_saved_get(n, 0)), M_LN2)));
}

static tt_status log10_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_div(g[0], tt_mul_scalar(tt_conj(tti_saved_get(n, 0)), M_LN10)));
}

static tt_status sqrt_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_div(g[0], tt_mul_scalar(tt_conj(tti_saved_get(n, 2)), 2.0)));
}

static tt_status rsqrt_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *y = tti_saved_get(n, 2);
    tt_tensor *cube = tt_conj(tt_mul(tt_mul(y, y), y));

    return tti_give(&out[0], tt_mul(g[0], tt_mul_scalar(cube, -0.5)));
}

static tt_status sin_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_mul(g[0], tt_conj(tt_cos(tti_saved_get(n, 0)))));
}

static tt_status cos_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_neg(tt_mul(g[0], tt_conj(tt_sin(tti_saved_get(n, 0))))));
}

static tt_status erf_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x = tti_saved_get(n, 0);
    tt_tensor *slope = tt_mul_scalar(tt_exp(tt_neg(tt_square(x))), M_2_SQRTPI);

    return tti_give(&out[0], tt_mul(g[0], slope));
}

static const tti_elementwise op_neg = { { "neg", neg_backward, 0 }, TTI_NEG, TTI_NO_BOOL, 0 };
static const tti_elementwise op_abs = {
    { "abs", abs_backward, 0 }, TTI_ABS, TTI_NO_BOOL, TTI_SAVE_A
};
static const tti_elementwise op_sign = { { "sign", step_backward, 0 }, TTI_SIGN, TTI_PROMOTE, 0 };
static const tti_elementwise op_sgn = {
    { "sgn", sgn_backward, 0 }, TTI_SIGN, TTI_PROMOTE, TTI_SAVE_A | TTI_SAVE_OUT
};
static const tti_elementwise op_square = {
    { "square", square_backward, 0 }, TTI_SQUARE, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_reciprocal = {
    { "reciprocal", reciprocal_backward, TTI_OP_WIDE }, TTI_RECIPROCAL, TTI_TO_FLOAT, TTI_SAVE_OUT
};
static const tti_elementwise op_exp = {
    { "exp", exp_backward, TTI_OP_WIDE }, TTI_EXP, TTI_TO_FLOAT, TTI_SAVE_OUT
};
static const tti_elementwise op_expm1 = {
    { "expm1", expm1_backward, TTI_OP_WIDE }, TTI_EXPM1, TTI_TO_FLOAT, TTI_SAVE_OUT
};
static const tti_elementwise op_log = {
    { "log", log_backward, TTI_OP_WIDE }, TTI_LOG, TTI_TO_FLOAT, TTI_SAVE_A
};
static const tti_elementwise op_log1p = {
    { "log1p", log1p_backward, TTI_OP_WIDE }, TTI_LOG1P, TTI_TO_FLOAT, TTI_SAVE_A
};
static const tti_elementwise op_log2 = {
    { "log2", log2_backward, TTI_OP_WIDE }, TTI_LOG2, TTI_TO_FLOAT, TTI_SAVE_A
};
static const tti_elementwise op_log10 = {
    { "log10", log10_backward, TTI_OP_WIDE }, TTI_LOG10, TTI_TO_FLOAT, TTI_SAVE_A
};
static const tti_elementwise op_sqrt = {
    { "sqrt", sqrt_backward, 0 }, TTI_SQRT, TTI_TO_FLOAT, TTI_SAVE_OUT
};
static const tti_elementwise op_rsqrt = {
    { "rsqrt", rsqrt_backward, TTI_OP_WIDE }, TTI_RSQRT, TTI_TO_FLOAT, TTI_SAVE_OUT
};
static const tti_elementwise op_sin = {
    { "sin", sin_backward, 0 }, TTI_SIN, TTI_TO_FLOAT, TTI_SAVE_A
};
static const tti_elementwise op_cos = {
    { "cos", cos_backward, 0 }, TTI_COS, TTI_TO_FLOAT, TTI_SAVE_A
};
static const tti_elementwise op_erf = {
    { "erf", erf_backward, 0 }, TTI_ERF, TTI_TO_FLOAT, TTI_SAVE_A
};
static const tti_elementwise op_floor = {
    { "floor", step_backward, 0 }, TTI_FLOOR, TTI_PROMOTE, 0
};
static const tti_elementwise op_ceil = { { "ceil", step_backward, 0 }, TTI_CEIL, TTI_PROMOTE, 0 };
static const tti_elementwise op_round = {
    { "round", step_backward, 0 }, TTI_ROUND, TTI_PROMOTE, 0
};
static const tti_elementwise op_trunc = {
    { "trunc", step_backward, 0 }, TTI_TRUNC, TTI_PROMOTE, 0
};

tt_tensor *tt_neg(tt_tensor *x)
{
    if (tt_unlikely(tti_is_sparse(x)))
        return tti_sparse_with(x, tt_neg(tt_sparse_values(x)));
    return tti_apply1(&op_neg, x, NULL, 0);
}

tt_tensor *tt_abs(tt_tensor *x)
{
    return tti_apply1(&op_abs, x, NULL, 0);
}

tt_tensor *tt_sign(tt_tensor *x)
{
    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return TT_FAIL_NULL(TT_ERR_INVALID, "sign: expected real numbers, got %s: use tt_sgn",
                            tt_dtype_name((tt_dtype)x->dtype));
    return tti_apply1(&op_sign, x, NULL, 0);
}

tt_tensor *tt_sgn(tt_tensor *x)
{
    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return tti_apply1(&op_sgn, x, NULL, 0);
    return tt_sign(x);
}

tt_tensor *tt_square(tt_tensor *x)
{
    if (x != NULL && x->dtype == TT_BOOL)
        x = tti_cast(x, TT_I64);
    return tti_apply1(&op_square, x, NULL, 0);
}

tt_tensor *tt_reciprocal(tt_tensor *x)
{
    return tti_apply1(&op_reciprocal, x, NULL, 0);
}

tt_tensor *tt_exp(tt_tensor *x)
{
    return tti_apply1(&op_exp, x, NULL, 0);
}

tt_tensor *tt_expm1(tt_tensor *x)
{
    return tti_apply1(&op_expm1, x, NULL, 0);
}

tt_tensor *tt_log(tt_tensor *x)
{
    return tti_apply1(&op_log, x, NULL, 0);
}

tt_tensor *tt_log1p(tt_tensor *x)
{
    return tti_apply1(&op_log1p, x, NULL, 0);
}

tt_tensor *tt_log2(tt_tensor *x)
{
    return tti_apply1(&op_log2, x, NULL, 0);
}

tt_tensor *tt_log10(tt_tensor *x)
{
    return tti_apply1(&op_log10, x, NULL, 0);
}

tt_tensor *tt_sqrt(tt_tensor *x)
{
    return tti_apply1(&op_sqrt, x, NULL, 0);
}

tt_tensor *tt_rsqrt(tt_tensor *x)
{
    return tti_apply1(&op_rsqrt, x, NULL, 0);
}

tt_tensor *tt_sin(tt_tensor *x)
{
    return tti_apply1(&op_sin, x, NULL, 0);
}

tt_tensor *tt_cos(tt_tensor *x)
{
    return tti_apply1(&op_cos, x, NULL, 0);
}

tt_tensor *tt_erf(tt_tensor *x)
{
    return tti_apply1(&op_erf, x, NULL, 0);
}

/* Integers are their own rounding. */
static bool is_whole(const tt_tensor *x)
{
    return x != NULL && tt_dtype_is_integral((tt_dtype)x->dtype);
}

tt_tensor *tt_floor(tt_tensor *x)
{
    return is_whole(x) ? tt_clone(x) : tti_apply1(&op_floor, x, NULL, 0);
}

tt_tensor *tt_ceil(tt_tensor *x)
{
    return is_whole(x) ? tt_clone(x) : tti_apply1(&op_ceil, x, NULL, 0);
}

tt_tensor *tt_round(tt_tensor *x)
{
    return is_whole(x) ? tt_clone(x) : tti_apply1(&op_round, x, NULL, 0);
}

tt_tensor *tt_trunc(tt_tensor *x)
{
    return is_whole(x) ? tt_clone(x) : tti_apply1(&op_trunc, x, NULL, 0);
}

tt_tensor *tt_sqrt_(tt_tensor *x)
{
    return tti_apply1_(&op_sqrt, x, NULL, 0);
}

tt_tensor *tt_exp_(tt_tensor *x)
{
    return tti_apply1_(&op_exp, x, NULL, 0);
}

tt_tensor *tt_neg_(tt_tensor *x)
{
    return tti_apply1_(&op_neg, x, NULL, 0);
}
