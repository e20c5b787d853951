/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and helpers for tests of data parallel training. */
#ifndef TT_TESTS_WORLD_DDP_MODELS_H
#define TT_TESTS_WORLD_DDP_MODELS_H

#include "tutti/ddp.h"
#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/optim.h"
#include "world/distributed.h"

/* fc1 (2, 10, no bias), relu, fc2 (10, 50, frozen bias), relu, fc3 (50, 4, no bias), softmax; and a frozen
 * int64 parameter. */
tt_module *ddp_net_new(void);

/* Two linears without bias, "lin1" and "lin2", 10 to 10. lin2 is used only for inputs that are all ones, on
 * every rank or on rank 1 alone; or (never) not at all. */
typedef enum ddp_branch { DDP_BRANCH_ONES, DDP_BRANCH_ONES_RANK_1, DDP_BRANCH_NEVER } ddp_branch;
tt_module *ddp_branch_new(ddp_branch when);

/* x; backward fails here when *blown. */
tt_tensor *ddp_fuse(tt_tensor *x, bool *blown);
#define DDP_FUSE_WORDS "the user's own failure"

/* Of the scope: the same on all ranks, given the same seed. */
tt_tensor *ddp_random(tt_shape shape, uint64_t seed);
/* A module that is NULL, or a tt_ddp, ends the test with the last error. */
tt_module *ddp_module(tt_module *m);
tt_ddp *ddp_new(tt_module *m, tt_pg *pg, const tt_ddp_options *opt);
/* Forward, sum, backward. */
void ddp_step(tt_ddp *d, tt_tensor *x);
/* Parameters (or gradients) of two modules are close; `exact`: bit by bit. */
void ddp_check_params(const tt_module *a, const tt_module *b, bool exact);
void ddp_check_grads(const tt_module *a, const tt_module *b);
/* The same tensor on all ranks, bit by bit. */
void ddp_check_same(tt_pg *pg, tt_tensor *t);
/* p += grad for all, then gradients are zero. */
void ddp_update(tt_module *m);

/* Of its parameters, 8 at most, with a rate of 0.03. */
tt_optim *ddp_sgd(const tt_ddp *d);

#endif
