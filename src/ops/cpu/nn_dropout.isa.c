/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout, compiled per instruction set. */
#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/philox_block.h"
#include "ops/cpu/vmath.h"

#define T float
#define R float
#define N(name) name##_f32
#define LOAD(v) (v)
#define STORE(v) (v)
#include "ops/cpu/nn_dropout.inc"

#define T double
#define R double
#define N(name) name##_f64
#define LOAD(v) (v)
#define STORE(v) (v)
#include "ops/cpu/nn_dropout.inc"

#define T tti_f16bits
#define R float
#define N(name) name##_f16
#define LOAD(v) tti_f16_to_f32(v)
#define STORE(v) tti_f32_to_f16(v)
#include "ops/cpu/nn_dropout.inc"

#define T tti_bf16bits
#define R float
#define N(name) name##_bf16
#define LOAD(v) tti_bf16_to_f32(v)
#define STORE(v) tti_f32_to_bf16(v)
#include "ops/cpu/nn_dropout.inc"

const tti_dropout_table TTI_ISA_NAME(tti_dropout_table) = { dropout_f32, dropout_f64, dropout_f16,
                                                            dropout_bf16 };
