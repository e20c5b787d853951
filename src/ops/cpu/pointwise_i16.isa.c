/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of int16. */
#include "ops/cpu/pointwise.h"

#define T int16_t
#define U unsigned
#define T_MIN INT16_MIN
#define TABLE tti_loops_i16
#include "ops/cpu/pointwise_int.inc"
