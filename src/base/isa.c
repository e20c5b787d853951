/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction set kernels use. */
#include "base/isa.h"

#include <stdatomic.h>

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
    int want;

    if (tt_likely(isa >= 0))
        return (tti_isa)isa;
    isa = (int)best();
    atomic_store_explicit(&known, isa, memory_order_relaxed); /* a warning may ask for it */
    want = tti_env_choice(TTI_ENV_ISA, names, 3, isa);
    if (want > isa)
        tt_warn("environment", "TUTTI_ISA: this machine, or this build, has no %s; %s is used",
                names[want], names[isa]);
    isa = want < isa ? want : isa;
    atomic_store_explicit(&known, isa, memory_order_relaxed);
    return (tti_isa)isa;
}
