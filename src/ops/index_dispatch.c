/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of index kernels to the device of the result. */
#include "ops/op.h"

#define INDEX(t) (tti_kernels_of(t)->index)

tt_status tti_index_select(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    if (tt_unlikely(out == NULL || x == NULL || index == NULL))
        return tt_last_status();
    if (tt_unlikely(INDEX(out)->index_select == NULL))
        return tti_no_kernel("index_select", out);
    return INDEX(out)->index_select(out, x, dim, index);
}

tt_status tti_index_put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                        bool add)
{
    if (tt_unlikely(out == NULL || index == NULL || src == NULL))
        return tt_last_status();
    if (tt_unlikely(INDEX(out)->index_put == NULL))
        return tti_no_kernel(add ? "index_add" : "index_copy", out);
    return INDEX(out)->index_put(out, dim, index, src, add);
}

tt_status tti_gather(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    if (tt_unlikely(out == NULL || x == NULL || index == NULL))
        return tt_last_status();
    if (tt_unlikely(INDEX(out)->gather == NULL))
        return tti_no_kernel("gather", out);
    return INDEX(out)->gather(out, x, dim, index);
}

tt_status tti_scatter(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                      bool add)
{
    if (tt_unlikely(out == NULL || index == NULL || src == NULL))
        return tt_last_status();
    if (tt_unlikely(INDEX(out)->scatter == NULL))
        return tti_no_kernel(add ? "scatter_add" : "scatter", out);
    return INDEX(out)->scatter(out, dim, index, src, add);
}

tt_status tti_tri(tt_tensor *out, const tt_tensor *x, int64_t diagonal, bool upper)
{
    if (tt_unlikely(out == NULL || x == NULL))
        return tt_last_status();
    if (tt_unlikely(INDEX(out)->tri == NULL))
        return tti_no_kernel(upper ? "triu" : "tril", out);
    return INDEX(out)->tri(out, x, diagonal, upper);
}
