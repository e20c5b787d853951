/* SPDX-License-Identifier: Apache-2.0 */
/* Filling in place: what was there before, and its gradient, is gone. */
#include "ops/elementwise.h"
#include "ops/sparse.h"

static tt_status zero_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_zeros_like(g[0]));
}

static const tti_op op_fill = { "fill_", zero_backward, 0 };

tt_tensor *tt_fill_(tt_tensor *a, double s)
{
    tti_call c = { .op = &op_fill, .n_in = 1, .in = &a };

    if (!tti_call_begin_inplace(&c))
        return NULL;
    return tti_call_end_inplace(&c, tti_fill(a, s));
}

tt_tensor *tt_zero_(tt_tensor *a)
{
    if (tt_unlikely(tti_is_sparse(a)))
        return tti_sparse_zero_(a);
    return tt_fill_(a, 0.0);
}
