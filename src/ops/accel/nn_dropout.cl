/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout. On CPUs sixteen blocks of random words at a time, so that the rounds become vector code. */

#if WG == 1
#define BLOCKS 16
#else
#define BLOCKS 1
#endif

#define LANES BLOCKS
#define uint32_t u32
#define uint64_t u64
#include "ops/cpu/philox_lanes.inc"

KERNEL void dropout(MEM(T, y), MEM(const T, x), A scale, u32 below, u64 seed, u64 offset, u64 n)
{
    OPEN(T, y);
    OPEN(const T, x);

    FOR_EACH(t, (n + 4 * BLOCKS - 1) / (4 * BLOCKS))
    {
        u64 first = t * 4 * BLOCKS;
        int width = n - first < 4 * BLOCKS ? (int)(n - first) : 4 * BLOCKS;
        u32 words[4 * BLOCKS];

        tti_philox_words(words, seed, offset + t * BLOCKS);
        for (int i = 0; i < width; i++) {
            A v = LD(x, first + (u64)i) * scale;

            ST(y, first + (u64)i, words[i] >= below ? v : (A)0);
        }
    }
}
