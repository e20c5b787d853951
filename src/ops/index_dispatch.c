/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of index kernels to the device of the result. */
#include "ops/op.h"

tt_status tti_index_select(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    if (tt_unlikely(out == NULL || x == NULL || index == NULL))
        return tt_last_status();
    return TTI_RUN("index_select", out, index, index_select, out, x, dim, index);
}

tt_status tti_index_put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                        bool add)
{
    if (tt_unlikely(out == NULL || index == NULL || src == NULL))
        return tt_last_status();
    return TTI_RUN(add ? "index_add" : "index_copy", out, index, index_put, out, dim, index, src,
                   add);
}

tt_status tti_gather(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    if (tt_unlikely(out == NULL || x == NULL || index == NULL))
        return tt_last_status();
    return TTI_RUN("gather", out, index, gather, out, x, dim, index);
}

tt_status tti_scatter(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                      bool add)
{
    if (tt_unlikely(out == NULL || index == NULL || src == NULL))
        return tt_last_status();
    return TTI_RUN(add ? "scatter_add" : "scatter", out, index, scatter, out, dim, index, src, add);
}

tt_status tti_tri(tt_tensor *out, const tt_tensor *x, int64_t diagonal, bool upper)
{
    if (tt_unlikely(out == NULL || x == NULL))
        return tt_last_status();
    return TTI_RUN(upper ? "triu" : "tril", out, index, tri, out, x, diagonal, upper);
}
