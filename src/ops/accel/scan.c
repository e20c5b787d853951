/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative sums and products on accelerators: see scan.cl. */
#include "ops/accel/loops.h"
#include "ops/accel/reduce.h"

#define CHUNK 2048      /* elements of a long line that one work-item adds */
#define MANY_LINES 1024 /* with so many, lines are not cut */
#define WIDE_BYTES 16

enum { TOTALS, BEFORE, WRITE, N_KERNELS };

/* scan_t of scan.cl */
typedef struct scan {
    tti_accel_loop lines;
    int64_t n, x_stride, out_stride;
    int64_t chunk, chunks;
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

static tt_status find_before(const scan *q, uint32_t product, const tt_tensor *x, void *totals)
{
    tti_kernel *sum = kernel_of(x, TOTALS), *before = kernel_of(x, BEFORE);
    tti_arg to_sum[] = { TTI_MEM(totals), TTI_MEM(tti_data(x)), TTI_VAL(*q), TTI_VAL(product) };
    tti_arg to_scan[] = { TTI_MEM(totals), TTI_VAL(*q), TTI_VAL(product) };
    int64_t lines = q->lines.total;

    if (sum == NULL || before == NULL)
        return tt_last_status();
    TT_TRY(tti_launch(x->device, sum, tti_accel_grid_tasks(x->device, lines * q->chunks, q->chunk),
                      to_sum, 4));
    return tti_launch(x->device, before, tti_accel_grid_tasks(x->device, lines, q->chunks), to_scan,
                      3);
}

tt_status tti_accel_cumulative(bool product, tt_tensor *out, const tt_tensor *x, int dim)
{
    bool scalar = x->n_dims == 0;
    uint32_t times = product;
    scan q = { .lines = tti_accel_lines(x, out, scalar ? -1 : dim),
               .n = scalar ? 1 : x->dims[dim],
               .x_stride = scalar ? 1 : x->strides[dim],
               .out_stride = scalar ? 1 : out->strides[dim] };
    size_t bytes = 0;
    void *totals = NULL;
    tti_kernel *k;
    tt_status st;

    TT_TRY(tti_accel_check_type("cumulative", x));
    if (x->numel == 0)
        return TT_OK;
    k = kernel_of(x, WRITE);
    if (k == NULL)
        return tt_last_status();
    q.chunk = q.lines.total < MANY_LINES && q.n > CHUNK ? CHUNK : q.n;
    q.chunks = (q.n + q.chunk - 1) / q.chunk;
    if (q.chunks > 1) {
        bytes = (size_t)(q.lines.total * q.chunks) * WIDE_BYTES;
        totals = tti_accel_scratch(x->device, bytes);
        if (totals == NULL)
            return tt_last_status();
    }
    st = q.chunks > 1 ? find_before(&q, times, x, totals) : TT_OK;
    if (st == TT_OK) {
        tti_arg args[] = { TTI_MEM(tti_data(out)), TTI_MEM(tti_data(x)), TTI_MEM(totals),
                           TTI_VAL(q), TTI_VAL(times) };

        st =
            tti_launch(x->device, k,
                       tti_accel_grid_tasks(x->device, q.lines.total * q.chunks, q.chunk), args, 5);
    }
    tti_accel_scratch_free(x->device, totals, bytes);
    return st;
}
