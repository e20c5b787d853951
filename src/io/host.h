/* SPDX-License-Identifier: Apache-2.0 */
/* Between tensors and bytes. */
#ifndef TTI_IO_HOST_H
#define TTI_IO_HOST_H

#include "io/file.h"
#include "ops/op.h"

/* The elements of t in row-major order in host memory; t itself when they are. Scope-owned. */
tt_tensor *tti_host_contiguous(tt_tensor *t);

/* A tensor over `bytes` at `offset`, keeping them alive; a copy when the place is not aligned for the
 * type. The range has been checked. `strides` NULL: row-major. */
tt_tensor *tti_over_bytes(tti_bytes *bytes, size_t offset, tt_shape shape, const int64_t *strides,
                          tt_dtype dtype);

#endif
