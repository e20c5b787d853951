/* SPDX-License-Identifier: Apache-2.0 */
/* The row of the CPU: its tables of kernels, and which instruction set they use. */
#include "ops/cpu/cpu.h"

#include <string.h>

#include "base/env.h"
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

static tti_isa best(void)
{
#if TTI_HAVE_ISA_AVX512
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4"))
        return TTI_ISA_AVX512_LEVEL;
    if (__builtin_cpu_supports("x86-64-v3"))
        return TTI_ISA_AVX2_LEVEL;
#endif
    return TTI_ISA_BASE_LEVEL;
}

static const char *const names[] = { "base", "avx2", "avx512" };

tti_isa tti_cpu_isa(void)
{
    static atomic_int known = -1;
    int isa = atomic_load_explicit(&known, memory_order_relaxed);
    const char *want;

    if (tt_likely(isa >= 0))
        return (tti_isa)isa;
    isa = (int)best();
    want = tti_env_get(TTI_ENV_ISA);
    for (int i = 0; want != NULL && i < isa; i++)
        if (strcmp(want, names[i]) == 0)
            isa = i;
    atomic_store_explicit(&known, isa, memory_order_relaxed);
    return (tti_isa)isa;
}

const char *tt_cpu_kernels(void)
{
    return names[tti_cpu_isa()];
}
