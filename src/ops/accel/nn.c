/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/accel/accel.h"

const tti_nn_kernels tti_accel_nn = {
    .conv = tti_accel_conv,
    .conv_grad_input = tti_accel_conv_grad_input,
    .conv_grad_weight = tti_accel_conv_grad_weight,
    .max_pool = tti_accel_max_pool,
    .avg_pool = tti_accel_avg_pool,
    .avg_pool_grad = tti_accel_avg_pool_grad,
    .adaptive_pool = tti_accel_adaptive_pool,
    .adaptive_avg_pool_grad = tti_accel_adaptive_avg_pool_grad,
    .max_pool_grad = tti_accel_max_pool_grad,
};
