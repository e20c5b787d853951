/* SPDX-License-Identifier: Apache-2.0 */
/* The largest or smallest element and where it is, on accelerators: see reduce_arg.cl. */
#include "ops/accel/loops.h"
#include "ops/accel/reduce.h"

#define SEGMENT 65536
#define TILE 64 /* columns that a core compares at a time */
#define FEW 64  /* elements per line that one work-item may compare */

enum { ROWS, COLUMNS, JOIN, N_KERNELS };

/* arg_t of reduce_arg.cl */
typedef struct arg_plan {
    tti_accel_loop keep;
    int64_t n_out, out_stride, out_step;
    int64_t n, stride;
    int64_t n_results;
    int64_t piece, n_segments;
    int64_t tiles;
    uint32_t largest, with_values;
} arg_plan;

extern const char tti_source_reduce_arg[];
static const tti_program program = { "reduce_arg", { tti_source_loops, tti_source_reduce_arg } };

static tti_kernel *kernel_of(const tt_tensor *x, int which)
{
    static tti_kernel_slot slots[TT_N_DTYPES][N_KERNELS];
    static const char *const names[] = { "arg_rows", "arg_columns", "arg_join" };

    return tti_kernel_get(&slots[x->dtype][which], x->device, &program,
                          tti_accel_type((tt_dtype)x->dtype), names[which]);
}

/* Returns whether lines are columns. */
static bool make_plan(arg_plan *q, const tt_tensor *indices, const tt_tensor *x, int dim)
{
    int group = tti_group_size(x->device), tile = group > 1 ? group : TILE;
    bool columns;
    tti_reduce_plan p;

    tti_reduce_plan_make(&p, indices, x, dim >= 0 ? 1u << dim : (1u << x->n_dims) - 1);
    q->keep = tti_accel_loop_of(&p.keep);
    q->n_out = p.n_out;
    q->out_stride = p.out_stride;
    q->out_step = p.out_step;
    q->n = p.n;
    q->stride = p.stride;
    q->n_results = indices->numel;
    columns = p.n_out > 1 && ((p.out_stride == 1 && p.stride != 1) || (group > 1 && p.n <= FEW));
    q->tiles = (p.n_out + tile - 1) / tile;
    q->piece = columns ? SEGMENT / (p.n_out < TILE ? p.n_out : TILE) : SEGMENT;
    q->n_segments = (p.n + q->piece - 1) / q->piece;
    return columns;
}

static tt_status run(tt_device d, tti_kernel *k, tti_grid grid, const tti_arg *args)
{
    return k != NULL ? tti_launch(d, k, grid, args, 5) : tt_last_status();
}

tt_status tti_accel_arg_reduce(bool largest, tt_tensor *values, tt_tensor *indices,
                               const tt_tensor *x, int dim)
{
    arg_plan q = { .largest = largest, .with_values = values != NULL };
    tt_device d = x->device;
    tti_arg args[] = { TTI_MEM(values != NULL ? tti_data(values) : NULL),
                       TTI_MEM(tti_data(indices)), TTI_MEM(NULL), TTI_MEM(tti_data(x)),
                       TTI_VAL(q) };
    bool columns;
    int64_t tasks;
    size_t bytes;
    void *parts = NULL;
    tt_status st;

    if (tt_dtype_is_complex((tt_dtype)x->dtype))
        return tti_no_kernel("arg_reduce", x);
    TT_TRY(tti_accel_check_type("arg_reduce", x));
    if (indices->numel == 0)
        return TT_OK;
    columns = make_plan(&q, indices, x, dim);
    bytes = (size_t)(q.n_results * q.n_segments) * sizeof(int64_t);
    if (q.n_segments > 1) {
        parts = tti_accel_scratch(d, bytes);
        if (parts == NULL)
            return tt_last_status();
        args[2].p = parts;
    }
    tasks = (columns ? q.keep.total * q.tiles : q.n_results) * q.n_segments;
    st = run(d, kernel_of(x, columns ? COLUMNS : ROWS),
             tti_grid_rows(d, (uint64_t)tasks, (uint64_t)(x->numel / tasks + 1)), args);
    if (st == TT_OK && q.n_segments > 1)
        st = run(d, kernel_of(x, JOIN), tti_grid_elements(d, (uint64_t)q.n_results), args);
    tti_accel_scratch_free(d, parts, bytes);
    return st;
}
