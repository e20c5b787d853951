/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of optimizer kernels: what a step needs to know is computed once in double, then the
 * loops of optim.isa.c run over chunks of a dense parameter or over the rows a sparse gradient names. */
#include "ops/cpu/optim.h"

#include <math.h>

#include "ops/cpu/parallel.h"

#define CHUNK 16384 /* elements; results do not depend on how chunks are spread over threads */
#define GRAIN 65536 /* elements that are worth a thread */

static const tti_optim_loops *loops(void)
{
    return TTI_ISA_PICK(tti_optim_loops);
}

/* The real type the elements consist of, and how many of it there are. */
static int real_type(const tt_tensor *t, int64_t *n_p)
{
    bool complex_type = t->dtype == TT_C64 || t->dtype == TT_C128;

    *n_p = complex_type ? 2 * t->numel : t->numel;
    if (complex_type)
        return t->dtype == TT_C64 ? TT_F32 : TT_F64;
    assert(t->dtype <= TT_BF16);
    return t->dtype;
}

static void run_dense(tti_optim_loop loop, void *const *arrays, int64_t n, size_t esize,
                      const void *coef)
{
    int threads = n < 2 * (int64_t)GRAIN ? 1 : tti_threads_for(n, GRAIN);

    if (threads == 1) {
        loop(arrays, n, coef);
        return;
    }
    TTI_PARALLEL_FOR(threads, at, n, CHUNK, {
        void *here[TTI_OPTIM_ARRAYS];

        for (int k = 0; k < TTI_OPTIM_ARRAYS; k++)
            here[k] = arrays[k] != NULL ? (char *)arrays[k] + (size_t)at * esize : NULL;
        loop(here, n - at < CHUNK ? n - at : CHUNK, coef);
    });
}

/* Where the row of entry k of a sparse gradient is, counted in rows. */
static int64_t row_of(const tt_tensor *g, const int64_t *indices, int64_t nnz, int64_t k)
{
    int64_t row = 0;

    for (int d = 0; d < g->sparse->sparse_dims; d++)
        row = row * g->dims[d] + indices[d * nnz + k];
    return row;
}

static void run_sparse(tti_optim_loop loop, void *const *arrays, const tt_tensor *g, size_t esize,
                       const void *coef)
{
    const tt_tensor *values = g->sparse->values;
    const int64_t *indices = tti_data(g->sparse->indices);
    int64_t nnz = g->sparse->indices->dims[1], n_all;
    int64_t width;
    bool distinct = (g->flags & TTI_COALESCED) != 0;

    (void)real_type(values, &n_all);
    width = nnz > 0 ? n_all / nnz : 0;
    TTI_PARALLEL_FOR(distinct ? tti_threads_for(n_all, GRAIN) : 1, k, nnz, 1, {
        size_t skip = (size_t)(row_of(g, indices, nnz, k) * width) * esize;
        void *here[TTI_OPTIM_ARRAYS];

        for (int i = 0; i < TTI_OPTIM_ARRAYS; i++)
            here[i] = arrays[i] != NULL ? (char *)arrays[i] + skip : NULL;
        here[1] = (char *)tti_data(values) + (size_t)(k * width) * esize;
        loop(here, width, coef);
    });
}

/* Run the loop for p's type over p, its gradient and its state. */
static tt_status run(const tti_optim_loop *by_type, tt_tensor *p, const tt_tensor *g,
                     tt_tensor *const state[3], const void *coef)
{
    int64_t n;
    int type = real_type(p, &n);
    size_t esize = tt_dtype_size((tt_dtype)type);
    void *arrays[TTI_OPTIM_ARRAYS] = { tti_data(p), NULL, NULL, NULL, NULL };

    for (int i = 0; i < 3; i++)
        if (state[i] != NULL)
            arrays[2 + i] = tti_data(state[i]);
    if (g != NULL && g->sparse != NULL) {
        run_sparse(by_type[type], arrays, g, esize, coef);
        return TT_OK;
    }
    if (g != NULL)
        arrays[1] = tti_data(g);
    run_dense(by_type[type], arrays, n, esize, coef);
    return TT_OK;
}

static tt_status cpu_sgd(tt_tensor *p, const tt_tensor *g, tt_tensor *buf, const tti_sgd_args *a)
{
    return run(loops()->sgd, p, g, (tt_tensor *[3]){ buf }, a);
}

