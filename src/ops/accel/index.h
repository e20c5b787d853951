/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the accelerators' index kernels. A tensor is seen as [outer, size of dim, inner]. */
#ifndef TTI_OPS_ACCEL_INDEX_H
#define TTI_OPS_ACCEL_INDEX_H

#include "ops/accel/loops.h"

extern const char tti_source_index_element[];

#define TTI_ELEMENT_SIZES 5 /* 1, 2, 4, 8, 16 bytes */

/* Which of them: 0 .. 4. */
static inline int tti_accel_size_number(size_t element_size)
{
    return __builtin_ctzl(element_size);
}

/* "-DESIZE=4" */
const char *tti_accel_size_option(size_t element_size);

typedef struct tti_accel_slab {
    uint64_t outer, size, inner;
} tti_accel_slab;

/* A tensor without dimensions is [1, 1, 1]. */
tti_accel_slab tti_accel_slab_of(const tt_tensor *t, int dim);

tt_status tti_accel_index_put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                              bool add);
tt_status tti_accel_scatter(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                            bool add);
tt_status tti_accel_count_nonzero(const tt_tensor *x, int64_t *n_p);
tt_status tti_accel_nonzero(tt_tensor *out, const tt_tensor *x);
tt_status tti_accel_masked_select(tt_tensor *out, const tt_tensor *x, const tt_tensor *mask);
tt_status tti_accel_masked_scatter(tt_tensor *out, const tt_tensor *mask, const tt_tensor *src);
tt_status tti_accel_sort_keys(tt_tensor *order, const tt_tensor *keys, int64_t *groups_p);

#endif
