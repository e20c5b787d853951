/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables, bags of them, and their gradients on accelerators. */
#include "ops/accel/nn.h"
#include "tutti/functional.h"

extern const char tti_source_nn_embedding[];

static const tti_program program = { "nn_embedding",
                                     { tti_source_nn_math, tti_source_nn_embedding } };

static tti_nn_kernel look_up = { &program, "look_up", { { { NULL } } } };
static tti_nn_kernel bags = { &program, "bags", { { { NULL } } } };
static tti_nn_kernel bag_grad = { &program, "bag_grad", { { { NULL } } } };
static tti_nn_kernel bag_max_grad = { &program, "bag_max_grad", { { { NULL } } } };
static tti_nn_kernel bag_rows = { &program, "bag_rows", { { { NULL } } } };
static tti_nn_kernel bag_sample_grad = { &program, "bag_sample_grad", { { { NULL } } } };
static tti_nn_kernel heads_count = { &program, "heads_count", { { { NULL } } } };
static tti_nn_kernel heads_put = { &program, "heads_put", { { { NULL } } } };
static tti_nn_kernel bag_sums = { &program, "bag_sums", { { { NULL } } } };

enum { HEADS = 1024 }; /* members of a part: of nn_embedding.cl */

#define RUN(kernel, t, grid, args) \
    tti_nn_run(&(kernel), (t)->device, (tt_dtype)(t)->dtype, (grid), (args), TTI_NN_COUNT(args))

tt_status tti_accel_embedding(tt_tensor *out, const tt_tensor *weight, const tt_tensor *index)
{
    static const tt_dtype of_size[17] = {
        [1] = TT_I8, [2] = TT_I16, [4] = TT_I32, [8] = TT_I64, [16] = TT_I64
    };
    size_t esize = tti_esize(weight);
    uint64_t n = (uint64_t)index->numel, rows = (uint64_t)weight->dims[0];
    uint64_t width = (uint64_t)weight->dims[1] * (esize == 16 ? 2 : 1);
    uint32_t op = TTI_TROUBLE_EMBEDDING;
    const tti_arg args[] = { tti_nn_mem(out),   tti_nn_mem(weight),
                             tti_nn_mem(index), TTI_VAL(n),
                             TTI_VAL(width),    TTI_VAL(rows),
                             TTI_VAL(op),       tti_trouble_arg(out->device) };

    if (out->numel == 0)
        return TT_OK;
    return tti_nn_run(&look_up, out->device, of_size[esize], tti_grid_rows(out->device, n, width),
                      args, TTI_NN_COUNT(args));
}

/* ---- gradients: who owns what ------------------------------------------------------------------ */

/* Ranges of rows that units own, beside tiles of columns: enough units to keep the device busy. */
static uint64_t ranges_for(const tt_tensor *dw, uint64_t *units_p)
{
    uint64_t tile = (uint64_t)tti_nn_tile(dw->device), rows = (uint64_t)dw->dims[0];
    uint64_t tiles = ((uint64_t)dw->dims[1] + tile - 1) / tile;
    uint64_t want = tti_group_size(dw->device) == 1 ? 4 : 256;
    uint64_t ranges = (want + tiles - 1) / tiles;

    ranges = ranges < rows ? ranges : rows;
    *units_p = tiles * ranges;
    return ranges;
}

/* The kernel's view of bags; `counts` NULL unless it divides. */
typedef struct bag_args {
    uint64_t n_bags, n, dim, rows;
    int64_t padding;
    uint32_t mode;
    const tt_tensor *index, *offsets, *counts, *sample;
} bag_args;

static bag_args args_of(const tti_bags *b, const tt_tensor *counts, int64_t dim)
{
    return (bag_args){ .n_bags = (uint64_t)(b->offsets->numel - 1),
                       .n = (uint64_t)b->index->numel,
                       .dim = (uint64_t)dim,
                       .padding = b->padding,
                       .mode = b->mode == TT_BAG_MAX    ? 2
                               : b->mode == TT_BAG_MEAN ? 1
                                                        : 0,
                       .index = b->index,
                       .offsets = b->offsets,
                       .counts = b->mode == TT_BAG_MEAN ? counts : NULL,
                       .sample = b->sample };
}

