/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_optim_kernels tti_accel_optim = { 0 };
