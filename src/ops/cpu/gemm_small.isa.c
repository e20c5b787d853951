/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 products too small for a library call to pay. The result is made in tiles of four rows and one
 * or two vectors of columns, kept in registers over k. */
#include "ops/cpu/gemm_small.h"

#ifdef TTI_ISA_AVX512
#define LANES 16
#else
#define LANES 8
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Where row i of op(a) begins, and the distance between its elements. */
typedef struct left {
    const float *data;
    int64_t row, step;
} left;

/* rows x (2 vectors) of c, at column j. */
static inline void tile(const tti_mat *p, const left *a, const float *b, float *c, int rows,
                        int vectors)
{
    vec acc[4][2] = { { { 0 } } };
    const vec beta = (vec){ 0 } + (float)p->beta;

    for (int64_t l = 0; l < p->k; l++) {
        vec b0 = *(const vec *)(b + l * p->ldb);
        vec b1 = vectors > 1 ? *(const vec *)(b + l * p->ldb + LANES) : b0;

        for (int i = 0; i < rows; i++) {
            float s = a->data[i * a->row + l * a->step];

            acc[i][0] += b0 * s;
            if (vectors > 1)
                acc[i][1] += b1 * s;
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) {
            vec *out = (vec *)(c + i * p->ldc + v * LANES);

            if (p->beta != 0.0)
                acc[i][v] += beta * *out;
            *out = acc[i][v];
        }
}

/* The columns that do not fill a vector. */
static void edge(const tti_mat *p, const left *a, const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0.0f;

            for (int64_t l = 0; l < p->k; l++)
                sum += a->data[i * a->row + l * a->step] * b[l * p->ldb + j];
            c[i * p->ldc + j] = p->beta != 0.0 ? sum + (float)p->beta * c[i * p->ldc + j] : sum;
        }
}

static void columns(const tti_mat *p, const left *a, const float *b, float *c, int vectors)
{
    int64_t i = 0;

    for (; i + 4 <= p->m; i += 4) {
        left at = { a->data + i * a->row, a->row, a->step };

        if (vectors > 1)
            tile(p, &at, b, c + i * p->ldc, 4, 2);
        else
            tile(p, &at, b, c + i * p->ldc, 4, 1);
    }
    for (; i < p->m; i++) {
        left at = { a->data + i * a->row, a->row, a->step };

        if (vectors > 1)
            tile(p, &at, b, c + i * p->ldc, 1, 2);
        else
            tile(p, &at, b, c + i * p->ldc, 1, 1);
    }
}

static void small_rows(const tti_mat *p, const float *a, const float *b, float *c)
{
    left l = { a, p->ta ? 1 : p->lda, p->ta ? p->lda : 1 };
    int64_t j = 0;

    for (; j + 2 * LANES <= p->n; j += 2 * LANES)
        columns(p, &l, b + j, c + j, 2);
    for (; j + LANES <= p->n; j += LANES)
        columns(p, &l, b + j, c + j, 1);
    if (j < p->n)
        edge(p, &l, b + j, c + j, p->n - j);
}

/* One column: each element is the product of two rows. */
static void small_dots(const tti_mat *p, const float *a, const float *b, float *c)
{
    for (int64_t i = 0; i < p->m; i++) {
        const float *row = a + i * p->lda;
        vec sums = { 0 };
        float sum = 0.0f;
        int64_t l = 0;

        for (; l + LANES <= p->k; l += LANES)
            sums += *(const vec *)(row + l) * *(const vec *)(b + l);
        for (int v = 0; v < LANES; v++)
            sum += sums[v];
        for (; l < p->k; l++)
            sum += row[l] * b[l];
        c[i * p->ldc] = p->beta != 0.0 ? sum + (float)p->beta * c[i * p->ldc] : sum;
    }
}

const tti_gemm_small_table TTI_ISA_NAME(tti_gemm_small) = { small_rows, small_dots };
