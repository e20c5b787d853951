/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers made of random words, the same bits on every machine and device: nothing here depends on a library,
 * and includers are built without contraction of products and sums. Accelerators compile the same text
 * (ops/accel/random.cl).
 */
#ifndef TTI_OPS_CPU_RANDOM_DRAW_H
#define TTI_OPS_CPU_RANDOM_DRAW_H

#include "ops/cpu/vmath_exp.h"

static inline float tti_draw_unit(uint32_t w)
{
    return (float)(w >> 8) * 5.9604644775390625e-8f;
}

/* Two normal numbers (Box-Muller). The second word is an angle in 24 bits: it is taken apart into quarters
 * of a turn and a rest of at most an eighth before it is rounded. */
static inline void tti_draw_normal(uint32_t w0, uint32_t w1, float *c_p, float *s_p)
{
    float radius = sqrtf(-2.0f * tti_vlogf(1.0f - tti_draw_unit(w0)));
    uint32_t quarter = ((w1 >> 8) + 0x200000u) >> 22;
    float r = (float)(int32_t)((w1 >> 8) - (quarter << 22)) * 3.74507028e-7f;
    float u = r * r;
    float s = -0.00019518613f, c = 2.4430667e-05f;
    float semi = 0.5f * u, w = 1.0f - semi;
    float x, y;

    s = s * u + 0.008332191f;
    s = s * u - 0.16666655f;
    s = (s * u) * r + r;
    c = c * u - 0.0013887301f;
    c = c * u + 0.041666646f;
    c = w + ((c * u) * u + ((1.0f - w) - semi));
    x = (quarter & 1u) != 0 ? s : c;
    y = (quarter & 1u) != 0 ? c : s;
    x = tti_vfloat(tti_vbits(x) ^ (((quarter + 1u) & 2u) << 30));
    y = tti_vfloat(tti_vbits(y) ^ ((quarter & 2u) << 30));
    *c_p = radius * x;
    *s_p = radius * y;
}

#ifndef TTI_VMATH_NO_DOUBLE

static inline double tti_draw_unit_wide(uint32_t hi, uint32_t lo)
{
    return (double)((((uint64_t)hi << 32) | lo) >> 11) * 1.1102230246251565e-16;
}

/* log(x) for a normal x, from log((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + s^5 / 5 + ...), |s| < 0.172. */
static inline double tti_draw_log(double x)
{
    uint64_t b = tti_vbitsd(x);
    uint64_t e = (b + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
    double k = (double)((int32_t)e - 1023);
    double m = tti_vdouble(b - (e << 52) + 0x3ff0000000000000u);
    double s = (m - 1.0) / (m + 1.0), u = s * s;
    double q = 1.0 / 23.0;

    q = q * u + 1.0 / 21.0;
    q = q * u + 1.0 / 19.0;
    q = q * u + 1.0 / 17.0;
    q = q * u + 1.0 / 15.0;
    q = q * u + 1.0 / 13.0;
    q = q * u + 1.0 / 11.0;
    q = q * u + 1.0 / 9.0;
    q = q * u + 1.0 / 7.0;
    q = q * u + 1.0 / 5.0;
    q = q * u + 1.0 / 3.0;
    s = s + s;
    /* ln 2 in two pieces: the product with the first is exact */
    return k * 0.6931471803691238 + (s + (s * (u * q) + k * 1.9082149292705877e-10));
}

/* As tti_draw_normal, in double, from the units u and v. The series of sine and cosine up to an eighth of a turn. */
static inline void tti_draw_normal_wide(double u, double v, double *c_p, double *s_p)
{
    double radius = sqrt(-2.0 * tti_draw_log(1.0 - u));
    uint32_t quarter = (uint32_t)(v * 4.0 + 0.5);
    double r = (v * 4.0 - (double)quarter) * 1.5707963267948966;
    double z = r * r;
    double s = 1.0 / 355687428096000.0, c = 1.0 / 20922789888000.0;
    double x, y;

    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = (s * z) * r + r;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = 1.0 - (0.5 * z - (c * z) * z);
    x = (quarter & 1u) != 0 ? s : c;
    y = (quarter & 1u) != 0 ? c : s;
    *c_p = radius * (((quarter + 1u) & 2u) != 0 ? -x : x);
    *s_p = radius * ((quarter & 2u) != 0 ? -y : y);
}

#endif

#endif
