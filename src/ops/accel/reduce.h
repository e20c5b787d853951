/* SPDX-License-Identifier: Apache-2.0 */
/* The accelerators' kernels along dimensions: reductions, extremes with indices, cumulative sums, sorting. */
#ifndef TTI_OPS_ACCEL_REDUCE_H
#define TTI_OPS_ACCEL_REDUCE_H

#include "ops/accel/accel.h"

tt_status tti_accel_arg_reduce(bool largest, tt_tensor *values, tt_tensor *indices,
                               const tt_tensor *x, int dim);
tt_status tti_accel_cumulative(bool product, tt_tensor *out, const tt_tensor *x, int dim);
tt_status tti_accel_sort(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                         bool descending);
tt_status tti_accel_topk(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                         int64_t k, bool largest);

/* order: the stable permutation that sorts the int64 keys [n] (device memory, as order). */
tt_status tti_accel_sort_order(tt_device d, int64_t *order, const int64_t *keys, int64_t n);

#endif
