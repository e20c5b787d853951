/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers share: how they are put together and how they are called with several tensors. */
#ifndef TTI_NN_LAYERS_LAYER_H
#define TTI_NN_LAYERS_LAYER_H

#include "nn/module.h"
#include "tensor/shape.h"
#include "tutti/layers.h"
#include "tutti/ops.h"

/* The module when st is TT_OK, else NULL with the module freed. */
tt_module *tti_layer_done(tt_module *m, tt_status st);

/* A float32 parameter drawn from [-bound, bound], or filled with a value. */
tt_status tti_layer_uniform(tt_module *m, const char *name, tt_shape shape, double bound);
tt_status tti_layer_filled(tt_module *m, const char *name, tt_shape shape, double value);

/* 1 / sqrt(n), the bound of most initial weights; 0 for no inputs. */
double tti_layer_bound(double n);

/* Refuses sizes below `least`: "Linear: expected in_features of at least 1, got 0". */
tt_status tti_layer_check(const char *layer, const char *what, int64_t size, int64_t least);

/* Batch norm layers (buffer 2 is the count): count the batch and give the weight of its statistics, below 0
 * on failure; and what stands in their parentheses. */
double tti_batch_norm_count(tt_module *m, double momentum);
int tti_batch_norm_describe(const tt_batch_norm_info *d, char *text, size_t size);

/* Gives the result of a child; of the scope, NULL on failure. */
typedef tt_tensor *(*tti_child_fn)(void *ctx, tt_module *child, tt_tensor *x);
/* x through the children of m one after the other, by fn or (NULL) tt_module_forward. What a child
 * gave is not kept once the next one has run, unless autograd needs it. */
tt_tensor *tti_forward_children(tt_module *m, tt_tensor *x, tti_child_fn fn, void *ctx);

/* A tuple of tensors; NULL ones are null values. */
tt_value *tti_tuple_of(tt_tensor *const *ts, int n);
/* Entry i of a list or tuple as a tensor; NULL without an error when it is absent or null. */
tt_tensor *tti_tuple_tensor(const tt_value *v, size_t i);

/* Close the scope but hand the n tensors (NULL ones are skipped) to the one around it. */
tt_status tti_scope_close_keep_all(tt_scope *s, tt_tensor **ts, int n);

#endif
