/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm on the CPU. Memory is seen either as planes (each of one channel) or as rows (an
 * element of every channel side by side): contiguous tensors with spatial dimensions are the
 * former, matrices and channels-last tensors the latter. */
#include <math.h>
#include <string.h>

#include "ops/cpu/nn_norm.h"
#include "ops/cpu/nn_real.h"
#include "ops/cpu/nn_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/reduce_run.h"

#define GRAIN 32768
#define CHUNK 256 /* rows whose sums are added up without widening */

typedef struct layout {
    int64_t runs;     /* planes, or rows */
    int64_t n;        /* elements of each */
    int64_t c, count; /* channels, and elements of each */
    int rows;
} layout;

static layout layout_of(const tt_tensor *x)
{
    int64_t c = x->dims[1], inner = x->numel / (x->dims[0] * c);
    bool rows = inner == 1 || !tti_is_contiguous(x);
    layout l = { .c = c, .count = x->numel / c, .rows = rows };

    l.n = rows ? c : inner;
    l.runs = x->numel / l.n;
    return l;
}

tt_status tti_batch_norm_stats_run(tt_tensor *mean, tt_tensor *var, const tt_tensor *x)
{
    return tti_mean_var_run(mean, var, x, ((1u << x->n_dims) - 1) & ~2u);
}

/* ---- coefficients: arrays of c reals ------------------------------------------------------- */

enum { SCALE, MEAN, SHIFT, SLOPE, N_COEFS };

typedef struct coefs {
    char *data;
    int64_t c, real;
} coefs;

static tt_status coefs_new(coefs *k, const tt_tensor *x)
{
    k->c = x->dims[1];
    k->real = x->dtype == TT_F64 ? 8 : 4;
    k->data = tti_calloc((size_t)(N_COEFS * k->c), (size_t)k->real);
    return k->data != NULL ? TT_OK : TT_ERR_NOMEM;
}

static char *coef(const coefs *k, int which, int64_t channel)
{
    return k->data + (which * k->c + channel) * k->real;
}

static void coef_set(const coefs *k, int which, int64_t channel, double v)
{
    if (k->real == 8)
        *(double *)coef(k, which, channel) = v;
    else
        *(float *)coef(k, which, channel) = (float)v;
}

static double stat(const tt_tensor *t, int64_t i, double otherwise)
{
    return t != NULL ? tti_real_get(t, i) : otherwise;
}

/* The run's pointers and coefficients. */
static tti_channel_norm run_at(const layout *l, const coefs *k, const tt_tensor *x, int64_t run)
{
    int64_t channel = l->rows != 0 ? 0 : run % l->c;

    return (tti_channel_norm){ .x = (const char *)tti_data(x) + run * l->n * (int64_t)tti_esize(x),
                               .n = l->n,
                               .scale = coef(k, SCALE, channel),
                               .mean = coef(k, MEAN, channel),
                               .shift = coef(k, SHIFT, channel),
                               .slope = coef(k, SLOPE, channel) };
}

tt_status tti_batch_norm_apply_run(tt_tensor *y, const tt_tensor *x, const tt_tensor *mean,
                                   const tt_tensor *rstd, const tt_tensor *w, const tt_tensor *b)
{
    const tti_norm_fns *fns = &(*TTI_ISA_PICK(tti_norms))[x->dtype];
    layout l;
    coefs k;

    if (x->numel == 0)
        return TT_OK;
    if (fns->row == NULL)
        return tti_no_kernel("batch_norm", x);
    l = layout_of(x);
    TT_TRY(coefs_new(&k, x));
    for (int64_t c = 0; c < l.c; c++) {
        coef_set(&k, SCALE, c, tti_real_get(rstd, c) * stat(w, c, 1.0));
        coef_set(&k, MEAN, c, stat(mean, c, 0.0));
        coef_set(&k, SHIFT, c, stat(b, c, 0.0));
    }
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), r, l.runs, 1, {
        tti_channel_norm a = run_at(&l, &k, x, r);

        a.out = (char *)tti_data(y) + r * l.n * (int64_t)tti_esize(y);
        fns->apply[l.rows](&a);
    });
    tti_mfree(k.data);
    return TT_OK;
}

/* ---- gradient ---------------------------------------------------------------------------- */

typedef struct bn_grad_job {
    const tti_norm_fns *fns;
    layout l;
    coefs k;
    const tt_tensor *dy, *x;
    int threads;
} bn_grad_job;

static const char *dy_at(const bn_grad_job *j, int64_t run)
{
    return (const char *)tti_data(j->dy) + run * j->l.n * (int64_t)tti_esize(j->dy);
}

/* totals: c sums of dy, then c sums of dy * (x - mean). */
static void sum_planes(const bn_grad_job *j, double *totals)
{
    TTI_PARALLEL_FOR(j->threads, c, j->l.c, 1, {
        totals[c] = totals[j->l.c + c] = 0;
        for (int64_t r = c; r < j->l.runs; r += j->l.c) {
            tti_channel_norm a = run_at(&j->l, &j->k, j->x, r);

            a.dy = dy_at(j, r);
            a.sum = &totals[c];
            a.dot = &totals[j->l.c + c];
            j->fns->sums[0](&a);
        }
    });
}

