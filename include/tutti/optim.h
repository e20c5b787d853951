/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers, gradient clipping. Formulas, names and defaults are PyTorch's.
 *
 *     tt_optim *opt = tt_adamw_new(params, n, &(tt_adam_options){ .lr = 3e-4 });
 *     ...
 *     TT_TRY(tt_backward(loss));
 *     TT_TRY(tt_clip_grad_norm(params, n, 1.0, NULL, NULL));
 *     TT_TRY(tt_optim_step(opt));
 *     TT_TRY(tt_optim_zero_grad(opt, false));
 *
 * In the options a field of 0 means its default; where that is not 0, TT_OPTIM_ZERO means 0. */
#ifndef TUTTI_OPTIM_H
#define TUTTI_OPTIM_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_optim tt_optim;
typedef struct tt_module tt_module;         /* nn.h */
typedef struct tt_state_dict tt_state_dict; /* nn.h */

#define TT_OPTIM_ZERO (-0.0)

/* ---- the optimizers ---------------------------------------------------------------------- */

typedef struct tt_sgd_options {
    double lr; /* 0: 1e-3 */
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov; /* needs momentum and no dampening */
    bool maximize;
} tt_sgd_options;

typedef struct tt_adam_options {
    double lr;           /* 0: 1e-3 */
    double beta1;        /* 0: 0.9 */
    double beta2;        /* 0: 0.999 */
    double eps;          /* 0: 1e-8 */
    double weight_decay; /* 0: none for Adam, 0.01 for AdamW */
    bool amsgrad;
    bool maximize;
} tt_adam_options;

typedef struct tt_adagrad_options {
    double lr; /* 0: 1e-2 */
    double lr_decay;
    double weight_decay;
    double initial_accumulator_value;
    double eps; /* 0: 1e-10 */
    bool maximize;
} tt_adagrad_options;

typedef struct tt_rmsprop_options {
    double lr;    /* 0: 1e-2 */
    double alpha; /* 0: 0.99 */
    double eps;   /* 0: 1e-8 */
    double weight_decay;
    double momentum;
    bool centered;
    bool maximize;
} tt_rmsprop_options;

/* Each keeps a reference to the parameters: leaves of a floating or complex type, each once.
 * Sparse gradients are taken by SGD without momentum, Adagrad and SparseAdam, without weight
 * decay; SparseAdam takes no others and updates only the rows that have a gradient. State is
 * made when a parameter is first updated, and has its type. */
TT_API tt_optim *tt_sgd_new(tt_tensor *const *params, int n, const tt_sgd_options *opt);
TT_API tt_optim *tt_adam_new(tt_tensor *const *params, int n, const tt_adam_options *opt);
TT_API tt_optim *tt_adamw_new(tt_tensor *const *params, int n, const tt_adam_options *opt);
TT_API tt_optim *tt_sparse_adam_new(tt_tensor *const *params, int n, const tt_adam_options *opt);
TT_API tt_optim *tt_adagrad_new(tt_tensor *const *params, int n, const tt_adagrad_options *opt);
TT_API tt_optim *tt_rmsprop_new(tt_tensor *const *params, int n, const tt_rmsprop_options *opt);
TT_API void tt_optim_free(tt_optim *o);

/* The same for all parameters of a module, shared ones once. */
TT_API tt_optim *tt_sgd_for(const tt_module *m, const tt_sgd_options *opt);
TT_API tt_optim *tt_adam_for(const tt_module *m, const tt_adam_options *opt);
TT_API tt_optim *tt_adamw_for(const tt_module *m, const tt_adam_options *opt);
TT_API tt_optim *tt_adagrad_for(const tt_module *m, const tt_adagrad_options *opt);
TT_API tt_optim *tt_rmsprop_for(const tt_module *m, const tt_rmsprop_options *opt);

/* ---- what one does with them ------------------------------------------------------------- */

/* Update every parameter that has a gradient; those without keep their value and their count of
 * steps. After an error the parameters before the failing one are updated, the others not. */
TT_API tt_status tt_optim_step(tt_optim *o);

/* Drop the gradients; with `to_zero` fill them with zeros instead, keeping their memory. */
TT_API tt_status tt_optim_zero_grad(tt_optim *o, bool to_zero);

/* ---- groups of parameters ------------------------------------------------------------------ */

typedef struct tt_group_options {
    double lr;           /* 0: what the first group began with; TT_OPTIM_ZERO: 0 */
    double weight_decay; /* likewise */
} tt_group_options;

/* Group 0 holds the parameters given at creation. What is not in the options can be changed by
 * tt_optim_set_number. */
TT_API tt_status tt_optim_add_group(tt_optim *o, tt_tensor *const *params, int n,
                                    const tt_group_options *opt);
