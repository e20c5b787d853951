/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from a hash: FNV-1a of a name, splitmix64 of each index. */
#include "golden/hashdata.h"

static const uint64_t step = 0x9E3779B97F4A7C15u;

uint64_t golden_fnv1a64(const char *name)
{
    uint64_t h = 0xCBF29CE484222325u;

    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h;
}

uint64_t golden_hash(uint64_t base, uint64_t i)
{
    uint64_t z = base + i * step + step;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void golden_fill_uniform(const char *name, float *out, int64_t n, float scale, float shift)
{
    uint64_t base = golden_fnv1a64(name);

    for (int64_t i = 0; i < n; i++) {
        float u = (float)(golden_hash(base, (uint64_t)i) >> 40) * 0x1p-24f;
        /* volatile: product and sum must round on their own, not as one multiply-add */
        volatile float value = (2.0f * u - 1.0f) * scale;
        if (shift < 0 || shift > 0)
            value = value + shift;
        out[i] = value;
    }
}

void golden_fill_integers(const char *name, int64_t *out, int64_t n, int64_t modulo)
{
    uint64_t base = golden_fnv1a64(name);

    for (int64_t i = 0; i < n; i++)
        out[i] = (int64_t)(golden_hash(base, (uint64_t)i) % (uint64_t)modulo);
}
