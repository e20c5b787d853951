/* SPDX-License-Identifier: Apache-2.0 */
/* One matrix product on plain pointers: what gemm.c hands to the libraries behind it. */
#ifndef TTI_OPS_CPU_GEMM_H
#define TTI_OPS_CPU_GEMM_H

#include "ops/cpu/cpu.h"

/* c [m, n] = alpha * op(a) @ op(b) + beta * c, row-major; lda, ldb and ldc are the distances between
 * rows as stored. beta 0 never reads c. */
typedef struct tti_mat {
    bool ta, tb;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    double alpha, beta;
} tti_mat;

/* Opens BLAS, which float64 and complex products need, and fails where it is missing or the sizes do not fit it. */
tt_status tti_blas_takes(const tti_mat *p);
tt_status tti_sgemm(const tti_mat *p, const float *a, const float *b, float *c);
tt_status tti_dgemm(const tti_mat *p, const double *a, const double *b, double *c);
/* In int64, wrapping; alpha and beta are whole numbers. */
void tti_igemm(const tti_mat *p, const int64_t *a, const int64_t *b, int64_t *c);
tt_status tti_cgemm(const tti_mat *p, const void *a, const void *b, void *c, bool is_double);

#endif
