/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of linalg kernels. */
#include "ops/cpu/cpu.h"

const tti_linalg_kernels tti_linalg_cpu = { 0 };
