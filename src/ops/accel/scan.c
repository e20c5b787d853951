/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative sums and products on accelerators: see scan.cl. */
#include "ops/accel/loops.h"
#include "ops/accel/reduce.h"

#define CHUNK 2048      /* elements of a long line that one work-item adds */
#define MANY_LINES 1024 /* with so many, lines are not cut */
#define TILE 64         /* lines beside each other that a core adds at a time */
#define WIDE_BYTES 16

enum { TOTALS, BEFORE, WRITE, N_KERNELS };

/* scan_t of scan.cl */
typedef struct scan {
    tti_accel_loop keep;
    int64_t n_lines, x_step, out_step;
    int64_t n, x_stride, out_stride;
    int64_t chunk, chunks;
    int64_t width, tiles;
} scan;

extern const char tti_source_scan[];
static const tti_program program = { "scan", { tti_source_loops, tti_source_scan } };

static tti_kernel *kernel_of(const tt_tensor *x, int which)
{
    static tti_kernel_slot slots[TT_N_DTYPES][N_KERNELS];
    static const char *const names[] = { "scan_totals", "scan_before", "scan_write" };

    return tti_kernel_get(&slots[x->dtype][which], x->device, &program,
                          tti_accel_type((tt_dtype)x->dtype), names[which]);
}

static int64_t tasks_of(const scan *q)
{
    return q->keep.total * q->tiles * q->chunks;
}

static tt_status find_before(const scan *q, uint32_t product, const tt_tensor *x, void *totals)
{
    tti_kernel *sum = kernel_of(x, TOTALS), *before = kernel_of(x, BEFORE);
    tti_arg to_sum[] = { TTI_MEM(totals), TTI_MEM(tti_data(x)), TTI_VAL(*q), TTI_VAL(product) };
    tti_arg to_scan[] = { TTI_MEM(totals), TTI_VAL(*q), TTI_VAL(product) };
    int64_t lines = q->keep.total * q->n_lines;

    if (sum == NULL || before == NULL)
        return tt_last_status();
    TT_TRY(tti_launch(x->device, sum,
                      tti_grid_rows(x->device, (uint64_t)tasks_of(q), (uint64_t)q->chunk), to_sum,
                      4));
    return tti_launch(x->device, before, tti_accel_grid_tasks(x->device, lines, q->chunks), to_scan,
                      3);
}

/* Lines and how they are cut: long ones into chunks, unless there are many lines. */
static void make_plan(scan *q, const tt_tensor *out, const tt_tensor *x, int dim)
{
    int group = tti_group_size(x->device);
    tti_reduce_plan p;

    tti_reduce_plan_make(&p, out, x, x->n_dims > 0 ? 1u << dim : 0);
    q->keep = tti_accel_loop_of(&p.keep);
    q->n_lines = p.n_out;
    q->x_step = p.out_stride;
    q->out_step = p.out_step;
    q->n = x->n_dims > 0 ? x->dims[dim] : 1;
    q->x_stride = x->n_dims > 0 ? x->strides[dim] : 1;
    q->out_stride = x->n_dims > 0 ? out->strides[dim] : 1;
    q->width = group > 1 ? group : p.out_stride == 1 && p.out_step == 1 ? TILE : 1;
    q->tiles = (q->n_lines + q->width - 1) / q->width;
    q->chunk = q->keep.total * q->n_lines < MANY_LINES && q->n > CHUNK ? CHUNK : q->n;
    q->chunks = (q->n + q->chunk - 1) / q->chunk;
}

tt_status tti_accel_cumulative(bool product, tt_tensor *out, const tt_tensor *x, int dim)
{
    uint32_t times = product;
    scan q;
    size_t bytes;
    void *totals = NULL;
    tti_kernel *k;
    tt_status st = TT_OK;

    TT_TRY(tti_accel_check_type("cumulative", x));
    if (x->numel == 0)
        return TT_OK;
    k = kernel_of(x, WRITE);
    if (k == NULL)
        return tt_last_status();
    make_plan(&q, out, x, dim);
    bytes = (size_t)(q.keep.total * q.n_lines * q.chunks) * WIDE_BYTES;
    if (q.chunks > 1) {
        totals = tti_accel_scratch(x->device, bytes);
        st = totals != NULL ? find_before(&q, times, x, totals) : tt_last_status();
    }
    if (st == TT_OK) {
        tti_arg args[] = { TTI_MEM(tti_data(out)), TTI_MEM(tti_data(x)), TTI_MEM(totals),
                           TTI_VAL(q), TTI_VAL(times) };

        st = tti_launch(x->device, k,
                        tti_grid_rows(x->device, (uint64_t)tasks_of(&q), (uint64_t)q.chunk), args,
                        5);
    }
    tti_accel_scratch_free(x->device, totals, bytes);
    return st;
}
