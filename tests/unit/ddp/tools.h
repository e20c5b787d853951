/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tt_ddp and its hooks share. */
#ifndef TESTS_UNIT_DDP_TOOLS_H
#define TESTS_UNIT_DDP_TOOLS_H

#include "tutti/ddp_hooks.h"
#include "tutti/testing.h"

/* 6 to 40 to 40 to 3, relu. */
tt_module *tool_mlp(uint64_t seed);
/* Of the scope; normal. */
tt_tensor *tool_numbers(tt_shape shape, uint64_t seed);
/* On the group of the test; ends it when it cannot be made. */
tt_ddp *tool_wrap(tt_module *m, const tt_ddp_options *opt);
/* Gradients are dropped; forward and backward of the squared error on this rank's four samples. */
void hook_step(tt_ddp *d, uint64_t seed);
/* The same on everybody's samples, in one process. */
void hook_step_alone(tt_module *m, uint64_t seed);
/* The squared error on everybody's samples. */
double hook_loss(tt_module *m, uint64_t seed);
/* All gradients are close, to the bit if `exact`. */
void hook_check_grads(const tt_module *a, const tt_module *b, bool exact);
void hook_check_params(const tt_module *a, const tt_module *b, bool exact);
/* What a hook gives that does as no hook would. */
tt_future *hook_mean(const tt_ddp_bucket *b);

#endif
