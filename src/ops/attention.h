/* SPDX-License-Identifier: Apache-2.0 */
/* Attention between its operator, its kernels and its composite gradient. */
#ifndef TTI_OPS_ATTENTION_H
#define TTI_OPS_ATTENTION_H

#include "ops/dropout.h"

/* Remembered by the node. */
typedef struct tti_attention_attrs {
    double scale;
    bool causal;
    tti_dropout_attrs drop; /* p 0: none */
} tti_attention_attrs;

/* Gradients of q, k, v and the mask (NULL: none) from tt_ operators, so that they can be
 * differentiated again. in: q, k, v and the mask that is added to the scores, or NULL. */
tt_status tti_attention_composite(tti_node *n, tt_tensor *dout, tt_tensor *const in[4],
                                  tt_tensor **grad_in);

#endif
