/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sine, cosine and powers of float32 that the compiler can vectorise. What needs more than 24
 * bits inside (reducing an angle, the logarithm in a power) runs in double, the rest in float.
 * Included through vmath.h; see vmath_exp.h for the rules all of these follow.
 */
#ifndef TTI_OPS_CPU_VMATH_TRIG_H
#define TTI_OPS_CPU_VMATH_TRIG_H

#include "ops/cpu/vmath_exp.h"

#ifdef TTI_VMATH_NO_DOUBLE /* an accelerator without float64: its own functions */

static inline float tti_vsinf(float x)
{
    return sin(x);
}

static inline float tti_vcosf(float x)
{
    return cos(x);
}

static inline float tti_vpowf(float x, float y)
{
    return pow(x, y);
}

#else

/* Adding 1.5 * 2^52 rounds |x| < 2^51 to an integer and leaves it in the low bits. */
#define TTI_VROUNDD 6755399441055744.0

/*
 * sin(x + quarter * pi / 2). The angle is reduced with pi / 2 as 33 + 53 bits, exact to within
 * the float result for |x| < 1.6e6; the error then grows with |x|, and from 2^45 on the angle
 * counts as 0. Infinity and NaN give NaN.
 */
static inline float tti_vsin_shifted(float x, uint32_t quarter)
{
    float c = fabsf(x) < 35184372088832.0f ? x : 0.0f;
    double d = (double)c;
    double z = d * 0.6366197723675814 + TTI_VROUNDD;
    double n = z - TTI_VROUNDD;
    float r = (float)((d - n * 1.5707963267341256) - n * 6.077100506506192e-11);
    uint32_t q = (uint32_t)tti_vbitsd(z) + quarter;
    float u = r * r;

    float s = -0.00019518613f;
    s = s * u + 0.008332191f;
    s = s * u - 0.16666655f;
    s = (s * u) * r + r;
    float k = 2.4430667e-05f;
    k = k * u - 0.0013887301f;
    k = k * u + 0.041666646f;
    float semi = 0.5f * u;
    float w = 1.0f - semi;
    k = w + ((k * u) * u + ((1.0f - w) - semi));

    float y = (q & 1u) != 0 ? k : s;
    y = tti_vfloat(tti_vbits(y) ^ ((q & 2u) << 30));
    float invalid = x - x;
    return fabsf(x) < INFINITY ? y : invalid;
}

static inline float tti_vsinf(float x)
{
    float y = tti_vsin_shifted(x, 0);
    return x == 0.0f ? x : y;
}

static inline float tti_vcosf(float x)
{
    return tti_vsin_shifted(x, 1);
}

/* log2(x) to 2^-43 for a positive finite x that was a float; something finite for others. */
static inline double tti_vlog2_wide(double x)
{
    /* Adding the distance from sqrt(1/2) to 1 makes the exponent field that of 1 + f. */
    uint64_t b = tti_vbitsd(x);
    uint64_t e = (b + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
    double k = tti_vdouble(e | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
    double m = tti_vdouble(b - (e << 52) + 0x3ff0000000000000u);
    double s = (m - 1.0) / (m + 1.0);
    double u = s * s;
    double u2 = u * u;
    double q = 0.3199049490738009 + 0.2829103451573242 * u;
    q = q * u2 + (0.5770779421615166 + 0.41220927164195664 * u);
    q = q * u2 + (2.8853900817778495 + 0.961796694114101 * u);
    return q * s + k;
}

/* 2^z to 2^-34; beyond +-300 it stands still. */
static inline double tti_vexp2_wide(double z)
{
    double limit = copysign(300.0, z);
    z = fabs(z) > 300.0 ? limit : z;
    double t = z + TTI_VROUNDD;
    double r = z - (t - TTI_VROUNDD);
    double r2 = r * r;
    double q = 0.00015469758329533513 + 1.5316037611474774e-05 * r;
    q = q * r2 + (0.009618025520728091 + 0.0013333424298533174 * r);
    q = q * r2 + (0.24022651214210403 + 0.05550410974358852 * r);
    q = q * r2 + (0.9999999999594846 + 0.6931471805355199 * r);
    return q * tti_vdouble((tti_vbitsd(t) + 1023u) << 52);
}

/* x to the power y with every special case of C's pow (annex F.10.4.4). */
static inline float tti_vpowf(float x, float y)
{
    float ax = fabsf(x);
    float semi = 0.5f * y;
    int whole = truncf(y) == y;
    int odd = whole & (truncf(semi) != semi);
    float p = (float)tti_vexp2_wide((double)y * tti_vlog2_wide((double)ax));
    p = p + (ax - ax); /* NaN if x is; an infinite x is settled next */
    float toward = ax > 1.0f ? y : -y;
    float end = toward > 0.0f ? INFINITY : 0.0f;
    int at_end = ((ax == 0.0f) | (ax == INFINITY)) & (y == y);
    p = at_end ? end : p;
    uint32_t sign = odd ? tti_vbits(x) & 0x80000000u : 0u;
    p = tti_vfloat(tti_vbits(p) | sign);
    int invalid = (x < 0.0f) & (ax < INFINITY) & !whole;
    p = invalid ? NAN : p;
    int one = (y == 0.0f) | (x == 1.0f) | ((ax == 1.0f) & (fabsf(y) == INFINITY));
    return one ? 1.0f : p;
}

#endif /* TTI_VMATH_NO_DOUBLE */

#endif
