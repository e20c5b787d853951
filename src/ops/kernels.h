/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a kind of device: one table per family, all reached through tti_kernels. Operators
 * check; kernels compute. Every tensor given to a kernel is on the device and of the types
 * said below; results are allocated by the operator and never overlap inputs except exactly. A NULL
 * slot means that the device cannot do it: callers get an error that names both.
 *
 * The CPU's kernels are in ops/cpu; another kind of device adds a folder and a row in registry.c. */
#ifndef TTI_OPS_KERNELS_H
#define TTI_OPS_KERNELS_H

#include "ops/kernels_index.h"
#include "ops/kernels_linalg.h"
#include "ops/kernels_nn.h"
#include "ops/kernels_optim.h"
#include "ops/kernels_pointwise.h"
#include "ops/kernels_random.h"
#include "ops/kernels_reduce.h"

typedef struct tti_kernels {
    const char *device;
    const tti_pointwise_kernels *pointwise;
    const tti_reduce_kernels *reduce;
    const tti_linalg_kernels *linalg;
    const tti_index_kernels *index;
    const tti_nn_kernels *nn;
    const tti_random_kernels *random;
    const tti_optim_kernels *optim;
} tti_kernels;

extern const tti_kernels tti_kernels_cpu;
extern const tti_kernels tti_kernels_accel;
extern const tti_kernels *const tti_kernel_rows[]; /* by tt_device_kind; src/registry.c */
extern const int tti_n_kernel_rows;

/* The kernels of the device t is on. Tensors exist only on devices that have a row. */
static inline const tti_kernels *tti_kernels_of(const tt_tensor *t)
{
    return tti_kernel_rows[t->device.kind];
}

/* Records "operator not supported on device" for a slot that is NULL. */
tt_status tti_no_kernel(const char *name, const tt_tensor *t);

#endif
