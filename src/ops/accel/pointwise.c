/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_pointwise_kernels tti_accel_pointwise = { 0 };
