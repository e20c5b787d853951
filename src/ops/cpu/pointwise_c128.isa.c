/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of complex128. */
#include "ops/cpu/pointwise.h"

#define R double
#define CR double complex
#define L(name) name
#define LC(name) name
#define TABLE tti_loops_c128
#include "ops/cpu/pointwise_complex.inc"
