/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of the optimizers, compiled once per instruction set: float and double from
 * optim_loops.inc; half precision through blocks of float. */
#include <math.h>

#include "ops/cpu/optim.h"
#include "ops/cpu/vmath_half.h"

#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define BLOCK 256 /* elements of half precision converted at a time */

#define T float
#define SQRT sqrtf
#define NAME(x) x##_f32
#include "ops/cpu/optim_loops.inc"
#undef T
#undef SQRT
#undef NAME

#define T double
#define SQRT sqrt
#define NAME(x) x##_f64
#include "ops/cpu/optim_loops.inc"
#undef T
#undef SQRT
#undef NAME

typedef void (*load_fn)(float *dst, const uint16_t *src, size_t n);
typedef void (*store_fn)(uint16_t *dst, const float *src, size_t n);

/* Run a float loop on arrays of halves: read, compute, round once. */
static void halves(tti_optim_loop loop, void *const *arrays, int64_t n, const void *coef,
                   load_fn load, store_fn store)
{
    float block[TTI_OPTIM_ARRAYS][BLOCK];
    void *views[TTI_OPTIM_ARRAYS];

    for (int64_t at = 0; at < n; at += BLOCK) {
        size_t m = (size_t)(n - at < BLOCK ? n - at : BLOCK);

        for (int k = 0; k < TTI_OPTIM_ARRAYS; k++) {
            views[k] = arrays[k] != NULL ? block[k] : NULL;
            if (arrays[k] != NULL)
                load(block[k], (const uint16_t *)arrays[k] + at, m);
        }
        loop(views, (int64_t)m, coef);
        for (int k = 0; k < TTI_OPTIM_ARRAYS; k++)
            if (arrays[k] != NULL && k != 1)
                store((uint16_t *)arrays[k] + at, block[k], m);
    }
}

static double sum_halves(const void *x, int64_t n, double power, load_fn load)
{
    float block[BLOCK];
    double sum = 0;

    for (int64_t at = 0; at < n; at += BLOCK) {
        size_t m = (size_t)(n - at < BLOCK ? n - at : BLOCK);
        double part;

        load(block, (const uint16_t *)x + at, m);
        part = sum_f32(block, (int64_t)m, power);
        if (!isinf(power))
            sum += part;
        else if (part > sum || isnan(part))
            sum = part;
        if (isnan(sum))
            break;
    }
    return sum;
}

static bool unscale_halves(void *x, int64_t n, double s, load_fn load, store_fn store)
{
    float block[BLOCK];
    bool bad = false;

    for (int64_t at = 0; at < n; at += BLOCK) {
        size_t m = (size_t)(n - at < BLOCK ? n - at : BLOCK);

        load(block, (const uint16_t *)x + at, m);
        bad |= unscale_f32(block, (int64_t)m, s);
        store((uint16_t *)x + at, block, m);
    }
    return bad;
}

static void load_f16(float *dst, const uint16_t *src, size_t n)
{
    tti_f16_to_f32_n(dst, src, n);
}

static void store_f16(uint16_t *dst, const float *src, size_t n)
{
    tti_f32_to_f16_n(dst, src, n);
}

static void load_bf16(float *dst, const uint16_t *src, size_t n)
{
    tti_bf16_to_f32_n(dst, src, n);
}

static void store_bf16(uint16_t *dst, const float *src, size_t n)
{
    tti_f32_to_bf16_n(dst, src, n);
}

#define NAME(x) x##_f16
#define LOAD load_f16
#define STORE store_f16
#include "ops/cpu/optim_halves.inc"
#undef NAME
#undef LOAD
#undef STORE

#define NAME(x) x##_bf16
#define LOAD load_bf16
#define STORE store_bf16
#include "ops/cpu/optim_halves.inc"
#undef NAME
#undef LOAD
#undef STORE

const tti_optim_loops TTI_ISA_NAME(tti_optim_loops) = {
    .sgd = { sgd_f32, sgd_f64, sgd_f16, sgd_bf16 },
    .adam = { adam_f32, adam_f64, adam_f16, adam_bf16 },
    .adagrad = { adagrad_f32, adagrad_f64, adagrad_f16, adagrad_bf16 },
    .rmsprop = { rmsprop_f32, rmsprop_f64, rmsprop_f16, rmsprop_bf16 },
    .scale = { scale_f32, scale_f64, scale_f16, scale_bf16 },
    .clamp = { clamp_f32, clamp_f64, clamp_f16, clamp_bf16 },
    .sum = { sum_f32, sum_f64, sum_f16, sum_bf16 },
    .unscale = { unscale_f32, unscale_f64, unscale_f16, unscale_bf16 },
};
