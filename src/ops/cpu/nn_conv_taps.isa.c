/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of small convolutions, spread over pairs of pixels and summed back. The simple way goes pair
 * by pair through all channels. With AVX-512 it goes channel by channel, whose taps and pairs are one
 * vector each: a permutation of the other. */
#include "ops/cpu/nn_conv_taps.h"

#include <string.h>

#define LANES TTI_SMALL_LANES
#define PIXELS TTI_SMALL_PIXELS

static void spread_pairs(const tti_conv_taps *t, const float *w, float *to)
{
    int64_t c = t->c, in = t->in, taps = t->taps;

    for (int64_t p = 0; p < t->out * in; p++) {
        int32_t tap = t->tap[p / in * PIXELS + p % in];
        float *row = to + p / in * c * in + p % in;

        if (tap < 0)
            for (int64_t j = 0; j < c; j++)
                row[j * in] = 0.0f;
        else
            for (int64_t j = 0; j < c; j++)
                row[j * in] = w[j * taps + tap];
    }
}

static void fold_pairs(const tti_conv_taps *t, const float *from, float *w)
{
    int64_t c = t->c, in = t->in, taps = t->taps;

    memset(w, 0, (size_t)(c * taps) * sizeof *w);
    for (int64_t p = 0; p < t->out * in; p++) {
        int32_t tap = t->tap[p / in * PIXELS + p % in];
        const float *row = from + p / in * c * in + p % in;

        if (tap >= 0)
            for (int64_t j = 0; j < c; j++)
                w[j * taps + tap] += row[j * in];
    }
}

#ifdef __AVX512F__
#include <immintrin.h>

/* Which lanes to take, and in which to have 0 instead. */
typedef struct choice {
    __m512i lane;
    __mmask16 keep;
} choice;

static choice choice_of(const int32_t *index)
{
    __m512i lane = _mm512_loadu_si512(index);

    return (choice){ lane, _mm512_cmpge_epi32_mask(lane, _mm512_setzero_si512()) };
}

static inline __m512 choose(__m512 v, choice c)
{
    return _mm512_maskz_permutexvar_ps(c.keep, c.lane, v);
}

static inline __mmask16 first(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}

/* Pixels of up to four rows, one row after the other. */
static inline __m512 gather_rows(const float *p, int64_t row, int64_t n_rows, __mmask8 pixels)
{
    __m512 v = _mm512_castps128_ps512(_mm_maskz_loadu_ps(pixels, p));

    if (n_rows > 1)
        v = _mm512_insertf32x4(v, _mm_maskz_loadu_ps(pixels, p + row), 1);
    if (n_rows > 2)
        v = _mm512_insertf32x4(v, _mm_maskz_loadu_ps(pixels, p + 2 * row), 2);
    if (n_rows > 3)
        v = _mm512_insertf32x4(v, _mm_maskz_loadu_ps(pixels, p + 3 * row), 3);
    return v;
}

static inline void scatter_rows(float *p, int64_t row, int64_t n_rows, __mmask8 pixels, __m512 v)
{
    _mm_mask_storeu_ps(p, pixels, _mm512_castps512_ps128(v));
    if (n_rows > 1)
        _mm_mask_storeu_ps(p + row, pixels, _mm512_extractf32x4_ps(v, 1));
    if (n_rows > 2)
        _mm_mask_storeu_ps(p + 2 * row, pixels, _mm512_extractf32x4_ps(v, 2));
    if (n_rows > 3)
        _mm_mask_storeu_ps(p + 3 * row, pixels, _mm512_extractf32x4_ps(v, 3));
}

static void spread_channels(const tti_conv_taps *t, const float *w, float *to)
{
    int64_t c = t->c, in = t->in, taps = t->taps, out = t->out;
    __mmask16 all_taps = first(taps);
    __mmask8 pixels = (__mmask8)first(in);
    choice by_tap = choice_of(t->tap);

    for (int64_t j = 0; j < c; j++) {
        __m512 v = _mm512_maskz_loadu_ps(all_taps, w + j * taps);

        scatter_rows(to + j * in, c * in, out, pixels, choose(v, by_tap));
    }
}

static void fold_channels(const tti_conv_taps *t, const float *from, float *w)
{
    int64_t c = t->c, in = t->in, taps = t->taps, out = t->out;
    __mmask16 all_taps = first(taps);
    __mmask8 pixels = (__mmask8)first(in);
    choice by_pair[PIXELS];

    for (int i = 0; i < PIXELS; i++)
        by_pair[i] = choice_of(t->pair[i]);
    for (int64_t j = 0; j < c; j++) {
        __m512 v = gather_rows(from + j * in, c * in, out, pixels);
        __m512 sum = choose(v, by_pair[0]);

        for (int i = 1; i < t->n_pairs; i++)
            sum = _mm512_add_ps(sum, choose(v, by_pair[i]));
        _mm512_mask_storeu_ps(w + j * taps, all_taps, sum);
    }
}

/* A single pair is not worth a vector. */
static void spread(const tti_conv_taps *t, const float *w, float *to)
{
    (t->in * t->out > 1 ? spread_channels : spread_pairs)(t, w, to);
}

static void fold(const tti_conv_taps *t, const float *from, float *w)
{
    (t->in * t->out > 1 ? fold_channels : fold_pairs)(t, from, w);
}

const tti_conv_taps_table TTI_ISA_NAME(tti_conv_taps_table) = { spread, fold };

#else

const tti_conv_taps_table TTI_ISA_NAME(tti_conv_taps_table) = { spread_pairs, fold_pairs };

#endif
