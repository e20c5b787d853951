/* SPDX-License-Identifier: Apache-2.0 */
/* index_put and scatter on accelerators: see index_put.cl. */
#include "ops/accel/index.h"
#include "ops/accel/reduce.h"

#define COLUMNS 16 /* that a core owns at least */
#define FEW 4096   /* columns, with which */
#define MANY 256   /* so many indices are sorted first, where there are more items than that */

enum { PUT, PUT_SORTED, SCATTER, N_KERNELS };

extern const char tti_source_index_put[];
static const tti_program adding = { "index_add", { tti_source_loops, tti_source_index_put } };
static const tti_program moving = {
    "index_put", { tti_source_loops, tti_source_index_element, tti_source_index_put }
};

static tti_kernel *kernel_of(const tt_tensor *out, bool add, int which)
{
    static tti_kernel_slot adders[TT_N_DTYPES][N_KERNELS], movers[TTI_ELEMENT_SIZES][N_KERNELS];
    static const char *const names[] = { "index_put", "index_put_sorted", "index_scatter" };
    static const char *const options[TTI_ELEMENT_SIZES] = { "-DMOVE -DESIZE=1", "-DMOVE -DESIZE=2",
                                                            "-DMOVE -DESIZE=4", "-DMOVE -DESIZE=8",
                                                            "-DMOVE -DESIZE=16" };
    int size = tti_accel_size_number(tti_esize(out));

    if (add)
        return tti_kernel_get(&adders[out->dtype][which], out->device, &adding,
                              tti_accel_type((tt_dtype)out->dtype), names[which]);
    return tti_kernel_get(&movers[size][which], out->device, &moving, options[size], names[which]);
}

/* Work-items own columns: few of them are not worth many cores. */
static tti_grid columns_grid(tt_device d, uint64_t columns, uint64_t n)
{
    if (tti_group_size(d) == 1)
        return tti_grid_rows(d, (columns + COLUMNS - 1) / COLUMNS, COLUMNS * n);
    return tti_grid_elements(d, columns);
}

/* Columns are too few to keep a GPU busy: equal indices find their owner by sorting. */
static tt_status put_sorted(tti_kernel *k, const tt_tensor *out, const tt_tensor *index,
                            tti_arg *args, uint64_t elements)
{
    tt_device d = out->device;
    size_t bytes = (size_t)index->numel * sizeof(int64_t);
    int64_t *order = tti_accel_scratch(d, bytes);
    tt_status st;

    if (order == NULL)
        return tt_last_status();
    args[9] = TTI_MEM(order);
    st = tti_accel_sort_order(d, order, tti_data(index), index->numel);
    if (st == TT_OK)
        st = tti_launch(d, k, tti_grid_elements(d, elements), args, 10);
    tti_accel_scratch_free(d, order, bytes);
    return st;
}

static tt_status put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                     bool add, int32_t op)
{
    tti_accel_slab s = tti_accel_slab_of(out, dim);
    uint64_t n = (uint64_t)index->numel, columns = s.outer * s.inner;
    bool sorted = tti_group_size(out->device) > 1 && columns < FEW && n >= MANY;
    tti_kernel *k = kernel_of(out, add, sorted ? PUT_SORTED : PUT);
    tti_arg args[10] = { TTI_MEM(tti_data(out)),
                         TTI_MEM(tti_data(src)),
                         TTI_MEM(tti_data(index)),
                         tti_trouble_arg(out->device),
                         TTI_VAL(s.outer),
                         TTI_VAL(n),
                         TTI_VAL(s.size),
                         TTI_VAL(s.inner),
                         TTI_VAL(op) };

    if (k == NULL)
        return tt_last_status();
    if (sorted)
        return put_sorted(k, out, index, args, columns * n);
    return tti_launch(out->device, k, columns_grid(out->device, columns, n), args, 9);
}

tt_status tti_accel_index_put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                              bool add)
{
    if (add)
        TT_TRY(tti_accel_check_type("index_add", out));
    if (src->numel == 0)
        return TT_OK;
    return put(out, dim, index, src, add, add ? TTI_TROUBLE_INDEX_ADD : TTI_TROUBLE_INDEX_COPY);
}

/* scatter_t of index_put.cl */
typedef struct scatter_plan {
    tti_accel_loop rows, src_rows;
    int64_t lines, width, n, size;
    int64_t index_stride, src_stride, out_stride;
} scatter_plan;

/* Lines lie beside each other along the last dimension, unless that is the indexed one. */
static scatter_plan plan_of(const tt_tensor *out, int dim, const tt_tensor *index,
                            const tt_tensor *src)
{
    int last = index->n_dims - 1;
    bool scalar = last < 0;
    scatter_plan q = { .rows.total = 1,
                       .src_rows.total = 1,
                       .width = scalar || dim == last ? 1 : index->dims[last],
                       .n = scalar ? 1 : index->dims[dim],
                       .size = scalar ? 1 : out->dims[dim],
                       .index_stride = scalar ? 1 : index->strides[dim],
                       .src_stride = scalar ? 1 : src->strides[dim],
                       .out_stride = scalar ? 1 : out->strides[dim] };

    q.lines = index->numel / q.n;
    for (int i = 0; i < last; i++) {
        if (i == dim)
            continue;
        tti_accel_loop_add(&q.rows, index->dims[i], index->strides[i], out->strides[i]);
        tti_accel_loop_add(&q.src_rows, index->dims[i], src->strides[i], 0);
    }
    return q;
}

tt_status tti_accel_scatter(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                            bool add)
{
    int32_t op = add ? TTI_TROUBLE_SCATTER_ADD : TTI_TROUBLE_SCATTER;
    tti_kernel *k;
    scatter_plan q;
    tti_arg args[] = { TTI_MEM(tti_data(out)),
                       TTI_MEM(tti_data(src)),
                       TTI_MEM(tti_data(index)),
                       tti_trouble_arg(out->device),
                       TTI_VAL(q),
                       TTI_VAL(op) };

    if (add)
        TT_TRY(tti_accel_check_type("scatter_add", out));
    if (index->numel == 0)
        return TT_OK;
    if (index->n_dims == 1)
        return put(out, 0, index, src, add, op);
    q = plan_of(out, dim, index, src);
    k = kernel_of(out, add, SCATTER);
    if (k == NULL)
        return tt_last_status();
    return tti_launch(out->device, k, tti_accel_grid_tasks(out->device, q.lines, q.n), args, 6);
}