static tt_status add_members(tt_tensor *dw, const tt_tensor *dy, const bag_args *a)
{
    uint64_t rows = (uint64_t)dw->dims[0], units, ranges;

    TT_TRY(tti_accel_check_type("embedding_grad", dw));
    if (dw->numel == 0)
        return TT_OK;
    ranges = ranges_for(dw, &units);
    const tti_arg args[] = { tti_nn_mem(dw),         tti_nn_mem(dy),        tti_nn_mem(a->index),
                             tti_nn_mem(a->offsets), tti_nn_mem(a->counts), tti_nn_mem(a->sample),
                             TTI_VAL(a->n_bags),     TTI_VAL(a->n),         TTI_VAL(a->dim),
                             TTI_VAL(rows),          TTI_VAL(a->padding),   TTI_VAL(ranges) };

    return RUN(bag_grad, dw, tti_grid_rows(dw->device, units, a->n * 64 + 1), args);
}

tt_status tti_accel_embedding_grad(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *index,
                                   int64_t skip)
{
    bag_args a = { .n_bags = (uint64_t)index->numel,
                   .n = (uint64_t)index->numel,
                   .dim = (uint64_t)dw->dims[1],
                   .padding = skip,
                   .index = index };

    return add_members(dw, dy, &a);
}

static tt_status add_maxima(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *argmax,
                            const bag_args *a)
{
    uint64_t rows = (uint64_t)dw->dims[0], units, ranges;

    if (dw->numel == 0)
        return TT_OK;
    ranges = ranges_for(dw, &units);
    const tti_arg args[] = { tti_nn_mem(dw),     tti_nn_mem(dy),  tti_nn_mem(argmax),
                             TTI_VAL(a->n_bags), TTI_VAL(a->dim), TTI_VAL(rows),
                             TTI_VAL(ranges) };

    return RUN(bag_max_grad, dw, tti_grid_rows(dw->device, units, a->n_bags * 64 + 1), args);
}

tt_status tti_accel_embedding_bag_grad(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *counts,
                                       const tt_tensor *argmax, const tti_bags *b)
{
    bag_args a = args_of(b, counts, dw->dims[1]);

    TT_TRY(tti_accel_check_type("embedding_bag_grad", dw));
    return argmax != NULL ? add_maxima(dw, dy, argmax, &a) : add_members(dw, dy, &a);
}

/* ---- bags ----------------------------------------------------------------------------------------- */

tt_status tti_accel_embedding_bag(tt_tensor *out, tt_tensor *counts, tt_tensor *argmax,
                                  const tt_tensor *weight, const tti_bags *b)
{
    bag_args a = args_of(b, NULL, weight->dims[1]);
    uint64_t rows = (uint64_t)weight->dims[0];
    uint32_t op = TTI_TROUBLE_EMBEDDING_BAG;
    const tti_arg args[] = {
        tti_nn_mem(out),      tti_nn_mem(counts),  tti_nn_mem(argmax),
        tti_nn_mem(weight),   tti_nn_mem(a.index), tti_nn_mem(a.offsets),
        tti_nn_mem(a.sample), TTI_VAL(a.n_bags),   TTI_VAL(a.n),
        TTI_VAL(a.dim),       TTI_VAL(rows),       TTI_VAL(a.padding),
        TTI_VAL(a.mode),      TTI_VAL(op),         tti_trouble_arg(out->device)
    };

    TT_TRY(tti_accel_check_type("embedding_bag", weight));
    if (a.n_bags == 0)
        return TT_OK;
    return RUN(bags, weight, tti_grid_rows(out->device, a.n_bags, (a.n / a.n_bags + 1) * a.dim),
               args);
}

