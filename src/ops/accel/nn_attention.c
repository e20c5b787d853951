/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on accelerators. Devices that are CPUs run the CPU's kernel in their stream: it is tuned for their caches,
 * and their memory is the host's. Others have kernels of their own. */
#include "ops/accel/nn.h"
#include "ops/cpu/nn_kernels.h"

/* ---- on devices that are CPUs ------------------------------------------------------------------------ */

typedef struct host_job {
    tti_attention_job j;
    tti_attention a; /* what j.a points to, once the copy lies where it is run */
    char *scratch;
    int threads; /* that the scratch memory is for */
    bool f64, backward;
} host_job;

static void run_host(void *arg)
{
    host_job *h = arg;

    h->j.a = &h->a;
    if (h->backward)
        tti_attention_backward(&h->j, h->f64, h->threads, h->scratch);
    else
        tti_attention_forward(&h->j, h->f64, h->threads, h->scratch);
}

static tt_status in_stream(const tt_tensor *like, const tti_attention_job *j, bool backward)
{
    host_job h = { .j = *j, .a = *j->a, .f64 = like->dtype == TT_F64, .backward = backward };
    size_t bytes = tti_attention_scratch(j->a, h.f64, backward, &h.threads);
    tt_status st;

    h.a.mask = NULL; /* its address and strides are in the job; the tensor may be gone by then */
    h.scratch = tti_accel_scratch(like->device, bytes);
    if (h.scratch == NULL)
        return tt_last_status();
    st = tti_stream_run(like->device, run_host, &h, sizeof h);
    tti_accel_scratch_free(like->device, h.scratch, bytes);
    return st;
}

/* ---- elsewhere --------------------------------------------------------------------------------------- */

extern const char tti_source_nn_attention[];

static const tti_program program = { "nn_attention",
                                     { tti_source_nn_math, tti_source_nn_attention } };

static tti_nn_kernel attention = { &program, "attention", { { { NULL } } } };
static tti_nn_kernel attention_delta = { &program, "attention_delta", { { { NULL } } } };
static tti_nn_kernel attention_dq = { &program, "attention_dq", { { { NULL } } } };
static tti_nn_kernel attention_dkv = { &program, "attention_dkv", { { { NULL } } } };

enum { FEW = 4 }; /* rows of a group: of nn_attention.cl */

/* struct attn of nn_attention.cl */
typedef struct attn {
    int64_t batch, heads, len_q, len_k, dim_qk, dim_v;
    int64_t q[3], k[3], v[3], out[3], mask[4];
    int64_t dout[3], dq[3], dk[3], dv[3];
    uint64_t seed, offset;
    uint32_t below, causal;
} attn;

/* The arguments that all kernels have. */
typedef struct shape {
    attn p;
    tti_nn_real scale, keep;
} shape;

static void put_strides(int64_t to[3], const tti_heads *h)
{
    to[0] = h->batch;
    to[1] = h->head;
    to[2] = h->row;
}

static shape shape_of(const tti_attention_job *j, const tt_tensor *like)
{
    const tti_attention *a = j->a;
    double edge = a->dropout_p * 0x1p32;
    shape s = { .p = { .batch = a->batch,
                       .heads = a->heads,
                       .len_q = a->len_q,
                       .len_k = a->len_k,
                       .dim_qk = a->dim_qk,
                       .dim_v = a->dim_v,
                       .seed = a->seed,
                       .offset = a->offset,
                       .causal = a->causal },
                .scale = tti_nn_real_of(like, a->scale),
                .keep = tti_nn_real_of(like, a->dropout_p > 0 ? 1.0 / (1.0 - a->dropout_p) : 1.0) };

    s.p.below = edge >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)edge;
    put_strides(s.p.q, &j->q);
    put_strides(s.p.k, &j->k);
    put_strides(s.p.v, &j->v);
    put_strides(s.p.out, &j->out);
    put_strides(s.p.dout, &j->dout);
    put_strides(s.p.dq, &j->dq);
    put_strides(s.p.dk, &j->dk);
    put_strides(s.p.dv, &j->dv);
    for (int i = 0; j->mask != NULL && i < 4; i++)
        s.p.mask[i] = j->mask_strides[i];
    return s;
}

static tti_grid row_grid(const tt_tensor *like, const tti_attention *a, int64_t rows,
                         int64_t others)
{
    uint64_t units = (uint64_t)(a->batch * a->heads * ((rows + FEW - 1) / FEW));

    return tti_grid_rows(like->device, units, (uint64_t)(others * (a->dim_qk + a->dim_v) * FEW));
}

