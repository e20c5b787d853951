/* SPDX-License-Identifier: Apache-2.0 */
/* What the operators that reduce dimensions share: which dimensions, the shape of the result,
 * and the way back from a result's gradient to the shape of the operand. */
#ifndef TTI_OPS_REDUCE_H
#define TTI_OPS_REDUCE_H

#include "ops/op.h"

/* Remembered by a reduction for its derivative: plain data, copied into the node. */
typedef struct tti_reduce_attrs {
    tt_shape shape; /* of the operand */
    uint32_t mask;  /* reduced dimensions */
    double p;       /* the operator's own parameter */
} tti_reduce_attrs;

/* The set of dimensions to reduce: dims NULL or n 0 means all. Negative ones count from the end;
 * each may come once. */
tt_status tti_reduce_dims(const char *name, const tt_tensor *x, const int *dims, int n,
                          uint32_t *mask_p);

/* An empty tensor with x's sizes and 1 for each reduced dimension: what kernels want. */
tt_tensor *tti_reduce_empty(const tt_tensor *x, uint32_t mask, tt_dtype dtype);
/* Drop the reduced dimensions of a fresh result of tti_reduce_empty. */
void tti_reduce_squeeze(tt_tensor *out, uint32_t mask);

/* Elements that go into one result. */
int64_t tti_reduce_count(const tt_shape *shape, uint32_t mask);

/* The shape of a result with the reduced dimensions kept. */
tt_shape tti_reduce_kept(const tti_reduce_attrs *a);
/* t, a result or its gradient, with the reduced dimensions back as 1; recorded. */
tt_tensor *tti_reduce_keep(tt_tensor *t, const tti_reduce_attrs *a);
/* The same, expanded to the operand's shape. */
tt_tensor *tti_reduce_expand(tt_tensor *t, const tti_reduce_attrs *a);

/* Run the kernel and drop the dimensions unless they are kept. */
tt_status tti_reduce_kernel(tti_reduce_op op, tt_tensor *out, const tt_tensor *x,
                            const tti_reduce_attrs *a, bool keep_dims);

/* A whole operator with one result of the given type (-1: x's). Saves x and the result when
 * `save` has bits 1 and 2. */
typedef struct tti_reduction {
    const tti_op *op;
    tti_reduce_op kernel;
    int dtype;
    unsigned save;
    double p;
    bool keep_dims;
} tti_reduction;
tt_tensor *tti_reduce_call(const tti_reduction *r, tt_tensor *x, const int *dims, int n_dims);

#endif
