/* SPDX-License-Identifier: Apache-2.0 */
/* Philox 4x32-10, the counter-based random number generator: the block of four 32-bit words for a
 * key and a 128-bit counter. No state; the same everywhere. */
#ifndef TTI_BASE_PHILOX_H
#define TTI_BASE_PHILOX_H

#include <stdint.h>

typedef struct tti_philox_block {
    uint32_t w[4];
} tti_philox_block;

static inline tti_philox_block tti_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi)
{
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;

        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (tti_philox_block){ { c0, c1, c2, c3 } };
}

/* A word as a float in [0, 1) with 24 bits, two words as a double in [0, 1) with 53 bits. */
static inline float tti_unit_float(uint32_t w)
{
    return (float)(w >> 8) * 0x1p-24f;
}

static inline double tti_unit_double(uint32_t hi, uint32_t lo)
{
    return (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}

#endif
