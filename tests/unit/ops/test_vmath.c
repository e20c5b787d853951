/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath.h against double libm: largest error over sweeps of the whole float range, special values,
 * powers, half-precision conversions, activations and their derivatives. Every loop is compiled
 * for several instruction sets, because fused multiply-add and vector selects change the code.
 */
#if !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#endif

#include <tutti/testing.h>

#include "ops/cpu/vmath.h"

enum { LANES = 2048, LEVELS = 3 };

typedef struct lane {
    float x[LANES], y[LANES], out[LANES];
    uint16_t half[LANES];
} lane;

typedef void (*kernel)(lane *io);

#define KERNEL(name) name##_base
#include "unit/ops/vmath_kernels.inc"

#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define KERNEL(name) name##_fma
#include "unit/ops/vmath_kernels.inc"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#define KERNEL(name) name##_wide
#include "unit/ops/vmath_kernels.inc"
#pragma GCC pop_options
#define FOR_LEVELS(name)                     \
    {                                        \
        name##_base, name##_fma, name##_wide \
    }

static int levels(void)
{
    int fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int wide = fma && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    return 1 + fma + wide;
}
#else
#define FOR_LEVELS(name)        \
    {                           \
        name##_base, NULL, NULL \
    }

static int levels(void)
{
    return 1;
}
#endif

static const char *const level_names[LEVELS] = { "base", "avx2", "avx512" };

static lane io;

static const float specials[] = { 0.0f,
                                  -0.0f,
                                  1.0f,
                                  -1.0f,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  0x1p-149f,
                                  -0x1p-149f,
                                  0x1p-126f,
                                  -0x1p-126f,
                                  0x1.fffffep127f,
                                  -0x1.fffffep127f,
                                  88.72283f,
                                  88.72284f,
                                  -103.97f,
                                  -103.98f,
                                  128.0f,
                                  -149.0f,
                                  -150.0f,
                                  0x1.fffffep-1f,
                                  -0x1.fffffep-1f,
                                  0x1.000002p0f,
                                  0.55f,
                                  0.95f };
enum { SPECIALS = sizeof specials / sizeof *specials };

static bool same_bits(float a, float b)
{
    return tti_vbits(a) == tti_vbits(b);
}

/* The error of got in units of the last place of want; 1e9 if one is NaN or the sign is wrong. */
static double ulps(float got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0.0 : 1e9;
    if (!!signbit(got) != !!signbit(want))
        return 1e9;
    if (same_bits(got, (float)want))
        return 0.5;
    if (isinf(want))
        return 1e9;
    int e;
    (void)frexp(want, &e);
    double unit = ldexp(1.0, (e < -125 ? -125 : e) - 24);
    double finite = isinf(got) ? copysign(0x1p128, (double)got) : (double)got;
    return fabs(finite - want) / unit;
}

/* ---- Sweeps ---------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    kernel run[LEVELS];
    double (*want)(double x);
    double bound; /* units in the last place */
    float reach;  /* beyond this |x| the result only has to be finite */
} row;

#define BOTH(name) #name "_is_accurate", FOR_LEVELS(name), tti_v##name##d

static row rows[] = {
    { BOTH(exp), 1.25, INFINITY },     { BOTH(exp2), 1.2, INFINITY },
    { BOTH(expm1), 1.5, INFINITY },    { BOTH(log), 1.0, INFINITY },
    { BOTH(log1p), 1.5, INFINITY },    { BOTH(log2), 1.0, INFINITY },
    { BOTH(log10), 1.0, INFINITY },    { BOTH(tanh), 1.75, INFINITY },
    { BOTH(sigmoid), 2.5, INFINITY },  { BOTH(erf), 1.5, INFINITY },
    { BOTH(sin), 1.5, 1e5f },          { BOTH(cos), 1.5, 1e5f },
    { BOTH(sqrt), 0.5, INFINITY },     { BOTH(rsqrt), 1.5, INFINITY },
    { BOTH(softplus), 2.5, INFINITY },
};

static void sweep_block(const row *r, int count, double *worst)
{
    for (int level = 0; level < levels(); level++) {
        r->run[level](&io);
        for (int i = 0; i < count; i++) {
            if (isfinite(io.x[i]) && fabsf(io.x[i]) > r->reach) {
                if (!isfinite(io.out[i]))
                    TT_FAIL_TEST("%s: f(%a) is %a", level_names[level], io.x[i], io.out[i]);
                continue;
            }
            double error = ulps(io.out[i], r->want((double)io.x[i]));
            if (error > *worst) {
                *worst = error;
                if (error > r->bound)
                    TT_FAIL_TEST("%s: f(%a) is %a, %.3g units off", level_names[level], io.x[i],
                                 io.out[i], error);
            }
        }
    }
}