static tt_status cpu_adam(tt_tensor *p, const tt_tensor *g, tt_tensor *m, tt_tensor *v,
                          tt_tensor *vmax, const tti_adam_args *a)
{
    double correct1 = 1.0 - pow(a->beta1, a->step);
    double root2 = sqrt(1.0 - pow(a->beta2, a->step));
    tti_adam_coef coef = {
        .weight_decay = a->decoupled ? 0 : a->weight_decay,
        .shrink = a->decoupled ? 1.0 - a->lr * a->weight_decay : 1.0,
        .beta1 = a->beta1,
        .beta2 = a->beta2,
        .eps = a->eps,
        .root_scale = a->eps_inside ? 1.0 : root2,
        .step_size = a->eps_inside ? a->lr * root2 / correct1 : a->lr / correct1,
        .maximize = a->maximize,
    };

    return run(loops()->adam, p, g, (tt_tensor *[3]){ m, v, a->amsgrad ? vmax : NULL }, &coef);
}

static tt_status cpu_adagrad(tt_tensor *p, const tt_tensor *g, tt_tensor *sum,
                             const tti_adagrad_args *a)
{
    tti_adagrad_coef coef = {
        .rate = a->lr / (1.0 + (a->step - 1.0) * a->lr_decay),
        .eps = a->eps,
        .weight_decay = a->weight_decay,
        .maximize = a->maximize,
    };

    return run(loops()->adagrad, p, g, (tt_tensor *[3]){ sum }, &coef);
}

static tt_status cpu_rmsprop(tt_tensor *p, const tt_tensor *g, tt_tensor *sq, tt_tensor *buf,
                             tt_tensor *avg, const tti_rmsprop_args *a)
{
    return run(loops()->rmsprop, p, g, (tt_tensor *[3]){ sq, buf, avg }, a);
}

static tt_status cpu_scale(tt_tensor *x, double s)
{
    return run(loops()->scale, x, NULL, (tt_tensor *[3]){ NULL }, &s);
}

static tt_status cpu_clamp(tt_tensor *x, double lo, double hi)
{
    return run(loops()->clamp, x, NULL, (tt_tensor *[3]){ NULL }, &(tti_clamp_coef){ lo, hi });
}

static double join(double a, double b, double power)
{
    if (!isinf(power))
        return a + b;
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

/* Chunks are summed by any thread, their sums in order: the result depends on neither. */
static tt_status cpu_sum_powers(const tt_tensor *x, double power, double *sum_p)
{
    int64_t n;
    int type = real_type(x, &n);
    size_t esize = tt_dtype_size((tt_dtype)type);
    tti_sum_loop loop = loops()->sum[type];
    int64_t n_chunks = (n + CHUNK - 1) / CHUNK;
    double parts[256], total = 0;

    if (n_chunks == 1) {
        *sum_p = loop(tti_data(x), n, power);
        return TT_OK;
    }
    for (int64_t first = 0; first < n_chunks; first += 256) {
        int64_t many = n_chunks - first < 256 ? n_chunks - first : 256;
        int threads = many <= 8 ? 1 : tti_threads_for(many * CHUNK, GRAIN);

        TTI_PARALLEL_FOR(threads, c, many, 1, {
            int64_t at = (first + c) * CHUNK;

            parts[c] = loop((const char *)tti_data(x) + (size_t)at * esize,
                            n - at < CHUNK ? n - at : CHUNK, power);
        });
        for (int64_t c = 0; c < many; c++)
            total = join(total, parts[c], power);
    }
    *sum_p = total;
    return TT_OK;
}

static tt_status cpu_unscale(tt_tensor *x, double s, tt_tensor *found)
{
    int64_t n;
    int type = real_type(x, &n);
    size_t esize = tt_dtype_size((tt_dtype)type);
    tti_unscale_loop loop = loops()->unscale[type];
    int threads = tti_threads_for(n, GRAIN), bad = 0;

    if (threads == 1) {
        if (loop(tti_data(x), n, s) != 0)
            *(float *)tti_data(found) = 1;
        return TT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : bad)
    for (int64_t at = 0; at < n; at += CHUNK)
        bad |= loop((char *)tti_data(x) + (size_t)at * esize, n - at < CHUNK ? n - at : CHUNK, s);
    if (bad != 0)
        *(float *)tti_data(found) = 1;
    return TT_OK;
}

const tti_optim_kernels tti_optim_cpu = {
    .sgd = cpu_sgd,
    .adam = cpu_adam,
    .adagrad = cpu_adagrad,
    .rmsprop = cpu_rmsprop,
    .scale = cpu_scale,
    .clamp = cpu_clamp,
    .sum_powers = cpu_sum_powers,
    .unscale = cpu_unscale,
};
