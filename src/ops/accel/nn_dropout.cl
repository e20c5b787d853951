/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout. On CPUs sixteen blocks of random words at a time, so that the rounds become vector code. */

#if WG == 1
#define BLOCKS 16
#else
#define BLOCKS 1
#endif

/* The words of BLOCKS consecutive counters, those of one block side by side. */
FN void philox_words(u32 *out, u64 key, u64 counter)
{
    u32 c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);

    for (int i = 0; i < BLOCKS; i++) {
        c0[i] = (u32)(counter + (u64)i);
        c1[i] = (u32)((counter + (u64)i) >> 32);
        c2[i] = c3[i] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            u64 p0 = (u64)0xD2511F53u * c0[i], p1 = (u64)0xCD9E8D57u * c2[i];

            c0[i] = (u32)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (u32)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (u32)p1;
            c3[i] = (u32)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < BLOCKS; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

KERNEL void dropout(MEM(T, y), MEM(const T, x), A scale, u32 below, u64 seed, u64 offset, u64 n)
{
    OPEN(T, y);
    OPEN(const T, x);

    FOR_EACH(t, (n + 4 * BLOCKS - 1) / (4 * BLOCKS))
    {
        u64 first = t * 4 * BLOCKS;
        int width = n - first < 4 * BLOCKS ? (int)(n - first) : 4 * BLOCKS;
        u32 words[4 * BLOCKS];

        philox_words(words, seed, offset + t * BLOCKS);
        for (int i = 0; i < width; i++) {
            A v = LD(x, first + (u64)i) * scale;

            ST(y, first + (u64)i, words[i] >= below ? v : (A)0);
        }
    }
}
