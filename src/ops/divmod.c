/* SPDX-License-Identifier: Apache-2.0 */
/* Division with a whole quotient, and its remainders. Integers refuse a divisor of 0. */
#include "ops/elementwise.h"

/* a - trunc(a / b) b: the quotient is constant almost everywhere */
static tt_status fmod_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    out[0] = g[0];
    if (!tti_needs(n, 1))
        return TT_OK;
    return tti_give(
        &out[1], tt_neg(tt_mul(g[0], tt_trunc(tt_div(tti_saved_get(n, 0), tti_saved_get(n, 1))))));
}

static tt_status remainder_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    out[0] = g[0];
    if (!tti_needs(n, 1))
        return TT_OK;
    return tti_give(
        &out[1], tt_neg(tt_mul(g[0], tt_floor(tt_div(tti_saved_get(n, 0), tti_saved_get(n, 1))))));
}

static const tti_elementwise op_floor_divide = {
    { "floor_divide", NULL, 0 }, TTI_FLOOR_DIV, TTI_NO_BOOL, 0
};
static const tti_elementwise op_fmod = {
    { "fmod", fmod_backward, 0 }, TTI_FMOD, TTI_NO_BOOL, TTI_SAVE_A_FOR_B | TTI_SAVE_B
};
static const tti_elementwise op_remainder = { { "remainder", remainder_backward, 0 },
                                              TTI_REMAINDER,
                                              TTI_NO_BOOL,
                                              TTI_SAVE_A_FOR_B | TTI_SAVE_B };

/* Integers have nothing to stand for a quotient by 0. An accelerator is not waited for: its kernels
 * give 0 then. */
static tt_status check_divisor(const char *name, const tt_tensor *a, tt_tensor *b)
{
    tt_tensor *zero;
    tt_status st = TT_OK;

    if (a == NULL || b == NULL || !tt_dtype_is_integral(tti_result_type(a, b)) ||
        b->device.kind != TT_DEVICE_CPU)
        return TT_OK;
    TT_SCOPE {
        const uint8_t *found;

        zero = tt_contiguous(tt_eq_scalar(b, 0.0));
        st = tti_made(zero);
        found = st == TT_OK ? tti_data(zero) : NULL;
        for (int64_t i = 0; st == TT_OK && i < zero->numel; i++)
            if (found[i] != 0)
                st = TT_FAIL(TT_ERR_INVALID, "%s: division of integers by 0", name);
    }
    return st;
}

static tt_tensor *divided(const tti_elementwise *o, tt_tensor *a, tt_tensor *b)
{
    if (check_divisor(o->op.name, a, b) != TT_OK)
        return NULL;
    return tti_apply2(o, a, b, NULL, 0);
}

tt_tensor *tt_floor_divide(tt_tensor *a, tt_tensor *b)
{
    return divided(&op_floor_divide, a, b);
}

tt_tensor *tt_fmod(tt_tensor *a, tt_tensor *b)
{
    return divided(&op_fmod, a, b);
}

tt_tensor *tt_remainder(tt_tensor *a, tt_tensor *b)
{
    return divided(&op_remainder, a, b);
}
