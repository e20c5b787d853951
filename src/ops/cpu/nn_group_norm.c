/* SPDX-License-Identifier: Apache-2.0 */
/* Group norm on the CPU: statistics per sample and group, then the planes of batch norm with
 * coefficients of their own. */
#include <math.h>

#include "ops/cpu/nn_norm.h"
#include "ops/cpu/nn_real.h"
#include "ops/cpu/nn_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/reduce_run.h"

#define GRAIN 32768

typedef union real {
    float f;
    double d;
} real;

/* What is known of a plane: sample, channel, and its row of statistics. */
typedef struct planes {
    int64_t n, c, inner, groups;
    bool wide; /* reals are double */
    const tt_tensor *w, *b, *mean, *rstd;
} planes;

static planes planes_of(const tt_tensor *x, const tt_tensor *mean, const tt_tensor *rstd)
{
    return (planes){ .n = x->dims[0],
                     .c = x->dims[1],
                     .inner = x->numel / (x->dims[0] * x->dims[1]),
                     .groups = rstd->numel / x->dims[0],
                     .wide = x->dtype == TT_F64,
                     .mean = mean,
                     .rstd = rstd };
}

static real real_of(const planes *p, double v)
{
    return p->wide ? (real){ .d = v } : (real){ .f = (float)v };
}

static int64_t row_of(const planes *p, int64_t plane)
{
    return plane / p->c * p->groups + plane % p->c / (p->c / p->groups);
}

static double weight_of(const planes *p, int64_t plane)
{
    return p->w != NULL ? tti_real_get(p->w, plane % p->c) : 1.0;
}

static const char *plane_at(const tt_tensor *t, const planes *p, int64_t plane)
{
    return (const char *)tti_data(t) + plane * p->inner * (int64_t)tti_esize(t);
}

tt_status tti_group_norm_run(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                             const tt_tensor *w, const tt_tensor *b, double eps)
{
    const tti_norm_fns *fns = &(*TTI_ISA_PICK(tti_norms))[x->dtype];
    tt_tensor rows = *x;
    planes p;

    if (x->numel == 0)
        return TT_OK;
    p = planes_of(x, mean, rstd);
    p.w = w;
    p.b = b;
    rows.n_dims = 2;
    rows.dims[0] = rstd->numel;
    rows.dims[1] = rows.strides[0] = x->numel / rstd->numel;
    rows.strides[1] = 1;
    TT_TRY(tti_mean_var_run(mean, rstd, &rows, 2u));
    for (int64_t i = 0; i < rstd->numel; i++)
        tti_real_put(rstd, i, 1.0 / sqrt(tti_real_get(rstd, i) + eps));
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), i, p.n * p.c, 1, {
        int64_t row = row_of(&p, i);
        real scale = real_of(&p, tti_real_get(rstd, row) * weight_of(&p, i));
        real centre = real_of(&p, tti_real_get(mean, row));
        real shift = real_of(&p, b != NULL ? tti_real_get(b, i % p.c) : 0.0);
        tti_channel_norm a = { .out = (char *)tti_data(y) + i * p.inner * (int64_t)tti_esize(y),
                               .x = plane_at(x, &p, i),
                               .n = p.inner,
                               .scale = &scale,
                               .mean = &centre,
                               .shift = &shift };

        fns->apply[0](&a);
    });
    return TT_OK;
}

/* ---- gradient ---------------------------------------------------------------------------- */

/* sums: of dy for each plane, then of dy * (x - mean). */
static void plane_sums(const planes *p, const tti_norm_fns *fns, const tt_tensor *dy,
                       const tt_tensor *x, double *sums)
{
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), i, p->n * p->c, 1, {
        real centre = real_of(p, tti_real_get(p->mean, row_of(p, i)));
        tti_channel_norm a = { .x = plane_at(x, p, i),
                               .dy = plane_at(dy, p, i),
                               .n = p->inner,
                               .mean = &centre,
                               .sum = &sums[i],
                               .dot = &sums[p->n * p->c + i] };

        sums[i] = sums[p->n * p->c + i] = 0;
        fns->sums[0](&a);
    });
}

static void weight_grads(const planes *p, const double *sums, tt_tensor *dw, tt_tensor *db)
{
    for (int64_t c = 0; c < p->c; c++) {
        double w = 0, b = 0;

        for (int64_t i = c; i < p->n * p->c; i += p->c) {
            w += sums[p->n * p->c + i] * tti_real_get(p->rstd, row_of(p, i));
            b += sums[i];
        }
        if (dw != NULL)
            tti_float_put(dw, c, w);
        if (db != NULL)
            tti_float_put(db, c, b);
    }
}

/* One sample's group: dx = dy * rstd * w + (x - mean) * slope + shift. */
static void group_grad(const planes *p, const tti_norm_fns *fns, tt_tensor *dx,
                       const tt_tensor *const dy_x[2], const double *sums, int64_t row)
{
    int64_t per = p->c / p->groups, first = row * per;
    double count = (double)(per * p->inner), all = 0, along = 0;
    double rstd = tti_real_get(p->rstd, row);
    real centre = real_of(p, tti_real_get(p->mean, row)), slope, shift;

    for (int64_t i = first; i < first + per; i++) {
        all += weight_of(p, i) * sums[i];
        along += weight_of(p, i) * sums[p->n * p->c + i];
    }
    slope = real_of(p, -rstd * rstd * rstd * along / count);
    shift = real_of(p, -rstd * all / count);
    for (int64_t i = first; i < first + per; i++) {
        real scale = real_of(p, rstd * weight_of(p, i));
        tti_channel_norm a = { .out = (char *)tti_data(dx) + i * p->inner * (int64_t)tti_esize(dx),
                               .dy = plane_at(dy_x[0], p, i),
                               .x = plane_at(dy_x[1], p, i),
                               .n = p->inner,
                               .scale = &scale,
                               .mean = &centre,
                               .shift = &shift,
                               .slope = &slope };

        fns->grad[0](&a);
    }
}

tt_status tti_group_norm_grad_run(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                  const tt_tensor *x, const tt_tensor *w,
                                  const tt_tensor *mean_rstd[2])
{
    const tti_norm_fns *fns = &(*TTI_ISA_PICK(tti_norms))[x->dtype];
    const tt_tensor *const dy_x[2] = { dy, x };
    planes p = planes_of(x, mean_rstd[0], mean_rstd[1]);
    double *sums = tti_malloc((size_t)(2 * p.n * p.c) * sizeof *sums);

    if (sums == NULL)
        return TT_ERR_NOMEM;
    p.w = w;
    plane_sums(&p, fns, dy, x, sums);
    weight_grads(&p, sums, dw, db);
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), row, p.n * p.groups, 1,
                     if (dx != NULL) group_grad(&p, fns, dx, dy_x, sums, row));
    tti_mfree(sums);
    return TT_OK;
}
