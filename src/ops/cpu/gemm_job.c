/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: operands are brought into a form the libraries take (one unit stride), batches are
 * walked, biases are added here. */
#include "ops/cpu/gemm_job.h"

#include <string.h>

#include "base/settings.h"
#include "ops/op.h"

/* A matrix operand as the libraries want it. */
typedef struct operand {
    const char *data;
    int64_t ld;
    int64_t batch_bytes;
    bool trans;
} operand;

static int64_t size_from_end(const tt_tensor *t, int i)
{
    return t->dims[t->n_dims - i];
}

/* Usable as it is when one of the last two strides is 1 and the other spans a row. */
static bool readable(const tt_tensor *t, bool trans, operand *o)
{
    int64_t rows = size_from_end(t, 2), cols = size_from_end(t, 1);
    int64_t rs = t->strides[t->n_dims - 2], cs = t->strides[t->n_dims - 1];

    o->data = tti_data(t);
    o->batch_bytes = t->n_dims == 3 ? t->strides[0] * (int64_t)tti_esize(t) : 0;
    if ((cs == 1 || cols == 1) && (rs >= cols || rows == 1)) {
        o->ld = rows == 1 && rs < cols ? cols : rs;
        o->trans = trans;
        return true;
    }
    if ((rs == 1 || rows == 1) && (cs >= rows || cols == 1)) {
        o->ld = cols == 1 && cs < rows ? rows : cs;
        o->trans = !trans;
        return true;
    }
    return false;
}

static tt_status prepare(const tt_tensor *t, bool trans, operand *o)
{
    tt_tensor *copy;

    if (tt_likely(readable(t, trans, o)))
        return TT_OK;
    copy = tti_contiguous((tt_tensor *)t);
    if (copy == NULL)
        return tt_last_status();
    readable(copy, trans, o);
    return TT_OK;
}

tt_status tti_gemm_plan(tti_gemm_job *j, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                        const tti_gemm *g)
{
    operand oa, ob;

    TT_TRY(prepare(a, g->trans_a, &oa));
    TT_TRY(prepare(b, g->trans_b, &ob));
    *j = (tti_gemm_job){ .mat = { .ta = oa.trans,
                                  .tb = ob.trans,
                                  .m = size_from_end(out, 2),
                                  .n = size_from_end(out, 1),
                                  .k = size_from_end(a, g->trans_a ? 2 : 1),
                                  .lda = oa.ld,
                                  .ldb = ob.ld,
                                  .ldc = size_from_end(out, 1),
                                  .alpha = g->alpha,
                                  .beta = g->bias != NULL ? 1.0 : g->beta },
                         .dtype = out->dtype,
                         .batch = out->n_dims == 3 ? out->dims[0] : 1,
                         .a_step = oa.batch_bytes,
                         .b_step = ob.batch_bytes,
                         .a = oa.data,
                         .b = ob.data,
                         .bias = g->bias != NULL ? tti_data(g->bias) : NULL,
                         .c = tti_data(out) };
    return out->dtype == TT_F32 ? TT_OK : tti_blas_takes(&j->mat);
}

/* One matrix of the batch. */
static tt_status run_one(const tti_gemm_job *j, int64_t i)
{
    const void *a = j->a + i * j->a_step, *b = j->b + i * j->b_step;
    size_t row = (size_t)j->mat.n * tti_dtype_sizes[j->dtype];
    char *c = j->c + (size_t)(i * j->mat.m) * row;

    for (int64_t r = 0; r < j->mat.m && j->bias != NULL; r++)
        memcpy(c + (size_t)r * row, j->bias, row);
    switch (j->dtype) {
    case TT_F32:
        return tti_sgemm(&j->mat, a, b, (float *)(void *)c);
    case TT_F64:
        return tti_dgemm(&j->mat, a, b, (double *)(void *)c);
    default:
        return tti_cgemm(&j->mat, a, b, c, j->dtype == TT_C128);
    }
}

/* Many small products: a thread each. The libraries stay on one thread inside. */
tt_status tti_gemm_run(const tti_gemm_job *j)
{
    int64_t macs = j->mat.m * j->mat.n * j->mat.k;
    int threads = j->batch > 1 ? tti_threads_for(j->batch * macs, 1 << 16) : 1;
    tt_status worst = TT_OK;

    if (threads == 1 || j->batch < threads || macs > (int64_t)1 << 27) {
        for (int64_t i = 0; i < j->batch && worst == TT_OK; i++)
            worst = run_one(j, i);
        return worst;
    }
    int failed = TT_OK;
#pragma omp parallel for num_threads(threads) reduction(min : failed)
    for (int64_t i = 0; i < j->batch; i++) {
        int st = (int)run_one(j, i);

        failed = st < failed ? st : failed;
    }
    return failed == TT_OK ? TT_OK
                           : TT_FAIL((tt_status)failed, "matmul: a product of the batch failed");
}

tt_status tti_gemm_nothing(tt_tensor *out, const tti_gemm *g)
{
    if (g->bias != NULL)
        return tti_copy(out, g->bias);
    if (g->beta == 0.0)
        return tti_fill(out, 0.0);
    return tti_unary(TTI_MUL_S, out, out, &(double){ g->beta });
}

tt_status tti_gemm_through(tt_dtype dtype, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                           const tti_gemm *g)
{
    tti_gemm inner = *g;
    tt_tensor *wide = tti_empty(out->dims, out->n_dims, dtype, out->device);
    tt_tensor *wa = tti_cast((tt_tensor *)a, dtype);
    tt_tensor *wb = tti_cast((tt_tensor *)b, dtype);

    if (wide == NULL || wa == NULL || wb == NULL)
        return tt_last_status();
    inner.bias = NULL;
    if (g->bias != NULL) {
        TT_TRY(tti_copy(wide, g->bias));
        inner.beta = 1.0;
    } else if (g->beta != 0.0) {
        TT_TRY(tti_copy(wide, out));
    }
    TT_TRY(TTI_RUN("matmul", out, linalg, gemm, wide, wa, wb, &inner));
    return tti_copy(out, wide);
}
