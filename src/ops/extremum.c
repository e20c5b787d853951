/* SPDX-License-Identifier: Apache-2.0 */
/* The larger and the smaller of two, and the angle of a pair. Where operands are equal, each gets half
 * of the gradient. */
#include "ops/elementwise.h"

/* g where `mine` wins, half of it on ties, 0 where it loses */
static tt_tensor *share(tt_tensor *g, tt_tensor *equal, tt_tensor *loses)
{
    return tt_masked_fill(tt_where(equal, tt_mul_scalar(g, 0.5), g), loses, 0.0);
}

static tt_status maximum_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *a = tti_saved_get(n, 0), *b = tti_saved_get(n, 1), *equal = tt_eq(a, b);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], share(g[0], equal, tt_lt(a, b))));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], share(g[0], equal, tt_gt(a, b))));
    return TT_OK;
}

static tt_status minimum_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *a = tti_saved_get(n, 0), *b = tti_saved_get(n, 1), *equal = tt_eq(a, b);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], share(g[0], equal, tt_gt(a, b))));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], share(g[0], equal, tt_lt(a, b))));
    return TT_OK;
}

static tt_status atan2_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *a = tti_saved_get(n, 0), *b = tti_saved_get(n, 1);
    tt_tensor *by = tt_reciprocal(tt_add(tt_mul(a, a), tt_mul(b, b)));

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tt_mul(tt_mul(g[0], b), by)));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], tt_neg(tt_mul(tt_mul(g[0], a), by))));
    return TT_OK;
}

static const tti_elementwise op_maximum = {
    { "maximum", maximum_backward, 0 }, TTI_MAXIMUM, TTI_PROMOTE, TTI_SAVE_A | TTI_SAVE_B
};
static const tti_elementwise op_minimum = {
    { "minimum", minimum_backward, 0 }, TTI_MINIMUM, TTI_PROMOTE, TTI_SAVE_A | TTI_SAVE_B
};
static const tti_elementwise op_atan2 = {
    { "atan2", atan2_backward, 0 }, TTI_ATAN2, TTI_TO_FLOAT, TTI_SAVE_A | TTI_SAVE_B
};

tt_tensor *tt_maximum(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_maximum, a, b, NULL, 0);
}

tt_tensor *tt_minimum(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_minimum, a, b, NULL, 0);
}

tt_tensor *tt_atan2(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_atan2, a, b, NULL, 0);
}
