/* SPDX-License-Identifier: Apache-2.0 */
/* Division with a whole quotient, and its remainders. Integers refuse a divisor of 0. */
#include "ops/elementwise.h"

/* Both remainders are a - q b with a whole quotient q that is constant almost everywhere, so that the derivative by b
 * is -q. It must be the q of the remainder: a / b itself may have been rounded up to the next whole number. */
typedef tt_tensor *(*quotient_fn)(tt_tensor *a, tt_tensor *b);

/* The quotient of fmod. Half types are divided in float32. */
static tt_tensor *trunc_divide(tt_tensor *a, tt_tensor *b)
{
    tt_dtype d = a != NULL && b != NULL ? tti_result_type(a, b) : TT_F32;

    d = d == TT_F64 ? TT_F64 : TT_F32;
    a = tti_cast(a, d);
    b = tti_cast(b, d);
    return tt_round(tt_div(tt_sub(a, tt_fmod(a, b)), b));
}

static tt_status divisor_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out,
                                  quotient_fn quotient)
{
    tt_tensor *q = NULL;

    out[0] = g[0];
    if (!tti_needs(n, 1))
        return TT_OK;
    TT_NO_GRAD
    {
        q = quotient(tti_saved_get(n, 0), tti_saved_get(n, 1));
        q = tti_cast(q, (tt_dtype)g[0]->dtype);
    }
    return tti_give(&out[1], tt_neg(tt_mul(g[0], q)));
}

static tt_status fmod_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return divisor_backward(n, g, out, trunc_divide);
}

static tt_status remainder_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return divisor_backward(n, g, out, tt_floor_divide);
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
