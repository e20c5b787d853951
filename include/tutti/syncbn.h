/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm whose statistics are those of all ranks' batches together.
 *
 *     tt_module *net = tt_resnet18_new(NULL);
 *     net = tt_sync_batch_norm_convert(net, NULL);            // before tt_ddp_new and the optimizer
 *
 * In training mode a forward gathers means, variances and counts once, a backward adds up two sums once:
 * every rank of the group has to take part. Batches may differ in size from rank to rank, and be empty.
 * Results are those of batch norm on all batches put together; every rank has the same statistics to the
 * bit. In eval mode no other rank is involved. */
#ifndef TUTTI_SYNCBN_H
#define TUTTI_SYNCBN_H

#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/pg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inputs [N, C, ...] of 2 to 5 dimensions; parameters, buffers and options are those of batch norm. Keeps
 * the group; NULL: the default group at the time of each forward, no other rank if there is none. */
TT_API tt_module *tt_sync_batch_norm_new(int64_t channels, tt_pg *pg, const tt_norm_options *opt);

/* Replaces every batch norm in the tree by one that uses `pg`, with the same parameters, buffers, names and
 * mode; a layer that is in several places stays one. Hooks on the layers themselves are not kept. Takes
 * over your reference to m, also on failure, and returns the tree: m, unless m itself is a batch norm. */
TT_API tt_module *tt_sync_batch_norm_convert(tt_module *m, tt_pg *pg);

/* What the layer was made with (n_dims is 0); false for other modules. */
TT_API bool tt_module_is_sync_batch_norm(const tt_module *m, tt_batch_norm_info *info_p);
/* m or a module below it is one. */
TT_API bool tt_module_has_sync_batch_norm(const tt_module *m);
TT_API tt_pg *tt_sync_batch_norm_group(const tt_module *m); /* borrowed; NULL: the default */

/* The operator: statistics of the group's batches, which the running ones learn; opt->training is taken as
 * set. The gradients of weight and bias are this rank's part of the sum. The graph keeps the group. Gradients
 * of gradients are UNSUPPORTED in a group of several ranks. */
TT_API tt_tensor *tt_sync_batch_norm(tt_tensor *x, tt_tensor *weight, tt_tensor *bias, tt_pg *pg,
                                     const tt_batch_norm_options *opt);

#ifdef __cplusplus
}
#endif

#endif
