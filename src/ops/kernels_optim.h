/* SPDX-License-Identifier: Apache-2.0 */
/* Fused optimizer steps over one parameter, and what gradient clipping needs. All tensors are of one
 * floating or complex type and dense, with the same strides: elements are met in the order of memory.
 * The gradient may be sparse where said; everything else is contiguous then. */
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
    bool eps_inside; /* SparseAdam: eps is added before the bias correction */
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
    /* g may be sparse, also with repeated indices, when buf is NULL */
    tt_status (*sgd)(tt_tensor *p, const tt_tensor *g, tt_tensor *buf /* may be NULL */,
                     const tti_sgd_args *a);
    /* g may be sparse and coalesced: only its rows are touched */
    tt_status (*adam)(tt_tensor *p, const tt_tensor *g, tt_tensor *m, tt_tensor *v,
                      tt_tensor *vmax /* amsgrad, else NULL */, const tti_adam_args *a);
    /* g may be sparse and coalesced */
    tt_status (*adagrad)(tt_tensor *p, const tt_tensor *g, tt_tensor *sum,
                         const tti_adagrad_args *a);
    tt_status (*rmsprop)(tt_tensor *p, const tt_tensor *g, tt_tensor *sq, tt_tensor *buf,
                         tt_tensor *avg, const tti_rmsprop_args *a);
    /* Gradient clipping: x *= s; x = min(max(x, lo), hi); the sum of |x|^power in double, the same
     * with any number of threads (power INFINITY: the greatest |x|, NaN if there is one). */
    tt_status (*scale)(tt_tensor *x, double s);
    tt_status (*clamp)(tt_tensor *x, double lo, double hi);
    tt_status (*sum_powers)(const tt_tensor *x, double power, double *sum_p);
    /* Loss scaling: x *= s; found (float32, one element) = 1 if an x was infinite or NaN, else it stays. */
    tt_status (*unscale)(tt_tensor *x, double s, tt_tensor *found);
} tti_optim_kernels;

#endif
