/* SPDX-License-Identifier: Apache-2.0 */
/* What multiplies matrices: oneDNN for float32 (our own kernels for tiny ones and for vectors, and fixed pieces of those
 * with one long size), OpenBLAS for float64 and complex. */
#include <omp.h>

#include "base/settings.h"
#include "ops/cpu/blas.h"
#include "ops/cpu/dnnl_lib.h"
#include "ops/cpu/gemm_small.h"
#include "ops/cpu/gemm_split.h"
#include "ops/cpu/gemv.h"

static tt_status library_sgemm(const tti_mat *p, const float *a, const float *b, float *c)
{
    dnnl_status_t st;

    (void)tt_get_num_threads(); /* tells OpenMP how many, which matters after a fork */
    TT_TRY(tti_dnnl_open());
    st = tti_dnnl.sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, (float)p->alpha, a,
                        p->lda, b, p->ldb, (float)p->beta, c, p->ldc);
    if (st == dnnl_success)
        return TT_OK;
    return TT_FAIL(st == dnnl_out_of_memory ? TT_ERR_NOMEM : TT_ERR_DEVICE,
                   "matmul: oneDNN failed with status %d", (int)st);
}

/* On the calling thread alone: oneDNN takes as many as OpenMP would start. */
static tt_status sgemm_alone(const tti_mat *p, const float *a, const float *b, float *c)
{
    int before = omp_get_max_threads();
    tt_status st;

    if (before != 1)
        omp_set_num_threads(1);
    st = library_sgemm(p, a, b, c);
    if (before != 1)
        omp_set_num_threads(before);
    return st;
}

tt_status tti_sgemm(const tti_mat *p, const float *a, const float *b, float *c)
{
    tti_gemm_small_fn small = tti_gemm_small_pick(p);

    if (small != NULL) {
        small(p, a, b, c);
        return TT_OK;
    }
    if (tti_gemv_takes(p))
        return tti_gemv(p, a, b, c);
    if (tti_gemm_splits(p))
        return tti_gemm_split(p, a, b, c, sgemm_alone);
    return library_sgemm(p, a, b, c);
}

tt_status tti_blas_takes(const tti_mat *p)
{
    const int64_t all[] = { p->m, p->n, p->k, p->lda, p->ldb, p->ldc };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] > INT32_MAX)
            return TT_FAIL(TT_ERR_UNSUPPORTED, "matmul: a size of %lld does not fit BLAS",
                           (long long)all[i]);
    (void)tt_get_num_threads(); /* as above */
    return tti_blas_open() != NULL ? TT_OK : tt_last_status();
}

static CBLAS_TRANSPOSE trans(bool t)
{
    return t ? CblasTrans : CblasNoTrans;
}

tt_status tti_dgemm(const tti_mat *p, const double *a, const double *b, double *c)
{
    TT_TRY(tti_blas_takes(p));
    tti_blas_open()->dgemm(CblasRowMajor, trans(p->ta), trans(p->tb), (int)p->m, (int)p->n,
                           (int)p->k, p->alpha, a, (int)p->lda, b, (int)p->ldb, p->beta, c,
                           (int)p->ldc);
    return TT_OK;
}

tt_status tti_cgemm(const tti_mat *p, const void *a, const void *b, void *c, bool is_double)
{
    float alpha_f[2] = { (float)p->alpha, 0 }, beta_f[2] = { (float)p->beta, 0 };
    double alpha_d[2] = { p->alpha, 0 }, beta_d[2] = { p->beta, 0 };

    TT_TRY(tti_blas_takes(p));
    if (is_double)
        tti_blas_open()->zgemm(CblasRowMajor, trans(p->ta), trans(p->tb), (int)p->m, (int)p->n,
                               (int)p->k, alpha_d, a, (int)p->lda, b, (int)p->ldb, beta_d, c,
                               (int)p->ldc);
    else
        tti_blas_open()->cgemm(CblasRowMajor, trans(p->ta), trans(p->tb), (int)p->m, (int)p->n,
                               (int)p->k, alpha_f, a, (int)p->lda, b, (int)p->ldb, beta_f, c,
                               (int)p->ldc);
    return TT_OK;
}
