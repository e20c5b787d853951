/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on the CPU: heads shared out to threads; in forward also blocks of queries, when there are
 * few heads. Each block is computed the same way whoever does it, and sums over queries stay within
 * one thread, so results do not depend on the number of threads. */

#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/parallel.h"

enum { ATTENTION_GRAIN = 1 << 18 }; /* multiplications worth a thread */

tti_heads tti_attention_heads(const tt_tensor *t)
{
    return t == NULL ? (tti_heads){ 0 }
                     : (tti_heads){ tti_data(t), t->strides[0], t->strides[1], t->strides[2] };
}

tti_attention_job tti_attention_job_of(const tt_tensor *qkv[3], const tti_attention *a)
{
    tti_attention_job j = { .a = a,
                            .q = tti_attention_heads(qkv[0]),
                            .k = tti_attention_heads(qkv[1]),
                            .v = tti_attention_heads(qkv[2]) };

    if (a->mask != NULL) {
        j.mask = tti_data(a->mask);
        for (int i = 0; i < 4; i++)
            j.mask_strides[i] = a->mask->strides[i];
    }
    return j;
}

static const tti_attention_table *table_for(bool f64)
{
    return &TTI_ISA_PICK(tti_attention_tables)->of[f64];
}

static int64_t work_of(const tti_attention *a)
{
    return a->batch * a->heads * a->len_q * a->len_k * (a->dim_qk + a->dim_v);
}

/* Scratch of one thread. */
static size_t part_of(const tti_attention *a, bool f64, bool backward)
{
    const tti_attention_table *t = table_for(f64);

    return ((backward ? t->backward_scratch(a) : t->forward_scratch(a)) + 127) / 64 * 64;
}

static int threads_of(const tti_attention *a, bool backward)
{
    int threads = tti_threads_for(work_of(a), ATTENTION_GRAIN);

    if (backward && a->batch * a->heads < threads)
        return a->batch * a->heads > 0 ? (int)(a->batch * a->heads) : 1;
    return threads;
}

size_t tti_attention_scratch(const tti_attention *a, bool f64, bool backward, int *threads_p)
{
    *threads_p = threads_of(a, backward);
    return part_of(a, f64, backward) * (size_t)*threads_p;
}

void tti_attention_forward(const tti_attention_job *j, bool f64, int threads, char *scratch)
{
    const tti_attention *a = j->a;
    const tti_attention_table *t = table_for(f64);
    int64_t heads = a->batch * a->heads;
    int64_t blocks = (a->len_q + TTI_ATTENTION_ROWS - 1) / TTI_ATTENTION_ROWS;
    int64_t parts = heads >= 2 * threads ? 1 : blocks; /* of a head */
    size_t bytes = part_of(a, f64, false);

    TTI_PARALLEL_FOR_UNEVEN(threads, i, heads * parts, 1, {
        int64_t part = i % parts;

        t->forward(j, i / parts, part * blocks / parts, (part + 1) * blocks / parts,
                   scratch + (size_t)tti_worker(threads) * bytes);
    });
}

void tti_attention_backward(const tti_attention_job *j, bool f64, int threads, char *scratch)
{
    const tti_attention *a = j->a;
    const tti_attention_table *t = table_for(f64);
    size_t bytes = part_of(a, f64, true);

    TTI_PARALLEL_FOR_UNEVEN(threads, i, a->batch * a->heads, 1,
                            t->backward(j, i, scratch + (size_t)tti_worker(threads) * bytes));
}

/* Runs it with scratch memory, 64-byte aligned. */
static tt_status with_scratch(const tti_attention_job *j, bool f64, bool backward)
{
    int threads;
    char *raw = tti_malloc(tti_attention_scratch(j->a, f64, backward, &threads) + 64);
    char *aligned;

    if (raw == NULL)
        return TT_ERR_NOMEM;
    aligned = raw + (64 - (uintptr_t)raw % 64) % 64;
    if (backward)
        tti_attention_backward(j, f64, threads, aligned);
    else
        tti_attention_forward(j, f64, threads, aligned);
    tti_mfree(raw);
    return TT_OK;
}

tt_status tti_attention_cpu(tt_tensor *out, tt_tensor *lse, const tt_tensor *qkv[3],
                            const tti_attention *a)
{
    tti_attention_job j = tti_attention_job_of(qkv, a);

    if (out->numel == 0)
        return TT_OK;
    j.out = tti_attention_heads(out);
    j.lse = tti_data(lse);
    return with_scratch(&j, out->dtype == TT_F64, false);
}

tti_attention_job tti_attention_grad_job(tt_tensor *dqkv[3], const tt_tensor *dout,
                                         const tt_tensor *qkv[3], const tt_tensor *out_lse[2],
                                         const tti_attention *a)
{
    tti_attention_job j = tti_attention_job_of(qkv, a);

    j.out = tti_attention_heads(out_lse[0]);
    j.lse = tti_data(out_lse[1]);
    j.dout = tti_attention_heads(dout);
    j.dq = tti_attention_heads(dqkv[0]);
    j.dk = tti_attention_heads(dqkv[1]);
    j.dv = tti_attention_heads(dqkv[2]);
    return j;
}

tt_status tti_attention_grad_cpu(tt_tensor *dqkv[3], const tt_tensor *dout, const tt_tensor *qkv[3],
                                 const tt_tensor *out_lse[2], const tti_attention *a)
{
    tti_attention_job j = tti_attention_grad_job(dqkv, dout, qkv, out_lse, a);

    return with_scratch(&j, dout->dtype == TT_F64, true);
}
