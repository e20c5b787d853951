/* SPDX-License-Identifier: Apache-2.0 */
/* What embedding and embedding_bag share. */
#ifndef TTI_OPS_EMBEDDING_H
#define TTI_OPS_EMBEDDING_H

#include "ops/op.h"

/* Make *padding a row number, or -1 when there is none. */
tt_status tti_embedding_padding(const char *name, int64_t rows, bool has, int64_t *padding);
/* Refuse what is not a floating matrix. */
tt_status tti_embedding_table(const char *name, const tt_tensor *weight);
/* The indices as int64 [n], contiguous; not recorded. */
tt_tensor *tti_flat_index(const char *name, tt_tensor *index);
/* A sparse gradient [n_rows, dim] with these rows at these indices, the padding left out. */
tt_tensor *tti_sparse_rows(tt_tensor *index, tt_tensor *rows, int64_t n_rows, int64_t padding);

#endif
