/* SPDX-License-Identifier: Apache-2.0 */
/* Bags of rows and their gradients, compiled per instruction set. */
#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/vmath.h"

enum {
    TTI_BAG_AHEAD = 8,  /* members between asking for a row and using it */
    TTI_BAG_STRIP = 64, /* columns kept in registers */
};

#define T float
#define R float
#define N(name) name##_f32
#define LOAD(v) (v)
#define STORE(v) (v)
#include "ops/cpu/nn_embedding.inc"

#define T double
#define R double
#define N(name) name##_f64
#define LOAD(v) (v)
#define STORE(v) (v)
#include "ops/cpu/nn_embedding.inc"

#define T tti_f16bits
#define R float
#define N(name) name##_f16
#define LOAD(v) tti_f16_to_f32(v)
#define STORE(v) tti_f32_to_f16(v)
#include "ops/cpu/nn_embedding.inc"

#define T tti_bf16bits
#define R float
#define N(name) name##_bf16
#define LOAD(v) tti_bf16_to_f32(v)
#define STORE(v) tti_f32_to_bf16(v)
#include "ops/cpu/nn_embedding.inc"

#define T float
#define N(name) name##_f32
#include "ops/cpu/nn_embedding_grad.inc"

#define T double
#define N(name) name##_f64
#include "ops/cpu/nn_embedding_grad.inc"

const tti_bag_table TTI_ISA_NAME(tti_bag_table) = {
    .sum = { sum_f32, sum_f64, sum_f16, sum_bf16 },
    .max = { max_f32, max_f64, max_f16, max_bf16 },
    .grad = { grad_f32, grad_f64 },
    .max_grad = { max_grad_f32, max_grad_f64 },
    .rows = { rows_f32, rows_f64 },
    .sums = { sums_f32, sums_f64 },
    .sample_grad = { sample_grad_f32, sample_grad_f64 },
};
