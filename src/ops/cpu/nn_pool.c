/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling on the CPU: planes shared out to threads. */
#include <string.h>

#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/parallel.h"

enum { PLANE_GRAIN = 8192 }; /* elements worth a thread */

#define POOLS TTI_ISA_PICK(tti_pool_table)

static int which(const tt_tensor *t)
{
    assert(t->dtype == TT_F32 || t->dtype == TT_F64 || t->dtype == TT_I64);
    return t->dtype == TT_I64 ? 2 : t->dtype == TT_F64;
}

/* Runs fn for every plane; scratch is per thread. */
static tt_status each_plane(tti_plane_fn fn, tt_tensor *out, tt_tensor *indices,
                            const tt_tensor *in, const tti_pool *p)
{
    int64_t planes = p->n * p->c;
    int threads = tti_threads_for(out->numel + in->numel, PLANE_GRAIN);
    size_t bytes = tti_plane_scratch(p);
    size_t out_step, in_step;
    int64_t index_step;
    char *scratch;

    if (planes == 0 || out->numel == 0)
        return TT_OK;
    out_step = (size_t)(out->numel / planes) * tti_esize(out);
    in_step = (size_t)(in->numel / planes) * tti_esize(in);
    index_step = out->numel / planes;
    scratch = tti_malloc(bytes * (size_t)threads);
    if (scratch == NULL)
        return TT_ERR_NOMEM;
    TTI_PARALLEL_FOR(threads, i, planes, 1, {
        tti_plane io = { .out = (char *)tti_data(out) + (size_t)i * out_step,
                         .in = (const char *)tti_data(in) + (size_t)i * in_step,
                         .scratch = scratch + (size_t)tti_worker(threads) * bytes };

        if (indices != NULL)
            io.indices = (int64_t *)tti_data(indices) + i * index_step;
        fn(&io, p);
    });
    tti_mfree(scratch);
    return TT_OK;
}

tt_status tti_max_pool_cpu(tt_tensor *y, tt_tensor *indices, const tt_tensor *x, const tti_pool *p)
{
    if (p->h > INT32_MAX / (p->w > 0 ? p->w : 1))
        return TT_FAIL(TT_ERR_UNSUPPORTED, "max_pool: planes of more than 2^31 elements");
    return each_plane(POOLS->max[which(x)], y, indices, x, p);
}

tt_status tti_avg_pool_cpu(tt_tensor *y, const tt_tensor *x, const tti_pool *p)
{
    return each_plane(POOLS->avg[which(x)], y, NULL, x, p);
}

tt_status tti_avg_pool_grad_cpu(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p)
{
    return each_plane(POOLS->avg_grad[which(dy)], dx, NULL, dy, p);
}

tt_status tti_adaptive_pool_cpu(tt_tensor *y, tt_tensor *indices, const tt_tensor *x,
                                const tti_pool *p)
{
    const tti_plane_fn *fn = indices != NULL ? POOLS->adaptive_max : POOLS->adaptive_avg;

    return each_plane(fn[which(x)], y, indices, x, p);
}

tt_status tti_adaptive_avg_pool_grad_cpu(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p)
{
    return each_plane(POOLS->adaptive_avg_grad[which(dy)], dx, NULL, dy, p);
}

tt_status tti_max_pool_grad_cpu(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *indices)
{
    int64_t planes = dx->dims[0], in = dx->dims[1], out = dy->dims[1];
    const int64_t *at = tti_data(indices);
    bool wide = which(dy) != 0;

    TTI_PARALLEL_FOR(tti_threads_for(dx->numel, PLANE_GRAIN), i, planes, 1, {
        if (wide) {
            double *to = (double *)tti_data(dx) + i * in;
            const double *from = (const double *)tti_data(dy) + i * out;

            memset(to, 0, (size_t)in * sizeof *to);
            for (int64_t j = 0; j < out; j++)
                to[at[i * out + j]] += from[j];
        } else {
            float *to = (float *)tti_data(dx) + i * in;
            const float *from = (const float *)tti_data(dy) + i * out;

            memset(to, 0, (size_t)in * sizeof *to);
            for (int64_t j = 0; j < out; j++)
                to[at[i * out + j]] += from[j];
        }
    });
    return TT_OK;
}
