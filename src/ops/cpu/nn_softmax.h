/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of softmax and of cross-entropy, by type. */
#ifndef TTI_OPS_CPU_NN_SOFTMAX_H
#define TTI_OPS_CPU_NN_SOFTMAX_H

#include "ops/cpu/cpu.h"

#define TTI_SOFTMAX_TILE 256

/* `width` softmaxes beside each other over n elements that are `stride` apart. */
typedef struct tti_softmax_args {
    void *y;
    const void *x;      /* of the gradient: dy */
    const void *result; /* of the gradient: what the forward gave */
    int64_t n, stride, width;
    bool log;
} tti_softmax_args;

/* One row of cross-entropy. */
typedef struct tti_entropy_args {
    void *dx;      /* gradient only */
    const void *x; /* n scores */
    int64_t n, target;
    double lse, scale; /* gradient only */
} tti_entropy_args;

typedef struct tti_softmax_fns {
    void (*forward)(const tti_softmax_args *a);
    void (*grad)(const tti_softmax_args *a);
    /* Gives log-sum-exp; *at_p is the score of the target. */
    double (*entropy)(const tti_entropy_args *a, double *at_p);
    void (*entropy_grad)(const tti_entropy_args *a);
} tti_softmax_fns;

typedef tti_softmax_fns tti_softmax_table[TT_N_DTYPES];
TTI_ISA_DECLARE(const tti_softmax_table, tti_softmaxes);

#endif
