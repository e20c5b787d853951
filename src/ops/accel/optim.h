/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of optimizer kernels on accelerators. */
#ifndef TTI_OPS_ACCEL_OPTIM_H
#define TTI_OPS_ACCEL_OPTIM_H

#include "ops/accel/accel.h"

/* The real type the elements consist of, and how many of it there are. */
tt_dtype tti_accel_real_type(const tt_tensor *t, uint64_t *n_p);

tt_status tti_accel_sum_powers(const tt_tensor *x, double power, double *sum_p);

#endif