static void sweep(void *ctx)
{
    const row *r = ctx;
    double worst = 0.0;
    for (int i = 0; i < LANES; i++)
        io.x[i] = specials[i % SPECIALS];
    sweep_block(r, SPECIALS, &worst);
    /* A prime step visits every exponent with ever different fractions. */
    uint64_t u = 0;
    while (u < 0x100000000u) {
        int count = 0;
        for (; count < LANES && u < 0x100000000u; u += 4999)
            io.x[count++] = tti_vfloat((uint32_t)u);
        sweep_block(r, count, &worst);
    }
    /* The middle of the range, where all the work is done, more densely. */
    for (int block = 0; block < 64; block++) {
        for (int i = 0; i < LANES; i++)
            io.x[i] = ((float)(block * LANES + i) - 65536.0f) * 0x1.9p-13f;
        sweep_block(r, LANES, &worst);
    }
    TT_NOTE("largest error %.3f units in the last place", worst);
}

TT_TEST_TABLE(vmath)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        tt_test_add("vmath", rows[i].name, sweep, &rows[i]);
}

/* ---- Powers ---------------------------------------------------------------------------------- */

static const kernel pow_levels[LEVELS] = FOR_LEVELS(pow);

static void check_pow(double bound)
{
    for (int level = 0; level < levels(); level++) {
        pow_levels[level](&io);
        for (int i = 0; i < LANES; i++) {
            double error = ulps(io.out[i], pow((double)io.x[i], (double)io.y[i]));
            if (error > bound)
                TT_FAIL_TEST("%s: pow(%a, %a) is %a, %.3g units off", level_names[level], io.x[i],
                             io.y[i], io.out[i], error);
        }
    }
}

TT_TEST(vmath, pow_has_all_special_cases)
{
    static const float v[] = { 0.0f,          -0.0f,          1.0f,
                               -1.0f,         2.0f,           -2.0f,
                               3.0f,          -3.0f,          0.5f,
                               -0.5f,         2.5f,           -2.5f,
                               INFINITY,      -INFINITY,      NAN,
                               0x1p-149f,     -0x1p-149f,     0x1p-126f,
                               3e38f,         -3e38f,         16777215.f,
                               -16777215.f,   16777216.f,     -16777216.f,
                               8388607.5f,    0x1.fffffep-1f, -0x1.fffffep-1f,
                               0x1.000002p0f, -0x1.000002p0f, 1e9f,
                               -1e9f };
    enum { COUNT = sizeof v / sizeof *v };
    for (int i = 0; i < LANES; i++) {
        io.x[i] = v[i % COUNT];
        io.y[i] = v[i / COUNT % COUNT];
    }
    check_pow(1.0);
}

TT_TEST(vmath, pow_is_accurate)
{
    uint64_t s = tt_test_seed() | 1;
    for (int block = 0; block < 100; block++) {
        for (int i = 0; i < LANES; i++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            double t = (double)(s >> 40) / 0x1p23 - 1.0;
            io.x[i] = tti_vfloat((uint32_t)(s >> 20) & 0x7fffffffu);
            io.y[i] =
                block % 2 ? (float)(150.0 * t / log2((double)io.x[i])) : truncf((float)(t * 40));
            if (block % 4 == 2)
                io.x[i] = -(float)(s >> 50 & 63);
        }
        check_pow(1.0);
    }
}

/* ---- Half precision -------------------------------------------------------------------------- */

static const kernel to_f16_levels[LEVELS] = FOR_LEVELS(to_f16);
static const kernel from_f16_levels[LEVELS] = FOR_LEVELS(from_f16);
static const kernel to_bf16_levels[LEVELS] = FOR_LEVELS(to_bf16);

/* The value of a half with `fraction` bits of fraction and the given exponent bias. */
static double half_value(uint32_t h, int fraction, int bias)
{
    int e = (int)((h & 0x7fffu) >> fraction);
    double m = (double)(h & ((1u << fraction) - 1u));
    double mag =
        e ? ldexp(m + ldexp(1.0, fraction), e - bias - fraction) : ldexp(m, 1 - bias - fraction);
    if (e == (0x7fff >> fraction))
        mag = m != 0.0 ? NAN : INFINITY;
    return h & 0x8000u ? -mag : mag;
}

