/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that move elements to places given by other tensors. Indices are int64 (operators convert)
 * and are checked here, because only the device can see them: a bad one is INVALID with the value, the
 * size and the place, before anything is written. Unless said otherwise all tensors are contiguous. */
#ifndef TTI_OPS_KERNELS_INDEX_H
#define TTI_OPS_KERNELS_INDEX_H

#include "tensor/tensor.h"

typedef struct tti_index_kernels {
    /* out[.., i, ..] = x[.., index[i], ..]; negative indices are errors */
    tt_status (*index_select)(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index);
    /* out[.., index[i], ..] += src[.., i, ..] (or = when !add), in the order of i */
    tt_status (*index_put)(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                           bool add);
    tt_status (*gather)(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index);
    tt_status (*scatter)(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                         bool add);
    /* Counts first: *n_p elements of mask are set. */
    tt_status (*count_nonzero)(const tt_tensor *x, int64_t *n_p);
    tt_status (*nonzero)(tt_tensor *out, const tt_tensor *x); /* out [n, dims] */
    tt_status (*masked_select)(tt_tensor *out, const tt_tensor *x, const tt_tensor *mask);
    tt_status (*masked_scatter)(tt_tensor *out, const tt_tensor *mask, const tt_tensor *src);
    tt_status (*one_hot)(tt_tensor *out, const tt_tensor *index); /* out zeroed by the kernel */
    tt_status (*tri)(tt_tensor *out, const tt_tensor *x, int64_t diagonal, bool upper);
    /* order: a stable permutation that sorts keys [n]; *groups_p: how many different keys there are */
    tt_status (*sort_keys)(tt_tensor *order, const tt_tensor *keys, int64_t *groups_p);
} tti_index_kernels;

/* Dispatch on the device of the first tensor; UNSUPPORTED when it has no such kernel. */
tt_status tti_index_select(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index);
tt_status tti_index_put(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                        bool add);
tt_status tti_gather(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index);
tt_status tti_scatter(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                      bool add);
tt_status tti_tri(tt_tensor *out, const tt_tensor *x, int64_t diagonal, bool upper);

#endif
