/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of reduce kernels. */
#include "ops/cpu/cpu.h"

const tti_reduce_kernels tti_reduce_cpu = { 0 };