/* Whether h is x rounded to nearest, ties to even, judged by its two neighbours. */
static bool is_rounded(uint32_t h, float x, int fraction, int bias)
{
    uint32_t top = 0x7fffu >> fraction << fraction;
    uint32_t mag = h & 0x7fffu;
    double ax = fabs((double)x);
    if (isnan(x))
        return mag > top && (mag & (1u << (fraction - 1))) != 0;
    if (!!(h & 0x8000u) != !!signbit(x) || mag > top)
        return false;
    /* Infinity stands one step above the largest finite value. */
    double here = mag == top ? ldexp(1.0, bias + 1) : half_value(mag, fraction, bias);
    double up = mag + 1 >= top ? ldexp(1.0, bias + 1) : half_value(mag + 1, fraction, bias);
    double down = mag ? half_value(mag - 1, fraction, bias) : -1.0;
    bool low_ok = mag == 0 || ax > (here + down) / 2 || (ax == (here + down) / 2 && !(mag & 1));
    bool high_ok = mag == top || ax < (here + up) / 2 || (ax == (here + up) / 2 && !(mag & 1));
    return low_ok && high_ok;
}

static void check_rounding(const kernel *run, int fraction, int bias)
{
    for (int level = 0; level < levels(); level++) {
        run[level](&io);
        for (int i = 0; i < LANES; i++)
            if (!is_rounded(io.half[i], io.x[i], fraction, bias))
                TT_FAIL_TEST("%s: %a became 0x%04x", level_names[level], io.x[i], io.half[i]);
    }
}

static void sweep_rounding(const kernel *run, int fraction, int bias)
{
    for (uint64_t u = 0; u < 0x100000000u;) {
        for (int i = 0; i < LANES; i++, u += 10007)
            io.x[i] = tti_vfloat((uint32_t)u);
        check_rounding(run, fraction, bias);
    }
    /* Every value between two neighbours, and both its own neighbours: the ties. */
    for (uint32_t h = 0; h < 0x7c00u;) {
        for (int i = 0; i + 2 < LANES; i += 3, h++) {
            double tie = (half_value(h, fraction, bias) + half_value(h + 1, fraction, bias)) / 2;
            io.x[i] = (float)tie;
            io.x[i + 1] = nextafterf((float)tie, INFINITY);
            io.x[i + 2] = -nextafterf((float)tie, 0.0f);
        }
        check_rounding(run, fraction, bias);
    }
}

TT_TEST(vmath, float_to_float16_rounds_to_nearest_even)
{
    sweep_rounding(to_f16_levels, 10, 15);
}

TT_TEST(vmath, float_to_bfloat16_rounds_to_nearest_even)
{
    sweep_rounding(to_bf16_levels, 7, 127);
}

TT_TEST(vmath, every_float16_converts_exactly_and_back)
{
    for (int level = 0; level < levels(); level++) {
        for (uint32_t h = 0; h < 0x10000u; h += LANES) {
            for (uint32_t i = 0; i < LANES; i++)
                io.half[i] = (uint16_t)(h + i);
            from_f16_levels[level](&io);
            for (uint32_t i = 0; i < LANES; i++) {
                double want = half_value(h + i, 10, 15);
                TT_CHECK(ulps(io.out[i], want) <= 0.5 && !!signbit(io.out[i]) == (h + i) >> 15);
                uint16_t quiet = (uint16_t)(h + i) | (isnan(want) ? 0x200u : 0u);
                TT_CHECK_EQ(tti_f32_to_f16(io.out[i]), quiet);
            }
        }
    }
}

TT_TEST(vmath, every_bfloat16_converts_exactly_and_back)
{
    for (uint32_t h = 0; h < 0x10000u; h++) {
        float x = tti_bf16_to_f32((tti_bf16bits)h);
        TT_CHECK(tti_vbits(x) == h << 16);
        TT_CHECK_EQ(tti_f32_to_bf16(x), h | (isnan(x) ? 0x40u : 0u));
    }
}

