/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation for one instruction set. */
#include "ops/cpu/nn_norm.h"

#include "ops/cpu/vmath.h"

#define LANES ((int)(128 / sizeof(REAL)))
#define KERNEL_FILE "ops/cpu/nn_norm.inc"
#include "ops/cpu/nn_types.inc"

#define FNS(type)                                                                        \
    {                                                                                    \
        row_norm_##type, row_norm_grad_##type, { apply_plane_##type, apply_row_##type }, \
            { sums_plane_##type, sums_row_##type },                                      \
        {                                                                                \
            grad_plane_##type, grad_row_##type                                           \
        }                                                                                \
    }

const tti_norm_table TTI_ISA_NAME(tti_norms) = {
    [TT_F32] = FNS(f32),
    [TT_F64] = FNS(f64),
    [TT_F16] = FNS(f16),
    [TT_BF16] = FNS(bf16),
};
