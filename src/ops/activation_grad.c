/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of activations as operators with derivatives of their own. All are linear in g, so the
 * gradient of g is the operator again; that of the other operand is the second derivative. */
#include "ops/activation.h"

#include <math.h>

/* The second derivative times both gradients goes to operand 1. */
static tt_status give_second(tti_node *n, tt_tensor *gg, tt_tensor *slope, tt_tensor **out)
{
    return tti_give(&out[1], tt_mul(tt_mul(gg, tti_saved_get(n, 0)), slope));
}

static tt_status relu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    if (tti_needs(n, 0))
        return tti_give(&out[0], tti_relu_grad(g[0], tti_saved_get(n, 1)));
    return TT_OK;
}

static tt_status leaky_relu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    if (tti_needs(n, 0))
        return tti_give(&out[0], tti_leaky_relu_grad(g[0], tti_saved_get(n, 1), tti_attr(n, 0)));
    return TT_OK;
}

static tt_status clamp_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    if (tti_needs(n, 0))
        return tti_give(&out[0], tti_clamp_grad(g[0], tti_saved_get(n, 1), tti_attrs(n)));
    return TT_OK;
}

static tt_status tanh_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *y = tti_saved_get(n, 1);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tti_tanh_grad(g[0], y)));
    return tti_needs(n, 1) ? give_second(n, g[0], tt_mul_scalar(y, -2.0), out) : TT_OK;
}

static tt_status sigmoid_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *y = tti_saved_get(n, 1);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tti_sigmoid_grad(g[0], y)));
    if (!tti_needs(n, 1))
        return TT_OK;
    return give_second(n, g[0], tt_rsub_scalar(tt_mul_scalar(y, 2.0), 1.0), out);
}

/* gelu'' = pdf(x) (2 - x^2) */
static tt_status gelu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x = tti_saved_get(n, 1), *x2, *pdf;

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tti_gelu_grad(g[0], x)));
    if (!tti_needs(n, 1))
        return TT_OK;
    x2 = tt_square(x);
    pdf = tt_mul_scalar(tt_exp(tt_mul_scalar(x2, -0.5)), M_SQRT1_2 * 0.5 * M_2_SQRTPI);
    return give_second(n, g[0], tt_mul(pdf, tt_rsub_scalar(x2, 2.0)), out);
}

/* With u = k (x + c x^3) and t = tanh(u): (1 - t^2) (u' + x u'' / 2 - x t u'^2) */
static tt_status gelu_tanh_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    const double k = M_SQRT2 * M_2_SQRTPI * 0.5, c = 0.044715;
    tt_tensor *x = tti_saved_get(n, 1), *x2, *t, *du, *rest;

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tti_gelu_tanh_grad(g[0], x)));
    if (!tti_needs(n, 1))
        return TT_OK;
    x2 = tt_square(x);
    t = tt_tanh(tt_mul(x, tt_add_scalar(tt_mul_scalar(x2, k * c), k)));
    du = tt_add_scalar(tt_mul_scalar(x2, 3.0 * k * c), k);
    rest = tt_add(du, tt_mul_scalar(x2, 3.0 * k * c));
    rest = tt_sub(rest, tt_mul(tt_mul(x, t), tt_square(du)));
    return give_second(n, g[0], tt_mul(tt_rsub_scalar(tt_square(t), 1.0), rest), out);
}

/* With s = sigmoid(x): s (1 - s) (2 + x (1 - 2 s)) */
static tt_status silu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x = tti_saved_get(n, 1), *s, *rest;

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tti_silu_grad(g[0], x)));
    if (!tti_needs(n, 1))
        return TT_OK;
    s = tt_sigmoid(x);
    rest = tt_add_scalar(tt_mul(x, tt_rsub_scalar(tt_mul_scalar(s, 2.0), 1.0)), 2.0);
    return give_second(n, g[0], tt_mul(tt_mul(s, tt_rsub_scalar(s, 1.0)), rest), out);
}

/* alpha scale^2 exp(scale x) on the negative side, 0 on the other */
static tt_status elu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    const double *p = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 1), *bend;

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tti_elu_grad(g[0], x, p)));
    if (!tti_needs(n, 1))
        return TT_OK;
    bend = tt_mul_scalar(tt_exp(tt_mul_scalar(x, p[1])), p[0] * p[1] * p[1]);
    return give_second(n, g[0], tt_masked_fill(bend, tt_gt_scalar(x, 0.0), 0.0), out);
}

