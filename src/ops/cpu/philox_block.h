/* SPDX-License-Identifier: Apache-2.0 */
/* Philox for many counters at once, written so that loops over lanes vectorise: for x.isa.c files. */
#ifndef TTI_OPS_CPU_PHILOX_BLOCK_H
#define TTI_OPS_CPU_PHILOX_BLOCK_H

#include <stdint.h>

enum { TTI_PHILOX_LANES = 16, TTI_PHILOX_WORDS = 4 * TTI_PHILOX_LANES };

/* The words of 16 consecutive blocks, those of one block side by side. */
static inline void tti_philox_words(uint32_t *restrict out, uint64_t key, uint64_t counter)
{
    uint32_t c0[TTI_PHILOX_LANES], c1[TTI_PHILOX_LANES], c2[TTI_PHILOX_LANES], c3[TTI_PHILOX_LANES];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int i = 0; i < TTI_PHILOX_LANES; i++) {
        uint64_t c = counter + (uint64_t)i;

        c0[i] = (uint32_t)c;
        c1[i] = (uint32_t)(c >> 32);
        c2[i] = c3[i] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < TTI_PHILOX_LANES; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];

            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < TTI_PHILOX_LANES; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

/* Words below this are dropped with probability p < 1. */
static inline uint32_t tti_dropout_below(double p)
{
    double below = p * 0x1p32;

    return below >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)below;
}

#endif
