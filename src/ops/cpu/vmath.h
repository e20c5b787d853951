/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar mathematics for elementwise kernels: a loop over any tti_v*f function vectorises under
 * -O3 -fno-math-errno -fno-trapping-math (never -ffast-math), for every x86-64 level and NEON.
 * The names ending in d are the same functions of double, from libm, so that a kernel written
 * once per type can choose by suffix. Activations and their derivatives are at the end.
 * Accelerators compile the same text: ops/accel/vmath.cl.
 */
#ifndef TTI_OPS_CPU_VMATH_H
#define TTI_OPS_CPU_VMATH_H

#include "ops/cpu/vmath_exp.h"
#include "ops/cpu/vmath_half.h"
#include "ops/cpu/vmath_trig.h"

static inline float tti_vsqrtf(float x)
{
    return sqrtf(x);
}

static inline float tti_vrsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

/* A polynomial near 0, else 1 - 2 / (e^2|x| + 1), which is 1 from 9.02 on. */
static inline float tti_vtanhf(float x)
{
    float a = fabsf(x);
    float u = x * x;
    float q = -0.006295665f;
    q = q * u + 0.021088311f;
    q = q * u - 0.05385685f;
    q = q * u + 0.13332637f;
    q = q * u - 0.3333332f;
    q = (q * u) * a + a;
    float c = a > 10.0f ? 10.0f : a;
    float y = 1.0f - 2.0f / (tti_vexp_mid(2.0f * c) + 1.0f);
    return copysignf(a < 0.55f ? q : y, x);
}

/* 1 / (1 + e^-x), to 2.5 units in the last place in both tails. */
static inline float tti_vsigmoidf(float x)
{
    float e = tti_vexpf(-fabsf(x));
    float top = x < 0.0f ? e : 1.0f;
    return top / (1.0f + e);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e), where e = e^-|x| <= 1 needs no special cases. */
static inline float tti_vsoftplusf(float x)
{
    float e = tti_vexpf(-fabsf(x));
    int upper = e > 0.41421356f;
    float halved = 0.5f * e - 0.5f;
    float k = upper ? 1.0f : 0.0f;
    float f = upper ? halved : e;
    float top = x > 0.0f ? x : 0.0f;
    return top + tti_vlog_join(k, f);
}

/* A polynomial near 0, else 1 - e^-q(|x|), where q fits -log(erfc). */
static inline float tti_verff(float x)
{
    float a = fabsf(x);
    float u = x * x;
    float u2 = u * u;
    float p = 7.920386e-05f;
    p = p * u2 + (0.005190734f - 0.0008030763f * u);
    p = p * u2 + (0.11283618f - 0.026855126f * u);
    p = p * u2 + (0.12837917f - 0.3761263f * u);
    p = p * a + a;
    float c = a > 3.95f ? 3.95f : a;
    float c2 = c * c;
    float q = -0.00043528943f + 2.1169559e-05f * c;
    q = q * c2 + (-0.025129147f + 0.004174909f * c);
    q = q * c2 + (0.63333434f + 0.10829451f * c);
    q = q * c2 + (-0.00017587356f + 1.1295209f * c);
    float y = 1.0f - tti_vexp_mid(-q);
    return copysignf(a < 0.95f ? p : y, x);
}

#ifndef TTI_VMATH_NO_DOUBLE

static inline double tti_vexpd(double x)
{
    return exp(x);
}
static inline double tti_vexp2d(double x)
{
    return exp2(x);
}
static inline double tti_vexpm1d(double x)
{
    return expm1(x);
}
static inline double tti_vlogd(double x)
{
    return log(x);
}
static inline double tti_vlog1pd(double x)
{
    return log1p(x);
}
static inline double tti_vlog2d(double x)
{
    return log2(x);
}
static inline double tti_vlog10d(double x)
{
    return log10(x);
}
static inline double tti_vtanhd(double x)
{
    return tanh(x);
}
static inline double tti_verfd(double x)
{
    return erf(x);
}
static inline double tti_vsind(double x)
{
    return sin(x);
}
static inline double tti_vcosd(double x)
{
    return cos(x);
}
static inline double tti_vpowd(double x, double y)
{
    return pow(x, y);
}
static inline double tti_vsqrtd(double x)
{
    return sqrt(x);
}
static inline double tti_vrsqrtd(double x)
{
    return 1.0 / sqrt(x);
}

static inline double tti_vsigmoidd(double x)
{
    double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

static inline double tti_vsoftplusd(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

#endif /* TTI_VMATH_NO_DOUBLE */

#define TTI_VREAL float
#define TTI_V(name) tti_v##name##f
#define TTI_VNUM(x) x##f
#include "ops/cpu/vmath_act.inc"

#ifndef TTI_VMATH_NO_DOUBLE
#define TTI_VREAL double
#define TTI_V(name) tti_v##name##d
#define TTI_VNUM(x) x
#include "ops/cpu/vmath_act.inc"
#endif

#endif
