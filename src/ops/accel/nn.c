/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_nn_kernels tti_accel_nn = { 0 };
