/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels behind the CPU's table of reductions; their contracts are in ops/kernels_reduce.h. */
#ifndef TTI_OPS_CPU_REDUCE_RUN_H
#define TTI_OPS_CPU_REDUCE_RUN_H

#include "ops/kernels.h"

tt_status tti_reduce_run(tti_reduce_op op, tt_tensor *out, const tt_tensor *x, uint32_t mask,
                         const double *p);
/* Mean and population variance of all but one dimension, into vectors of float32 or float64. */
tt_status tti_mean_var_run(tt_tensor *mean, tt_tensor *var, const tt_tensor *x, uint32_t mask);
tt_status tti_arg_reduce_run(bool largest, tt_tensor *values, tt_tensor *indices,
                             const tt_tensor *x, int dim);
tt_status tti_cumulative_run(bool product, tt_tensor *out, const tt_tensor *x, int dim);
tt_status tti_sort_run(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                       bool descending);
tt_status tti_topk_run(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                       int64_t k, bool largest);

#endif
