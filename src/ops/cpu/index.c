/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of index kernels. */
#include "ops/cpu/cpu.h"

const tti_index_kernels tti_index_cpu = { 0 };
