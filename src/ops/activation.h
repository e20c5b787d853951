/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of activations, as differentiable operators: g is the gradient of the activation's
 * result y, x its input. */
#ifndef TTI_OPS_ACTIVATION_H
#define TTI_OPS_ACTIVATION_H

#include "ops/elementwise.h"

tt_tensor *tti_relu_grad(tt_tensor *g, tt_tensor *y);
tt_tensor *tti_tanh_grad(tt_tensor *g, tt_tensor *y);
tt_tensor *tti_sigmoid_grad(tt_tensor *g, tt_tensor *y);
tt_tensor *tti_gelu_grad(tt_tensor *g, tt_tensor *x);
tt_tensor *tti_gelu_tanh_grad(tt_tensor *g, tt_tensor *x);
tt_tensor *tti_silu_grad(tt_tensor *g, tt_tensor *x);
tt_tensor *tti_elu_grad(tt_tensor *g, tt_tensor *x, const double *p);      /* alpha, input scale */
tt_tensor *tti_softplus_grad(tt_tensor *g, tt_tensor *x, const double *p); /* beta, threshold */
tt_tensor *tti_leaky_relu_grad(tt_tensor *g, tt_tensor *x, double slope);
/* Strictly between the bounds lo, hi; 0 on them and for NaN. */
tt_tensor *tti_clamp_grad(tt_tensor *g, tt_tensor *x, const double *p);

#endif
