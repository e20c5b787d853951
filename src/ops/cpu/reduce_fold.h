/* SPDX-License-Identifier: Apache-2.0 */
/* Folds: the inner loops of reductions. A fold maps each element (x, |x|, x * x, ...) and joins
 * the values (add, multiply, larger, ...) into accumulators, which are wider than the elements:
 * double for real floating types, int64_t for integers and truth values, double complex for
 * complex ones. */
#ifndef TTI_OPS_CPU_REDUCE_FOLD_H
#define TTI_OPS_CPU_REDUCE_FOLD_H

#include "ops/cpu/cpu.h"

typedef enum tti_fold {
    TTI_FOLD_SUM,
    TTI_FOLD_SUM_ABS,
    TTI_FOLD_SUM_SQ,
    TTI_FOLD_COUNT,  /* elements that are not 0 */
    TTI_FOLD_POW,    /* |x|^e */
    TTI_FOLD_SQ_DEV, /* (x - param)^2 */
    TTI_FOLD_EXP,    /* e^(x - param) */
    TTI_FOLD_PROD,
    TTI_FOLD_MAX,
    TTI_FOLD_MIN,
    TTI_FOLD_MAX_ABS,
    TTI_FOLD_MIN_ABS,
    TTI_FOLD_ALL,
    TTI_FOLD_ANY,
    TTI_N_FOLDS
} tti_fold;

/* The most results that one call makes, and the alignment-free room they take. */
#define TTI_FOLD_GROUP 512

typedef struct tti_fold_args {
    void *acc; /* n_out accumulators, joined with what is there */
    const void *x;
    int64_t n_out, out_stride; /* results, and the distance of their first elements */
    int64_t n, stride;         /* elements of each, and their distance */
    const double *param;       /* one per result, where the fold has it */
    double exponent;
} tti_fold_args;

typedef void (*tti_fold_fn)(const tti_fold_args *a);
typedef tti_fold_fn tti_fold_table[TTI_N_FOLDS][TT_N_DTYPES]; /* NULL: no such fold */

TTI_ISA_DECLARE(const tti_fold_table, tti_folds);

/* Folds 16-bit floats with the fold `fn` of float32. */
typedef void tti_fold_half_fn(const tti_fold_args *a, tti_fold_fn fn, bool bf16);
TTI_ISA_DECLARE(tti_fold_half_fn, tti_fold_half);

#endif
