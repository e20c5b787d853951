/* SPDX-License-Identifier: Apache-2.0 */
/* What multiplies matrices: oneDNN for float32 (our own kernel for tiny ones), OpenBLAS for float64 and
 * complex. */
#include <cblas.h>
#include <dnnl.h>

#include "ops/cpu/gemm_small.h"

tt_status tti_sgemm(const tti_mat *p, const float *a, const float *b, float *c)
{
    tti_gemm_small_fn small = tti_gemm_small_pick(p);
    dnnl_status_t st;

    if (small != NULL) {
        small(p, a, b, c);
        return TT_OK;
    }
    st = dnnl_sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, (float)p->alpha, a,
                    p->lda, b, p->ldb, (float)p->beta, c, p->ldc);

    if (st == dnnl_success)
        return TT_OK;
    return TT_FAIL(st == dnnl_out_of_memory ? TT_ERR_NOMEM : TT_ERR_DEVICE,
                   "matmul: oneDNN failed with status %d", (int)st);
}

tt_status tti_blas_takes(const tti_mat *p)
{
    const int64_t all[] = { p->m, p->n, p->k, p->lda, p->ldb, p->ldc };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] > INT32_MAX)
            return TT_FAIL(TT_ERR_UNSUPPORTED, "matmul: a size of %lld does not fit BLAS",
                           (long long)all[i]);
    return TT_OK;
}

static CBLAS_TRANSPOSE trans(bool t)
{
    return t ? CblasTrans : CblasNoTrans;
}

tt_status tti_dgemm(const tti_mat *p, const double *a, const double *b, double *c)
{
    TT_TRY(tti_blas_takes(p));
    cblas_dgemm(CblasRowMajor, trans(p->ta), trans(p->tb), (int)p->m, (int)p->n, (int)p->k,
                p->alpha, a, (int)p->lda, b, (int)p->ldb, p->beta, c, (int)p->ldc);
    return TT_OK;
}

tt_status tti_cgemm(const tti_mat *p, const void *a, const void *b, void *c, bool is_double)
{
    float alpha_f[2] = { (float)p->alpha, 0 }, beta_f[2] = { (float)p->beta, 0 };
    double alpha_d[2] = { p->alpha, 0 }, beta_d[2] = { p->beta, 0 };

    TT_TRY(tti_blas_takes(p));
    if (is_double)
        cblas_zgemm(CblasRowMajor, trans(p->ta), trans(p->tb), (int)p->m, (int)p->n, (int)p->k,
                    alpha_d, a, (int)p->lda, b, (int)p->ldb, beta_d, c, (int)p->ldc);
    else
        cblas_cgemm(CblasRowMajor, trans(p->ta), trans(p->tb), (int)p->m, (int)p->n, (int)p->k,
                    alpha_f, a, (int)p->lda, b, (int)p->ldb, beta_f, c, (int)p->ldc);
    return TT_OK;
}