static tt_status sum_rows(const bn_grad_job *j, double *totals)
{
    int64_t chunks = (j->l.runs + CHUNK - 1) / CHUNK, width = 2 * j->l.c;
    char *sums = tti_calloc((size_t)(chunks * width), (size_t)j->k.real);

    if (sums == NULL)
        return TT_ERR_NOMEM;
    TTI_PARALLEL_FOR(j->threads, i, chunks, 1, {
        int64_t end = j->l.runs - i * CHUNK < CHUNK ? j->l.runs : (i + 1) * CHUNK;

        for (int64_t r = i * CHUNK; r < end; r++) {
            tti_channel_norm a = run_at(&j->l, &j->k, j->x, r);

            a.dy = dy_at(j, r);
            a.sum = sums + i * width * j->k.real;
            a.dot = (char *)a.sum + j->l.c * j->k.real;
            j->fns->sums[1](&a);
        }
    });
    for (int64_t c = 0; c < width; c++) {
        totals[c] = 0;
        for (int64_t i = 0; i < chunks; i++) {
            const char *at = sums + (i * width + c) * j->k.real;

            totals[c] += j->k.real == 8 ? *(const double *)at : (double)*(const float *)at;
        }
    }
    tti_mfree(sums);
    return TT_OK;
}

static void grad_input(const bn_grad_job *j, tt_tensor *dx)
{
    TTI_PARALLEL_FOR(j->threads, r, j->l.runs, 1, {
        tti_channel_norm a = run_at(&j->l, &j->k, j->x, r);

        a.dy = dy_at(j, r);
        a.out = (char *)tti_data(dx) + r * j->l.n * (int64_t)tti_esize(dx);
        j->fns->grad[j->l.rows](&a);
    });
}

/* What channel c's elements are multiplied with: sums are those of dy and of dy * (x - mean) * rstd. */
static void set_grad_coefs(const bn_grad_job *j, int64_t c, const double sums[2], double rstd,
                           double w, double count)
{
    double scale = rstd * w;

    coef_set(&j->k, SCALE, c, scale);
    coef_set(&j->k, SHIFT, c, -scale * sums[0] / count);
    coef_set(&j->k, SLOPE, c, -scale * rstd * sums[1] / count);
}

static tt_status grad_all(bn_grad_job *j, tt_tensor *const out[3], const tt_tensor *w,
                          const tt_tensor *rstd, double *totals)
{
    int64_t n = j->l.c;

    if (j->l.rows != 0)
        TT_TRY(sum_rows(j, totals));
    else
        sum_planes(j, totals);
    for (int64_t c = 0; c < n; c++) {
        double r = tti_real_get(rstd, c), sums[2] = { totals[c], totals[n + c] * r };

        if (out[1] != NULL)
            tti_float_put(out[1], c, sums[1]);
        if (out[2] != NULL)
            tti_float_put(out[2], c, sums[0]);
        set_grad_coefs(j, c, sums, r, stat(w, c, 1.0), (double)j->l.count);
    }
    if (out[0] != NULL)
        grad_input(j, out[0]);
    return TT_OK;
}

static tt_status grad_job(bn_grad_job *j, const tt_tensor *dy, const tt_tensor *x,
                          const tt_tensor *mean)
{
    *j = (bn_grad_job){ .fns = &(*TTI_ISA_PICK(tti_norms))[x->dtype], .dy = dy, .x = x };
    if (j->fns->row == NULL)
        return tti_no_kernel("batch_norm", x);
    j->l = layout_of(x);
    j->threads = tti_threads_for(x->numel, GRAIN);
    TT_TRY(coefs_new(&j->k, x));
    for (int64_t c = 0; c < j->l.c; c++)
        coef_set(&j->k, MEAN, c, stat(mean, c, 0.0));
    return TT_OK;
}

tt_status tti_batch_norm_grad_run(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                  const tt_tensor *x, const tt_tensor *w,
                                  const tt_tensor *mean_rstd[2])
{
    tt_tensor *const out[3] = { dx, dw, db };
    bn_grad_job j;
    double *totals;
    tt_status st;

    TT_TRY(grad_job(&j, dy, x, mean_rstd[0]));
    totals = tti_malloc((size_t)(2 * j.l.c) * sizeof *totals);
    st = totals != NULL ? grad_all(&j, out, w, mean_rstd[1], totals) : TT_ERR_NOMEM;
    tti_mfree(totals);
    tti_mfree(j.k.data);
    return st;
}

tt_status tti_batch_norm_input_grad_run(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *x,
                                        const tt_tensor *w, const tt_tensor *mean_rstd[2],
                                        const tt_tensor *dw_db[2], double count)
{
    bn_grad_job j;

    if (x->numel == 0)
        return TT_OK;
    TT_TRY(grad_job(&j, dy, x, mean_rstd[0]));
    for (int64_t c = 0; c < j.l.c; c++)
        set_grad_coefs(&j, c, (double[2]){ tti_real_get(dw_db[1], c), tti_real_get(dw_db[0], c) },
                       tti_real_get(mean_rstd[1], c), stat(w, c, 1.0), count);
    grad_input(&j, dx);
    tti_mfree(j.k.data);
    return TT_OK;
}
