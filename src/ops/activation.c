/* SPDX-License-Identifier: Apache-2.0 */
/* Activations. Their derivatives are operators too (activation_grad.c), so that gradients of
 * gradients work. */
#include "ops/activation.h"

#include <math.h>

static tt_status relu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tti_relu_grad(g[0], tti_saved_get(n, 2)));
}

static tt_status tanh_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *y = tti_saved_get(n, 2);

    if (y != NULL && tt_dtype_is_complex((tt_dtype)y->dtype))
        return tti_give(&out[0], tt_mul(g[0], tt_conj(tt_rsub_scalar(tt_mul(y, y), 1.0))));
    return tti_give(&out[0], tti_tanh_grad(g[0], y));
}

static tt_status sigmoid_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *y = tti_saved_get(n, 2);

    if (y != NULL && tt_dtype_is_complex((tt_dtype)y->dtype))
        return tti_give(&out[0], tt_mul(g[0], tt_conj(tt_mul(y, tt_rsub_scalar(y, 1.0)))));
    return tti_give(&out[0], tti_sigmoid_grad(g[0], y));
}

static tt_status gelu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tti_gelu_grad(g[0], tti_saved_get(n, 0)));
}

static tt_status gelu_tanh_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tti_gelu_tanh_grad(g[0], tti_saved_get(n, 0)));
}

static tt_status silu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x = tti_saved_get(n, 0), *s, *slope;

    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype)) { /* s (1 + x (1 - s)) */
        s = tt_sigmoid(x);
        slope = tt_mul(s, tt_add_scalar(tt_mul(x, tt_rsub_scalar(s, 1.0)), 1.0));
        return tti_give(&out[0], tt_mul(g[0], tt_conj(slope)));
    }
    return tti_give(&out[0], tti_silu_grad(g[0], x));
}

static tt_status elu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tti_elu_grad(g[0], tti_saved_get(n, 0), tti_attrs(n)));
}

static tt_status leaky_relu_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tti_leaky_relu_grad(g[0], tti_saved_get(n, 0), tti_attr(n, 0)));
}

static tt_status softplus_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tti_softplus_grad(g[0], tti_saved_get(n, 0), tti_attrs(n)));
}

/* Unlike clamp, NaN passes the gradient. */
static tt_status hardtanh_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *x = tti_saved_get(n, 0);
    tt_tensor *flat =
        tt_logical_or(tt_le_scalar(x, tti_attr(n, 0)), tt_ge_scalar(x, tti_attr(n, 1)));

    return tti_give(&out[0], tt_masked_fill(g[0], flat, 0.0));
}

static const tti_elementwise op_relu = {
    { "relu", relu_backward, 0 }, TTI_RELU, TTI_NO_BOOL, TTI_SAVE_OUT
};
static const tti_elementwise op_tanh = {
    { "tanh", tanh_backward, 0 }, TTI_TANH, TTI_TO_FLOAT, TTI_SAVE_OUT
};
static const tti_elementwise op_sigmoid = {
    { "sigmoid", sigmoid_backward, 0 }, TTI_SIGMOID, TTI_TO_FLOAT, TTI_SAVE_OUT
};
static const tti_elementwise op_gelu = {
    { "gelu", gelu_backward, 0 }, TTI_GELU, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_gelu_tanh = {
    { "gelu_tanh", gelu_tanh_backward, 0 }, TTI_GELU_TANH, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_silu = {
    { "silu", silu_backward, 0 }, TTI_SILU, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_elu = {
    { "elu", elu_backward, 0 }, TTI_ELU, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_celu = {
    { "celu", elu_backward, 0 }, TTI_ELU, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_leaky_relu = {
    { "leaky_relu", leaky_relu_backward, 0 }, TTI_LEAKY_RELU, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_softplus = {
    { "softplus", softplus_backward, TTI_OP_WIDE }, TTI_SOFTPLUS, TTI_PROMOTE, TTI_SAVE_A
};
static const tti_elementwise op_hardtanh = {
    { "hardtanh", hardtanh_backward, 0 }, TTI_CLAMP, TTI_NO_BOOL, TTI_SAVE_A
};

tt_tensor *tt_relu(tt_tensor *x)
{
    return tti_apply1(&op_relu, x, NULL, 0);
}

tt_tensor *tt_tanh(tt_tensor *x)
{
    return tti_apply1(&op_tanh, x, NULL, 0);
}

tt_tensor *tt_sigmoid(tt_tensor *x)
{
    return tti_apply1(&op_sigmoid, x, NULL, 0);
}

tt_tensor *tt_gelu(tt_tensor *x)
{
    return tti_apply1(&op_gelu, x, NULL, 0);
}

tt_tensor *tt_gelu_tanh(tt_tensor *x)
{
    return tti_apply1(&op_gelu_tanh, x, NULL, 0);
}

tt_tensor *tt_silu(tt_tensor *x)
{
    return tti_apply1(&op_silu, x, NULL, 0);
}

tt_tensor *tt_relu_(tt_tensor *x)
{
    return tti_apply1_(&op_relu, x, NULL, 0);
}

tt_tensor *tt_elu(tt_tensor *x, double alpha)
{
    double p[2] = { alpha, 1.0 };

    return tti_apply1(&op_elu, x, p, 2);
}

tt_tensor *tt_celu(tt_tensor *x, double alpha)
{
    double p[2] = { alpha, 1.0 / alpha };

    if (alpha == 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "celu: expected an alpha other than 0");
    return tti_apply1(&op_celu, x, p, 2);
}

tt_tensor *tt_leaky_relu(tt_tensor *x, double slope)
{
    return tti_apply1(&op_leaky_relu, x, &slope, 1);
}

tt_tensor *tt_softplus(tt_tensor *x, double beta, double threshold)
{
    double p[2] = { beta, threshold };

    return tti_apply1(&op_softplus, x, p, 2);
}

tt_tensor *tt_hardtanh(tt_tensor *x, double lo, double hi)
{
    double p[2] = { lo, hi };

    if (lo > hi)
        return TT_FAIL_NULL(TT_ERR_INVALID, "hardtanh: expected lo <= hi, got %g and %g", lo, hi);
    return tti_apply1(&op_hardtanh, x, p, 2);
}