tt_status tti_accel_embedding_bag_rows(tt_tensor *rows, const tt_tensor *dy,
                                       const tt_tensor *counts, const tti_bags *b)
{
    bag_args a = args_of(b, counts, rows->dims[1]);
    const tti_arg args[] = { tti_nn_mem(rows),      tti_nn_mem(dy),       tti_nn_mem(a.index),
                             tti_nn_mem(a.offsets), tti_nn_mem(a.counts), tti_nn_mem(a.sample),
                             TTI_VAL(a.n_bags),     TTI_VAL(a.n),         TTI_VAL(a.dim),
                             TTI_VAL(a.padding) };

    TT_TRY(tti_accel_check_type("embedding_bag_rows", rows));
    if (rows->numel == 0)
        return TT_OK;
    return RUN(bag_rows, rows, tti_grid_rows(rows->device, a.n, a.dim), args);
}

tt_status tti_accel_embedding_bag_weights_grad(tt_tensor *dsample, const tt_tensor *dy,
                                               const tt_tensor *weight, const tti_bags *b)
{
    bag_args a = args_of(b, NULL, weight->dims[1]);
    uint64_t rows = (uint64_t)weight->dims[0];
    const tti_arg args[] = { tti_nn_mem(dsample), tti_nn_mem(dy),        tti_nn_mem(weight),
                             tti_nn_mem(a.index), tti_nn_mem(a.offsets), TTI_VAL(a.n_bags),
                             TTI_VAL(a.n),        TTI_VAL(a.dim),        TTI_VAL(rows),
                             TTI_VAL(a.padding) };

    TT_TRY(tti_accel_check_type("embedding_bag_weights_grad", dsample));
    if (dsample->numel == 0)
        return TT_OK;
    return RUN(bag_sample_grad, dsample, tti_grid_rows(dsample->device, a.n, a.dim), args);
}

/* ---- sums by row ------------------------------------------------------------------------------------ */

static tt_status sum_groups(tt_tensor *rows, tt_tensor *places, const tt_tensor *dy,
                            const tt_tensor *order, const bag_args *a, int64_t *heads)
{
    uint64_t groups = (uint64_t)rows->dims[0], parts = (a->n + HEADS - 1) / HEADS;
    int64_t *starts = heads + parts;
    const tti_arg count[] = { TTI_MEM(heads), tti_nn_mem(a->index), tti_nn_mem(order),
                              TTI_VAL(a->n) };
    const tti_arg put[] = { TTI_MEM(starts),      tti_nn_mem(places), TTI_MEM(heads),
                            tti_nn_mem(a->index), tti_nn_mem(order),  TTI_VAL(a->n),
                            TTI_VAL(groups) };
    const tti_arg sum[] = { tti_nn_mem(rows),      tti_nn_mem(dy),         tti_nn_mem(order),
                            TTI_MEM(starts),       tti_nn_mem(a->offsets), tti_nn_mem(a->counts),
                            tti_nn_mem(a->sample), TTI_VAL(a->n_bags),     TTI_VAL(groups),
                            TTI_VAL(a->dim) };
    tti_grid grid = tti_nn_grid(rows->device, (int64_t)parts, 2 * HEADS);

    TT_TRY(RUN(heads_count, rows, grid, count));
    TT_TRY(RUN(heads_put, rows, grid, put));
    if (a->dim == 0)
        return TT_OK;
    return RUN(bag_sums, rows, tti_grid_rows(rows->device, groups, (a->n / groups + 1) * a->dim),
               sum);
}

tt_status tti_accel_embedding_bag_sums(tt_tensor *rows_places[2], const tt_tensor *dy,
                                       const tt_tensor *counts, const tt_tensor *order,
                                       const tti_bags *b)
{
    tt_tensor *rows = rows_places[0];
    bag_args a = args_of(b, counts, rows->dims[1]);
    size_t bytes =
        ((size_t)((a.n + HEADS - 1) / HEADS) + (size_t)rows->dims[0] + 1) * sizeof(int64_t);
    int64_t *heads;
    tt_status st;

    TT_TRY(tti_accel_check_type("embedding_bag_sums", rows));
    if (rows->dims[0] == 0)
        return TT_OK;
    heads = tti_accel_scratch(rows->device, bytes);
    if (heads == NULL)
        return tt_last_status();
    st = sum_groups(rows, rows_places[1], dy, order, &a, heads);
    tti_accel_scratch_free(rows->device, heads, bytes);
    return st;
}