TT_TEST(vmath, half_arrays_of_any_length_match_single_values)
{
    float back[37];
    tti_f16bits f16[37];
    tti_bf16bits bf16[37];
    for (size_t n = 0; n <= 37; n++) {
        for (size_t i = 0; i < n; i++)
            io.x[i] = i == 5 ? NAN : specials[i % SPECIALS] * (1.0f + (float)n / 64.0f);
        tti_f32_to_f16_n(f16, io.x, n);
        tti_f32_to_bf16_n(bf16, io.x, n);
        for (size_t i = 0; i < n; i++) {
            TT_CHECK_EQ(f16[i], tti_f32_to_f16(io.x[i]));
            TT_CHECK_EQ(bf16[i], tti_f32_to_bf16(io.x[i]));
        }
        tti_f16_to_f32_n(back, f16, n);
        for (size_t i = 0; i < n; i++)
            TT_CHECK(same_bits(back[i], tti_f16_to_f32(f16[i])));
        tti_bf16_to_f32_n(back, bf16, n);
        for (size_t i = 0; i < n; i++)
            TT_CHECK(same_bits(back[i], tti_bf16_to_f32(bf16[i])));
    }
}

/* ---- Activations ----------------------------------------------------------------------------- */

typedef struct activation {
    const char *name;
    kernel run[LEVELS], run_grad[LEVELS];
    double (*value)(double x);
    double (*grad)(double x);
} activation;

#define WITH_GRAD(name)                                                                       \
    {                                                                                         \
#name, FOR_LEVELS(name), FOR_LEVELS(name##_grad), tti_v##name##d, tti_v##name##_gradd \
    }

static const activation activations[] = { WITH_GRAD(silu), WITH_GRAD(gelu), WITH_GRAD(gelu_tanh),
                                          WITH_GRAD(softplus) };

static void check_against_double(const char *name, const kernel *run, double (*want)(double x))
{
    for (int level = 0; level < levels(); level++) {
        run[level](&io);
        for (int i = 0; i < LANES; i++) {
            double x = (double)io.x[i];
            double tolerance = 2e-7 * fmax(1.0, fabs(x));
            if (!(fabs((double)io.out[i] - want(x)) <= tolerance))
                TT_FAIL_TEST("%s %s(%a) is %a, expected %a", level_names[level], name, io.x[i],
                             io.out[i], want(x));
        }
    }
}

TT_TEST(vmath, activations_and_derivatives_match_double)
{
    static const float large[] = { 1e10f, -1e10f, 1e20f, -1e20f, 3e38f, -3e38f, 0.0f, 1e-40f };
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        for (int block = 0; block < 10; block++) {
            for (int i = 0; i < LANES; i++)
                io.x[i] = ((float)(block * LANES + i) - 10240.0f) * 0x1.4p-9f;
            for (int i = 0; i < 8; i++)
                io.x[i] = large[i];
            check_against_double(activations[a].name, activations[a].run, activations[a].value);
            check_against_double(activations[a].name, activations[a].run_grad, activations[a].grad);
        }
    }
}

TT_TEST(vmath, derivatives_match_differences)
{
    const double h = 1e-5;
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        const activation *f = &activations[a];
        for (double x = -12.0; x < 12.0; x += 0.0625)
            TT_CHECK_NEAR(f->grad(x), (f->value(x + h) - f->value(x - h)) / (2 * h), 1e-8);
    }
    for (double x = -12.0; x < 12.0; x += 0.0625) {
        double s = tti_vsigmoidd(x), t = tti_vtanhd(x);
        TT_CHECK_NEAR(tti_vsigmoid_gradd(s),
                      (tti_vsigmoidd(x + h) - tti_vsigmoidd(x - h)) / (2 * h), 1e-8);
        TT_CHECK_NEAR(tti_vtanh_gradd(t), (tanh(x + h) - tanh(x - h)) / (2 * h), 1e-8);
        TT_CHECK_NEAR(tti_vsigmoid_gradf((float)s), tti_vsigmoid_gradd(s), 1e-7);
        TT_CHECK_NEAR(tti_vtanh_gradf((float)t), tti_vtanh_gradd(t), 2e-7);
    }
}

TT_TEST(vmath, activations_have_the_values_of_their_definitions)
{
    TT_CHECK_NEAR(tti_vgeluf(1.0f), 0.8413447461, 1e-7);
    TT_CHECK_NEAR(tti_vgelu_tanhf(1.0f), 0.8411919906, 1e-7);
    TT_CHECK_NEAR(tti_vsiluf(1.0f), 0.7310585786, 1e-7);
    TT_CHECK_NEAR(tti_vsoftplusf(0.0f), 0.6931471806, 1e-7);
    TT_CHECK_NEAR(tti_vgeluf(-3.0f), -0.0040496941, 4e-7);
}
