/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices. */
#ifndef TTI_OPS_KERNELS_LINALG_H
#define TTI_OPS_KERNELS_LINALG_H

#include "tensor/tensor.h"

typedef struct tti_gemm {
    double alpha, beta;    /* out = alpha * op(a) @ op(b) + beta * out + bias */
    bool trans_a, trans_b; /* op swaps the last two dimensions */
    const tt_tensor *bias; /* NULL or [n], contiguous, of the same type */
} tti_gemm;

typedef struct tti_linalg_kernels {
    /* out [.., m, n] = op(a) [.., m, k] @ op(b) [.., k, n] with equal leading (batch) sizes, 2-D or
     * 3-D; any strides for a and b (the kernel reads transposed matrices as they are and copies only
     * what has no unit stride); out contiguous. All of one type. Half types accumulate in float32,
     * integers in themselves. The sum over nothing is 0. */
    tt_status (*gemm)(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, const tti_gemm *g);
} tti_linalg_kernels;

#endif
