/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's tables of kernels, one per family. Files named x.isa.c are compiled once per instruction
 * set; their functions end in the name of it (TTI_ISA_NAME) and the best one is chosen once. */
#ifndef TTI_OPS_CPU_CPU_H
#define TTI_OPS_CPU_CPU_H

#include "base/isa.h"
#include "ops/kernels.h"

extern const tti_pointwise_kernels tti_pointwise_cpu;
extern const tti_reduce_kernels tti_reduce_cpu;
extern const tti_linalg_kernels tti_linalg_cpu;
extern const tti_index_kernels tti_index_cpu;
extern const tti_nn_kernels tti_nn_cpu;
extern const tti_random_kernels tti_random_cpu;
extern const tti_optim_kernels tti_optim_cpu;

#endif
