/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of one head, compiled per instruction set. Vectors are as long as the registers; with 32
 * registers (AVX-512) twice as many rows are kept in them. */
#include <math.h>
#include <string.h>

#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/philox_block.h"
#include "ops/cpu/vmath.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 8
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 4
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 4
#endif
#define KEY_BLOCK 128

/* e^x for x <= 0 as weights need it: 0 below -87 rather than a subnormal number, which is slow to
 * make and adds nothing. NaN stays. */
static inline float weight_exp(float x)
{
    float e = tti_vexp_mid(x < -87.0f ? -87.0f : x);

    return x < -87.0f ? 0.0f : e;
}

#define T float
#define N(name) name##_f32
#define LANES (VECTOR_BYTES / 4)
#define PANEL (2 * LANES)
#define EXP weight_exp
#define LOG logf
#include "ops/cpu/nn_attention_tile.inc"
#include "ops/cpu/nn_attention.inc"

#define T double
#define N(name) name##_f64
#define LANES (VECTOR_BYTES / 8)
#define PANEL (2 * LANES)
#define EXP exp
#define LOG log
#include "ops/cpu/nn_attention_tile.inc"
#include "ops/cpu/nn_attention.inc"

const tti_attention_tables TTI_ISA_NAME(tti_attention_tables) = {
    .of = { { forward_scratch_f32, forward_f32, backward_scratch_f32, backward_f32 },
            { forward_scratch_f64, forward_f64, backward_scratch_f64, backward_f64 } },
};
