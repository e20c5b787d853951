/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a kind of device: one table per family, all reached through tti_kernels. Operators
 * check; kernels compute. Every tensor given to a kernel is on the device and of the types
 * said below; results are allocated by the operator and never overlap inputs except exactly. A table
 * or slot that is NULL means that the device cannot do it: the caller gets an error that names
 * operator and device, because every kernel is called through TTI_RUN.
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
/* By tt_device_kind; src/registry.c. Nothing but a test that tries a partial row writes it. */
extern const tti_kernels *tti_kernel_rows[];
extern const int tti_n_kernel_rows;

/* The kernels of the device t is on. Tensors exist only on devices that have a row. */
static inline const tti_kernels *tti_kernels_of(const tt_tensor *t)
{
    return tti_kernel_rows[t->device.kind];
}

/* Records UNSUPPORTED: the device of t has no kernel of this operator for the type of t. */
tt_status tti_no_kernel(const char *name, const tt_tensor *t);

/* Whether the device of t has this kernel, for operators that can do without. */
#define TTI_HAS_KERNEL(t, family, slot) \
    (tti_kernels_of(t)->family != NULL && tti_kernels_of(t)->family->slot != NULL)

/* Call a kernel of the device of t for the operator `name`: its tt_status, or that of tti_no_kernel.
 *
 *     TTI_RUN("sort", x, reduce, sort, values, indices, x, dim, descending) */
#define TTI_RUN(name, t, family, slot, ...)                                                    \
    (tt_likely(TTI_HAS_KERNEL(t, family, slot)) ? tti_kernels_of(t)->family->slot(__VA_ARGS__) \
                                                : tti_no_kernel(name, t))

#endif
