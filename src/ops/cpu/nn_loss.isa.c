/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of pairs for one instruction set. */
#include "ops/cpu/nn_loss.h"

#include "ops/cpu/vmath.h"

#define LANES ((int)(128 / sizeof(REAL)))
#define ABS(v) ((v) < 0 ? -(v) : (v))
#define BELOW(v, most) ((v) < (most) ? (v) : (most))
#define CLAMP(v, most) ((v) > (most) ? (most) : (v) < -(most) ? -(most) : (v))
#define KERNEL_FILE "ops/cpu/nn_loss_all.inc"
#include "ops/cpu/nn_types.inc"

#define FNS(kind)                                              \
    {                                                          \
        [TT_F32] = { sum_##kind##_f32, grad_##kind##_f32 },    \
        [TT_F64] = { sum_##kind##_f64, grad_##kind##_f64 },    \
        [TT_F16] = { sum_##kind##_f16, grad_##kind##_f16 },    \
        [TT_BF16] = { sum_##kind##_bf16, grad_##kind##_bf16 }, \
    }

const tti_pair_table TTI_ISA_NAME(tti_pairs) = {
    [TTI_LOSS_MSE] = FNS(mse),
    [TTI_LOSS_L1] = FNS(l1),
    [TTI_LOSS_SMOOTH_L1] = FNS(smooth),
    [TTI_LOSS_BCE] = FNS(bce),
};
