/* SPDX-License-Identifier: Apache-2.0 */
/* Element by element kernels. Operands broadcast to the shape of `out` and have any strides. All
 * operands have one type, the compute type; `out` has it too unless said otherwise. 16-bit floats are
 * computed in float32. `p` points to the operator's parameters (NULL when it has none). */
#ifndef TTI_OPS_KERNELS_POINTWISE_H
#define TTI_OPS_KERNELS_POINTWISE_H

#include "ops/kernels_pointwise_ops.h"
#include "tensor/tensor.h"

typedef struct tti_pointwise_kernels {
    tt_status (*unary)(tti_unary_op op, tt_tensor *out, const tt_tensor *x, const double *p);
    tt_status (*binary)(tti_binary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                        const double *p);
    tt_status (*ternary)(tti_ternary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                         const tt_tensor *c, const double *p);
    /* dst = src, converted to dst's type and broadcast to its shape */
    tt_status (*copy)(tt_tensor *dst, const tt_tensor *src);
    tt_status (*fill)(tt_tensor *x, double re, double im);
    tt_status (*arange)(tt_tensor *x, double start, double step); /* x is contiguous, 1-D */
} tti_pointwise_kernels;

/* The operators' names, for messages. */
extern const char *const tti_unary_names[], *const tti_binary_names[], *const tti_ternary_names[];

/* Dispatch on out's device. */
tt_status tti_unary(tti_unary_op op, tt_tensor *out, const tt_tensor *x, const double *p);
tt_status tti_binary(tti_binary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                     const double *p);
tt_status tti_ternary(tti_ternary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                      const tt_tensor *c, const double *p);
tt_status tti_copy(tt_tensor *dst, const tt_tensor *src); /* also between devices */
tt_status tti_fill(tt_tensor *x, double value);

#endif
