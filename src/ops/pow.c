/* SPDX-License-Identifier: Apache-2.0 */
/* Powers of tensors and numbers. */
#include "ops/elementwise.h"

#include <math.h>

/* b a^(b - 1), and 0 where b is 0 whatever a is */
static tt_tensor *base_slope(tt_tensor *a, tt_tensor *b)
{
    tt_tensor *slope = tt_mul(b, tt_pow(a, tt_add_scalar(b, -1.0)));

    return tt_masked_fill(slope, tt_eq_scalar(b, 0.0), 0.0);
}

/* a^b log(a), and 0 where a is 0 and b is not negative */
static tt_tensor *exponent_slope(tt_tensor *a, tt_tensor *b, tt_tensor *y)
{
    tt_tensor *slope = tt_mul(y, tt_log(a));
    tt_tensor *flat = tt_eq_scalar(a, 0.0);

    if (b == NULL || !tt_dtype_is_complex((tt_dtype)b->dtype))
        flat = tt_logical_and(flat, tt_ge_scalar(b, 0.0));
    return tt_masked_fill(slope, flat, 0.0);
}

static tt_status pow_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *a = tti_saved_get(n, 0), *b = tti_saved_get(n, 1);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tt_mul(g[0], tt_conj(base_slope(a, b)))));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], tt_mul(g[0], tt_conj(exponent_slope(a, b, tti_saved_get(n, 2))))));
    return TT_OK;
}

static tt_status pow_scalar_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    double s = tti_attr(n, 0);
    tt_tensor *x = tti_saved_get(n, 0);

    if (s == 0)
        return tti_give(&out[0], tt_zeros_like(g[0]));
    return tti_give(&out[0], tt_mul(g[0], tt_conj(tt_mul_scalar(tt_pow_scalar(x, s - 1.0), s))));
}

/* y = s^x: dy = y log(s), and 0 for s = 0 where x is not negative */
static tt_status rpow_scalar_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    double s = tti_attr(n, 0);
    tt_tensor *slope = tt_mul_scalar(tti_saved_get(n, 2), log(s));

    if (s == 0)
        slope = tt_masked_fill(slope, tt_ge_scalar(tti_saved_get(n, 0), 0.0), 0.0);
    return tti_give(&out[0], tt_mul(g[0], tt_conj(slope)));
}

static const tti_elementwise op_pow = {
    { "pow", pow_backward, 0 }, TTI_POW, TTI_PROMOTE, TTI_SAVE_A | TTI_SAVE_B | TTI_SAVE_OUT_FOR_B
};
static const tti_op op_pow_scalar = { "pow_scalar", pow_scalar_backward, 0 };
static const tti_elementwise op_rpow = {
    { "rpow_scalar", rpow_scalar_backward, 0 }, TTI_RPOW_S, TTI_PROMOTE, TTI_SAVE_A | TTI_SAVE_OUT
};

/* Of two bools only a number may be the exponent: a to the 1 is a, a to the 0 is 1. */
tt_tensor *tt_pow(tt_tensor *a, tt_tensor *b)
{
    bool flags = a != NULL && b != NULL && tti_result_type(a, b) == TT_BOOL;

    TTI_AUTOCAST(TTI_WIDE, &a, &b);
    if (flags && (b->flags & TTI_NUMBER) != 0)
        return tt_logical_or(a, tt_logical_not(b));
    if (flags)
        return TT_FAIL_NULL(TT_ERR_INVALID, "pow: expected numbers, got bool");
    return tti_apply2(&op_pow, a, b, NULL, 0);
}

/* Kernels for the exponents that have their own. */
static tti_unary_op pow_kernel(tt_dtype d, double s)
{
    if (s == 2.0)
        return TTI_SQUARE;
    if (!tt_dtype_is_floating(d))
        return TTI_POW_S;
    return s == 0.5 ? TTI_SQRT : s == -0.5 ? TTI_RSQRT : s == -1.0 ? TTI_RECIPROCAL : TTI_POW_S;
}

tt_tensor *tt_pow_scalar(tt_tensor *a, double s)
{
    double p[2] = { s, 0 };
    tti_call c = { .op = &op_pow_scalar, .n_in = 1, .attrs = p, .attrs_bytes = sizeof p };
    tt_tensor *y;

    TTI_AUTOCAST(TTI_WIDE, &a);
    if (a != NULL && !tt_dtype_is_floating((tt_dtype)a->dtype)) {
        tt_dtype d = tti_scalar_type(a, s);

        if (tt_dtype_is_integral(d) && s < 0)
            return TT_FAIL_NULL(TT_ERR_INVALID,
                                "pow_scalar: integers cannot be raised to the negative power %g",
                                s);
        a = tti_cast(a, d);
    }
    c.in = &a;
    if (!tti_call_begin(&c))
        return NULL;
    y = tti_empty_like(a, (tt_dtype)a->dtype);
    if (c.wants_grad)
        tti_call_save(&c, a);
    return tti_call_end(&c, y, tti_unary(pow_kernel((tt_dtype)a->dtype, s), y, a, p));
}

tt_tensor *tt_rpow_scalar(tt_tensor *a, double s)
{
    double p[2] = { s, 0 };

    TTI_AUTOCAST(TTI_WIDE, &a);
    if (a != NULL && !tt_dtype_is_floating((tt_dtype)a->dtype))
        a = tti_cast(a, tti_scalar_type(a, s));
    return tti_apply1(&op_rpow, a, p, 2);
}
