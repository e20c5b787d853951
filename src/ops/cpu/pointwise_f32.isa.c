/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of float32; also of the 16-bit types, which are converted on the way. */
#include "ops/cpu/pointwise.h"
#include "ops/cpu/vmath.h"

#define T float
#define M(name) tti_v##name##f
#define L(name) name##f
#define ARANGE(p, i) ((T)((p)[0] + (p)[1] * ((p)[2] + (double)(i))))
#define TABLE tti_loops_f32
#include "ops/cpu/pointwise_real.inc"
