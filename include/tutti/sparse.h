/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse tensors in coordinate form: int64 indices [sparse_dims, nnz] and values [nnz, dense...].
 * They come from sparse gradients of embeddings and go to optimizers. tt_add and tt_sub take them, tt_mul one beside a
 * dense tensor, whose shape broadcasts to its own.
 *
 *     tt_tensor *at = tt_reshape(TT_INTS(0, 2), TT_SHAPE(1, 2));         // rows 0 and 2
 *     tt_tensor *rows = tt_ones(TT_SHAPE(2, 4), TT_F32, TT_CPU);
 *     tt_tensor *s = tt_sparse_coo(at, rows, TT_SHAPE(5, 4));
 *     tt_print(tt_to_dense(s));
 */
#ifndef TUTTI_SPARSE_H
#define TUTTI_SPARSE_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Indices may repeat; their values then add up. Every index is checked against `shape`. */
TT_API tt_tensor *tt_sparse_coo(tt_tensor *indices, tt_tensor *values, tt_shape shape);
/* The same when the caller vouches for the indices. */
TT_API tt_tensor *tt_sparse_coo_unchecked(tt_tensor *indices, tt_tensor *values, tt_shape shape,
                                          bool coalesced);
/* Its parts, sharing its memory; both fail for dense tensors. */
TT_API tt_tensor *tt_sparse_indices(tt_tensor *t);
TT_API tt_tensor *tt_sparse_values(tt_tensor *t);
TT_API int64_t tt_sparse_nnz(const tt_tensor *t);
TT_API int tt_sparse_dims(const tt_tensor *t);
TT_API bool tt_sparse_is_coalesced(const tt_tensor *t);
/* Sorted, each index once; t itself when it already is. */
TT_API tt_tensor *tt_sparse_coalesce(tt_tensor *t);
TT_API tt_tensor *tt_to_dense(tt_tensor *t); /* t itself when dense */
/* The first `sparse_dims` dimensions become coordinates; entries that are all zero are left out. */
TT_API tt_tensor *tt_to_sparse(tt_tensor *t, int sparse_dims);

#ifdef __cplusplus
}
#endif

#endif
