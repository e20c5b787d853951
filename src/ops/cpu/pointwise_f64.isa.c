/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of double (float64). */
#include "ops/cpu/pointwise.h"
#include "ops/cpu/vmath.h"

#define T double
#define M(name) tti_v##name##d
#define L(name) name
#define ARANGE(p, i) ((T)((p)[0] + (p)[1] * ((p)[2] + (double)(i))))
#define TABLE tti_loops_f64
#include "ops/cpu/pointwise_real.inc"
