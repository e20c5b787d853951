/* SPDX-License-Identifier: Apache-2.0 */
/* The default collate: samples stacked along a new first dimension. Rows are copied one by one by the
 * calling thread, so that loader threads do not start teams of their own. */
#include <string.h>

#include "data/data.h"
#include "ops/op.h"
#include "tensor/shape.h"

static tt_status stack_field(tt_tensor *const *samples, int64_t n, int step, tt_tensor **out)
{
    const tt_tensor *first = samples[0];
    int64_t dims[TT_MAX_DIMS] = { n };
    size_t bytes = tt_tensor_bytes(first);
    tt_tensor *all;

    if (first->n_dims == TT_MAX_DIMS)
        return TT_FAIL(TT_ERR_INVALID, "loader: cannot stack samples of %d dimensions",
                       TT_MAX_DIMS);
    memcpy(dims + 1, first->dims, (size_t)first->n_dims * sizeof *dims);
    all = tti_empty(dims, first->n_dims + 1, (tt_dtype)first->dtype, first->device);
    if (all == NULL)
        return tt_last_status();
    for (int64_t i = 0; i < n; i++) {
        tt_tensor *t = samples[i * step];

        if (!tti_same_shape(t, first) || t->dtype != first->dtype || t->storage == NULL ||
            !tt_device_equal(t->device, first->device))
            return TT_FAIL(TT_ERR_INVALID,
                           "loader: expected samples of one kind, got %s %s and, as number %lld of "
                           "the batch, %s %s; a collate function can join them",
                           tt_dtype_name((tt_dtype)first->dtype), TTI_SHAPE_OF(first), (long long)i,
                           tt_dtype_name((tt_dtype)t->dtype), TTI_SHAPE_OF(t));
        if (t->device.kind == TT_DEVICE_CPU && tti_is_contiguous(t)) {
            memcpy((char *)tti_data(all) + (size_t)i * bytes, tti_data(t), bytes);
        } else {
            tt_tensor *row = tti_view_raw(all, all->dims + 1, all->strides + 1, first->n_dims,
                                          i * all->strides[0]);

            if (row == NULL)
                return tt_last_status();
            TT_TRY(tti_copy(row, t));
        }
    }
    *out = all;
    return TT_OK;
}

tt_status tti_stack_samples(tt_tensor *const *samples, int64_t n, int n_fields, tt_tensor **out)
{
    for (int f = 0; f < n_fields; f++)
        TT_TRY(stack_field(samples + f, n, n_fields, &out[f]));
    return TT_OK;
}
