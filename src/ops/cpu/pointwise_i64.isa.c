/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of int64. */
#include "ops/cpu/pointwise.h"

#define T int64_t
#define U uint64_t
#define T_MIN INT64_MIN
#define TABLE tti_loops_i64
#include "ops/cpu/pointwise_int.inc"
