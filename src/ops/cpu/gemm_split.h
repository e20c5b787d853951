/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 products with one long size and two small ones: the rows of a long batch, and the gradients of small weights.
 * A library shares the long size among its threads, and gives other bits for other shares. Here it is cut at fixed
 * places, each piece is computed on one thread, and the parts of sums are added in order. */
#ifndef TTI_OPS_CPU_GEMM_SPLIT_H
#define TTI_OPS_CPU_GEMM_SPLIT_H

#include "ops/cpu/gemm.h"

#define TTI_SPLIT_PANEL 1024 /* the most that the two small sizes may multiply to */
#define TTI_SPLIT_ROWS 1024  /* rows or columns of a piece */
#define TTI_SPLIT_TERMS 4096 /* terms of a sum in a piece */

static inline bool tti_gemm_splits(const tti_mat *p)
{
    return (p->m > TTI_SPLIT_ROWS && p->n * p->k <= TTI_SPLIT_PANEL) ||
           (p->n > TTI_SPLIT_ROWS && p->m * p->k <= TTI_SPLIT_PANEL) ||
           (p->k > TTI_SPLIT_TERMS && p->m * p->n <= TTI_SPLIT_PANEL);
}

/* For products that tti_gemm_splits is true of; `one` computes a piece on the calling thread alone. */
tt_status tti_gemm_split(const tti_mat *p, const float *a, const float *b, float *c,
                         tt_status (*one)(const tti_mat *p, const float *a, const float *b,
                                          float *c));

#endif
