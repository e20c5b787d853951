/* SPDX-License-Identifier: Apache-2.0 */
/* What view operators share. A view has its own sizes and strides over the storage of its input. */
#ifndef TTI_OPS_VIEW_H
#define TTI_OPS_VIEW_H

#include "ops/op.h"

/* End a view operator: `out` views in[0]. When recorded it remembers the tensor it views, so that
 * in-place operators can refuse to change it behind the graph's back. */
tt_tensor *tti_view_end(tti_call *c, tt_tensor *out);

/* Replace one -1 in `want` so that it holds `numel` elements; INVALID when it cannot. `from` is the
 * input, for the message. */
tt_status tti_infer_shape(const char *name, const tt_tensor *from, int64_t numel, tt_shape *want);

/* A contiguous tensor of zeros with the sizes of `s`, the type and device of `like`. */
tt_tensor *tti_zeros_shape(tt_shape s, const tt_tensor *like);

/* int64 start, start + step, ...: n of them. */
tt_tensor *tti_iota(int64_t n, int64_t start, int64_t step, tt_device device);

#endif
