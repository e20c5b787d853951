/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the divided optimizer share: the same parameters twice, one copy for a divided optimizer and
 * one for a whole one, which get the same gradients. */
#ifndef TESTS_UNIT_ZERO_ZERO_TOOLS_H
#define TESTS_UNIT_ZERO_ZERO_TOOLS_H

#include "tutti/autograd.h"
#include "tutti/collective.h"
#include "tutti/ops.h"
#include "tutti/random.h"
#include "tutti/testing_tools.h"
#include "tutti/zero.h"

#define ZT_PARAMS 9

typedef enum zt_kind { ZT_SGD, ZT_ADAM, ZT_ADAMW, ZT_KINDS } zt_kind;

typedef struct zt_pair {
    tt_tensor *divided[ZT_PARAMS], *whole[ZT_PARAMS]; /* owned */
    tt_zero *zero;
    tt_optim *optim;
} zt_pair;

/* Both with the first `n` parameters. */
void zt_open(zt_pair *p, tt_pg *pg, zt_kind kind, int n, const tt_zero_options *opt);
void zt_close(zt_pair *p);

tt_zero *zt_zero(tt_pg *pg, zt_kind kind, tt_tensor *const *params, int n,
                 const tt_zero_options *opt);
tt_optim *zt_optim(zt_kind kind, tt_tensor *const *params, int n);
tt_tensor *zt_random(tt_shape shape, tt_dtype dtype, uint64_t seed); /* of the scope */
/* The gradients of step `step` for the first n parameters of both; some have none. */
void zt_give_grads(zt_pair *p, int n, int step);
/* Gradients, and a step of both, for steps from .. to - 1. */
void zt_train(zt_pair *p, int n, int from, int to);
/* Bit by bit. */
void zt_check_same(const zt_pair *p, int n);

#endif
