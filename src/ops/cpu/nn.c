/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of nn kernels. */
#include "ops/cpu/cpu.h"

const tti_nn_kernels tti_nn_cpu = { 0 };
