/* SPDX-License-Identifier: Apache-2.0 */
/*
 * float32 to and from bfloat16 and IEEE half. Rounds to nearest, ties to even; too large becomes
 * infinity, subnormals are kept, NaN stays NaN and becomes quiet. The single-value functions are
 * straight-line and vectorise; the array functions use the half instructions where the
 * compiler may, and give the same bits.
 */
#ifndef TTI_BASE_HALF_H
#define TTI_BASE_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#ifndef TTI_KERNEL_TEXT /* this file is also part of the text of kernels for accelerators */

static inline uint32_t tti_vbits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float tti_vfloat(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#endif

typedef uint16_t tti_f16bits;
typedef uint16_t tti_bf16bits;

static inline float tti_bf16_to_f32(tti_bf16bits h)
{
    return tti_vfloat((uint32_t)h << 16);
}

static inline tti_bf16bits tti_f32_to_bf16(float x)
{
    uint32_t u = tti_vbits(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t quiet = (u >> 16) | 0x40u;
    return (tti_bf16bits)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline float tti_f16_to_f32(tti_f16bits h)
{
    uint32_t mag = ((uint32_t)h & 0x7fffu) << 13;
    uint32_t sign = ((uint32_t)h & 0x8000u) << 16;
    uint32_t normal = mag + (112u << 23);
    /* Half's subnormals: put the fraction under an exponent of -14 and take 2^-14 away. */
    uint32_t subnormal = tti_vbits(tti_vfloat(mag + (113u << 23)) - tti_vfloat(113u << 23));
    uint32_t special = mag + (224u << 23);
    uint32_t quiet = mag > 0x0f800000u ? 0x400000u : 0u;
    uint32_t u = mag < 0x00800000u ? subnormal : normal;
    u = mag >= 0x0f800000u ? special | quiet : u;
    return tti_vfloat(u | sign);
}

static inline tti_f16bits tti_f32_to_f16(float x)
{
    uint32_t u = tti_vbits(x);
    uint32_t mag = u & 0x7fffffffu;
    uint32_t normal = (mag - (112u << 23) + 0xfffu + ((mag >> 13) & 1u)) >> 13;
    /* Below 2^-14: 0.5 has its last bit at 2^-24, so adding it rounds as half would. */
    uint32_t subnormal = tti_vbits(tti_vfloat(mag) + 0.5f) - tti_vbits(0.5f);
    uint32_t nan = 0x7e00u | ((mag >> 13) & 0x3ffu);
    uint32_t h = mag < (113u << 23) ? subnormal : normal;
    h = mag >= 0x477ff000u ? 0x7c00u : h;
    h = mag > 0x7f800000u ? nan : h;
    return (tti_f16bits)(h | ((u >> 16) & 0x8000u));
}

#ifndef TTI_KERNEL_TEXT

static inline void tti_bf16_to_f32_n(float *dst, const tti_bf16bits *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tti_bf16_to_f32(src[i]);
}

static inline void tti_f32_to_bf16_n(tti_bf16bits *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tti_f32_to_bf16(src[i]);
}

static inline void tti_f16_to_f32_n(float *dst, const tti_f16bits *src, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i < n - n % 8; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
#endif
    for (; i < n; i++)
        dst[i] = tti_f16_to_f32(src[i]);
}

static inline void tti_f32_to_f16_n(tti_f16bits *dst, const float *src, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i < n - n % 8; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(dst + i), h);
    }
#endif
    for (; i < n; i++)
        dst[i] = tti_f32_to_f16(src[i]);
}

#endif

#endif
