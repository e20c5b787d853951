/* SPDX-License-Identifier: Apache-2.0 */
/* The argument of element by element kernels that says where elements are: walk.cl has its other side. */
#ifndef TTI_OPS_ACCEL_WALK_H
#define TTI_OPS_ACCEL_WALK_H

#include "ops/accel/accel.h"

#define TTI_WALK_DIMS (TT_MAX_DIMS + 1) /* one more for the halves of 16-byte elements */
#define TTI_WALK_OPERANDS 4             /* the result and three operands */

typedef struct tti_accel_walk {
    uint64_t n;
    int32_t n_dims, op;
    int32_t dtypes[TTI_WALK_OPERANDS];
    uint64_t q[4];               /* parameters: bits of the type the kernel computes in */
    int64_t dims[TTI_WALK_DIMS]; /* innermost first */
    int64_t strides[TTI_WALK_OPERANDS][TTI_WALK_DIMS]; /* in elements */
} tti_accel_walk;

/* The types kernels compute in; other types are read into one of them. */
typedef enum tti_compute {
    TTI_IN_F32, /* also float16, bfloat16 */
    TTI_IN_F64,
    TTI_IN_I64, /* all integers, bool */
    TTI_IN_C64,
    TTI_IN_C128,
    TTI_N_COMPUTE
} tti_compute;

tti_compute tti_compute_of(tt_dtype dtype);
/* v as bits of that type. */
uint64_t tti_compute_bits(tti_compute c, double v);

/* Fills in n, dtypes, dims and strides: ts[0] is the result, which is not empty; the others broadcast to it.
 * Dimensions are put in the order of the result's memory and joined where all operands allow it. */
void tti_accel_walk_set(tti_accel_walk *w, const tt_tensor *const *ts, int n);

/* Groups for n elements when `grain` of them are worth a thread of a CPU. */
tti_grid tti_accel_walk_grid(tt_device d, uint64_t n, uint64_t grain);

#endif
