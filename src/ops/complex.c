/* SPDX-License-Identifier: Apache-2.0 */
/* Complex tensors and the real ones they are made of: parts are views of every second element. */
#include "ops/elementwise.h"

static tt_status conj_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_conj(g[0]));
}

static const tti_elementwise op_conj = { { "conj", conj_backward, 0 }, TTI_CONJ, TTI_PROMOTE, 0 };

tt_tensor *tt_conj(tt_tensor *x)
{
    if (x != NULL && !tt_dtype_is_complex((tt_dtype)x->dtype))
        return x;
    return tti_apply1(&op_conj, x, NULL, 0);
}
