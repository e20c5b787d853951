/* SPDX-License-Identifier: Apache-2.0 */
/* The row of the CPU: its tables of kernels, and which instruction set they use. */
#include "ops/cpu/cpu.h"

#include "tutti/device.h"

const tti_kernels tti_kernels_cpu = {
    .device = "cpu",
    .pointwise = &tti_pointwise_cpu,
    .reduce = &tti_reduce_cpu,
    .linalg = &tti_linalg_cpu,
    .index = &tti_index_cpu,
    .nn = &tti_nn_cpu,
    .random = &tti_random_cpu,
    .optim = &tti_optim_cpu,
};

static const char *const names[] = { "base", "avx2", "avx512" };

const char *tt_cpu_kernels(void)
{
    return names[tti_cpu_isa()];
}
