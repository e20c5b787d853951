/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of int32. */
#include "ops/cpu/pointwise.h"

#define T int32_t
#define U uint32_t
#define T_MIN INT32_MIN
#define TABLE tti_loops_i32
#include "ops/cpu/pointwise_int.inc"
