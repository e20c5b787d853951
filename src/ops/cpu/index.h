/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the CPU's index kernels: typed rows, and the check of indices. */
#ifndef TTI_OPS_CPU_INDEX_H
#define TTI_OPS_CPU_INDEX_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/parallel.h"

/* One row of an indexed move: element j is at j * step + index[j] * stride of the other side. */
typedef struct tti_index_row {
    const int64_t *index;
    int64_t n, step, stride;
} tti_index_row;

typedef void (*tti_row_fn)(void *out, const void *in, const tti_index_row *r);
typedef void (*tti_run_fn)(void *out, const void *in, int64_t n);

tti_row_fn tti_row_gather(size_t element_size);
tti_row_fn tti_row_put(size_t element_size);
tti_row_fn tti_row_put_add(tt_dtype dtype);
tti_run_fn tti_run_add(tt_dtype dtype);

/* All of index in [0, size), or INVALID with value, size and place. */
tt_status tti_index_check(const char *name, const tt_tensor *index, int dim, int64_t size);

tt_status tti_cpu_gather(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index);
tt_status tti_cpu_scatter(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                          bool add);
tt_status tti_cpu_count_nonzero(const tt_tensor *x, int64_t *n_p);
tt_status tti_cpu_nonzero(tt_tensor *out, const tt_tensor *x);
tt_status tti_cpu_masked_select(tt_tensor *out, const tt_tensor *x, const tt_tensor *mask);
tt_status tti_cpu_masked_scatter(tt_tensor *out, const tt_tensor *mask, const tt_tensor *src);
tt_status tti_cpu_one_hot(tt_tensor *out, const tt_tensor *index);
tt_status tti_cpu_tri(tt_tensor *out, const tt_tensor *x, int64_t diagonal, bool upper);
tt_status tti_cpu_sort_keys(tt_tensor *order, const tt_tensor *keys, int64_t *groups_p);

/* How many threads it is worth to move so many bytes. */
static inline int tti_index_threads(size_t bytes)
{
    return tti_threads_for((int64_t)bytes, 128 * 1024);
}

#endif
