/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction set kernels use. */
#include "base/isa.h"

#include <stdatomic.h>
#include <string.h>

#include "base/env.h"
#include "base/status.h"

static const char *const names[] = { "base", "avx2", "avx512" };

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
