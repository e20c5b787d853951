/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules, with PyTorch's formulas. A schedule sets the rates of all groups of an
 * optimizer when it is made, and again at each tt_schedule_step, which follows tt_optim_step.
 *
 *     tt_schedule *s = tt_warmup_cosine_lr_new(opt, 100, 10000, NULL);
 *     ...
 *     TT_TRY(tt_optim_step(opt));
 *     TT_TRY(tt_schedule_step(s));
 *
 * The base rate of a group is the one it had when its first schedule was made. "Steps" below are
 * calls of tt_schedule_step: epochs or batches, as you like. The optimizer is borrowed and must
 * outlive the schedule. In the options 0 means the default; TT_OPTIM_ZERO means 0. */
#ifndef TUTTI_SCHEDULE_H
#define TUTTI_SCHEDULE_H

#include "tutti/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_schedule tt_schedule;

/* The rate times gamma (0: 0.1) after every step_size steps, or at each of the given steps. */
TT_API tt_schedule *tt_step_lr_new(tt_optim *o, int64_t step_size, double gamma);
TT_API tt_schedule *tt_multi_step_lr_new(tt_optim *o, const int64_t *milestones, int n,
                                         double gamma);
/* The rate times gamma at each step. */
TT_API tt_schedule *tt_exponential_lr_new(tt_optim *o, double gamma);
/* Half a cosine from the base rate down to eta_min in t_max steps (and up again in as many). */
TT_API tt_schedule *tt_cosine_lr_new(tt_optim *o, int64_t t_max, double eta_min);
/* The rate times `factor` (0: 1/3) for total steps (0: 5), then as it was. */
TT_API tt_schedule *tt_constant_lr_new(tt_optim *o, double factor, int64_t total);

typedef struct tt_linear_lr_options {
    double start_factor; /* 0: 1/3 */
    double end_factor;   /* 0: 1 */
    int64_t total;       /* steps from one to the other; 0: 5 */
} tt_linear_lr_options;

/* The base rate times a factor that goes from start to end in a line: a linear warm-up. */
TT_API tt_schedule *tt_linear_lr_new(tt_optim *o, const tt_linear_lr_options *opt);

typedef struct tt_warmup_cosine_options {
    double floor; /* the last factor; 0: the rate ends at 0 */
} tt_warmup_cosine_options;

/* Step s, from 0, has the base rate times (s + 1) / warmup while s < warmup, then a cosine from 1 down
 * to the floor at step `total`, and the floor ever after. */
TT_API tt_schedule *tt_warmup_cosine_lr_new(tt_optim *o, int64_t warmup, int64_t total,
                                            const tt_warmup_cosine_options *opt);

typedef struct tt_one_cycle_options {
    double pct_start;        /* share of the steps that rises; 0: 0.3 */
    double base_momentum;    /* 0: 0.85 */
    double max_momentum;     /* 0: 0.95 */
    double div_factor;       /* first rate is max_lr / this; 0: 25 */
    double final_div_factor; /* last rate is the first / this; 0: 1e4 */
    bool linear;             /* straight lines, not cosines */
    bool three_phase;
    bool keep_momentum; /* do not cycle momentum (or beta1) against the rate */
} tt_one_cycle_options;

/* Up to max_lr and down again in `total` steps; a step beyond them fails. */
TT_API tt_schedule *tt_one_cycle_lr_new(tt_optim *o, double max_lr, int64_t total,
                                        const tt_one_cycle_options *opt);

/* The base rate times fn(ctx, step), step 0 first. */
typedef double (*tt_lr_fn)(void *ctx, int64_t step);
TT_API tt_schedule *tt_lambda_lr_new(tt_optim *o, tt_lr_fn fn, void *ctx);

/* Steps each of these, in order, so that their factors multiply. They are borrowed, must outlive it and
 * are not to be stepped by hand. */
TT_API tt_schedule *tt_chained_lr_new(tt_schedule *const *schedules, int n);

TT_API void tt_schedule_free(tt_schedule *s);

TT_API tt_status tt_schedule_step(tt_schedule *s);
/* How often it was stepped. */
TT_API int64_t tt_schedule_steps(const tt_schedule *s);

/* How often it was stepped, as "<prefix>kind" and "<prefix>step"; prefix NULL: "". The rates are saved
 * and loaded with the optimizer, and what the schedule was made with is given when it is made. */
TT_API tt_status tt_schedule_save(const tt_schedule *s, tt_state_dict *sd, const char *prefix);
TT_API tt_status tt_schedule_load(tt_schedule *s, const tt_state_dict *sd, const char *prefix);

#ifdef __cplusplus
}
#endif

#endif
