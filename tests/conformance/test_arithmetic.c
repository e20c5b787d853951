/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: two and more operands, numbers, in place, comparison, logic. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *add_row(tt_tensor *const *in)
{
    return tt_add(in[0], in[1]);
}

static tt_tensor *sub_row(tt_tensor *const *in)
{
    return tt_sub(in[0], in[1]);
}

static tt_tensor *mul_row(tt_tensor *const *in)
{
    return tt_mul(in[0], in[1]);
}

static tt_tensor *add_broadcast_row(tt_tensor *const *in)
{
    return tt_add(in[0], in[1]);
}

static tt_tensor *div_row(tt_tensor *const *in)
{
    return tt_div(in[0], in[1]);
}

static tt_tensor *floor_divide_row(tt_tensor *const *in)
{
    return tt_floor_divide(in[0], in[1]);
}

static tt_tensor *fmod_row(tt_tensor *const *in)
{
    return tt_fmod(in[0], in[1]);
}

static tt_tensor *remainder_row(tt_tensor *const *in)
{
    return tt_remainder(in[0], in[1]);
}

static tt_tensor *pow_row(tt_tensor *const *in)
{
    return tt_pow(in[0], in[1]);
}

static tt_tensor *maximum_row(tt_tensor *const *in)
{
    return tt_maximum(in[0], in[1]);
}

static tt_tensor *minimum_row(tt_tensor *const *in)
{
    return tt_minimum(in[0], in[1]);
}

static tt_tensor *atan2_row(tt_tensor *const *in)
{
    return tt_atan2(in[0], in[1]);
}

static tt_tensor *add_scaled_row(tt_tensor *const *in)
{
    return tt_add_scaled(in[0], in[1], 0.7);
}

static tt_tensor *lerp_row(tt_tensor *const *in)
{
    return tt_lerp(in[0], in[1], 0.3);
}

static tt_tensor *addcmul_row(tt_tensor *const *in)
{
    return tt_addcmul(in[0], in[1], in[2], 0.6);
}

static tt_tensor *addcdiv_row(tt_tensor *const *in)
{
    return tt_addcdiv(in[0], in[1], in[2], 0.6);
}

static tt_tensor *add_scalar_row(tt_tensor *const *in)
{
    return tt_add_scalar(in[0], 1.5);
}

static tt_tensor *sub_scalar_row(tt_tensor *const *in)
{
    return tt_sub_scalar(in[0], 1.5);
}

static tt_tensor *rsub_scalar_row(tt_tensor *const *in)
{
    return tt_rsub_scalar(in[0], 1.5);
}

static tt_tensor *mul_scalar_row(tt_tensor *const *in)
{
    return tt_mul_scalar(in[0], 1.5);
}

static tt_tensor *div_scalar_row(tt_tensor *const *in)
{
    return tt_div_scalar(in[0], 1.5);
}

static tt_tensor *rdiv_scalar_row(tt_tensor *const *in)
{
    return tt_rdiv_scalar(in[0], 1.5);
}

static tt_tensor *pow_scalar_row(tt_tensor *const *in)
{
    return tt_pow_scalar(in[0], 1.5);
}

static tt_tensor *rpow_scalar_row(tt_tensor *const *in)
{
    return tt_rpow_scalar(in[0], 1.5);
}

static tt_tensor *add__row(tt_tensor *const *in)
{
    return tt_add_(in[0], in[1]);
}

static tt_tensor *sub__row(tt_tensor *const *in)
{
    return tt_sub_(in[0], in[1]);
}

static tt_tensor *mul__row(tt_tensor *const *in)
{
    return tt_mul_(in[0], in[1]);
}

static tt_tensor *div__row(tt_tensor *const *in)
{
    return tt_div_(in[0], in[1]);
}

static tt_tensor *add_scaled__row(tt_tensor *const *in)
{
    return tt_add_scaled_(in[0], in[1], 0.7);
}

static tt_tensor *lerp__row(tt_tensor *const *in)
{
    return tt_lerp_(in[0], in[1], 0.3);
}

static tt_tensor *addcmul__row(tt_tensor *const *in)
{
    return tt_addcmul_(in[0], in[1], in[2], 0.6);
}

static tt_tensor *addcdiv__row(tt_tensor *const *in)
{
    return tt_addcdiv_(in[0], in[1], in[2], 0.6);
}

static tt_tensor *add_scalar__row(tt_tensor *const *in)
{
    return tt_add_scalar_(in[0], 1.5);
}

static tt_tensor *mul_scalar__row(tt_tensor *const *in)
{
    return tt_mul_scalar_(in[0], 1.5);
}

static tt_tensor *div_scalar__row(tt_tensor *const *in)
{
    return tt_div_scalar_(in[0], 1.5);
}

static tt_tensor *fill__row(tt_tensor *const *in)
{
    return tt_fill_(in[0], 2.5);
}