TT_API int tt_optim_n_groups(const tt_optim *o);
TT_API int tt_optim_n_params(const tt_optim *o, int group); /* -1: no such group */
/* Borrowed; NULL when there is none. */
TT_API tt_tensor *tt_optim_param(const tt_optim *o, int group, int i);

TT_API double tt_optim_get_lr(const tt_optim *o, int group); /* NaN: no such group */
TT_API tt_status tt_optim_set_lr(tt_optim *o, int group, double lr);
/* Any number of a group by name: "lr", "momentum", "beta1", "weight_decay", ... Switches are 0
 * or 1. Get returns NaN for what the optimizer does not have. */
TT_API double tt_optim_get_number(const tt_optim *o, int group, const char *name);
TT_API tt_status tt_optim_set_number(tt_optim *o, int group, const char *name, double value);

/* "sgd", "adamw", ... */
TT_API const char *tt_optim_name(const tt_optim *o);
/* The state of a parameter by name ("momentum_buffer", "exp_avg", ...): borrowed, NULL when there is
 * none (yet). */
TT_API tt_tensor *tt_optim_param_state(const tt_optim *o, int group, int i, const char *name);
/* How often the parameter was updated; -1: no such parameter. */
TT_API int64_t tt_optim_param_steps(const tt_optim *o, int group, int i);

/* ---- saving and loading -------------------------------------------------------------------- */

/* All numbers and state under names that begin with `prefix` (NULL: ""): "<prefix>kind",
 * "<prefix>group.0.lr", "<prefix>param.0.exp_avg", "<prefix>param.0.step". Parameters are numbered
 * through all groups; their values are not part of it. Tensors are copies. To a file with
 * tt_state_dict_save. */
TT_API tt_status tt_optim_save(const tt_optim *o, tt_state_dict *sd, const char *prefix);
/* The reverse, into an optimizer of the same kind with groups of the same size and parameters of
 * the same shape; anything else fails and changes nothing. */
TT_API tt_status tt_optim_load(tt_optim *o, const tt_state_dict *sd, const char *prefix);

/* ---- optimizers of your own ---------------------------------------------------------------- */

#define TT_OPTIM_STATES 4
#define TT_OPTIM_NUMBERS 12

typedef struct tt_optim_slot {
    tt_tensor *param; /* borrowed */
    tt_tensor *grad;  /* borrowed; dense and laid out as the parameter, or sparse */
    tt_tensor *state[TT_OPTIM_STATES]; /* owned by the optimizer; NULL until made */
    int64_t step;                      /* 1 in the first update of this parameter */
    void *ctx;                         /* what tt_optim_new was given */
} tt_optim_slot;

typedef struct tt_optim_ops {
    const char *name;
    const char *const *numbers; /* names of a group's numbers, "lr" first, NULL last */
    const char *const *states;  /* names of the tensors in slot->state, NULL last */
    bool sparse;                /* takes sparse gradients */
    bool coalesced;             /* and wants them coalesced */
    /* Refuse numbers that make no sense; may be NULL. */
    tt_status (*check)(const double *numbers);
    /* Update slot->param in place. Runs without recording, in a scope of its own. */
    tt_status (*update)(tt_optim_slot *slot, const double *numbers);
    void (*free_ctx)(void *ctx); /* may be NULL; not called when tt_optim_new fails */
} tt_optim_ops;

/* `ops` must outlive the optimizer; `numbers` has a value for each name. */
TT_API tt_optim *tt_optim_new(const tt_optim_ops *ops, void *ctx, tt_tensor *const *params, int n,
                              const double *numbers);
/* For `update`: slot->state[i], made like the parameter and filled with `value` on first use; if it is complex, both
 * parts are `value`. */
TT_API tt_tensor *tt_optim_slot_state(tt_optim_slot *slot, int i, double value);

/* ---- gradient clipping --------------------------------------------------------------------- */

typedef struct tt_clip_options {
    double norm_type;        /* 0: 2; INFINITY: the greatest absolute value */
    bool error_if_nonfinite; /* a total that is infinite or NaN fails and changes nothing */
} tt_clip_options;

/* Scale all gradients by max_norm / (total + 1e-6) if that is below 1, where total is the norm of all
 * gradients seen as one vector. It is stored in *total_p, which may be NULL. */
TT_API tt_status tt_clip_grad_norm(tt_tensor *const *params, int n, double max_norm,
                                   const tt_clip_options *opt, double *total_p);
/* The same for all parameters of an optimizer. */
TT_API tt_status tt_optim_clip_grad_norm(tt_optim *o, double max_norm, const tt_clip_options *opt,
                                         double *total_p);
/* Every element of every gradient into [-limit, limit]. */
TT_API tt_status tt_clip_grad_value(tt_tensor *const *params, int n, double limit);

#ifdef __cplusplus
}
#endif

#endif
