/* SPDX-License-Identifier: Apache-2.0 */
/* Fused optimizer steps over one parameter. All tensors are contiguous and of one floating type. */
#ifndef TTI_OPS_KERNELS_OPTIM_H
#define TTI_OPS_KERNELS_OPTIM_H

#include "tensor/tensor.h"

typedef struct tti_sgd_args {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize, first; /* first: the momentum buffer is new */
} tti_sgd_args;

typedef struct tti_adam_args {
    double lr, beta1, beta2, eps, weight_decay;
    double step;    /* 1 for the first */
    bool decoupled; /* AdamW */
    bool amsgrad, maximize;
} tti_adam_args;

typedef struct tti_adagrad_args {
    double lr, lr_decay, eps, weight_decay, step;
    bool maximize;
} tti_adagrad_args;

typedef struct tti_rmsprop_args {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered, maximize;
} tti_rmsprop_args;

typedef struct tti_optim_kernels {
    tt_status (*sgd)(tt_tensor *p, const tt_tensor *g, tt_tensor *buf /* may be NULL */,
                     const tti_sgd_args *a);
    tt_status (*adam)(tt_tensor *p, const tt_tensor *g, tt_tensor *m, tt_tensor *v,
                      tt_tensor *vmax /* amsgrad, else NULL */, const tti_adam_args *a);
    tt_status (*adagrad)(tt_tensor *p, const tt_tensor *g, tt_tensor *sum,
                         const tti_adagrad_args *a);
    tt_status (*rmsprop)(tt_tensor *p, const tt_tensor *g, tt_tensor *sq, tt_tensor *buf,
                         tt_tensor *avg, const tti_rmsprop_args *a);
    /* p *= s for many tensors, and the sum of squares of one: gradient clipping */
    tt_status (*scale)(tt_tensor *x, double s);
    tt_status (*sum_squares)(const tt_tensor *x, double *sum_p);
} tti_optim_kernels;

#endif
