/* SPDX-License-Identifier: Apache-2.0 */
/* Interim weak definition, overridden by the real operator when it lands. */
#include "ops/op.h"
#include "tutti/sparse.h"

__attribute__((weak)) tt_tensor *tt_sparse_coalesce(tt_tensor *t)
{
    return tt_sparse_is_coalesced(t) ? t : TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "sparse_coalesce");
}

__attribute__((weak)) bool tt_sparse_is_coalesced(const tt_tensor *t)
{
    return (t->flags & TTI_COALESCED) != 0;
}
