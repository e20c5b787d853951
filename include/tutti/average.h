/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging parameters now and then instead of gradients always: local SGD.
 *
 *     tt_averager *avg = tt_periodic_averager_new(NULL, 8, 500);        // every 8th step from 500 on
 *     tt_post_local_sgd *opt = tt_post_local_sgd_new(tt_sgd_for(net, NULL), avg);
 *     ...
 *     TT_TRY(tt_post_local_sgd_step(opt));                              // a step, then the average if it is due
 *
 * All ranks of a group call these functions in the same steps, with parameters of the same shapes. */
#ifndef TUTTI_AVERAGE_H
#define TUTTI_AVERAGE_H

#include "tutti/optim.h"
#include "tutti/pg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each tensor becomes its mean over the group, in place and outside of any graph. A process that is not in
 * the group keeps its tensors. pg NULL: the default group, here and below. */
TT_API tt_status tt_average_tensors(tt_tensor *const *ts, int n, tt_pg *pg);

/* ---- averagers ------------------------------------------------------------------------------ */

/* Counts steps and averages in some of them. */
typedef struct tt_averager tt_averager;

/* In step `warmup` (counted from 0) and every `period` steps after it. Keeps the group. */
TT_API tt_averager *tt_periodic_averager_new(tt_pg *pg, int64_t period, int64_t warmup);

typedef struct tt_averager_level {
    int64_t period;
    int group_size; /* so many consecutive ranks average; it divides the group's size */
} tt_averager_level;

/* Small groups often, large ones seldom: periods ascend, and the last level is the whole group. From step
 * `warmup` on, a step whose number is a multiple of a level's period averages over this rank's group of
 * that level; of several the last counts. A single level counts from `warmup`, as the periodic averager
 * does. Collective: makes the groups. */
TT_API tt_averager *tt_hierarchical_averager_new(tt_pg *pg, const tt_averager_level *levels, int n,
                                                 int64_t warmup);
/* Accepts NULL. */
TT_API void tt_averager_free(tt_averager *a);

/* One step: averages those of the parameters that have a gradient, if it is time to. */
TT_API tt_status tt_averager_average(tt_averager *a, tt_tensor *const *params, int n);
/* The same with the parameters of all groups of an optimizer. */
TT_API tt_status tt_averager_average_optim(tt_averager *a, const tt_optim *o);

TT_API int64_t tt_averager_step(const tt_averager *a); /* how many there were */
TT_API tt_status tt_averager_set_step(tt_averager *a, int64_t step);
/* The group over which the next step averages; borrowed, NULL without an error: none. */
TT_API tt_pg *tt_averager_due(const tt_averager *a);
TT_API int tt_averager_n_levels(const tt_averager *a); /* 1 if periodic */
/* This rank's group of a level; borrowed. */
TT_API tt_pg *tt_averager_group(const tt_averager *a, int level);

/* ---- the optimizer ---------------------------------------------------------------------------- */

/* An optimizer and the averager that follows each of its steps. */
typedef struct tt_post_local_sgd tt_post_local_sgd;

/* Takes over both, also on failure. */
TT_API tt_post_local_sgd *tt_post_local_sgd_new(tt_optim *o, tt_averager *a);
/* With its optimizer and averager. Accepts NULL. */
TT_API void tt_post_local_sgd_free(tt_post_local_sgd *p);
TT_API tt_status tt_post_local_sgd_step(tt_post_local_sgd *p);
TT_API tt_status tt_post_local_sgd_zero_grad(tt_post_local_sgd *p, bool to_zero);
TT_API tt_optim *tt_post_local_sgd_optim(const tt_post_local_sgd *p);       /* borrowed */
TT_API tt_averager *tt_post_local_sgd_averager(const tt_post_local_sgd *p); /* borrowed */

/* What tt_optim_save writes, and the averager's step as "<prefix>step". */
TT_API tt_status tt_post_local_sgd_save(const tt_post_local_sgd *p, tt_state_dict *sd,
                                        const char *prefix);
/* A state without a step is a warning of category "average", and counting begins at 0. */
TT_API tt_status tt_post_local_sgd_load(tt_post_local_sgd *p, const tt_state_dict *sd,
                                        const char *prefix);

#ifdef __cplusplus
}
#endif

#endif
