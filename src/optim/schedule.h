/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a schedule: how often it was stepped, and a function that gives a group's next rate. */
#ifndef TTI_OPTIM_SCHEDULE_H
#define TTI_OPTIM_SCHEDULE_H

#include "optim/optim.h"
#include "tutti/schedule.h"

#define TTI_SCHEDULE_NUMBERS 8

typedef struct tti_schedule_ops {
    const char *name;
    /* The rate of the group in step s->step, from the one it has in the step before (its present
     * one) and its base rate. NaN: failed, recorded. May change other numbers of the group. */
    double (*rate)(tt_schedule *s, tti_optim_group *g);
} tti_schedule_ops;

struct tt_schedule {
    const tti_schedule_ops *ops;
    tt_optim *optim; /* borrowed; NULL: chained */
    int64_t step;
    double numbers[TTI_SCHEDULE_NUMBERS]; /* what they mean is known to the kind */
    int64_t whole[2];
    int64_t *milestones;
    int n_milestones;
    bool flags[2];
    int momentum; /* which number of a group is its momentum; -1: leave it alone */
    tt_lr_fn fn;
    void *ctx;
    tt_schedule **children; /* borrowed */
    int n_children;
};

/* Makes the schedule from a filled-in one and takes its first step, number 0. */
tt_schedule *tti_schedule_start(const tt_schedule *like);

#endif
