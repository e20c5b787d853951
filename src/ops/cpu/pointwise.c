/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of pointwise kernels. */
#include "ops/cpu/cpu.h"

const tti_pointwise_kernels tti_pointwise_cpu = { 0 };
