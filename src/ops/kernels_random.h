/* SPDX-License-Identifier: Apache-2.0 */
/* Random fills. Element i of the (row-major) result comes from Philox block offset + i / 4, word i % 4
 * for 32-bit draws, and from block offset + i / 2 for 64-bit ones, whatever the number of threads. */
#ifndef TTI_OPS_KERNELS_RANDOM_H
#define TTI_OPS_KERNELS_RANDOM_H

#include "tensor/tensor.h"

typedef enum tti_random_kind {
    TTI_RANDOM_UNIFORM,   /* a + (b - a) * u */
    TTI_RANDOM_NORMAL,    /* a + b * z, Box-Muller */
    TTI_RANDOM_BERNOULLI, /* 1 with probability a */
    TTI_RANDOM_INT,       /* a <= i < b */
} tti_random_kind;

typedef struct tti_random_draw {
    tti_random_kind kind;
    double a, b;
    int64_t lo, hi; /* INT */
    uint64_t seed, offset;
} tti_random_draw;

typedef struct tti_random_kernels {
    tt_status (*fill)(tt_tensor *x, const tti_random_draw *draw); /* x contiguous */
} tti_random_kernels;

/* How many blocks a fill of n elements of this type uses up. */
uint64_t tti_random_blocks(tti_random_kind kind, tt_dtype dtype, int64_t n);

#endif
