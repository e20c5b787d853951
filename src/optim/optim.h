/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an optimizer: groups of numbers, and a slot per parameter. Slots are stored per group;
 * a kind of optimizer is a const tt_optim_ops. */
#ifndef TTI_OPTIM_OPTIM_H
#define TTI_OPTIM_OPTIM_H

#include "tensor/tensor.h"
#include "tutti/optim.h"

typedef struct tti_optim_group {
    double numbers[TT_OPTIM_NUMBERS]; /* in the order of ops->numbers; 0 is the learning rate */
    double initial_lr;                /* NaN until a schedule takes note of it */
    tt_optim_slot *slots;
    int n_slots;
} tti_optim_group;

struct tt_optim {
    const tt_optim_ops *ops;
    void *ctx;
    int n_numbers, n_states;
    double defaults[TT_OPTIM_NUMBERS];
    tti_optim_group *groups;
    size_t n_groups, cap_groups;
    tt_tensor **params; /* of all groups, borrowed from their slots */
    size_t n_params, cap_params;
};

/* Which number or state has this name; -1: none. */
int tti_optim_find(const char *const *names, const char *name);
/* The group, or NULL with the cause recorded. */
tti_optim_group *tti_optim_group_at(const tt_optim *o, int group, const char *what);

/* A field of the options: the default when it is 0, and 0 when it is TT_OPTIM_ZERO. */
double tti_optim_or(double value, double fallback);
/* Refuse a number below `least` (or NaN): "sgd: expected momentum >= 0, got -1". */
tt_status tti_optim_at_least(const char *kind, const char *name, double value, double least);

/* What tt_optim_step does for one parameter. */
tt_status tti_optim_step_one(tt_optim *o, int group, int i);

/* Of one parameter. */
tt_status tti_optim_zero_grad(tt_tensor *p, bool to_zero);

/* The halves of tt_clip_grad_norm, for when other ranks have gradients too: the sum of powers (the greatest
 * value, of type INFINITY) of these gradients; scaling them, given that of all. */
tt_status tti_clip_sum(tt_tensor *const *params, int n, const tt_clip_options *opt, double *sum_p);
tt_status tti_clip_apply(tt_tensor *const *params, int n, double max_norm,
                         const tt_clip_options *opt, double sum, double *total_p);

#endif
