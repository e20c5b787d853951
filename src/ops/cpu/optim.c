/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of optim kernels. */
#include "ops/cpu/cpu.h"

const tti_optim_kernels tti_optim_cpu = { 0 };
