/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of uint8. */
#include "ops/cpu/pointwise.h"

#define T uint8_t
#define U unsigned
#define T_MIN 0
#define TABLE tti_loops_u8
#include "ops/cpu/pointwise_int.inc"