static tt_tensor *zero__row(tt_tensor *const *in)
{
    return tt_zero_(in[0]);
}

static tt_tensor *copy__row(tt_tensor *const *in)
{
    return tt_copy_(in[0], in[1]);
}

static tt_tensor *eq_row(tt_tensor *const *in)
{
    return tt_eq(in[0], in[1]);
}

static tt_tensor *ne_row(tt_tensor *const *in)
{
    return tt_ne(in[0], in[1]);
}

static tt_tensor *lt_row(tt_tensor *const *in)
{
    return tt_lt(in[0], in[1]);
}

static tt_tensor *le_row(tt_tensor *const *in)
{
    return tt_le(in[0], in[1]);
}

static tt_tensor *gt_row(tt_tensor *const *in)
{
    return tt_gt(in[0], in[1]);
}

static tt_tensor *ge_row(tt_tensor *const *in)
{
    return tt_ge(in[0], in[1]);
}

static tt_tensor *eq_scalar_row(tt_tensor *const *in)
{
    return tt_eq_scalar(in[0], 0.25);
}

static tt_tensor *ne_scalar_row(tt_tensor *const *in)
{
    return tt_ne_scalar(in[0], 0.25);
}

static tt_tensor *lt_scalar_row(tt_tensor *const *in)
{
    return tt_lt_scalar(in[0], 0.25);
}

static tt_tensor *le_scalar_row(tt_tensor *const *in)
{
    return tt_le_scalar(in[0], 0.25);
}

static tt_tensor *gt_scalar_row(tt_tensor *const *in)
{
    return tt_gt_scalar(in[0], 0.25);
}

static tt_tensor *ge_scalar_row(tt_tensor *const *in)
{
    return tt_ge_scalar(in[0], 0.25);
}

static tt_tensor *logical_and_row(tt_tensor *const *in)
{
    return tt_logical_and(in[0], in[1]);
}

static tt_tensor *logical_or_row(tt_tensor *const *in)
{
    return tt_logical_or(in[0], in[1]);
}

static tt_tensor *logical_xor_row(tt_tensor *const *in)
{
    return tt_logical_xor(in[0], in[1]);
}

static tt_tensor *logical_not_row(tt_tensor *const *in)
{
    return tt_logical_not(in[0]);
}

static tt_tensor *bitwise_and_row(tt_tensor *const *in)
{
    return tt_bitwise_and(in[0], in[1]);
}

static tt_tensor *bitwise_or_row(tt_tensor *const *in)
{
    return tt_bitwise_or(in[0], in[1]);
}

static tt_tensor *bitwise_xor_row(tt_tensor *const *in)
{
    return tt_bitwise_xor(in[0], in[1]);
}

static tt_tensor *bitwise_not_row(tt_tensor *const *in)
{
    return tt_bitwise_not(in[0]);
}

static tt_tensor *where_row(tt_tensor *const *in)
{
    return tt_where(in[0], in[1], in[2]);
}

static tt_tensor *masked_fill_row(tt_tensor *const *in)
{
    return tt_masked_fill(in[0], in[1], 0.5);
}

static tt_tensor *masked_select_row(tt_tensor *const *in)
{
    return tt_masked_select(in[0], in[1]);
}

static tt_tensor *sub_integers_row(tt_tensor *const *in)
{
    return tt_sub(in[0], in[1]);
}

static tt_tensor *mul_broadcast_row(tt_tensor *const *in)
{
    return tt_mul(in[0], in[1]);
}

static tt_tensor *where_broadcast_row(tt_tensor *const *in)
{
    return tt_where(in[0], in[1], in[2]);
}

