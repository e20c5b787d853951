/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products without recording, for the gradients of linear operators. */
#ifndef TTI_OPS_MATMUL_H
#define TTI_OPS_MATMUL_H

#include "ops/op.h"

/* op(a) @ op(b) of two matrices, or of two batches of them, in a new tensor; NULL on failure. */
tt_tensor *tti_mm(const tt_tensor *a, const tt_tensor *b, bool trans_a, bool trans_b);

/* The same as the gradient of input i of n. */
tt_tensor *tti_mm_grad(const tti_node *n, int i, const tt_tensor *a, const tt_tensor *b,
                       bool trans_a, bool trans_b);

#endif
