/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 products whose result is a vector. A library shares a long sum among its threads, so that the bits depend on
 * how many there are; here sums are cut at fixed places, and their parts added in order. */
#ifndef TTI_OPS_CPU_GEMV_H
#define TTI_OPS_CPU_GEMV_H

#include "ops/cpu/gemm.h"

#define TTI_GEMV_PART 4096 /* terms of a sum that are added in one go */

/* y[i] = sum over l of m(i, l) * x[l], for i below `rows` and l below `terms` <= TTI_GEMV_PART. */
typedef struct tti_gemv_block {
    const float *m; /* m(i, l) is at i * ld + l ("dots") or l * ld + i ("sums") */
    const float *x;
    float *y;
    int64_t rows, terms, ld;
} tti_gemv_block;

typedef struct tti_gemv_table {
    void (*dots)(const tti_gemv_block *b);
    void (*sums)(const tti_gemv_block *b);
} tti_gemv_table;

TTI_ISA_DECLARE(const tti_gemv_table, tti_gemv_loops);

/* Whether p has a result of one row or column. */
static inline bool tti_gemv_takes(const tti_mat *p)
{
    return p->m == 1 || p->n == 1;
}

tt_status tti_gemv(const tti_mat *p, const float *a, const float *b, float *c);

#endif
