/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of complex64. */
#include "ops/cpu/pointwise.h"

#define R float
#define CR float complex
#define L(name) name##f
#define LC(name) name##f
#define TABLE tti_loops_c64
#include "ops/cpu/pointwise_complex.inc"
