/* SPDX-License-Identifier: Apache-2.0 */
/* Between optim.c, which walks tensors, and optim.isa.c, which has the loops. A loop works on n
 * elements of up to five arrays: 0 the parameter, 1 the gradient, 2 to 4 the state (NULL: none). */
#ifndef TTI_OPS_CPU_OPTIM_H
#define TTI_OPS_CPU_OPTIM_H

#include "ops/cpu/cpu.h"

#define TTI_OPTIM_ARRAYS 5
#define TTI_OPTIM_TYPES 4 /* f32, f64, f16, bf16: the first values of tt_dtype */

typedef void (*tti_optim_loop)(void *const *arrays, int64_t n, const void *coef);
typedef double (*tti_sum_loop)(const void *x, int64_t n, double power);
typedef bool (*tti_unscale_loop)(void *x, int64_t n, double s); /* whether one was not finite */

typedef struct tti_adam_coef {
    double weight_decay; /* added to the gradient; 0 when decoupled */
    double shrink;       /* the parameter is multiplied by it first; 1: not */
    double beta1, beta2, eps;
    double root_scale; /* the square root of the second moment is divided by it */
    double step_size;
    bool maximize;
} tti_adam_coef;

typedef struct tti_adagrad_coef {
    double rate, eps, weight_decay;
    bool maximize;
} tti_adagrad_coef;

typedef struct tti_clamp_coef {
    double lo, hi;
} tti_clamp_coef;

typedef struct tti_optim_loops {
    tti_optim_loop sgd[TTI_OPTIM_TYPES];     /* coef: tti_sgd_args; state: momentum buffer */
    tti_optim_loop adam[TTI_OPTIM_TYPES];    /* tti_adam_coef; m, v, vmax */
    tti_optim_loop adagrad[TTI_OPTIM_TYPES]; /* tti_adagrad_coef; sum */
    tti_optim_loop rmsprop[TTI_OPTIM_TYPES]; /* tti_rmsprop_args; square, buffer, mean */
    tti_optim_loop scale[TTI_OPTIM_TYPES];   /* a double; no gradient, no state */
    tti_optim_loop clamp[TTI_OPTIM_TYPES];   /* tti_clamp_coef */
    tti_sum_loop sum[TTI_OPTIM_TYPES];
    tti_unscale_loop unscale[TTI_OPTIM_TYPES];
} tti_optim_loops;

TTI_ISA_DECLARE(const tti_optim_loops, tti_optim_loops);

#endif