static const conform_row rows[] = {
    { "add", add_row, "fNx4 fNx4", 0, 0 },
    { "sub", sub_row, "fNx4 fNx4", 0, 0 },
    { "mul", mul_row, "fNx4 fNx4", 0, 0 },
    { "add.broadcast", add_broadcast_row, "fNx4 f4", 0, 0 },
    { "div", div_row, "fNx4 pNx4", 0, 0 },
    { "floor_divide", floor_divide_row, "fNx4 pNx4", CONFORM_NO_GRAD, 0 },
    { "fmod", fmod_row, "fNx4 pNx4", 0, 0 },
    { "remainder", remainder_row, "fNx4 pNx4", 0, 0 },
    { "pow", pow_row, "pNx4 fNx4", 0, 0 },
    { "maximum", maximum_row, "fNx4 fNx4", 0, 0 },
    { "minimum", minimum_row, "fNx4 fNx4", 0, 0 },
    { "atan2", atan2_row, "fNx4 fNx4", 0, 0 },
    { "add_scaled", add_scaled_row, "fNx4 fNx4", 0, 0 },
    { "lerp", lerp_row, "fNx4 fNx4", 0, 0 },
    { "addcmul", addcmul_row, "fNx4 fNx4 fNx4", 0, 0 },
    { "addcdiv", addcdiv_row, "fNx4 fNx4 pNx4", 0, 0 },
    { "add_scalar", add_scalar_row, "fNx4", 0, 0 },
    { "sub_scalar", sub_scalar_row, "fNx4", 0, 0 },
    { "rsub_scalar", rsub_scalar_row, "fNx4", 0, 0 },
    { "mul_scalar", mul_scalar_row, "fNx4", 0, 0 },
    { "div_scalar", div_scalar_row, "fNx4", 0, 0 },
    { "rdiv_scalar", rdiv_scalar_row, "pNx4", 0, 0 },
    { "pow_scalar", pow_scalar_row, "pNx4", 0, 0 },
    { "rpow_scalar", rpow_scalar_row, "fNx4", 0, 0 },
    { "add_", add__row, "fNx4 fNx4", CONFORM_INPLACE, 0 },
    { "sub_", sub__row, "fNx4 fNx4", CONFORM_INPLACE, 0 },
    { "mul_", mul__row, "fNx4 fNx4", CONFORM_INPLACE, 0 },
    { "div_", div__row, "fNx4 pNx4", CONFORM_INPLACE, 0 },
    { "add_scaled_", add_scaled__row, "fNx4 fNx4", CONFORM_INPLACE, 0 },
    { "lerp_", lerp__row, "fNx4 fNx4", CONFORM_INPLACE, 0 },
    { "addcmul_", addcmul__row, "fNx4 fNx4 fNx4", CONFORM_INPLACE, 0 },
    { "addcdiv_", addcdiv__row, "fNx4 fNx4 pNx4", CONFORM_INPLACE, 0 },
    { "add_scalar_", add_scalar__row, "fNx4", CONFORM_INPLACE, 0 },
    { "mul_scalar_", mul_scalar__row, "fNx4", CONFORM_INPLACE, 0 },
    { "div_scalar_", div_scalar__row, "fNx4", CONFORM_INPLACE, 0 },
    { "fill_", fill__row, "fNx4", CONFORM_INPLACE | CONFORM_FIRST_ORDER, 0 },
    { "zero_", zero__row, "fNx4", CONFORM_INPLACE | CONFORM_FIRST_ORDER, 0 },
    { "copy_", copy__row, "fNx4 f4", CONFORM_INPLACE, 0 },
    { "eq", eq_row, "fNx4 fNx4", CONFORM_NO_GRAD, 0 },
    { "ne", ne_row, "fNx4 fNx4", CONFORM_NO_GRAD, 0 },
    { "lt", lt_row, "fNx4 fNx4", CONFORM_NO_GRAD, 0 },
    { "le", le_row, "fNx4 fNx4", CONFORM_NO_GRAD, 0 },
    { "gt", gt_row, "fNx4 fNx4", CONFORM_NO_GRAD, 0 },
    { "ge", ge_row, "fNx4 fNx4", CONFORM_NO_GRAD, 0 },
    { "eq_scalar", eq_scalar_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "ne_scalar", ne_scalar_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "lt_scalar", lt_scalar_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "le_scalar", le_scalar_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "gt_scalar", gt_scalar_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "ge_scalar", ge_scalar_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "logical_and", logical_and_row, "bNx4 bNx4", CONFORM_NO_GRAD, 0 },
    { "logical_or", logical_or_row, "bNx4 bNx4", CONFORM_NO_GRAD, 0 },
    { "logical_xor", logical_xor_row, "bNx4 bNx4", CONFORM_NO_GRAD, 0 },
    { "logical_not", logical_not_row, "bNx4", CONFORM_NO_GRAD, 0 },
    { "bitwise_and", bitwise_and_row, "nNx4 nNx4", CONFORM_NO_GRAD, 0 },
    { "bitwise_or", bitwise_or_row, "nNx4 nNx4", CONFORM_NO_GRAD, 0 },
    { "bitwise_xor", bitwise_xor_row, "nNx4 nNx4", CONFORM_NO_GRAD, 0 },
    { "bitwise_not", bitwise_not_row, "nNx4", CONFORM_NO_GRAD, 0 },
    { "where", where_row, "bNx4 fNx4 fNx4", 0, 0 },
    { "masked_fill", masked_fill_row, "fNx4 bNx4", 0, 0 },
    { "masked_select", masked_select_row, "fNx4 bNx4", CONFORM_BY_VALUE, 0 },
    { "sub.integers", sub_integers_row, "nNx4 nNx4", CONFORM_NO_GRAD, 0 },
    { "mul.broadcast", mul_broadcast_row, "fNx1 f4", 0, 0 },
    { "where.broadcast", where_broadcast_row, "bNx1 fNx4 f4", 0, 0 },
};

TT_TEST_TABLE(conformance_arithmetic)
{
    conform_add("arithmetic", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
