/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on the CPU: heads shared out to threads; in forward also blocks of queries, when there are
 * few heads. Each block is computed the same way whoever does it, and sums over queries stay within
 * one thread, so results do not depend on the number of threads. */
#include <omp.h>

#include "base/settings.h"
#include "ops/cpu/nn_kernels.h"

enum { ATTENTION_GRAIN = 1 << 18 }; /* multiplications worth a thread */

static tti_heads heads_of(const tt_tensor *t)
{
    return t == NULL ? (tti_heads){ 0 }
                     : (tti_heads){ tti_data(t), t->strides[0], t->strides[1], t->strides[2] };
}

static tti_attention_job job_of(const tt_tensor *qkv[3], const tti_attention *a)
{
    tti_attention_job j = {
        .a = a, .q = heads_of(qkv[0]), .k = heads_of(qkv[1]), .v = heads_of(qkv[2])
    };

    if (a->mask != NULL) {
        j.mask = tti_data(a->mask);
        for (int i = 0; i < 4; i++)
            j.mask_strides[i] = a->mask->strides[i];
    }
    return j;
}

static const tti_attention_table *table_for(const tt_tensor *q)
{
    return &TTI_ISA_PICK(tti_attention_tables)->of[q->dtype == TT_F64];
}

static int64_t work_of(const tti_attention *a)
{
    return a->batch * a->heads * a->len_q * a->len_k * (a->dim_qk + a->dim_v);
}

/* 64-byte aligned scratch for each thread; *raw_p is what to free. */
static char *scratch_for(size_t *bytes, int threads, void **raw_p)
{
    char *raw;

    *bytes = (*bytes + 127) / 64 * 64;
    *raw_p = raw = tti_malloc(*bytes * (size_t)threads + 64);
    return raw == NULL ? NULL : raw + (64 - (uintptr_t)raw % 64) % 64;
}

tt_status tti_attention_cpu(tt_tensor *out, tt_tensor *lse, const tt_tensor *qkv[3],
                            const tti_attention *a)
{
    const tti_attention_table *t = table_for(out);
    tti_attention_job j = job_of(qkv, a);
    int64_t heads = a->batch * a->heads;
    int64_t blocks = (a->len_q + TTI_ATTENTION_ROWS - 1) / TTI_ATTENTION_ROWS;
    int threads = tti_threads_for(work_of(a), ATTENTION_GRAIN);
    int64_t parts = heads >= 2 * threads ? 1 : blocks; /* of a head */
    size_t bytes = t->forward_scratch(a);
    void *raw;
    char *scratch;

    if (out->numel == 0)
        return TT_OK;
    j.out = heads_of(out);
    j.lse = tti_data(lse);
    scratch = scratch_for(&bytes, threads, &raw);
    if (scratch == NULL)
        return TT_ERR_NOMEM;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < heads * parts; i++) {
        int64_t part = i % parts;

        t->forward(&j, i / parts, part * blocks / parts, (part + 1) * blocks / parts,
                   scratch + (size_t)omp_get_thread_num() * bytes);
    }
    tti_mfree(raw);
    return TT_OK;
}

tt_status tti_attention_grad_cpu(tt_tensor *dqkv[3], const tt_tensor *dout, const tt_tensor *qkv[3],
                                 const tt_tensor *out_lse[2], const tti_attention *a)
{
    const tti_attention_table *t = table_for(dout);
    tti_attention_job j = job_of(qkv, a);
    int threads = tti_threads_for(work_of(a), ATTENTION_GRAIN);
    size_t bytes = t->backward_scratch(a);
    void *raw;
    char *scratch;

    j.out = heads_of(out_lse[0]);
    j.lse = tti_data(out_lse[1]);
    j.dout = heads_of(dout);
    j.dq = heads_of(dqkv[0]);
    j.dk = heads_of(dqkv[1]);
    j.dv = heads_of(dqkv[2]);
    if (a->batch * a->heads < threads)
        threads = a->batch * a->heads > 0 ? (int)(a->batch * a->heads) : 1;
    scratch = scratch_for(&bytes, threads, &raw);
    if (scratch == NULL)
        return TT_ERR_NOMEM;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < a->batch * a->heads; i++)
        t->backward(&j, i, scratch + (size_t)omp_get_thread_num() * bytes);
    tti_mfree(raw);
    return TT_OK;
}
