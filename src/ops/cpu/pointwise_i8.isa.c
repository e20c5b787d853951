/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of int8. */
#include "ops/cpu/pointwise.h"

#define T int8_t
#define U unsigned
#define T_MIN INT8_MIN
#define TABLE tti_loops_i8
#include "ops/cpu/pointwise_int.inc"
