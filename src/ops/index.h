/* SPDX-License-Identifier: Apache-2.0 */
/* What the operators that choose by index share. All results are scope-owned, NULL on failure. */
#ifndef TTI_OPS_INDEX_H
#define TTI_OPS_INDEX_H

#include "ops/op.h"

/* Indices as kernels want them: int64, contiguous, on x's device. */
tt_tensor *tti_index_plain(const char *name, tt_tensor *index, const tt_tensor *x);
/* A contiguous source on x's device that does not share memory with x. */
tt_tensor *tti_index_source(const tt_tensor *x, tt_tensor *src);
/* A contiguous tensor with the elements of in[0] to write to: in[0] itself when that is allowed. */
tt_tensor *tti_index_target(const tti_call *c, bool in_place);
/* End either kind of call; an in-place one takes the elements from `out` if that is a copy. */
tt_tensor *tti_index_end(tti_call *c, tt_tensor *out, tt_status st, bool in_place);

#endif
