/* SPDX-License-Identifier: Apache-2.0 */
/* Our own kernel for products of matrices (gemm.cl), and the choice between it and libraries. */
#include "ops/accel/gemm.h"

#include <string.h>

#include "base/env.h"
#include "base/settings.h"

/* What TUTTI_CL_GEMM asks for, read once: 0: nothing. */
static int asked(void)
{
    static atomic_int known = -1;
    int way = atomic_load_explicit(&known, memory_order_relaxed);
    const char *text;

    if (tt_likely(way >= 0))
        return way;
    text = tti_env_get(TTI_ENV_CL_GEMM);
    way = text == NULL                   ? 0
          : strcmp(text, "own") == 0     ? 1 + TTI_GEMM_OWN
          : strcmp(text, "clblast") == 0 ? 1 + TTI_GEMM_LIBRARY
                                         : 0;
    atomic_store_explicit(&known, way, memory_order_relaxed);
    return way;
}

tti_gemm_way tti_gemm_way_of(tt_device d)
{
    int way = asked();

    if (way != 0)
        return (tti_gemm_way)(way - 1);
    return tti_device_is_cpu(d) ? TTI_GEMM_HOST : TTI_GEMM_LIBRARY;
}

/* ---- in the stream, on the host ----------------------------------------------------------------- */

#define MAX_JOB 384

typedef struct host_job {
    tt_status (*fn)(const void *job);
    int threads;
    tti_trouble *trouble;
    _Alignas(16) unsigned char job[MAX_JOB];
} host_job;

static void run(void *arg)
{
    const host_job *h = arg;
    tt_status st;

    tti_threads_here(h->threads);
    st = h->fn(h->job);
    if (st != TT_OK && h->trouble != NULL && h->trouble->op == TTI_TROUBLE_NONE)
        *h->trouble = (tti_trouble){ TTI_TROUBLE_HOST, (int64_t)st, 0, 0 };
}

/* Asked for once per device: it does not change. */
static int threads_of(tt_device d)
{
    static atomic_int known[TTI_MAX_DEVICES];
    int n = atomic_load_explicit(&known[d.index], memory_order_relaxed);
    tt_device_properties p;

    if (tt_likely(n != 0))
        return n;
    n = tt_device_properties_get(d, &p) == TT_OK && p.units > 0 ? p.units : 1;
    atomic_store_explicit(&known[d.index], n, memory_order_relaxed);
    return n;
}

tt_status tti_accel_on_host(tt_device d, tt_status (*fn)(const void *job), const void *job,
                            size_t bytes)
{
    tti_arg trouble = tti_trouble_arg(d);
    host_job h = { fn, threads_of(d), (tti_trouble *)trouble.p, { 0 } };

    assert(bytes <= MAX_JOB);
    memcpy(h.job, job, bytes);
    return tti_stream_run(d, run, &h, offsetof(host_job, job) + bytes);
}

/* ---- our own kernel -------------------------------------------------------------------------------- */

extern const char tti_source_gemm[];
static const tti_program program = { "gemm", { tti_source_gemm } };
static tti_kernel_slot slots[TT_N_DTYPES];

/* alpha and beta, in the type the kernel has them in. */
typedef union scale {
    float f;
    double d;
    int64_t i;
} scale;

static tti_arg scale_arg(tt_dtype dtype, double value, scale *s)
{
    switch (dtype) {
    case TT_F32:
    case TT_F16:
    case TT_BF16:
    case TT_C64:
        s->f = (float)value;
        return TTI_VAL(s->f);
    case TT_F64:
    case TT_C128:
        s->d = value;
        return TTI_VAL(s->d);
    default:
        s->i = (int64_t)value;
        return TTI_VAL(s->i);
    }
}

tt_status tti_gemm_own(tt_device d, const tti_gemm_own_job *j)
{
    const tti_gemm_args *g = &j->sizes;
    tti_kernel *k = tti_kernel_get(&slots[j->dtype], d, &program, tti_accel_type(j->dtype), "gemm");
    /* about the kernel's tiles: how many groups are worth starting */
    uint64_t rows = (g->m + 31) / 32 * g->batch, width = (g->n + 63) / 64;
    scale alpha, beta;
    tti_arg args[] = { TTI_MEM(j->c),
                       TTI_MEM(j->a),
                       TTI_MEM(j->b),
                       TTI_MEM(j->bias),
                       TTI_VAL(j->sizes),
                       scale_arg(j->dtype, j->alpha, &alpha),
                       scale_arg(j->dtype, j->beta, &beta) };

    if (k == NULL)
        return tt_last_status();
    return tti_launch(d, k, tti_grid_rows(d, rows * width, 32 * 64 * (g->k / 8 + 1)), args, 7);
}
