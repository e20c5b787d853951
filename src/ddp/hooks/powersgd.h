/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of PowerSGD: a matrix M of gradients is sent as P and Q with M close to P Q^T.
 *
 *     M += what was left out before      P = M Q, mean over ranks, made orthonormal
 *     left out = M - P Q^T               Q = M^T P, mean over ranks
 */
#ifndef TTI_DDP_HOOKS_POWERSGD_H
#define TTI_DDP_HOOKS_POWERSGD_H

#include <stdatomic.h>

#include "ddp/hooks/stock.h"
#include "tutti/random.h"

/* What is remembered of one bucket. One-dimensional; owned; NULL until needed. */
typedef struct tti_powersgd_memory {
    tt_tensor *error; /* of its matrices, one after the other: what was left out so far */
    tt_tensor *p, *q; /* the factors, likewise; in the group's memory */
} tti_powersgd_memory;

/* Used by the thread of backward, and by the group's engine between the call of the hook and the end of its
 * future. */
struct tt_powersgd {
    atomic_int refs;
    tt_pg *pg;                   /* NULL: that of the tt_ddp */
    tt_powersgd_options options; /* defaults filled in */
    tt_generator *gen;
    int64_t iter;
    int64_t numel_before, numel_after;
    tti_powersgd_memory *memories; /* by index of bucket */
    size_t n_memories, cap_memories;
};

/* Columns of a matrix [n, r] become orthonormal, in place; one that depends on those before becomes some other
 * direction, the same on every rank. *finite_p: false if there is an infinity or NaN, then nothing is changed. */
tt_status tti_orthogonalize(tt_tensor *t, double epsilon, bool *finite_p);

/* The future of b->flat with its mean, sent as factors. */
tt_future *tti_powersgd_run(tt_powersgd *s, tt_pg *pg, const tt_ddp_bucket *b, bool batched);

/* The memory of bucket `index`, made if need be; NULL without memory. */
tti_powersgd_memory *tti_powersgd_memory_at(tt_powersgd *s, int index);
void tti_powersgd_forget(tti_powersgd_memory *m);
/* Options with their defaults filled in; INVALID if they make no sense. */
tt_status tti_powersgd_options(const tt_powersgd_options *in, tt_powersgd_options *out);

#endif
