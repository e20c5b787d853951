/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_reduce_kernels tti_accel_reduce = { 0 };
