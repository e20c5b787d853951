/* SPDX-License-Identifier: Apache-2.0 */
/* The accelerators' table of index kernels, and those of index.cl: elements from places given by an index,
 * triangles, one-hot rows. */
#include "ops/accel/index.h"

enum { SELECT, GATHER, TRI, ONE_HOT, N_KERNELS };

extern const char tti_source_index[];
static const tti_program program = {
    "index", { tti_source_loops, tti_source_index_element, tti_source_index }
};

const char *tti_accel_size_option(size_t element_size)
{
    static const char *const options[TTI_ELEMENT_SIZES] = { "-DESIZE=1", "-DESIZE=2", "-DESIZE=4",
                                                            "-DESIZE=8", "-DESIZE=16" };

    return options[tti_accel_size_number(element_size)];
}

tti_accel_slab tti_accel_slab_of(const tt_tensor *t, int dim)
{
    tti_accel_slab s = { 1, 1, 1 };

    for (int i = 0; i < t->n_dims; i++) {
        if (i < dim)
            s.outer *= (uint64_t)t->dims[i];
        else if (i == dim)
            s.size = (uint64_t)t->dims[i];
        else
            s.inner *= (uint64_t)t->dims[i];
    }
    return s;
}

static tt_status run(tt_device d, int which, size_t e, uint64_t n, const tti_arg *args, int n_args)
{
    static tti_kernel_slot slots[TTI_ELEMENT_SIZES][N_KERNELS];
    static const char *const names[] = { "index_select", "index_gather", "index_tri",
                                         "index_one_hot" };
    tti_kernel *k = tti_kernel_get(&slots[tti_accel_size_number(e)][which], d, &program,
                                   tti_accel_size_option(e), names[which]);

    return k != NULL ? tti_launch(d, k, tti_grid_elements(d, n), args, n_args) : tt_last_status();
}

/* The largest unit in which slices of `bytes` at both places can be moved. */
static size_t unit_of(const void *a, const void *b, size_t bytes)
{
    uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)bytes | 8;

    return (size_t)(all & (~all + 1));
}

static tt_status index_select(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    tti_accel_slab s = tti_accel_slab_of(x, dim);
    size_t e = unit_of(tti_data(out), tti_data(x), (size_t)s.inner * tti_esize(x));
    uint64_t n = (uint64_t)index->numel, inner = s.inner * tti_esize(x) / e;
    int32_t op = TTI_TROUBLE_INDEX_SELECT;
    tti_arg args[] = { TTI_MEM(tti_data(out)),
                       TTI_MEM(tti_data(x)),
                       TTI_MEM(tti_data(index)),
                       tti_trouble_arg(x->device),
                       TTI_VAL(s.outer),
                       TTI_VAL(n),
                       TTI_VAL(s.size),
                       TTI_VAL(inner),
                       TTI_VAL(op) };

    if (out->numel == 0)
        return TT_OK;
    return run(x->device, SELECT, e, s.outer * n * inner, args, 9);
}

/* gather_t of index.cl */
typedef struct gather_plan {
    tti_accel_loop rows;
    int64_t numel, n, step, stride, size;
} gather_plan;

static tt_status gather(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    int last = index->n_dims - 1;
    gather_plan q = { .rows.total = 1,
                      .numel = index->numel,
                      .n = last >= 0 ? index->dims[last] : 1,
                      .step = last < 0 || dim == last ? 0 : 1,
                      .stride = last >= 0 ? x->strides[dim] : 1,
                      .size = x->n_dims > 0 ? x->dims[dim] : 1 };
    int32_t op = TTI_TROUBLE_GATHER;
    tti_arg args[] = { TTI_MEM(tti_data(out)),     TTI_MEM(tti_data(x)), TTI_MEM(tti_data(index)),
                       tti_trouble_arg(x->device), TTI_VAL(q),           TTI_VAL(op) };

    if (index->numel == 0)
        return TT_OK;
    for (int i = 0; i < last; i++)
        tti_accel_loop_add(&q.rows, index->dims[i], i == dim ? 0 : x->strides[i], 0);
    return run(x->device, GATHER, tti_esize(x), (uint64_t)q.numel, args, 6);
}

static tt_status tri(tt_tensor *out, const tt_tensor *x, int64_t diagonal, bool upper)
{
    int64_t columns = x->dims[x->n_dims - 1], rows = x->dims[x->n_dims - 2];
    uint64_t n = (uint64_t)x->numel;
    uint32_t up = upper;
    tti_arg args[] = { TTI_MEM(tti_data(out)), TTI_MEM(tti_data(x)), TTI_VAL(n), TTI_VAL(rows),
                       TTI_VAL(columns),       TTI_VAL(diagonal),    TTI_VAL(up) };

    if (n == 0)
        return TT_OK;
    /* Far outside, where row + diagonal would overflow, every diagonal is alike. */
    diagonal = diagonal > columns ? columns : diagonal < -rows ? -rows : diagonal;
    return run(x->device, TRI, tti_esize(x), n, args, 7);
}

static tt_status one_hot(tt_tensor *out, const tt_tensor *index)
{
    uint64_t n = (uint64_t)out->numel, classes = (uint64_t)out->dims[out->n_dims - 1];
    int32_t op = TTI_TROUBLE_ONE_HOT;
    tti_arg args[] = { TTI_MEM(tti_data(out)),
                       TTI_MEM(tti_data(index)),
                       tti_trouble_arg(out->device),
                       TTI_VAL(n),
                       TTI_VAL(classes),
                       TTI_VAL(op) };

    if (n == 0)
        return TT_OK;
    return run(out->device, ONE_HOT, 8, n, args, 6);
}

const tti_index_kernels tti_accel_index = {
    .index_select = index_select,
    .index_put = tti_accel_index_put,
    .gather = gather,
    .scatter = tti_accel_scatter,
    .count_nonzero = tti_accel_count_nonzero,
    .nonzero = tti_accel_nonzero,
    .masked_select = tti_accel_masked_select,
    .masked_scatter = tti_accel_masked_scatter,
    .one_hot = one_hot,
    .tri = tri,
    .sort_keys = tti_accel_sort_keys,
};
