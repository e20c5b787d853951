/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO, stage 1: the state of the optimizer is divided among the ranks. Every rank updates some of the
 * parameters, and the ranks then give each other the results: the same bits as without, for 1/N of the state.
 *
 *     tt_zero *zero = tt_zero_adamw_new(pg, params, n, &(tt_adam_options){ .lr = 3e-4 }, NULL);
 *     ...
 *     TT_TRY(tt_backward(loss));                   // of a tt_ddp: gradients are the same on all ranks
 *     TT_TRY(tt_zero_clip_grad_norm(zero, 1.0, NULL, NULL));
 *     TT_TRY(tt_zero_step(zero));
 *     TT_TRY(tt_zero_zero_grad(zero, true));
 *
 * Every rank does the same in the same order. */
#ifndef TUTTI_ZERO_H
#define TUTTI_ZERO_H

#include "tutti/amp.h"
#include "tutti/join.h"
#include "tutti/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_zero tt_zero;

typedef struct tt_zero_options {
    /* Leave parameters where they are: two copies more in each step. Otherwise they move into the group's
     * memory, those whose memory nobody else uses, and the ranks write straight into them. */
    bool copy_params;
} tt_zero_options;

/* Makes an optimizer for some of the parameters, maybe for none. */
typedef tt_optim *(*tt_zero_make_fn)(tt_tensor *const *params, int n, const void *ctx);

/* ---- life time ---------------------------------------------------------------------------- */

/* The same parameters, in the same order, on all ranks: INVALID on all of them when they differ in number,
 * shape or type. Their values are sent by the first step; a tt_ddp has made them equal before. Each goes to
 * the rank that has the fewest elements so far, large ones first. Keeps the group and the parameters; `ctx`
 * is used by this call only. Collective. */
TT_API tt_zero *tt_zero_new(tt_pg *pg, tt_tensor *const *params, int n, tt_zero_make_fn make,
                            const void *ctx, const tt_zero_options *opt);
TT_API tt_zero *tt_zero_sgd_new(tt_pg *pg, tt_tensor *const *params, int n,
                                const tt_sgd_options *optim, const tt_zero_options *opt);
TT_API tt_zero *tt_zero_adam_new(tt_pg *pg, tt_tensor *const *params, int n,
                                 const tt_adam_options *optim, const tt_zero_options *opt);
TT_API tt_zero *tt_zero_adamw_new(tt_pg *pg, tt_tensor *const *params, int n,
                                  const tt_adam_options *optim, const tt_zero_options *opt);
/* Parameters stay where they are. Accepts NULL. */
TT_API void tt_zero_free(tt_zero *z);

/* ---- training ----------------------------------------------------------------------------- */

/* As tt_optim_step on all parameters. Collective. */
TT_API tt_status tt_zero_step(tt_zero *z);
/* As tt_optim_zero_grad on all parameters. */
TT_API tt_status tt_zero_zero_grad(tt_zero *z, bool to_zero);
/* As tt_optim_add_group; the parameters that are there stay with their ranks. Collective. */
TT_API tt_status tt_zero_add_group(tt_zero *z, tt_tensor *const *params, int n,
                                   const tt_group_options *opt);
/* As tt_clip_grad_norm over all parameters; this rank looks at, and scales, its own only. Collective. */
TT_API tt_status tt_zero_clip_grad_norm(tt_zero *z, double max_norm, const tt_clip_options *opt,
                                        double *total_p);

/* As tt_grad_scaler_unscale and tt_grad_scaler_step: if a gradient is not finite, all ranks skip the step. Each
 * rank unscales its own gradients. UNSUPPORTED in a scope for uneven inputs. Collective. */
TT_API tt_status tt_zero_unscale(tt_zero *z, tt_grad_scaler *s);
TT_API tt_status tt_zero_scaler_step(tt_zero *z, tt_grad_scaler *s, bool *skipped_p);

/* The optimizer of this rank's parameters: borrowed. It has all groups, in order: set rates and other
 * numbers there, or give it to a schedule; alike on all ranks. */
TT_API tt_optim *tt_zero_optim(const tt_zero *z);

TT_API int tt_zero_n_params(const tt_zero *z, int group);     /* of all ranks; -1: no such group */
TT_API int tt_zero_owner(const tt_zero *z, int group, int i); /* rank; -1: no such parameter */
TT_API size_t tt_zero_state_bytes(const tt_zero *z);          /* of this rank */

/* For uneven inputs: a rank without inputs goes on updating its parameters. List it after the tt_ddp whose
 * gradients it takes. */
TT_API tt_joinable tt_zero_joinable(tt_zero *z);

/* ---- saving and loading -------------------------------------------------------------------- */

#define TT_ZERO_ALL (-1)

/* What tt_optim_save would give for the undivided optimizer, into `sd` of rank `root` (TT_ZERO_ALL: of all
 * ranks); on the others `sd` may be NULL. Collective. */
TT_API tt_status tt_zero_save(tt_zero *z, tt_state_dict *sd, const char *prefix, int root);
/* The reverse, from a dictionary that every rank has. It may have been saved by any number of ranks, or by
 * an undivided optimizer. Not collective. */
TT_API tt_status tt_zero_load(tt_zero *z, const tt_state_dict *sd, const char *prefix);

/* ---- gradients that are divided among ranks ------------------------------------------------- */

/* As tt_clip_grad_norm over the gradients of all ranks, each having others. Collective. */
TT_API tt_status tt_pg_clip_grad_norm(tt_pg *pg, tt_tensor *const *params, int n, double max_norm,
                                      const tt_clip_options *opt, double *total_p);

#ifdef __cplusplus
}
#endif

#endif
