/* SPDX-License-Identifier: Apache-2.0 */
/* What the pooling operators share: sizes, conversions and gradients that can be differentiated
 * again. Kernels see planes; operators see [C, L], [N, C, L], [C, H, W] or [N, C, H, W]. */
#ifndef TTI_OPS_POOL_H
#define TTI_OPS_POOL_H

#include "ops/op.h"

/* Remembered by the nodes. */
typedef struct tti_pool_attrs {
    tti_pool p;
    tt_shape in, out;
    bool adaptive;
} tti_pool_attrs;

/* Fill in the sizes of x, whose last `spatial` (1 or 2) dimensions are pooled. */
tt_status tti_pool_input(const char *name, const tt_tensor *x, int spatial, tti_pool_attrs *a);
/* The shape of the result, once a->p.oh and ow are known. */
void tti_pool_output(int spatial, tti_pool_attrs *a);

/* The maxima, recorded as `op`; the places in *indices_p unless that is NULL. */
tt_tensor *tti_pool_max(const tti_op *op, tt_tensor *x, const tti_pool_attrs *a,
                        tt_tensor **indices_p);
/* The averages, recorded as `op`. */
tt_tensor *tti_pool_avg(const tti_op *op, tt_tensor *x, const tti_pool_attrs *a);

/* Backward functions of the two. */
tt_status tti_pool_max_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in);
tt_status tti_pool_avg_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in);

#endif
