/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of tt_zero: all parameters with their owners, the optimizer of this rank's, and buckets through
 * which the ranks give each other what they have updated.
 *
 *     bucket of a group and type:   | rank 0's parameters | rank 1's | ... |     one flat tensor
 */
#ifndef TTI_ZERO_ZERO_H
#define TTI_ZERO_ZERO_H

#include "tensor/tensor.h"
#include "tutti/zero.h"

typedef struct tti_zero_param {
    tt_tensor *t; /* retained */
    int owner;
    int local;       /* its index in the owner's group */
    tt_tensor *view; /* its place in a bucket; owned */
    bool inside;     /* it lives there: nothing to copy */
} tti_zero_param;

typedef struct tti_zero_bucket {
    tt_tensor *flat;   /* owned, in the group's memory */
    tt_tensor **parts; /* of each rank: views of flat, owned */
    tt_work *work;     /* under way; owned */
} tti_zero_bucket;

typedef struct tti_zero_group {
    tti_zero_param *params;
    int n;
    tti_zero_bucket buckets[TT_N_DTYPES]; /* `flat` NULL: no parameter of that type */
} tti_zero_group;

struct tt_zero {
    tt_pg *pg; /* retained */
    int rank, size;
    bool copy_params;
    tt_optim *optim; /* owned: this rank's */
    tti_zero_group *groups;
    size_t n_groups, cap_groups;
    int64_t *loads; /* elements of each rank */
    tt_join *join;  /* borrowed: the scope for uneven inputs, while there is one */
};

/* ---- partition.c ------------------------------------------------------------------------- */

/* Gives the parameters to ranks: fills g, and adds to z->loads. */
tt_status tti_zero_partition(tt_zero *z, tti_zero_group *g, tt_tensor *const *params, int n);
/* This rank's parameters, in order: yours to free. */
tt_tensor **tti_zero_own(const tt_zero *z, const tti_zero_group *g, int *n_p);
void tti_zero_group_fini(tti_zero_group *g, int size);

/* ---- buckets.c --------------------------------------------------------------------------- */

tt_status tti_zero_buckets(tt_zero *z, tti_zero_group *g);
/* Parameters that can live in their buckets do from now on. */
void tti_zero_move_in(const tt_zero *z, tti_zero_group *g);
/* The parameters of every rank, from every rank. */
tt_status tti_zero_exchange(tt_zero *z);

/* ---- zero.c ------------------------------------------------------------------------------ */

/* Without telling ranks that have no inputs. */
tt_status tti_zero_step(tt_zero *z);

/* ---- join.c ------------------------------------------------------------------------------ */

/* With uneven inputs: tell those that have none, and send them the numbers of all groups. */
tt_status tti_zero_tell_step(tt_zero *z);
tt_status tti_zero_tell_clip(tt_zero *z, double max_norm, const tt_clip_options *opt);

/* ---- clip.c ------------------------------------------------------------------------------ */

tt_status tti_zero_clip(tt_zero *z, double max_norm, const tt_clip_options *opt, double *total_p);

#endif
