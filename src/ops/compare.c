/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison, logic and bits. Results of comparisons and logic are bool; none has a derivative. */
#include "ops/elementwise.h"

#include <math.h>

static const tti_elementwise op_eq = { { "eq", NULL, 0 }, TTI_EQ, TTI_TO_BOOL, 0 };
static const tti_elementwise op_eq_s = { { "eq_scalar", NULL, 0 }, TTI_EQ_S, TTI_TO_BOOL, 0 };
static const tti_elementwise op_ne = { { "ne", NULL, 0 }, TTI_NE, TTI_TO_BOOL, 0 };
static const tti_elementwise op_ne_s = { { "ne_scalar", NULL, 0 }, TTI_NE_S, TTI_TO_BOOL, 0 };
static const tti_elementwise op_lt = { { "lt", NULL, 0 }, TTI_LT, TTI_TO_BOOL, 0 };
static const tti_elementwise op_lt_s = { { "lt_scalar", NULL, 0 }, TTI_LT_S, TTI_TO_BOOL, 0 };
static const tti_elementwise op_le = { { "le", NULL, 0 }, TTI_LE, TTI_TO_BOOL, 0 };
static const tti_elementwise op_le_s = { { "le_scalar", NULL, 0 }, TTI_LE_S, TTI_TO_BOOL, 0 };
static const tti_elementwise op_gt = { { "gt", NULL, 0 }, TTI_GT, TTI_TO_BOOL, 0 };
static const tti_elementwise op_gt_s = { { "gt_scalar", NULL, 0 }, TTI_GT_S, TTI_TO_BOOL, 0 };
static const tti_elementwise op_ge = { { "ge", NULL, 0 }, TTI_GE, TTI_TO_BOOL, 0 };
static const tti_elementwise op_ge_s = { { "ge_scalar", NULL, 0 }, TTI_GE_S, TTI_TO_BOOL, 0 };
static const tti_elementwise op_logical_and = {
    { "logical_and", NULL, 0 }, TTI_LOGICAL_AND, TTI_TO_BOOL, 0
};
static const tti_elementwise op_logical_or = {
    { "logical_or", NULL, 0 }, TTI_LOGICAL_OR, TTI_TO_BOOL, 0
};
static const tti_elementwise op_logical_xor = {
    { "logical_xor", NULL, 0 }, TTI_LOGICAL_XOR, TTI_TO_BOOL, 0
};
static const tti_elementwise op_logical_not = {
    { "logical_not", NULL, 0 }, TTI_LOGICAL_NOT, TTI_TO_BOOL, 0
};
static const tti_elementwise op_isnan = { { "isnan", NULL, 0 }, TTI_ISNAN, TTI_TO_BOOL, 0 };
static const tti_elementwise op_isinf = { { "isinf", NULL, 0 }, TTI_ISINF, TTI_TO_BOOL, 0 };
static const tti_elementwise op_isfinite = {
    { "isfinite", NULL, 0 }, TTI_ISFINITE, TTI_TO_BOOL, 0
};
static const tti_elementwise op_bitand = { { "bitwise_and", NULL, 0 }, TTI_BITAND, TTI_PROMOTE, 0 };
static const tti_elementwise op_bitor = { { "bitwise_or", NULL, 0 }, TTI_BITOR, TTI_PROMOTE, 0 };
static const tti_elementwise op_bitxor = { { "bitwise_xor", NULL, 0 }, TTI_BITXOR, TTI_PROMOTE, 0 };
static const tti_elementwise op_bitnot = { { "bitwise_not", NULL, 0 }, TTI_BITNOT, TTI_PROMOTE, 0 };

/* ---- comparison ------------------------------------------------------------------------------ */

tt_tensor *tt_eq(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_eq, a, b, NULL, 0);
}

tt_tensor *tt_ne(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_ne, a, b, NULL, 0);
}

tt_tensor *tt_lt(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_lt, a, b, NULL, 0);
}

tt_tensor *tt_le(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_le, a, b, NULL, 0);
}

tt_tensor *tt_gt(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_gt, a, b, NULL, 0);
}

tt_tensor *tt_ge(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_ge, a, b, NULL, 0);
}

/* Integers are compared with a fraction as float32, and exactly with a whole number. */
static tt_tensor *with_number(const tti_elementwise *o, tt_tensor *a, double s)
{
    double p[2] = { s, 0 };

    if (a != NULL && tt_dtype_is_integral((tt_dtype)a->dtype) && s != floor(s))
        a = tti_cast(a, TT_F32);
    return tti_apply1(o, a, p, 2);
}

tt_tensor *tt_eq_scalar(tt_tensor *a, double s)
{
    return with_number(&op_eq_s, a, s);
}

tt_tensor *tt_ne_scalar(tt_tensor *a, double s)
{
    return with_number(&op_ne_s, a, s);
}

tt_tensor *tt_lt_scalar(tt_tensor *a, double s)
{
    return with_number(&op_lt_s, a, s);
}

tt_tensor *tt_le_scalar(tt_tensor *a, double s)
{
    return with_number(&op_le_s, a, s);
}

tt_tensor *tt_gt_scalar(tt_tensor *a, double s)
{
    return with_number(&op_gt_s, a, s);
}

tt_tensor *tt_ge_scalar(tt_tensor *a, double s)
{
    return with_number(&op_ge_s, a, s);
}

/* ---- logic ----------------------------------------------------------------------------------- */

tt_tensor *tt_logical_and(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_logical_and, a, b, NULL, 0);
}

tt_tensor *tt_logical_or(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_logical_or, a, b, NULL, 0);
}

tt_tensor *tt_logical_xor(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_logical_xor, a, b, NULL, 0);
}

tt_tensor *tt_logical_not(tt_tensor *x)
{
    return tti_apply1(&op_logical_not, x, NULL, 0);
}

tt_tensor *tt_isnan(tt_tensor *x)
{
    return tti_apply1(&op_isnan, x, NULL, 0);
}

tt_tensor *tt_isinf(tt_tensor *x)
{
    return tti_apply1(&op_isinf, x, NULL, 0);
}

tt_tensor *tt_isfinite(tt_tensor *x)
{
    return tti_apply1(&op_isfinite, x, NULL, 0);
}

/* ---- bits ------------------------------------------------------------------------------------ */

tt_tensor *tt_bitwise_and(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_bitand, a, b, NULL, 0);
}

tt_tensor *tt_bitwise_or(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_bitor, a, b, NULL, 0);
}

tt_tensor *tt_bitwise_xor(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_bitxor, a, b, NULL, 0);
}

tt_tensor *tt_bitwise_not(tt_tensor *x)
{
    return tti_apply1(&op_bitnot, x, NULL, 0);
}
