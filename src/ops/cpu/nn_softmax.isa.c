/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy for one instruction set. */
#include "ops/cpu/nn_softmax.h"

#include "ops/cpu/vmath.h"

#define LANES ((int)(128 / sizeof(REAL)))
#define KERNEL_FILE "ops/cpu/nn_softmax.inc"
#include "ops/cpu/nn_types.inc"

#define FNS(type)                                                                \
    {                                                                            \
        softmax_##type, softmax_grad_##type, entropy_##type, entropy_grad_##type \
    }

const tti_softmax_table TTI_ISA_NAME(tti_softmaxes) = {
    [TT_F32] = FNS(f32),
    [TT_F64] = FNS(f64),
    [TT_F16] = FNS(f16),
    [TT_BF16] = FNS(bf16),
};
