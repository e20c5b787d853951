/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of products of a matrix and a vector: see gemv.h. */
#include "ops/cpu/gemv.h"

#ifdef TTI_ISA_AVX512
#define LANES 16
#else
#define LANES 8
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline float sum_of(vec v)
{
    float sum = 0.0f;

    for (int i = 0; i < LANES; i++)
        sum += v[i];
    return sum;
}

/* One row, with four sums at a time so that additions need not wait for each other. */
static float dot(const float *m, const float *x, int64_t n)
{
    vec acc[4] = { { 0 } };
    int64_t l = 0;
    float sum;

    for (; l + 4 * LANES <= n; l += 4 * LANES)
        for (int v = 0; v < 4; v++)
            acc[v] += *(const vec *)(m + l + v * LANES) * *(const vec *)(x + l + v * LANES);
    for (; l + LANES <= n; l += LANES)
        acc[0] += *(const vec *)(m + l) * *(const vec *)(x + l);
    sum = sum_of((acc[0] + acc[1]) + (acc[2] + acc[3]));
    for (; l < n; l++)
        sum += m[l] * x[l];
    return sum;
}

static void dots(const tti_gemv_block *b)
{
    for (int64_t i = 0; i < b->rows; i++)
        b->y[i] = dot(b->m + i * b->ld, b->x, b->terms);
}

/* Eight terms at a time, so that y is read and written once for them. */
static void add_eight(const tti_gemv_block *b, int64_t l)
{
    const float *m = b->m + l * b->ld, *x = b->x + l;
    int64_t i = 0;

    for (; i + LANES <= b->rows; i += LANES) {
        vec even = *(vec *)(b->y + i), odd = { 0 };

        for (int t = 0; t < 8; t += 2) {
            even += *(const vec *)(m + t * b->ld + i) * x[t];
            odd += *(const vec *)(m + (t + 1) * b->ld + i) * x[t + 1];
        }
        *(vec *)(b->y + i) = even + odd;
    }
    for (; i < b->rows; i++)
        for (int t = 0; t < 8; t++)
            b->y[i] += m[t * b->ld + i] * x[t];
}

static void sums(const tti_gemv_block *b)
{
    int64_t l = 0;

    for (int64_t i = 0; i < b->rows; i++)
        b->y[i] = 0.0f;
    for (; l + 8 <= b->terms; l += 8)
        add_eight(b, l);
    for (; l < b->terms; l++)
        for (int64_t i = 0; i < b->rows; i++)
            b->y[i] += b->m[l * b->ld + i] * b->x[l];
}

const tti_gemv_table TTI_ISA_NAME(tti_gemv_loops) = { dots, sums };
