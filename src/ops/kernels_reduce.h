/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, scans and sorting. Results do not depend on the number of threads: partial results are
 * made over fixed chunks and combined in order. */
#ifndef TTI_OPS_KERNELS_REDUCE_H
#define TTI_OPS_KERNELS_REDUCE_H

#include "tensor/tensor.h"

typedef enum tti_reduce_op {
    TTI_SUM,
    TTI_MEAN,
    TTI_PROD,
    TTI_AMAX, /* NaN wins */
    TTI_AMIN,
    TTI_ALL, /* bool out */
    TTI_ANY,
    TTI_NORM1,
    TTI_NORM2,
    TTI_NORM_INF,
    TTI_NORM_NEG_INF,
    TTI_NORM0,
    TTI_NORMP, /* p[0] */
    TTI_SUMSQ,
    TTI_VAR, /* p[0]: correction */
    TTI_LOGSUMEXP,
} tti_reduce_op;

typedef struct tti_reduce_kernels {
    /* Reduce the dimensions whose bit is set in `mask`. `out` has the sizes of x with those 1 (any
     * strides) and x's type (bool for ALL and ANY; real for norms of complex). Sums of integers
     * arrive already converted to int64; 16-bit floats accumulate in float32, float32 in pairs or
     * blocks so that the error stays small. Reductions over nothing give the neutral element. */
    tt_status (*reduce)(tti_reduce_op op, tt_tensor *out, const tt_tensor *x, uint32_t mask,
                        const double *p);
    /* Largest (or smallest) along `dim` (-1: of all elements in row-major order): values of x's type
     * (may be NULL) and int64 indices, first one wins, NaN wins. Shapes as for reduce. */
    tt_status (*arg_reduce)(bool largest, tt_tensor *values, tt_tensor *indices, const tt_tensor *x,
                            int dim);
    tt_status (*cumulative)(bool product, tt_tensor *out, const tt_tensor *x, int dim);
    /* Stable; NaN counts as largest. Both results have x's sizes. */
    tt_status (*sort)(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                      bool descending);
    /* The k largest (smallest), sorted; results have size k along dim. */
    tt_status (*topk)(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim, int64_t k,
                      bool largest);
} tti_reduce_kernels;

#endif
