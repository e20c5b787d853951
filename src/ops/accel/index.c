/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_index_kernels tti_accel_index = { 0 };
