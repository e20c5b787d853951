/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_linalg_kernels tti_accel_linalg = { 0 };
