/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy on the CPU: the loops around nn_softmax.inc. */
#include "ops/cpu/nn_softmax.h"

#include "ops/cpu/nn_real.h"
#include "ops/cpu/nn_table.h"
#include "ops/cpu/parallel.h"

#define GRAIN 8192 /* elements that are worth a thread; each costs an exponential */

typedef struct softmax_job {
    tt_tensor *out;
    const tt_tensor *x, *result;
    int64_t n, inner;
    bool log;
    void (*fn)(const tti_softmax_args *a);
} softmax_job;

/* With inner 1 a turn is some rows, else a tile of columns of one slice. */
static void softmax_all(const softmax_job *j)
{
    int64_t outer = j->x->numel / (j->n * j->inner);
    int64_t rows = j->inner == 1 ? 1 + 2048 / j->n : 1;
    int64_t tiles = (j->inner + TTI_SOFTMAX_TILE - 1) / TTI_SOFTMAX_TILE;
    int64_t turns = (outer + rows - 1) / rows * tiles;
    int64_t esize = (int64_t)tti_esize(j->x);
    char *out = tti_data(j->out);
    const char *x = tti_data(j->x);
    const char *result = j->result != NULL ? tti_data(j->result) : NULL;

    TTI_PARALLEL_FOR(tti_threads_for(j->x->numel, GRAIN), t, turns, 1, {
        int64_t row = t / tiles * rows, column = t % tiles * TTI_SOFTMAX_TILE;
        int64_t at = (row * j->n * j->inner + column) * esize;
        int64_t left = j->inner == 1 ? outer - row : j->inner - column;
        int64_t most = j->inner == 1 ? rows : TTI_SOFTMAX_TILE;
        tti_softmax_args a = { .y = out + at,
                               .x = x + at,
                               .result = result != NULL ? result + at : NULL,
                               .n = j->n,
                               .stride = j->inner,
                               .width = left < most ? left : most,
                               .log = j->log };

        j->fn(&a);
    });
}

tt_status tti_softmax_run(tt_tensor *y, const tt_tensor *x, int64_t n, int64_t inner, bool log)
{
    softmax_job j = { .out = y, .x = x, .n = n, .inner = inner, .log = log };

    j.fn = (*TTI_ISA_PICK(tti_softmaxes))[x->dtype].forward;
    if (j.fn == NULL)
        return tti_no_kernel("softmax", x);
    if (x->numel > 0)
        softmax_all(&j);
    return TT_OK;
}

tt_status tti_softmax_grad_run(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *y, int64_t n,
                               int64_t inner, bool log)
{
    softmax_job j = { .out = dx, .x = dy, .result = y, .n = n, .inner = inner, .log = log };

    j.fn = (*TTI_ISA_PICK(tti_softmaxes))[dy->dtype].grad;
    if (j.fn == NULL)
        return tti_no_kernel("softmax", dy);
    if (dy->numel > 0)
        softmax_all(&j);
    return TT_OK;
}

/* ---- cross-entropy ----------------------------------------------------------------------- */

tt_status tti_cross_entropy_run(tt_tensor *losses, tt_tensor *lse, const tt_tensor *x,
                                const tt_tensor *target, const tt_tensor *weight)
{
    const tti_softmax_fns *fns = &(*TTI_ISA_PICK(tti_softmaxes))[x->dtype];
    const int64_t *classes = tti_data(target);
    int64_t n = x->dims[1], esize = (int64_t)tti_esize(x);

    if (fns->entropy == NULL)
        return tti_no_kernel("cross_entropy", x);
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), r, x->dims[0], 1, {
        bool ignored = classes[r] < 0;
        tti_entropy_args a = { .x = (const char *)tti_data(x) + r * n * esize,
                               .n = n,
                               .target = ignored ? 0 : classes[r] };
        double at, sum = fns->entropy(&a, &at);
        double w = ignored ? 0.0 : weight != NULL ? tti_real_get(weight, classes[r]) : 1.0;

        tti_real_put(lse, r, sum);
        tti_real_put(losses, r, ignored ? 0.0 : w * (sum - at));
    });
    return TT_OK;
}

static void zero_row(char *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        row[i] = 0;
}

tt_status tti_cross_entropy_grad_run(tt_tensor *dx, const tt_tensor *x, const tt_tensor *lse,
                                     const tt_tensor *target, const tt_tensor *weight,
                                     const tt_tensor *scale, double factor)
{
    const tti_softmax_fns *fns = &(*TTI_ISA_PICK(tti_softmaxes))[x->dtype];
    const int64_t *classes = tti_data(target);
    int64_t n = x->dims[1], esize = (int64_t)tti_esize(x);
    int64_t step = scale->n_dims == 0 ? 0 : scale->strides[0];

    if (fns->entropy_grad == NULL)
        return tti_no_kernel("cross_entropy", x);
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), r, x->dims[0], 1, {
        int64_t at = r * n * esize, t = classes[r];
        tti_entropy_args a = { .dx = (char *)tti_data(dx) + at,
                               .x = (const char *)tti_data(x) + at,
                               .n = n,
                               .target = t,
                               .lse = tti_real_get(lse, r) };

        if (t < 0) {
            zero_row(a.dx, n * esize);
            continue;
        }
        a.scale = factor * tti_real_get(scale, r * step) *
                  (weight != NULL ? tti_real_get(weight, t) : 1.0);
        fns->entropy_grad(&a);
    });
    return TT_OK;
}
