/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, differences, products and quotients of tensors. Complex gradients follow the convention that
 * the gradient of a product takes the conjugate of the other factor. */
#include "ops/elementwise.h"
#include "ops/sparse.h"

static tt_status add_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    out[0] = out[1] = g[0];
    return TT_OK;
}

static tt_status add_scaled_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    out[0] = g[0];
    return tti_needs(n, 1) ? tti_give(&out[1], tt_mul_scalar(g[0], tti_attr(n, 0))) : TT_OK;
}

static tt_status sub_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    out[0] = g[0];
    return tti_needs(n, 1) ? tti_give(&out[1], tt_neg(g[0])) : TT_OK;
}

static tt_status mul_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tt_mul(g[0], tt_conj(tti_saved_get(n, 1)))));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], tt_mul(g[0], tt_conj(tti_saved_get(n, 0)))));
    return TT_OK;
}

static tt_status div_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *b = tti_saved_get(n, 1);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tt_div(g[0], tt_conj(b))));
    if (tti_needs(n, 1)) {
        tt_tensor *slope = tt_div(tt_div(tti_saved_get(n, 0), b), b);

        TT_TRY(tti_give(&out[1], tt_neg(tt_mul(g[0], tt_conj(slope)))));
    }
    return TT_OK;
}

static const tti_elementwise op_add = { { "add", add_backward, 0 }, TTI_ADD, TTI_PROMOTE, 0 };
static const tti_elementwise op_sub = { { "sub", sub_backward, 0 }, TTI_SUB, TTI_PROMOTE, 0 };
static const tti_elementwise op_mul = {
    { "mul", mul_backward, 0 }, TTI_MUL, TTI_PROMOTE, TTI_SAVE_A_FOR_B | TTI_SAVE_B_FOR_A
};
static const tti_elementwise op_div = {
    { "div", div_backward, 0 }, TTI_DIV, TTI_TO_FLOAT, TTI_SAVE_A_FOR_B | TTI_SAVE_B
};
static const tti_elementwise op_add_scaled = {
    { "add_scaled", add_scaled_backward, 0 }, TTI_ADD_SCALED, TTI_PROMOTE, 0
};

tt_tensor *tt_add(tt_tensor *a, tt_tensor *b)
{
    if (tt_unlikely(tti_is_sparse(a) || tti_is_sparse(b)))
        return tti_sparse_add(a, b);
    return tti_apply2(&op_add, a, b, NULL, 0);
}

/* Subtraction refuses a bool even beside a number that would take it in. */
static bool has_bool(const tt_tensor *a, const tt_tensor *b)
{
    if ((a == NULL || a->dtype != TT_BOOL) && (b == NULL || b->dtype != TT_BOOL))
        return false;
    TT_FAIL(TT_ERR_INVALID, "sub: expected numbers, got bool: use the logical operators");
    return true;
}

tt_tensor *tt_sub(tt_tensor *a, tt_tensor *b)
{
    if (tt_unlikely(tti_is_sparse(a) || tti_is_sparse(b)))
        return tti_sparse_add(a, tt_neg(b));
    if (has_bool(a, b))
        return NULL;
    return tti_apply2(&op_sub, a, b, NULL, 0);
}

tt_tensor *tt_mul(tt_tensor *a, tt_tensor *b)
{
    if (tt_unlikely(tti_is_sparse(a) || tti_is_sparse(b)))
        return tti_sparse_mul(a, b);
    return tti_apply2(&op_mul, a, b, NULL, 0);
}

tt_tensor *tt_div(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2(&op_div, a, b, NULL, 0);
}

static tt_status check_alpha(const tt_tensor *a, const tt_tensor *b, double alpha)
{
    tt_dtype d;

    if (a == NULL || b == NULL)
        return TT_OK; /* the call says so */
    d = tti_result_type(a, b);
    if (tt_dtype_is_floating(d) || tt_dtype_is_complex(d) || alpha == (double)(int64_t)alpha)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "add_scaled: expected a whole alpha for %s tensors, got %g",
                   tt_dtype_name(d), alpha);
}

tt_tensor *tt_add_scaled(tt_tensor *a, tt_tensor *b, double alpha)
{
    double p[2] = { alpha, 0 };

    if (check_alpha(a, b, alpha) != TT_OK)
        return NULL;
    if (tt_unlikely(tti_is_sparse(a) || tti_is_sparse(b)))
        return tti_sparse_add(a, tt_mul_scalar(b, alpha));
    return tti_apply2(&op_add_scaled, a, b, p, 2);
}

tt_tensor *tt_add_(tt_tensor *a, tt_tensor *b)
{
    if (tt_unlikely(tti_is_sparse(a) || tti_is_sparse(b)))
        return tti_sparse_add_(a, b);
    return tti_apply2_(&op_add, a, b, NULL, 0);
}

tt_tensor *tt_sub_(tt_tensor *a, tt_tensor *b)
{
    if (has_bool(a, b))
        return NULL;
    return tti_apply2_(&op_sub, a, b, NULL, 0);
}

tt_tensor *tt_mul_(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2_(&op_mul, a, b, NULL, 0);
}

tt_tensor *tt_div_(tt_tensor *a, tt_tensor *b)
{
    return tti_apply2_(&op_div, a, b, NULL, 0);
}

tt_tensor *tt_add_scaled_(tt_tensor *a, tt_tensor *b, double alpha)
{
    double p[2] = { alpha, 0 };

    if (check_alpha(a, b, alpha) != TT_OK)
        return NULL;
    if (tt_unlikely(tti_is_sparse(a) || tti_is_sparse(b)))
        return tti_sparse_add_(a, tt_mul_scalar(b, alpha));
    return tti_apply2_(&op_add_scaled, a, b, p, 2);
}
