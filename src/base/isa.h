/* SPDX-License-Identifier: Apache-2.0 */
/* Files named x.isa.c are compiled once per instruction set; their functions end in the name of it
 * (TTI_ISA_NAME) and the best one is chosen once. */
#ifndef TTI_BASE_ISA_H
#define TTI_BASE_ISA_H

typedef enum tti_isa {
    TTI_ISA_BASE_LEVEL,
    TTI_ISA_AVX2_LEVEL,
    TTI_ISA_AVX512_LEVEL,
} tti_isa;

/* The best instruction set that both this build and this machine have, or the one TUTTI_ISA asks
 * for. */
tti_isa tti_cpu_isa(void);

/* TTI_ISA_NAME(add) is add_avx2 when compiled for AVX2: for the names of functions in x.isa.c. */
#define TTI_PASTE_(a, b) a##_##b
#define TTI_PASTE(a, b) TTI_PASTE_(a, b)
#define TTI_ISA_NAME(name) TTI_PASTE(name, TTI_ISA)

/* Declares the three flavours of something from an x.isa.c file, and picks one:
 *     TTI_ISA_DECLARE(const tti_sum_table, tti_sum_table);
 *     TTI_ISA_PICK(tti_sum_table)->f32(...)
 */
#define TTI_ISA_DECLARE(type, name) extern type name##_base, name##_avx2, name##_avx512

#if defined(TTI_HAVE_ISA_AVX512) && TTI_HAVE_ISA_AVX512
#define TTI_ISA_PICK(name)                                  \
    (tti_cpu_isa() == TTI_ISA_AVX512_LEVEL ? &name##_avx512 \
     : tti_cpu_isa() == TTI_ISA_AVX2_LEVEL ? &name##_avx2   \
                                           : &name##_base)
#else
#define TTI_ISA_PICK(name) (&name##_base)
#endif

#endif
