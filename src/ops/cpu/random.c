/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of random kernels. */
#include "ops/cpu/cpu.h"

const tti_random_kernels tti_random_cpu = { 0 };
