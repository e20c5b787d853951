/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 products too small for a library call to pay. */
#ifndef TTI_OPS_CPU_GEMM_SMALL_H
#define TTI_OPS_CPU_GEMM_SMALL_H

#include "ops/cpu/gemm.h"

typedef void (*tti_gemm_small_fn)(const tti_mat *p, const float *a, const float *b, float *c);

typedef struct tti_gemm_small_table {
    tti_gemm_small_fn rows; /* b is stored by rows */
    tti_gemm_small_fn dots; /* b is stored by columns, and so is the result's single one */
} tti_gemm_small_table;

TTI_ISA_DECLARE(const tti_gemm_small_table, tti_gemm_small);

/* The kernel for a product, or NULL when the library should do it. */
static inline tti_gemm_small_fn tti_gemm_small_pick(const tti_mat *p)
{
    if (p->m * p->n * p->k > 16384 || p->alpha != 1.0)
        return NULL;
    if (!p->tb)
        return TTI_ISA_PICK(tti_gemm_small)->rows;
    return p->n == 1 && !p->ta ? TTI_ISA_PICK(tti_gemm_small)->dots : NULL;
}

#endif
