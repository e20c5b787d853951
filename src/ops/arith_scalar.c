/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of a tensor with a number. The number keeps the tensor's type unless that is integral
 * and the number is not. */
#include "ops/elementwise.h"
#include "ops/sparse.h"

#include <math.h>

static tt_status same_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    out[0] = g[0];
    return TT_OK;
}

static tt_status neg_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_neg(g[0]));
}

static tt_status mul_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_mul_scalar(g[0], tti_attr(n, 0)));
}

static tt_status div_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_div_scalar(g[0], tti_attr(n, 0)));
}

/* y = s / x: dy = -y / x */
static tt_status rdiv_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *slope = tt_div(tti_saved_get(n, 2), tti_saved_get(n, 0));

    return tti_give(&out[0], tt_neg(tt_mul(g[0], tt_conj(slope))));
}

static const tti_elementwise op_add = {
    { "add_scalar", same_backward, 0 }, TTI_ADD_S, TTI_PROMOTE, 0
};
static const tti_elementwise op_rsub = {
    { "rsub_scalar", neg_backward, 0 }, TTI_RSUB_S, TTI_PROMOTE, 0
};
static const tti_elementwise op_mul = {
    { "mul_scalar", mul_backward, 0 }, TTI_MUL_S, TTI_PROMOTE, 0
};
static const tti_elementwise op_div = {
    { "div_scalar", div_backward, 0 }, TTI_DIV_S, TTI_TO_FLOAT, 0
};
static const tti_elementwise op_rdiv = {
    { "rdiv_scalar", rdiv_backward, 0 }, TTI_RDIV_S, TTI_TO_FLOAT, TTI_SAVE_A | TTI_SAVE_OUT
};

static tt_tensor *with_number(const tti_elementwise *o, tt_tensor *a, double s)
{
    double p[2] = { s, 0 };

    if (a != NULL && tt_unlikely(!tt_dtype_is_floating((tt_dtype)a->dtype)))
        a = tti_cast(a, tti_scalar_type(a, s)); /* integers have no gradient to lose */
    return tti_apply1(o, a, p, 2);
}

static tt_tensor *with_number_(const tti_elementwise *o, tt_tensor *a, double s)
{
    double p[2] = { s, 0 };

    if (a != NULL &&
        tti_check_storable(o->op.name, tti_scalar_type(a, s), (tt_dtype)a->dtype) != TT_OK)
        return NULL;
    return tti_apply1_(o, a, p, 2);
}

tt_tensor *tt_add_scalar(tt_tensor *a, double s)
{
    return with_number(&op_add, a, s);
}

tt_tensor *tt_sub_scalar(tt_tensor *a, double s)
{
    if (a != NULL && a->dtype == TT_BOOL)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "sub_scalar: expected numbers, got bool: use the logical operators");
    return with_number(&op_add, a, -s);
}

tt_tensor *tt_rsub_scalar(tt_tensor *a, double s)
{
    if (a != NULL && a->dtype == TT_BOOL)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "rsub_scalar: expected numbers, got bool: use the logical operators");
    return with_number(&op_rsub, a, s);
}

tt_tensor *tt_mul_scalar(tt_tensor *a, double s)
{
    if (tt_unlikely(tti_is_sparse(a)))
        return tti_sparse_with(a, tt_mul_scalar(tt_sparse_values(a), s));
    return with_number(&op_mul, a, s);
}

tt_tensor *tt_div_scalar(tt_tensor *a, double s)
{
    if (tt_unlikely(tti_is_sparse(a)))
        return tti_sparse_with(a, tt_div_scalar(tt_sparse_values(a), s));
    return with_number(&op_div, a, s);
}

tt_tensor *tt_rdiv_scalar(tt_tensor *a, double s)
{
    return with_number(&op_rdiv, a, s);
}

tt_tensor *tt_add_scalar_(tt_tensor *a, double s)
{
    return with_number_(&op_add, a, s);
}

tt_tensor *tt_mul_scalar_(tt_tensor *a, double s)
{
    if (tt_unlikely(tti_is_sparse(a)))
        return tt_mul_scalar_(tt_sparse_values(a), s) != NULL ? a : NULL;
    return with_number_(&op_mul, a, s);
}

tt_tensor *tt_div_scalar_(tt_tensor *a, double s)
{
    if (tt_unlikely(tti_is_sparse(a)))
        return tt_div_scalar_(tt_sparse_values(a), s) != NULL ? a : NULL;
    return with_number_(&op_div, a, s);
}
