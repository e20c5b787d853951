/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices on the CPU: the libraries behind gemm_job.h take float32, float64 and complex ones;
 * half types go through float32, integers are dealt with here. */
#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_job.h"
#include "ops/op.h"

static int64_t size_from_end(const tt_tensor *t, int i)
{
    return t->dims[t->n_dims - i];
}

/* ---- integers: in int64, wrapping as their type does --------------------------------------------- */

void tti_igemm(const tti_mat *p, const int64_t *a, const int64_t *b, int64_t *c)
{
    int64_t ai = p->ta ? 1 : p->lda, ak = p->ta ? p->lda : 1;
    int64_t bk = p->tb ? 1 : p->ldb, bj = p->tb ? p->ldb : 1;

    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            int64_t *to = &c[i * p->ldc + j];
            uint64_t sum = 0, before = p->beta != 0.0 ? (uint64_t)*to : 0;

            for (int64_t l = 0; l < p->k; l++)
                sum += (uint64_t)a[i * ai + l * ak] * (uint64_t)b[l * bk + j * bj];
            *to =
                (int64_t)(sum * (uint64_t)(int64_t)p->alpha + before * (uint64_t)(int64_t)p->beta);
        }
}

static tt_status gemm_integer(tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                              const tti_gemm *g)
{
    tt_tensor *wide = tti_empty(out->dims, out->n_dims, TT_I64, out->device);
    tt_tensor *wa = tti_contiguous(tti_cast((tt_tensor *)a, TT_I64));
    tt_tensor *wb = tti_contiguous(tti_cast((tt_tensor *)b, TT_I64));
    int64_t batch = out->n_dims == 3 ? out->dims[0] : 1;
    tti_mat p = { .ta = g->trans_a, .tb = g->trans_b, .alpha = g->alpha };

    p.m = size_from_end(out, 2);
    p.n = size_from_end(out, 1);
    p.k = size_from_end(a, g->trans_a ? 2 : 1);
    p.lda = g->trans_a ? p.m : p.k;
    p.ldb = g->trans_b ? p.k : p.n;
    p.ldc = p.n;
    p.beta = g->bias != NULL ? 1.0 : g->beta;
    if (wide == NULL || wa == NULL || wb == NULL)
        return tt_last_status();
    if (p.beta != 0.0)
        TT_TRY(tti_copy(wide, g->bias != NULL ? g->bias : out));
    for (int64_t r = 0; r < batch; r++)
        tti_igemm(&p, (const int64_t *)tti_data(wa) + r * p.m * p.k,
                  (const int64_t *)tti_data(wb) + r * p.k * p.n,
                  (int64_t *)tti_data(wide) + r * p.m * p.n);
    return tti_copy(out, wide);
}

static tt_status cpu_gemm(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, const tti_gemm *g)
{
    tt_dtype d = (tt_dtype)out->dtype;
    tti_gemm_job job;

    if (out->numel == 0)
        return TT_OK;
    if (a->numel == 0)
        return tti_gemm_nothing(out, g);
    if (d == TT_F16 || d == TT_BF16)
        return tti_gemm_through(TT_F32, out, a, b, g);
    if (!tt_dtype_is_floating(d) && !tt_dtype_is_complex(d))
        return gemm_integer(out, a, b, g);
    TT_TRY(tti_gemm_plan(&job, out, a, b, g));
    return tti_gemm_run(&job);
}

const tti_linalg_kernels tti_linalg_cpu = {
    .gemm = cpu_gemm,
};
