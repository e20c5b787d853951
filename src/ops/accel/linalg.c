/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices on accelerators, by one of three ways: see gemm.h. */
#include "ops/accel/gemm.h"
#include "ops/cpu/gemm_job.h"
#include "ops/op.h"

static int64_t size_from_end(const tt_tensor *t, int i)
{
    return t->dims[t->n_dims - i];
}

static int64_t stride_from_end(const tt_tensor *t, int i)
{
    return t->strides[t->n_dims - i];
}

static tt_status own(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, const tti_gemm *g)
{
    tti_gemm_own_job j = { .dtype = (tt_dtype)out->dtype,
                           .alpha = g->alpha,
                           .beta = g->beta,
                           .c = tti_data(out),
                           .a = tti_data(a),
                           .b = tti_data(b),
                           .bias = g->bias != NULL ? tti_data(g->bias) : NULL };
    tti_gemm_args *s = &j.sizes;

    s->m = (uint64_t)size_from_end(out, 2);
    s->n = (uint64_t)size_from_end(out, 1);
    s->k = (uint64_t)size_from_end(a, g->trans_a ? 2 : 1);
    s->k_in = s->k;
    s->ai = stride_from_end(a, g->trans_a ? 1 : 2);
    s->ak = stride_from_end(a, g->trans_a ? 2 : 1);
    s->bk = stride_from_end(b, g->trans_b ? 1 : 2);
    s->bj = stride_from_end(b, g->trans_b ? 2 : 1);
    s->batch = out->n_dims == 3 ? (uint64_t)out->dims[0] : 1;
    s->batch_in = s->batch;
    s->a_step1 = out->n_dims == 3 ? a->strides[0] : 0;
    s->b_step1 = out->n_dims == 3 ? b->strides[0] : 0;
    s->bias_j = 1;
    return tti_gemm_own(out->device, &j);
}

static tt_status run_job(const void *job)
{
    return tti_gemm_run(job);
}

/* The driver's library. *done_p: whether there is one. */
static tt_status library(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, const tti_gemm *g,
                         bool *done_p)
{
    const tti_accel *accel = tti_driver_of(out->device)->accel;
    int64_t e = (int64_t)tti_esize(out);
    tti_gemm_job j;
    tti_accel_gemm p;

    if (accel->gemm == NULL || !accel->has_gemm())
        return TT_OK;
    TT_TRY(tti_gemm_plan(&j, out, a, b, g));
    if (g->bias != NULL)
        TT_TRY(tti_copy(out, g->bias));
    p = (tti_accel_gemm){ .dtype = (tt_dtype)out->dtype,
                          .ta = j.mat.ta,
                          .tb = j.mat.tb,
                          .m = j.mat.m,
                          .n = j.mat.n,
                          .k = j.mat.k,
                          .lda = j.mat.lda,
                          .ldb = j.mat.ldb,
                          .alpha = j.mat.alpha,
                          .beta = j.mat.beta,
                          .batch = j.batch,
                          .a_step = j.a_step / e,
                          .b_step = j.b_step / e,
                          .a = j.a,
                          .b = j.b,
                          .c = j.c };
    *done_p = true;
    return accel->gemm(tti_stream_of(out->device)->queue, &p);
}

static tt_status accel_gemm(tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                            const tti_gemm *g)
{
    tt_dtype d = (tt_dtype)out->dtype;
    bool exact = d == TT_F32 || d == TT_F64 || tt_dtype_is_complex(d), done = false;
    tti_gemm_way way;
    tti_gemm_job job;

    if (out->numel == 0)
        return TT_OK;
    TT_TRY(tti_accel_check_type("matmul", out));
    if (a->numel == 0)
        return tti_gemm_nothing(out, g);
    way = tti_gemm_way_of(out->device);
    if (way == TTI_GEMM_HOST && (d == TT_F16 || d == TT_BF16))
        return tti_gemm_through(TT_F32, out, a, b, g);
    if (way == TTI_GEMM_HOST && exact) {
        TT_TRY(tti_gemm_plan(&job, out, a, b, g));
        return tti_accel_on_host(out->device, run_job, &job, sizeof job);
    }
    if (way == TTI_GEMM_LIBRARY && exact)
        TT_TRY(library(out, a, b, g, &done));
    return done ? TT_OK : own(out, a, b, g);
}

const tti_linalg_kernels tti_accel_linalg = {
    .gemm = accel_gemm,
};
