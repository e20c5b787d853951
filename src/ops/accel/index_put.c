/* SPDX-License-Identifier: Apache-2.0 */
/* index_put and scatter on accelerators: see index_put.cl. */
#include "ops/accel/index.h"

#define COLUMNS 16 /* that a core owns at least */

enum { PUT, SCATTER, N_KERNELS };

extern const char tti_source_index_put[];
static const tti_program adding = { "index_add", { tti_source_loops, tti_source_index_put } };
static const tti_program moving = {
    "index_put", { tti_source_loops, tti_source_index_element, tti_source_index_put }
};

static tti_kernel *kernel_of(const tt_tensor *out, bool add, int which)
{
    static tti_kernel_slot adders[TT_N_DTYPES][N_KERNELS], movers[TTI_ELEMENT_SIZES][N_KERNELS];
    static const char *const names[] = { "index_put", "index_scatter" };
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

tt_status tti_accel_index_put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                              bool add)
{
    tti_accel_slab s = tti_accel_slab_of(out, dim);
    uint64_t n = (uint64_t)index->numel;
    int32_t op = add ? TTI_TROUBLE_INDEX_ADD : TTI_TROUBLE_INDEX_COPY;
    tti_kernel *k;
    tti_arg args[] = { TTI_MEM(tti_data(out)),
                       TTI_MEM(tti_data(src)),
                       TTI_MEM(tti_data(index)),
                       tti_trouble_arg(out->device),
                       TTI_VAL(s.outer),
                       TTI_VAL(n),
                       TTI_VAL(s.size),
                       TTI_VAL(s.inner),
                       TTI_VAL(op) };

    if (add)
        TT_TRY(tti_accel_check_type("index_add", out));
    if (src->numel == 0)
        return TT_OK;
    k = kernel_of(out, add, PUT);
    if (k == NULL)
        return tt_last_status();
    return tti_launch(out->device, k, columns_grid(out->device, s.outer * s.inner, n), args, 9);
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
    q = plan_of(out, dim, index, src);
    k = kernel_of(out, add, SCATTER);
    if (k == NULL)
        return tt_last_status();
    return tti_launch(out->device, k, tti_accel_grid_tasks(out->device, q.lines, q.n), args, 6);
}
