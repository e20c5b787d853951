/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices. */
#ifndef TTI_OPS_KERNELS_LINALG_H
#define TTI_OPS_KERNELS_LINALG_H

#include "tensor/tensor.h"

typedef enum tti_epilogue {
    TTI_EPI_NONE,
    TTI_EPI_RELU,
    TTI_EPI_GELU,
    TTI_EPI_GELU_TANH,
    TTI_EPI_SILU,
} tti_epilogue;

typedef struct tti_gemm {
    double alpha, beta;    /* out = act(alpha * a @ b + beta * out + bias) */
    const tt_tensor *bias; /* NULL or [n] of the same type */
    tti_epilogue epilogue;
} tti_gemm;

typedef struct tti_linalg_kernels {
    /* out [.., m, n] = a [.., m, k] @ b [.., k, n] with equal leading (batch) sizes, 2-D or 3-D; any
     * strides for a and b (the kernel uses transposition flags where it can and copies where it
     * must); out row-major or any strides with unit inner stride. Types equal: float32, float64,
     * float16, bfloat16, complex; integers by a plain loop. */
    tt_status (*gemm)(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, const tti_gemm *g);
    /* sum of a[i] * b[i] (complex: not conjugated) into the 0-d out */
    tt_status (*dot)(tt_tensor *out, const tt_tensor *a, const tt_tensor *b);
} tti_linalg_kernels;

#endif
