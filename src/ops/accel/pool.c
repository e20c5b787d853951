/* SPDX-License-Identifier: Apache-2.0 */
/* Pools on accelerators: see pool.cl. */
#include "ops/accel/accel.h"
#include "ops/op.h"

extern const char tti_source_pool[];
static const tti_program program = { "pool", { tti_source_pool } };

typedef enum which {
    MAX,
    MAX_GRAD,
    AVG,
    AVG_GRAD,
    ADAPTIVE_MAX,
    ADAPTIVE_AVG,
    ADAPTIVE_AVG_GRAD,
    N_POOLS
} which;

static const char *const names[N_POOLS] = {
    [MAX] = "max_pool",
    [MAX_GRAD] = "max_pool_grad",
    [AVG] = "avg_pool",
    [AVG_GRAD] = "avg_pool_grad",
    [ADAPTIVE_MAX] = "adaptive_max",
    [ADAPTIVE_AVG] = "adaptive_avg",
    [ADAPTIVE_AVG_GRAD] = "adaptive_avg_grad",
};
static tti_kernel_slot slots[N_POOLS][2]; /* float32, float64 */

/* As in pool.cl. */
typedef struct pool_args {
    uint64_t planes;
    int64_t h, w, oh, ow;
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t divisor, exclude_pad;
} pool_args;

static tti_kernel *kernel_of(which k, const tt_tensor *t)
{
    assert(t->dtype == TT_F32 || t->dtype == TT_F64);
    return tti_kernel_get(&slots[k][t->dtype == TT_F64], t->device, &program,
                          tti_accel_type((tt_dtype)t->dtype), names[k]);
}

/* out [planes, rows, width]; with_indices: the kernel has that argument, which may be NULL. */
static tt_status pool(which what, tt_tensor *out, const tt_tensor *in, const tti_pool *p,
                      bool with_indices, tt_tensor *indices)
{
    pool_args a = { .planes = (uint64_t)(p->n * p->c),
                    .h = p->h,
                    .w = p->w,
                    .oh = p->oh,
                    .ow = p->ow,
                    .divisor = p->divisor,
                    .exclude_pad = p->exclude_pad };
    tti_arg args[4];
    tti_kernel *k;
    tti_grid grid;
    uint64_t width, rows;
    int n = 0;

    if (out->numel == 0)
        return TT_OK;
    TT_TRY(tti_accel_check_type(names[what], out));
    if ((k = kernel_of(what, out)) == NULL)
        return tt_last_status();
    for (int i = 0; i < 2; i++) {
        a.kernel[i] = p->kernel[i];
        a.stride[i] = p->stride[i];
        a.pad[i] = p->pad[i];
        a.dilation[i] = p->dilation[i];
    }
    args[n++] = TTI_MEM(tti_data(out));
    if (with_indices)
        args[n++] = TTI_MEM(indices != NULL ? tti_data(indices) : NULL);
    args[n++] = TTI_MEM(tti_data(in));
    args[n++] = TTI_VAL(a);
    width = (uint64_t)out->dims[out->n_dims - 1];
    rows = (uint64_t)out->numel / width;
    grid = tti_group_size(out->device) == 1
               ? tti_grid_rows(out->device, rows, width * (uint64_t)(in->numel / out->numel + 1))
               : tti_grid_elements(out->device, (uint64_t)out->numel);
    return tti_launch(out->device, k, grid, args, n);
}

tt_status tti_accel_max_pool(tt_tensor *y, tt_tensor *indices, const tt_tensor *x,
                             const tti_pool *p)
{
    return pool(MAX, y, x, p, true, indices);
}

tt_status tti_accel_avg_pool(tt_tensor *y, const tt_tensor *x, const tti_pool *p)
{
    return pool(AVG, y, x, p, false, NULL);
}

tt_status tti_accel_avg_pool_grad(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p)
{
    return pool(AVG_GRAD, dx, dy, p, false, NULL);
}

tt_status tti_accel_adaptive_pool(tt_tensor *y, tt_tensor *indices, const tt_tensor *x,
                                  const tti_pool *p)
{
    return pool(indices != NULL ? ADAPTIVE_MAX : ADAPTIVE_AVG, y, x, p, indices != NULL, indices);
}

tt_status tti_accel_adaptive_avg_pool_grad(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p)
{
    return pool(ADAPTIVE_AVG_GRAD, dx, dy, p, false, NULL);
}

tt_status tti_accel_max_pool_grad(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *indices)
{
    uint64_t planes = (uint64_t)dx->dims[0], in = (uint64_t)dx->dims[1],
             out = (uint64_t)dy->dims[1];
    tti_arg args[] = { TTI_MEM(tti_data(dx)), TTI_MEM(tti_data(dy)), TTI_MEM(tti_data(indices)),
                       TTI_VAL(planes),       TTI_VAL(in),           TTI_VAL(out) };
    tti_kernel *k;

    if (dx->numel == 0)
        return TT_OK;
    TT_TRY(tti_accel_check_type("max_pool_grad", dx));
    if ((k = kernel_of(MAX_GRAD, dx)) == NULL)
        return tt_last_status();
    return tti_launch(dx->device, k, tti_grid_rows(dx->device, planes, in + out), args, 6);
}
