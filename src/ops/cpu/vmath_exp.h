/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponentials and logarithms of float32 that the compiler can vectorise: straight-line C with
 * selects, no tables, no calls, no errno. Infinities, NaN, signed zeros and subnormals come out
 * as from libm; errors stay below 1.5 units in the last place (see tests/unit/ops/test_vmath.c).
 * Included through vmath.h; build callers with -fno-math-errno -fno-trapping-math.
 */
#ifndef TTI_OPS_CPU_VMATH_EXP_H
#define TTI_OPS_CPU_VMATH_EXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#ifndef TTI_KERNEL_TEXT
static inline uint64_t tti_vbitsd(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double tti_vdouble(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}
#endif

/* Adding 1.5 * 2^23 rounds |x| < 2^22 to an integer and leaves it in the low bits. */
#define TTI_VROUND 12582912.0f
#define TTI_VLOG2E 1.44269504f
/* ln 2 in two pieces; the first has 15 bits, so its product with an exponent is exact. */
#define TTI_VLN2_HI 0.693145752f
#define TTI_VLN2_LO 1.42860677e-6f

/* 2^n for -126 <= n <= 127; n is two's complement. */
static inline float tti_vpow2i(uint32_t n)
{
    return tti_vfloat((n + 127u) << 23);
}

/* p * 2^n for p near 1 and -252 <= n <= 254, rounded once even when the result is subnormal. */
static inline float tti_vscale(float p, uint32_t n)
{
    uint32_t semi = (uint32_t)((int32_t)n >> 1);
    return p * tti_vpow2i(semi) * tti_vpow2i(n - semi);
}

/*
 * x within [-bound, bound]; NaN stays. Not written with constant arms because the compiler would
 * then evaluate what follows for the constants, and pay for the merge.
 */
static inline float tti_vclamp(float x, float bound)
{
    float limit = copysignf(bound, x);
    return fabsf(x) > bound ? limit : x;
}

/* e^r for |r| <= 0.3475. */
static inline float tti_vexp_poly(float r)
{
    float q = 0.001382202f;
    q = q * r + 0.008368851f;
    q = q * r + 0.041668255f;
    q = q * r + 0.1666652f;
    q = q * r + 0.49999994f;
    q = q * r + 1.0f;
    return q * r + 1.0f;
}

/* e^x for |x| <= 87, the case that needs no care at the ends. */
static inline float tti_vexp_mid(float x)
{
    float z = x * TTI_VLOG2E + TTI_VROUND;
    float n = z - TTI_VROUND;
    float p = tti_vexp_poly((x - n * TTI_VLN2_HI) - n * TTI_VLN2_LO);
    return p * tti_vpow2i(tti_vbits(z) - tti_vbits(TTI_VROUND));
}

static inline float tti_vexpf(float x)
{
    x = tti_vclamp(x, 104.0f);
    float z = x * TTI_VLOG2E + TTI_VROUND;
    float n = z - TTI_VROUND;
    float p = tti_vexp_poly((x - n * TTI_VLN2_HI) - n * TTI_VLN2_LO);
    return tti_vscale(p, tti_vbits(z) - tti_vbits(TTI_VROUND));
}

static inline float tti_vexp2f(float x)
{
    x = tti_vclamp(x, 151.0f);
    float z = x + TTI_VROUND;
    float r = x - (z - TTI_VROUND);
    float q = 1.4673861e-05f;
    q = q * r + 0.00015452299f;
    q = q * r + 0.0013336656f;
    q = q * r + 0.009618087f;
    q = q * r + 0.05550406f;
    q = q * r + 0.2402265f;
    q = q * r + 0.6931472f;
    return tti_vscale(q * r + 1.0f, tti_vbits(z) - tti_vbits(TTI_VROUND));
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), halved until the end so that 2^128 fits. */
static inline float tti_vexpm1f(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -18.0f ? -18.0f : c;
    float z = c * TTI_VLOG2E + TTI_VROUND;
    float n = z - TTI_VROUND;
    float hi = c - n * TTI_VLN2_HI;
    float lo = n * TTI_VLN2_LO;
    float r = hi - lo;
    float r2 = r * r;
    float q = 0.0013933061f + 0.00019950945f * r;
    q = q * r2 + (0.041666485f + 0.008333201f * r);
    q = q * r2 + (0.5f + 0.16666667f * r);
    float semi = tti_vpow2i(tti_vbits(z) - tti_vbits(TTI_VROUND) - 1u);
    float tail = (q * r) * r - lo;
    float y = ((semi - 0.5f) + semi * hi + semi * tail) * 2.0f;
    float tiny = hi + tail;
    y = n == 0.0f ? tiny : y;
    return fabsf(x) < 1e-8f ? x : y;
}

/* A positive float as 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2). */
struct tti_vlog_parts {
    float k, f;
};

static inline struct tti_vlog_parts tti_vlog_split(float x)
{
    int tiny = x < 1.17549435e-38f;
    float scaled = x * 33554432.0f;
    float k0 = tiny ? -25.0f : 0.0f;
    x = tiny ? scaled : x;
    uint32_t u = tti_vbits(x) - 0x3f3504f3u;
    struct tti_vlog_parts p;
    p.k = (float)((int32_t)u >> 23) + k0;
    p.f = tti_vfloat((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    return p;
}

/* (log(1 + f) - f + f^2 / 2) for the f of tti_vlog_split. */
static inline float tti_vlog_poly(float f)
{
    float f2 = f * f;
    float q = 0.06914684f;
    q = q * f2 + (0.11872699f - 0.11788801f * f);
    q = q * f2 + (0.14218716f - 0.12384484f * f);
    q = q * f2 + (0.20002224f - 0.16669247f * f);
    q = q * f2 + (0.3333331f - 0.24999987f * f);
    return q * f * (f * f);
}

/* What every logarithm of x answers outside (0, inf), y inside. */
static inline float tti_vlog_special(float x, float y)
{
    y = x < INFINITY ? y : x;
    y = x == 0.0f ? -INFINITY : y;
    return x < 0.0f ? NAN : y;
}

static inline float tti_vlog_join(float k, float f)
{
    float y = tti_vlog_poly(f) + k * TTI_VLN2_LO;
    y = y - 0.5f * (f * f);
    return (f + y) + k * TTI_VLN2_HI;
}

static inline float tti_vlogf(float x)
{
    struct tti_vlog_parts p = tti_vlog_split(x);
    return tti_vlog_special(x, tti_vlog_join(p.k, p.f));
}

/*
 * log(1 + x): the exponent k is that of the rounded 1 + x, but f is made from x itself,
 * f = x / 2^k + (1 / 2^k - 1), in which only the last sum rounds. The factors of 4 keep
 * 2^-k normal for the largest x.
 */
static inline float tti_vlog1pf(float x)
{
    float u = 1.0f + x;
    uint32_t b = (tti_vbits(u) - 0x3f3504f3u) >> 23 << 23;
    float k = (float)((int32_t)b >> 23);
    float scale = tti_vfloat((129u << 23) - b);
    float f = (0.25f * x) * scale + (0.25f * scale - 1.0f);
    float y = tti_vlog_special(u, tti_vlog_join(k, f));
    return fabsf(x) < 1e-8f ? x : y;
}

/*
 * log(x) * c + k * d for a base other than e, where c = hi + lo and hi has 12 bits: the leading
 * part of log(1 + f) is cut to 12 bits as well, so that its product with hi is exact.
 */
static inline float tti_vlog_base(float f, float hi, float lo)
{
    float semi = 0.5f * (f * f);
    float a = tti_vfloat(tti_vbits(f - semi) & 0xfffff000u);
    float b = ((f - a) - semi) + tti_vlog_poly(f);
    return ((a + b) * lo + b * hi) + a * hi;
}

static inline float tti_vlog2f(float x)
{
    struct tti_vlog_parts p = tti_vlog_split(x);
    float y = tti_vlog_base(p.f, 1.44287109f, -1.76052854e-4f) + p.k;
    return tti_vlog_special(x, y);
}

static inline float tti_vlog10f(float x)
{
    struct tti_vlog_parts p = tti_vlog_split(x);
    float y = p.k * 4.60503907e-6f + tti_vlog_base(p.f, 0.434326172f, -3.16899714e-5f);
    return tti_vlog_special(x, y + p.k * 0.301025391f);
}

#endif
