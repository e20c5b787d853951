/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices on the CPU: operands are brought into a form the libraries take (one unit
 * stride), batches are walked, bias and half types are dealt with here. */
#include <string.h>

#include "base/settings.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/vmath.h"
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

/* ---- float32 and what is computed in it ------------------------------------------------------ */

static void fill_bias(float *c, const float *bias, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        memcpy(c + i * n, bias, (size_t)n * sizeof *c);
}

static tt_status gemm_one(tt_dtype dtype, const tti_mat *p, const char *a, const char *b, char *c)
{
    switch (dtype) {
    case TT_F32:
        return tti_sgemm(p, (const float *)(const void *)a, (const float *)(const void *)b,
                         (float *)(void *)c);
    case TT_F64:
        return tti_dgemm(p, (const double *)(const void *)a, (const double *)(const void *)b,
                         (double *)(void *)c);
    default:
        return tti_cgemm(p, a, b, c, dtype == TT_C128);
    }
}

/* One matrix of the batch. */
static tt_status gemm_at(tt_tensor *out, const operand *oa, const operand *ob, const tti_mat *p,
                         int64_t i)
{
    char *c = (char *)tti_data(out) + i * p->m * p->n * (int64_t)tti_esize(out);

    return gemm_one((tt_dtype)out->dtype, p, oa->data + i * oa->batch_bytes,
                    ob->data + i * ob->batch_bytes, c);
}

/* Many small products: a thread each. The libraries stay on one thread inside. */
static tt_status gemm_batch(tt_tensor *out, const operand *oa, const operand *ob, const tti_mat *p)
{
    int64_t batch = out->dims[0];
    int threads = tti_threads_for(batch * p->m * p->n * p->k, 1 << 16);
    tt_status worst = TT_OK;

    if (threads == 1 || batch < threads || p->m * p->n * p->k > (int64_t)1 << 27) {
        for (int64_t i = 0; i < batch && worst == TT_OK; i++)
            worst = gemm_at(out, oa, ob, p, i);
        return worst;
    }
    int failed = TT_OK;
#pragma omp parallel for num_threads(threads) reduction(min : failed)
    for (int64_t i = 0; i < batch; i++) {
        int st = (int)gemm_at(out, oa, ob, p, i);

        failed = st < failed ? st : failed;
    }
    return failed == TT_OK ? TT_OK
                           : TT_FAIL((tt_status)failed, "matmul: a product of the batch failed");
}

static tt_status gemm_library(tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                              const tti_gemm *g)
{
    operand oa, ob;
    tti_mat p = { .m = size_from_end(out, 2),
                  .n = size_from_end(out, 1),
                  .k = size_from_end(a, g->trans_a ? 2 : 1),
                  .ldc = size_from_end(out, 1),
                  .alpha = g->alpha,
                  .beta = g->beta };

    TT_TRY(prepare(a, g->trans_a, &oa));
    TT_TRY(prepare(b, g->trans_b, &ob));
    p.ta = oa.trans;
    p.tb = ob.trans;
    p.lda = oa.ld;
    p.ldb = ob.ld;
    if (g->bias != NULL) {
        fill_bias(tti_data(out), tti_data(g->bias), out->numel / p.n, p.n);
        p.beta = 1.0;
    }
    return out->n_dims == 3 ? gemm_batch(out, &oa, &ob, &p) : gemm_at(out, &oa, &ob, &p, 0);
}

/* Half types, and biases of types other than float32: through tensors of another type. */
static tt_status gemm_through(tt_dtype dtype, tt_tensor *out, const tt_tensor *a,
                              const tt_tensor *b, const tti_gemm *g)
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
    TT_TRY(gemm_library(wide, wa, wb, &inner));
    return tti_copy(out, wide);
}

/* ---- integers: in int64, wrapping as their type does --------------------------------------------- */

static tt_status gemm_integer(tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                              const tti_gemm *g)
{
    tt_tensor *wide = tti_empty(out->dims, out->n_dims, TT_I64, out->device);
    tt_tensor *wa = tti_contiguous(tti_cast((tt_tensor *)a, TT_I64));
    tt_tensor *wb = tti_contiguous(tti_cast((tt_tensor *)b, TT_I64));
    int64_t m = size_from_end(out, 2), n = size_from_end(out, 1);
    int64_t k = size_from_end(a, g->trans_a ? 2 : 1);
    int64_t batch = out->n_dims == 3 ? out->dims[0] : 1;
    int64_t ai = g->trans_a ? 1 : k, ak = g->trans_a ? m : 1;
    int64_t bk = g->trans_b ? 1 : n, bj = g->trans_b ? k : 1;

    if (wide == NULL || wa == NULL || wb == NULL)
        return tt_last_status();
    TT_TRY(tti_copy(wide, out));
    for (int64_t r = 0; r < batch * m; r++) {
        const int64_t *ra = (int64_t *)tti_data(wa) + r / m * m * k + r % m * ai;
        const int64_t *rb = (int64_t *)tti_data(wb) + r / m * k * n;
        int64_t *rc = (int64_t *)tti_data(wide) + r * n;

        for (int64_t j = 0; j < n; j++) {
            uint64_t sum = 0;

            for (int64_t l = 0; l < k; l++)
                sum += (uint64_t)ra[l * ak] * (uint64_t)rb[l * bk + j * bj];
            rc[j] = (int64_t)(sum * (uint64_t)(int64_t)g->alpha +
                              (g->beta != 0.0 ? (uint64_t)rc[j] * (uint64_t)(int64_t)g->beta : 0));
        }
    }
    return tti_copy(out, wide);
}

static tt_status nothing_to_add(tt_tensor *out, const tti_gemm *g)
{
    if (g->bias != NULL)
        return tti_copy(out, g->bias);
    if (g->beta == 0.0)
        return tti_fill(out, 0.0);
    return tti_unary(TTI_MUL_S, out, out, &(double){ g->beta });
}

static tt_status cpu_gemm(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, const tti_gemm *g)
{
    tt_dtype d = (tt_dtype)out->dtype;

    if (out->numel == 0)
        return TT_OK;
    if (a->numel == 0)
        return nothing_to_add(out, g);
    if (d == TT_F16 || d == TT_BF16)
        return gemm_through(TT_F32, out, a, b, g);
    if (!tt_dtype_is_floating(d) && !tt_dtype_is_complex(d))
        return gemm_integer(out, a, b, g);
    if (g->bias != NULL && d != TT_F32)
        return gemm_through(d, out, a, b, g);
    return gemm_library(out, a, b, g);
}

const tti_linalg_kernels tti_linalg_cpu = {
    .gemm = cpu_gemm,
};