/* beta s (1 - s) below the threshold, with s = sigmoid(beta x) */
static tt_status softplus_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    const double *p = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 1), *bx, *s, *bend;

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tti_softplus_grad(g[0], x, p)));
    if (!tti_needs(n, 1))
        return TT_OK;
    bx = tt_mul_scalar(x, p[0]);
    s = tt_sigmoid(bx);
    bend = tt_mul_scalar(tt_mul(s, tt_rsub_scalar(s, 1.0)), p[0]);
    return give_second(n, g[0], tt_masked_fill(bend, tt_gt_scalar(bx, p[1]), 0.0), out);
}

static const tti_elementwise op_relu = {
    { "relu_grad", relu_backward, 0 }, TTI_RELU_GRAD, TTI_PROMOTE, TTI_SAVE_B
};
static const tti_elementwise op_leaky_relu = {
    { "leaky_relu_grad", leaky_relu_backward, 0 }, TTI_LEAKY_RELU_GRAD, TTI_PROMOTE, TTI_SAVE_B
};
static const tti_elementwise op_clamp = {
    { "clamp_grad", clamp_backward, 0 }, TTI_CLAMP_GRAD, TTI_PROMOTE, TTI_SAVE_B
};
static const tti_elementwise op_tanh = {
    { "tanh_grad", tanh_backward, 0 }, TTI_TANH_GRAD, TTI_PROMOTE, TTI_SAVE_A_FOR_B | TTI_SAVE_B
};
static const tti_elementwise op_sigmoid = { { "sigmoid_grad", sigmoid_backward, 0 },
                                            TTI_SIGMOID_GRAD,
                                            TTI_PROMOTE,
                                            TTI_SAVE_A_FOR_B | TTI_SAVE_B };
static const tti_elementwise op_gelu = {
    { "gelu_grad", gelu_backward, 0 }, TTI_GELU_GRAD, TTI_PROMOTE, TTI_SAVE_A_FOR_B | TTI_SAVE_B
};
static const tti_elementwise op_gelu_tanh = { { "gelu_tanh_grad", gelu_tanh_backward, 0 },
                                              TTI_GELU_TANH_GRAD,
                                              TTI_PROMOTE,
                                              TTI_SAVE_A_FOR_B | TTI_SAVE_B };
static const tti_elementwise op_silu = {
    { "silu_grad", silu_backward, 0 }, TTI_SILU_GRAD, TTI_PROMOTE, TTI_SAVE_A_FOR_B | TTI_SAVE_B
};
static const tti_elementwise op_elu = {
    { "elu_grad", elu_backward, 0 }, TTI_ELU_GRAD, TTI_PROMOTE, TTI_SAVE_A_FOR_B | TTI_SAVE_B
};
static const tti_elementwise op_softplus = { { "softplus_grad", softplus_backward, 0 },
                                             TTI_SOFTPLUS_GRAD,
                                             TTI_PROMOTE,
                                             TTI_SAVE_A_FOR_B | TTI_SAVE_B };

tt_tensor *tti_relu_grad(tt_tensor *g, tt_tensor *y)
{
    return tti_apply2(&op_relu, g, y, NULL, 0);
}

tt_tensor *tti_tanh_grad(tt_tensor *g, tt_tensor *y)
{
    return tti_apply2(&op_tanh, g, y, NULL, 0);
}

tt_tensor *tti_sigmoid_grad(tt_tensor *g, tt_tensor *y)
{
    return tti_apply2(&op_sigmoid, g, y, NULL, 0);
}

tt_tensor *tti_gelu_grad(tt_tensor *g, tt_tensor *x)
{
    return tti_apply2(&op_gelu, g, x, NULL, 0);
}

tt_tensor *tti_gelu_tanh_grad(tt_tensor *g, tt_tensor *x)
{
    return tti_apply2(&op_gelu_tanh, g, x, NULL, 0);
}

tt_tensor *tti_silu_grad(tt_tensor *g, tt_tensor *x)
{
    return tti_apply2(&op_silu, g, x, NULL, 0);
}

tt_tensor *tti_elu_grad(tt_tensor *g, tt_tensor *x, const double *p)
{
    return tti_apply2(&op_elu, g, x, p, 2);
}

tt_tensor *tti_softplus_grad(tt_tensor *g, tt_tensor *x, const double *p)
{
    return tti_apply2(&op_softplus, g, x, p, 2);
}

tt_tensor *tti_leaky_relu_grad(tt_tensor *g, tt_tensor *x, double slope)
{
    return tti_apply2(&op_leaky_relu, g, x, &slope, 1);
}

tt_tensor *tti_clamp_grad(tt_tensor *g, tt_tensor *x, const double *p)
{
    return tti_apply2(&op_clamp, g, x, p, 2);
}
