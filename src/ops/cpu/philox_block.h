/* SPDX-License-Identifier: Apache-2.0 */
/* Random words of dropout, many at once: for x.isa.c files. */
#ifndef TTI_OPS_CPU_PHILOX_BLOCK_H
#define TTI_OPS_CPU_PHILOX_BLOCK_H

#include <stdint.h>

enum { TTI_PHILOX_LANES = 16, TTI_PHILOX_WORDS = 4 * TTI_PHILOX_LANES };

#define LANES TTI_PHILOX_LANES
#include "ops/cpu/philox_lanes.inc"
#undef LANES

/* Words below this are dropped with probability p < 1. */
static inline uint32_t tti_dropout_below(double p)
{
    double below = p * 0x1p32;

    return below >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)below;
}

#endif
