/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of sizes and strides: pure functions, no tensors. */
#ifndef TTI_TENSOR_SHAPE_H
#define TTI_TENSOR_SHAPE_H

#include "base/status.h"
#include "tutti/tensor.h"

/* The product of the sizes; -1 when it does not fit or a size is negative. */
int64_t tti_numel(const int64_t *dims, int n_dims);

/* Row-major strides of the sizes. */
void tti_strides_contiguous(const int64_t *dims, int n_dims, int64_t *strides);
/* Strides of a memory format for these sizes (4-D or 5-D for channels-last). */
void tti_strides_format(const int64_t *dims, int n_dims, tt_memory_format f, int64_t *strides);

/* dim in [-n, n) made non-negative; records INVALID "name: dimension ..." otherwise. A 0-d tensor
 * accepts -1 and 0. */
tt_status tti_wrap_dim(const char *name, int *dim, int n_dims);

/* The shape both broadcast to, or INVALID with both shapes in words. */
tt_status tti_broadcast(const char *name, const int64_t *a, int na, const int64_t *b, int nb,
                        int64_t *out, int *n_out);

/* Strides of an operand of sizes `dims` inside the larger shape `out` (0 where it repeats). */
void tti_broadcast_strides(const int64_t *dims, const int64_t *strides, int n, int n_out,
                           const int64_t *out_dims, int64_t *out_strides);

/* Strides that view (dims, strides) as new_dims without copying; false when there are none. */
bool tti_view_strides(const int64_t *dims, const int64_t *strides, int n, const int64_t *new_dims,
                      int new_n, int64_t *new_strides);

/* "[2, 3]" for messages; `text` is returned. */
char *tti_shape_text(const int64_t *dims, int n_dims, char *text, size_t size);
#define TTI_SHAPE_TEXT 160
/* TTI_SHAPE_OF(t): the same for a tensor, in a buffer that lives as long as the full expression. */
#define TTI_SHAPE_OF(t) \
    tti_shape_text((t)->dims, (t)->n_dims, (char[TTI_SHAPE_TEXT]){ 0 }, TTI_SHAPE_TEXT)

#endif
