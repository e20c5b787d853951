/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of reduce kernels. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/reduce_run.h"

const tti_reduce_kernels tti_reduce_cpu = {
    .reduce = tti_reduce_run,
    .arg_reduce = tti_arg_reduce_run,
    .cumulative = tti_cumulative_run,
    .sort = tti_sort_run,
    .topk = tti_topk_run,
};
