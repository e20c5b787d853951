/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm on the CPU: the loops around nn_norm.inc. Gradients of the weights are added up in
 * chunks of rows of a fixed size, and the chunks in order. */
#include "ops/cpu/nn_norm.h"

#include <string.h>

#include "ops/cpu/nn_real.h"
#include "ops/cpu/nn_table.h"
#include "ops/cpu/parallel.h"

#define GRAIN 16384

tt_status tti_layer_norm_run(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                             const tt_tensor *w, const tt_tensor *b, double eps)
{
    const tti_norm_fns *fns = &(*TTI_ISA_PICK(tti_norms))[x->dtype];
    int64_t rows = x->dims[0], n = x->dims[1], esize = (int64_t)tti_esize(x);

    if (fns->row == NULL)
        return tti_no_kernel("layer_norm", x);
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), r, rows, 1, {
        tti_row_norm a = { .y = (char *)tti_data(y) + r * n * esize,
                           .x = (const char *)tti_data(x) + r * n * esize,
                           .w = w != NULL ? tti_data(w) : NULL,
                           .b = b != NULL ? tti_data(b) : NULL,
                           .n = n,
                           .eps = eps,
                           .rms = mean == NULL };

        fns->row(&a);
        if (mean != NULL)
            tti_real_put(mean, r, a.mean);
        tti_real_put(rstd, r, a.rstd);
    });
    return TT_OK;
}

typedef struct grad_job {
    const tti_norm_fns *fns;
    tt_tensor *dx;
    const tt_tensor *dy, *x, *w, *mean, *rstd;
    char *sums; /* of dw, then of db, per chunk; NULL: not wanted */
    int64_t chunk, real;
    bool dw, db;
} grad_job;

static void grad_chunk(const grad_job *j, int64_t chunk)
{
    int64_t rows = j->x->dims[0], n = j->x->dims[1], esize = (int64_t)tti_esize(j->x);
    int64_t first = chunk * j->chunk;
    int64_t end = rows - first < j->chunk ? rows : first + j->chunk;
    char *sums = j->sums != NULL ? j->sums + chunk * 2 * n * j->real : NULL;

    if (sums != NULL)
        memset(sums, 0, (size_t)(2 * n * j->real));
    for (int64_t r = first; r < end; r++) {
        tti_row_norm a = { .y = j->dx != NULL ? (char *)tti_data(j->dx) + r * n * esize : NULL,
                           .x = (const char *)tti_data(j->x) + r * n * esize,
                           .dy = (const char *)tti_data(j->dy) + r * n * esize,
                           .w = j->w != NULL ? tti_data(j->w) : NULL,
                           .dw = j->dw ? sums : NULL,
                           .db = j->db ? sums + n * j->real : NULL,
                           .n = n,
                           .mean = j->mean != NULL ? tti_real_get(j->mean, r) : 0.0,
                           .rstd = tti_real_get(j->rstd, r),
                           .rms = j->mean == NULL };

        j->fns->row_grad(&a);
    }
}

static void add_chunks(tt_tensor *out, const char *sums, int64_t chunks, int64_t real)
{
    int64_t n = out->numel;

    for (int64_t i = 0; i < n; i++) {
        double total = 0;

        for (int64_t c = 0; c < chunks; c++) {
            const char *at = sums + (c * 2 * n + i) * real;

            total += real == 8 ? *(const double *)at : (double)*(const float *)at;
        }
        tti_float_put(out, i, total);
    }
}

tt_status tti_layer_norm_grad_run(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                  const tt_tensor *x, const tt_tensor *w,
                                  const tt_tensor *mean_rstd[2])
{
    int64_t rows = x->dims[0], n = x->dims[1];
    grad_job j = { .fns = &(*TTI_ISA_PICK(tti_norms))[x->dtype],
                   .dx = dx,
                   .dy = dy,
                   .x = x,
                   .w = w,
                   .mean = mean_rstd[0],
                   .rstd = mean_rstd[1],
                   .real = x->dtype == TT_F64 ? 8 : 4,
                   .dw = dw != NULL,
                   .db = db != NULL };
    int64_t chunks;

    if (j.fns->row_grad == NULL)
        return tti_no_kernel("layer_norm", x);
    j.chunk = rows / 32 < 16 ? 16 : rows / 32 > 256 ? 256 : rows / 32;
    chunks = (rows + j.chunk - 1) / j.chunk;
    if (dw != NULL || db != NULL) {
        j.sums = tti_malloc((size_t)(chunks * 2 * n * j.real) + 1);
        if (j.sums == NULL)
            return TT_ERR_NOMEM;
    }
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, GRAIN), c, chunks, 1, grad_chunk(&j, c));
    if (dw != NULL)
        add_chunks(dw, j.sums, chunks, j.real);
    if (db != NULL)
        add_chunks(db, j.sums + n * j.real, chunks, j.real);
    tti_mfree(j.sums);
    return TT_OK;
}
