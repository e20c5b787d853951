/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_random_kernels tti_accel_random = { 0 };
