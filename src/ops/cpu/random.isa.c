/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of random kernels: Philox words, then uniform, normal or other numbers made of them. Built without
 * contraction of products and sums, so that every instruction set and every accelerator gives the same bits. */
#include "ops/cpu/random.h"
#include "ops/cpu/random_draw.h"

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

static void normal_f32(const uint32_t *w, int64_t n, float mean, float std, float *out)
{
    float c, s;

#pragma omp simd private(c, s)
    for (int64_t i = 0; i < n / 2; i++) {
        tti_draw_normal(w[2 * i], w[2 * i + 1], &c, &s);
        out[2 * i] = mean + std * c;
        out[2 * i + 1] = mean + std * s;
    }
    if (n % 2 != 0) {
        tti_draw_normal(w[n - 1], w[n], &c, &s);
        out[n - 1] = mean + std * c;
    }
}

static void normal_f64(const uint32_t *w, int64_t n, double mean, double std, double *out)
{
    for (int64_t i = 0; i < n; i += 2) {
        double c, s;

        tti_draw_normal_wide(tti_draw_unit_wide(w[2 * i], w[2 * i + 1]),
                             tti_draw_unit_wide(w[2 * i + 2], w[2 * i + 3]), &c, &s);
        out[i] = mean + std * c;
        if (i + 1 < n)
            out[i + 1] = mean + std * s;
    }
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
            float u = lo + width * tti_draw_unit(w[i]);

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
    if (d->kind == TTI_RANDOM_NORMAL) {
        normal_f64(w, n, d->a, d->b, out);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double unit = tti_draw_unit_wide(w[2 * i], w[2 * i + 1]);
        double u = d->a + (d->b - d->a) * unit;

        if (d->kind == TTI_RANDOM_BERNOULLI)
            out[i] = unit < d->a ? 1.0 : 0.0;
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
