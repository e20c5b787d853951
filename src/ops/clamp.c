/* SPDX-License-Identifier: Apache-2.0 */
/* Limiting values: between numbers, between tensors, and away from NaN and infinity. Elements on a
 * number pass no gradient; one on the bound of a tensor shares it with the bound. */
#include "base/error.h"
#include "ops/activation.h"

#include <float.h>
#include <math.h>

static tt_status clamp_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tti_clamp_grad(g[0], tti_saved_get(n, 0), tti_attrs(n)));
}

static tt_status nan_to_num_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *replaced = tt_logical_not(tt_isfinite(tti_saved_get(n, 0)));

    return tti_give(&out[0], tt_masked_fill(g[0], replaced, 0.0));
}

static const tti_elementwise op_clamp = {
    { "clamp", clamp_backward, 0 }, TTI_CLAMP, TTI_NO_BOOL, TTI_SAVE_A
};
static const tti_elementwise op_nan_to_num = {
    { "nan_to_num", nan_to_num_backward, 0 }, TTI_NAN_TO_NUM, TTI_PROMOTE, TTI_SAVE_A
};

/* The type that holds both bounds; an infinite one is no bound. */
static tt_dtype bounded_type(const tt_tensor *x, double lo, double hi)
{
    tt_dtype d = isinf(lo) ? (tt_dtype)x->dtype : tti_scalar_type(x, lo);

    return isinf(hi) || tt_dtype_is_floating(d) ? d : tti_scalar_type(x, hi);
}

tt_tensor *tt_clamp(tt_tensor *x, double lo, double hi)
{
    double p[2] = { lo, hi };

    if (x != NULL && !tt_dtype_is_floating((tt_dtype)x->dtype))
        x = tti_cast(x, bounded_type(x, lo, hi));
    return tti_apply1(&op_clamp, x, p, 2);
}

tt_tensor *tt_clamp_(tt_tensor *x, double lo, double hi)
{
    double p[2] = { lo, hi };

    if (x != NULL &&
        tti_check_storable("clamp_", bounded_type(x, lo, hi), (tt_dtype)x->dtype) != TT_OK)
        return NULL;
    return tti_apply1_(&op_clamp, x, p, 2);
}

static double greatest(tt_dtype d)
{
    switch (d) {
    case TT_F16:
        return 65504.0;
    case TT_BF16:
        return 0x1.fep127;
    case TT_F32:
        return FLT_MAX;
    default:
        return DBL_MAX;
    }
}

/* A replacement that the type can hold: NaN asks for its limit, finite values stay finite. */
static double held(double v, double limit)
{
    if (isnan(v))
        return limit;
    if (isinf(v))
        return v;
    return fabs(v) > fabs(limit) ? copysign(limit, v) : v;
}

tt_tensor *tt_nan_to_num(tt_tensor *x, double nan, double posinf, double neginf)
{
    double most, p[3];

    if (x != NULL && !tt_dtype_is_floating((tt_dtype)x->dtype) &&
        !tt_dtype_is_complex((tt_dtype)x->dtype))
        return tt_clone(x);
    most = x != NULL ? greatest((tt_dtype)x->dtype) : 0;
    p[0] = nan;
    p[1] = held(posinf, most);
    p[2] = held(neginf, -most);
    return tti_apply1(&op_nan_to_num, x, p, 3);
}

/* ---- bounds that are tensors ------------------------------------------------------------------- */

static tt_tensor *only(tt_tensor *g, tt_tensor *mask)
{
    return tt_where(mask, g, tt_number(0.0));
}

/* g where the mask holds, half of it where x meets the bound. */
static tt_tensor *shared(tt_tensor *g, tt_tensor *mask, tt_tensor *tie)
{
    return tt_where(tie, tt_mul_scalar(g, 0.5), only(g, mask));
}

