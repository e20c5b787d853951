/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of random kernels: Philox words, then uniform, normal or other numbers made of them. */
#include "base/philox.h"
#include "ops/cpu/random.h"
#include "ops/cpu/vmath.h"

__extension__ typedef unsigned __int128 wide;

/* Words of the blocks from `block` on, four each: the rounds of tti_philox on LANES counters at once.
 * Room for a multiple of LANES blocks is written. */
enum { LANES = 16 };

static void words(const tti_random_draw *d, uint64_t block, int64_t n_blocks, uint32_t *w)
{
    for (int64_t at = 0; at < n_blocks; at += LANES) {
        uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
        uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);

        for (int i = 0; i < LANES; i++) {
            uint64_t counter = d->offset + block + (uint64_t)(at + i);

            c0[i] = (uint32_t)counter;
            c1[i] = (uint32_t)(counter >> 32);
            c2[i] = c3[i] = 0;
        }
        for (int round = 0; round < 10; round++) {
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];

                c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
                c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
                c1[i] = (uint32_t)p1;
                c3[i] = (uint32_t)p0;
            }
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        for (int i = 0; i < LANES; i++) {
            w[4 * (at + i)] = c0[i];
            w[4 * (at + i) + 1] = c1[i];
            w[4 * (at + i) + 2] = c2[i];
            w[4 * (at + i) + 3] = c3[i];
        }
    }
}

/* Two uniform numbers become two normal ones, side by side (Box-Muller). */
static void normal_f32(const uint32_t *w, int64_t n, float mean, float std, float *out)
{
    float radius[TTI_RANDOM_CHUNK / 2], turn[TTI_RANDOM_CHUNK / 2];
    int64_t pairs = (n + 1) / 2;

#pragma omp simd
    for (int64_t i = 0; i < pairs; i++) {
        radius[i] = std * sqrtf(-2.0f * tti_vlogf(1.0f - tti_unit_float(w[2 * i])));
        turn[i] = 6.28318530718f * tti_unit_float(w[2 * i + 1]);
    }
#pragma omp simd
    for (int64_t i = 0; i < n / 2; i++) {
        out[2 * i] = mean + radius[i] * tti_vcosf(turn[i]);
        out[2 * i + 1] = mean + radius[i] * tti_vsinf(turn[i]);
    }
    if (n % 2 != 0)
        out[n - 1] = mean + radius[pairs - 1] * tti_vcosf(turn[pairs - 1]);
}

static void fill_f32(const tti_random_draw *d, int64_t first, int64_t n, float *out)
{
    uint32_t w[TTI_RANDOM_CHUNK];
    float lo = (float)d->a, width = (float)d->b - (float)d->a;
    float top = nextafterf((float)d->b, -INFINITY);

    words(d, (uint64_t)first / 4, (n + 3) / 4, w);
    switch (d->kind) {
    case TTI_RANDOM_NORMAL:
        normal_f32(w, n, (float)d->a, (float)d->b, out);
        break;
    case TTI_RANDOM_BERNOULLI:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)w[i] * 0x1p-32 < d->a ? 1.0f : 0.0f;
        break;
    default: /* rounding must not reach the upper end */
        for (int64_t i = 0; i < n; i++) {
            float u = lo + width * tti_unit_float(w[i]);

            out[i] = u > top && top >= lo ? top : u;
        }
        break;
    }
}

static void fill_f64(const tti_random_draw *d, int64_t first, int64_t n, double *out)
{
    uint32_t w[TTI_RANDOM_CHUNK * 2];
    double top = nextafter(d->b, -INFINITY);

    words(d, (uint64_t)first / 2, (n + 1) / 2, w);
    for (int64_t i = 0; i < n; i++)
        out[i] = tti_unit_double(w[2 * i], w[2 * i + 1]);
    if (d->kind == TTI_RANDOM_NORMAL) {
        for (int64_t i = 0; i < n; i += 2) {
            double second = i + 1 < n ? out[i + 1] : tti_unit_double(w[2 * i + 2], w[2 * i + 3]);
            double r = d->b * sqrt(-2.0 * log(1.0 - out[i])), t = 6.283185307179586 * second;

            out[i] = d->a + r * cos(t);
            if (i + 1 < n)
                out[i + 1] = d->a + r * sin(t);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double u = d->a + (d->b - d->a) * out[i];

        if (d->kind == TTI_RANDOM_BERNOULLI)
            out[i] = out[i] < d->a ? 1.0 : 0.0;
        else
            out[i] = u > top && top >= d->a ? top : u;
    }
}

static void fill_i64(const tti_random_draw *d, int64_t first, int64_t n, int64_t *out)
{
    uint32_t w[TTI_RANDOM_CHUNK * 2];
    uint64_t range = (uint64_t)d->hi - (uint64_t)d->lo;

    words(d, (uint64_t)first / 2, (n + 1) / 2, w);
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = ((uint64_t)w[2 * i] << 32) | w[2 * i + 1];

        out[i] = (int64_t)((uint64_t)d->lo + (uint64_t)(((wide)x * range) >> 64));
    }
}

const tti_random_loops TTI_ISA_NAME(tti_random_table) = { fill_f32, fill_f64, fill_i64 };
