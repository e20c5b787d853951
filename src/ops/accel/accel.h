/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of accelerators: host code that launches them (x.c) beside their text (x.cl, in the dialect of
 * device/prelude.cl). One set serves every kind of accelerator. */
#ifndef TTI_OPS_ACCEL_ACCEL_H
#define TTI_OPS_ACCEL_ACCEL_H

#include "device/launch.h"
#include "ops/kernels.h"

extern const tti_pointwise_kernels tti_accel_pointwise;
extern const tti_reduce_kernels tti_accel_reduce;
extern const tti_linalg_kernels tti_accel_linalg;
extern const tti_index_kernels tti_accel_index;
extern const tti_nn_kernels tti_accel_nn;
extern const tti_random_kernels tti_accel_random;
extern const tti_optim_kernels tti_accel_optim;

/* Rows of tti_accel_nn that have files of their own (conv.c, pool.c): ops/kernels_nn.h says what they do. */
tt_status tti_accel_conv(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                         const tti_conv *c);
tt_status tti_accel_conv_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                    const tti_conv *c);
tt_status tti_accel_conv_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                     const tti_conv *c);
tt_status tti_accel_max_pool(tt_tensor *y, tt_tensor *indices, const tt_tensor *x,
                             const tti_pool *p);
tt_status tti_accel_avg_pool(tt_tensor *y, const tt_tensor *x, const tti_pool *p);
tt_status tti_accel_avg_pool_grad(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p);
tt_status tti_accel_adaptive_pool(tt_tensor *y, tt_tensor *indices, const tt_tensor *x,
                                  const tti_pool *p);
tt_status tti_accel_adaptive_avg_pool_grad(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p);
tt_status tti_accel_max_pool_grad(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *indices);

/* The build option that says the element type of a kernel text, "-DIS_F32": see device/prelude.cl. */
const char *tti_accel_type(tt_dtype dtype);

/* UNSUPPORTED for float64 and complex128 on devices without float64. */
tt_status tti_accel_check_type(const char *name, const tt_tensor *t);

/* Scratch memory on d for use on its current stream; freed in stream order with tti_accel_scratch_free. */
void *tti_accel_scratch(tt_device d, size_t bytes);
void tti_accel_scratch_free(tt_device d, void *p, size_t bytes);

#endif