static bool on_host(const tt_tensor *t)
{
    return tti_device_is_cpu(t->device) && tti_group_size(t->device) == 1;
}

tt_status tti_accel_attention(tt_tensor *out, tt_tensor *lse, const tt_tensor *qkv[3],
                              const tti_attention *a)
{
    tti_attention_job j = tti_attention_job_of(qkv, a);
    shape s;

    TT_TRY(tti_accel_check_type("attention", out));
    if (out->numel == 0)
        return TT_OK;
    j.out = tti_attention_heads(out);
    j.lse = tti_data(lse);
    if (on_host(out))
        return in_stream(out, &j, false);
    s = shape_of(&j, out);
    const tti_arg args[] = {
        tti_nn_mem(out),    tti_nn_mem(lse),           tti_nn_mem(qkv[0]),
        tti_nn_mem(qkv[1]), tti_nn_mem(qkv[2]),        tti_nn_mem(a->mask),
        TTI_VAL(s.p),       TTI_NN_REAL(s.scale, out), TTI_NN_REAL(s.keep, out)
    };

    return tti_nn_run(&attention, out->device, (tt_dtype)out->dtype,
                      row_grid(out, a, a->len_q, a->len_k), args, TTI_NN_COUNT(args));
}

static tt_status run_grads(const tti_attention_job *j, tt_tensor *dqkv[3], const tt_tensor *like,
                           void *delta)
{
    const tti_attention *a = j->a;
    shape s = shape_of(j, like);
    const tti_arg sums[] = { TTI_MEM(delta), TTI_MEM(j->out.data), TTI_MEM(j->dout.data),
                             TTI_VAL(s.p) };
    /* Of both gradients; that of the keys begins with two results. */
    tti_arg args[] = { tti_nn_mem(dqkv[1]),
                       tti_nn_mem(dqkv[2]),
                       TTI_MEM(j->q.data),
                       TTI_MEM(j->k.data),
                       TTI_MEM(j->v.data),
                       TTI_MEM(j->dout.data),
                       TTI_MEM(j->mask),
                       TTI_MEM(j->lse),
                       TTI_MEM(delta),
                       TTI_VAL(s.p),
                       TTI_NN_REAL(s.scale, like),
                       TTI_NN_REAL(s.keep, like) };
    uint64_t lines = (uint64_t)(a->batch * a->heads * a->len_q);

    if (lines > 0)
        TT_TRY(tti_nn_run(&attention_delta, like->device, (tt_dtype)like->dtype,
                          tti_grid_rows(like->device, lines, (uint64_t)a->dim_v), sums,
                          TTI_NN_COUNT(sums)));
    if ((dqkv[1] != NULL || dqkv[2] != NULL) && a->len_k > 0)
        TT_TRY(tti_nn_run(&attention_dkv, like->device, (tt_dtype)like->dtype,
                          row_grid(like, a, a->len_k, a->len_q), args, TTI_NN_COUNT(args)));
    if (dqkv[0] == NULL || dqkv[0]->numel == 0)
        return TT_OK;
    args[1] = tti_nn_mem(dqkv[0]);
    return tti_nn_run(&attention_dq, like->device, (tt_dtype)like->dtype,
                      row_grid(like, a, a->len_q, a->len_k), args + 1, TTI_NN_COUNT(args) - 1);
}

tt_status tti_accel_attention_grad(tt_tensor *dqkv[3], const tt_tensor *dout,
                                   const tt_tensor *qkv[3], const tt_tensor *out_lse[2],
                                   const tti_attention *a)
{
    tti_attention_job j = tti_attention_grad_job(dqkv, dout, qkv, out_lse, a);
    size_t bytes = (size_t)(a->batch * a->heads * a->len_q) * tti_esize(dout);
    void *delta;
    tt_status st;

    TT_TRY(tti_accel_check_type("attention", dout));
    if (a->batch * a->heads == 0)
        return TT_OK;
    if (on_host(dout))
        return in_stream(dout, &j, true);
    delta = tti_accel_scratch(dout->device, bytes);
    if (delta == NULL)
        return tt_last_status();
    st = run_grads(&j, dqkv, dout, delta);
    tti_accel_scratch_free(dout->device, delta, bytes);
    return st;
}
