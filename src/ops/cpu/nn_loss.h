/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of losses that compare two tensors element by element, by type. */
#ifndef TTI_OPS_CPU_NN_LOSS_H
#define TTI_OPS_CPU_NN_LOSS_H

#include "ops/cpu/cpu.h"

typedef struct tti_pair_args {
    void *da; /* gradient only */
    const void *a, *b;
    int64_t n;
    double scale, beta; /* scale: gradient only */
} tti_pair_args;

typedef struct tti_pair_fns {
    double (*sum)(const tti_pair_args *a); /* of the losses */
    void (*grad)(const tti_pair_args *a);  /* da = scale * derivative by a */
} tti_pair_fns;

typedef tti_pair_fns tti_pair_table[TTI_N_PAIR_LOSSES][TT_N_DTYPES];
TTI_ISA_DECLARE(const tti_pair_table, tti_pairs);

#endif
