/* SPDX-License-Identifier: Apache-2.0 */
/* What other operators call when an operand is sparse. All return scope-owned tensors or NULL. */
#ifndef TTI_OPS_SPARSE_H
#define TTI_OPS_SPARSE_H

#include "ops/op.h"
#include "tutti/sparse.h"

static inline bool tti_is_sparse(const tt_tensor *t)
{
    return t != NULL && t->sparse != NULL;
}

/* a + b with at least one sparse: sparse and sparse gives sparse, else dense. */
tt_tensor *tti_sparse_add(tt_tensor *a, tt_tensor *b);
/* a * b, one of them sparse and so the result: the entries times what the other holds at their coordinates. */
tt_tensor *tti_sparse_mul(tt_tensor *a, tt_tensor *b);
/* a += b; a dense tensor takes a sparse one, a sparse one only sparse ones. */
tt_tensor *tti_sparse_add_(tt_tensor *a, tt_tensor *b);

/* A tensor with the coordinates of t and other values, of the same count. */
tt_tensor *tti_sparse_with(tt_tensor *t, tt_tensor *values);
/* Replace what t holds, in place. */
tt_tensor *tti_sparse_set_(tt_tensor *t, tt_tensor *indices, tt_tensor *values, bool coalesced);
/* On another device. */
tt_tensor *tti_sparse_to_device(tt_tensor *t, tt_device device);
/* No entries any more. */
tt_tensor *tti_sparse_zero_(tt_tensor *t);

/* int64 [nnz]: the row of each entry when the sparse dimensions are flattened into one. */
tt_tensor *tti_sparse_keys(const tt_tensor *t);

#endif