/* With one bound the operand x stays where it is not beyond it. A NaN passes the gradient to both. */
static tt_status one_bound_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out, int bound)
{
    tt_tensor *x = tti_saved_get(n, 0), *b = tti_saved_get(n, bound);
    tt_tensor *beyond = bound == 1 ? tt_lt(x, b) : tt_gt(x, b);
    tt_tensor *within = bound == 1 ? tt_gt(x, b) : tt_lt(x, b);
    tt_tensor *tie = tt_eq(x, b);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], shared(g[0], tt_logical_not(beyond), tie)));
    if (tti_needs(n, bound))
        TT_TRY(tti_give(&out[bound], shared(g[0], tt_logical_not(within), tie)));
    return TT_OK;
}

/* Where the bounds meet or cross, none of them is shared, and the upper one wins. */
static tt_status clamp_tensor_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x, *lo, *hi, *apart, *tie_lo, *tie_hi, *below, *above;

    if (!tti_has_saved(n, 1) || !tti_has_saved(n, 2))
        return one_bound_backward(n, g, out, tti_has_saved(n, 1) ? 1 : 2);
    x = tti_saved_get(n, 0);
    lo = tti_saved_get(n, 1);
    hi = tti_saved_get(n, 2);
    apart = tt_lt(lo, hi);
    tie_lo = tt_logical_and(tt_eq(x, lo), apart);
    tie_hi = tt_logical_and(tt_eq(x, hi), apart);
    below = tt_lt(x, lo);
    above = tt_gt(x, hi);
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], shared(g[0], tt_logical_not(tt_logical_or(below, above)),
                                        tt_logical_or(tie_lo, tie_hi))));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], shared(g[0], tt_logical_and(below, tt_le(lo, hi)), tie_lo)));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&out[2], shared(g[0], tt_logical_or(above, tt_lt(hi, lo)), tie_hi)));
    return TT_OK;
}

static const tti_op op_clamp_tensor = { "clamp_tensor", clamp_tensor_backward, 0 };

static tt_tensor *clamp_one(tti_call *c, tt_tensor *x, tt_tensor *bound, tti_binary_op kernel)
{
    tt_dtype d = tti_result_type(x, bound);
    tt_tensor *out = tti_empty_broadcast("clamp_tensor", x, bound, d);

    if (out == NULL)
        return NULL;
    return tti_call_end(c, out,
                        tti_binary(kernel, out, tti_operand(x, d, out->device),
                                   tti_operand(bound, d, out->device), NULL));
}

static tt_tensor *clamp_both(tti_call *c, tt_tensor *const *in)
{
    tt_dtype d = tt_promote_types(tti_result_type(in[0], in[1]), tti_result_type(in[0], in[2]));
    tt_tensor *out = tti_empty_broadcast3("clamp_tensor", in, d);

    if (out == NULL)
        return NULL;
    return tti_call_end(c, out,
                        tti_ternary(TTI_CLAMP_T, out, tti_operand(in[0], d, out->device),
                                    tti_operand(in[1], d, out->device),
                                    tti_operand(in[2], d, out->device), NULL));
}

tt_tensor *tt_clamp_tensor(tt_tensor *x, tt_tensor *lo, tt_tensor *hi)
{
    tt_tensor *in[3] = { x, lo, hi };
    tti_call c = { .op = &op_clamp_tensor, .n_in = 3, .in = in, .optional = 6 };

    if (lo == NULL && hi == NULL) /* one of them may be the result of a failure */
        return TT_NULL_GIVEN("clamp_tensor", "at least one bound");
    if (!tti_call_begin(&c))
        return NULL;
    for (int i = 0; i < 3 && c.wants_grad; i++)
        tti_call_save(&c, in[i]);
    if (hi == NULL)
        return clamp_one(&c, x, lo, TTI_MAXIMUM);
    if (lo == NULL)
        return clamp_one(&c, x, hi, TTI_MINIMUM);
    return clamp_both(&c, in);
}
