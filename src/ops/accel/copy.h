/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, fills and ranges on accelerators: see tti_pointwise_kernels. */
#ifndef TTI_OPS_ACCEL_COPY_H
#define TTI_OPS_ACCEL_COPY_H

#include "ops/accel/accel.h"

tt_status tti_accel_copy(tt_tensor *dst, const tt_tensor *src);
tt_status tti_accel_fill(tt_tensor *x, double re, double im);
tt_status tti_accel_arange(tt_tensor *x, double start, double step);

#endif
