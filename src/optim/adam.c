/* SPDX-License-Identifier: Apache-2.0 */
/* Adam and its variants. With d the gradient (Adam: plus weight decay; AdamW: the parameter shrinks by
 * lr * weight_decay first):
 *     m = m + (1 - beta1) (d - m),  v = beta2 v + (1 - beta2) d^2
 *     p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 * amsgrad takes the greatest v so far. SparseAdam does this for the rows that have a gradient, with
 * eps added to sqrt(v) before the correction. */
#include "ops/kernels.h"
#include "optim/optim.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, AMSGRAD, MAXIMIZE };

static const char *const numbers_names[] = { "lr",           "beta1",   "beta2",    "eps",
                                             "weight_decay", "amsgrad", "maximize", NULL };
static const char *const state_names[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq", NULL };

static tt_status check_beta(const char *kind, const char *name, double value)
{
    if (value >= 0 && value < 1)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected 0 <= %s < 1, got %g", kind, name, value);
}

static tt_status check_as(const char *kind, const double *v)
{
    TT_TRY(tti_optim_at_least(kind, "lr", v[LR], 0));
    TT_TRY(tti_optim_at_least(kind, "eps", v[EPS], 0));
    TT_TRY(tti_optim_at_least(kind, "weight_decay", v[WEIGHT_DECAY], 0));
    TT_TRY(check_beta(kind, "beta1", v[BETA1]));
    return check_beta(kind, "beta2", v[BETA2]);
}

static tt_status check_adam(const double *v)
{
    return check_as("adam", v);
}

static tt_status check_adamw(const double *v)
{
    return check_as("adamw", v);
}

static tt_status check_sparse_adam(const double *v)
{
    TT_TRY(check_as("sparse_adam", v));
    if (v[WEIGHT_DECAY] != 0 || v[AMSGRAD] != 0)
        return TT_FAIL(TT_ERR_INVALID, "sparse_adam: has neither weight_decay nor amsgrad");
    return TT_OK;
}

static tt_status update_as(tt_optim_slot *slot, const double *v, bool decoupled, bool eps_inside)
{
    tt_tensor *m = tt_optim_slot_state(slot, 0, 0);
    tt_tensor *sq = m != NULL ? tt_optim_slot_state(slot, 1, 0) : NULL;
    tt_tensor *top = NULL;
    tti_adam_args a = {
        .lr = v[LR],
        .beta1 = v[BETA1],
        .beta2 = v[BETA2],
        .eps = v[EPS],
        .weight_decay = v[WEIGHT_DECAY],
        .step = (double)slot->step,
        .decoupled = decoupled,
        .amsgrad = v[AMSGRAD] != 0,
        .maximize = v[MAXIMIZE] != 0,
        .eps_inside = eps_inside,
    };

    if (sq == NULL)
        return tt_last_status();
    if (a.amsgrad) {
        top = tt_optim_slot_state(slot, 2, 0);
        if (top == NULL)
            return tt_last_status();
    }
    return TTI_RUN("adam", slot->param, optim, adam, slot->param, slot->grad, m, sq, top, &a);
}

static tt_status update_adam(tt_optim_slot *slot, const double *v)
{
    return update_as(slot, v, false, false);
}

static tt_status update_adamw(tt_optim_slot *slot, const double *v)
{
    return update_as(slot, v, true, false);
}

static tt_status check_real(const tt_tensor *param)
{
    if (param == NULL || !tt_dtype_is_complex((tt_dtype)param->dtype))
        return TT_OK;
    return TT_FAIL(TT_ERR_UNSUPPORTED, "sparse_adam: expected real parameters, got %s",
                   tt_dtype_name((tt_dtype)param->dtype));
}

static tt_status update_sparse_adam(tt_optim_slot *slot, const double *v)
{
    TT_TRY(check_real(slot->param));
    if (slot->grad->sparse == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "sparse_adam: expected sparse gradients, got a dense "
                                           "one; adam takes those");
    return update_as(slot, v, false, true);
}

static const tt_optim_ops adam = {
    .name = "adam",
    .numbers = numbers_names,
    .states = state_names,
    .check = check_adam,
    .update = update_adam,
};

static const tt_optim_ops adamw = {
    .name = "adamw",
    .numbers = numbers_names,
    .states = state_names,
    .check = check_adamw,
    .update = update_adamw,
};

static const tt_optim_ops sparse_adam = {
    .name = "sparse_adam",
    .numbers = numbers_names,
    .states = state_names,
    .sparse = true,
    .coalesced = true,
    .check = check_sparse_adam,
    .update = update_sparse_adam,
};

static tt_optim *new_as(const tt_optim_ops *ops, tt_tensor *const *params, int n,
                        const tt_adam_options *opt, double weight_decay)
{
    tt_adam_options o = opt != NULL ? *opt : (tt_adam_options){ 0 };
    double numbers[] = {
        tti_optim_or(o.lr, 1e-3),
        tti_optim_or(o.beta1, 0.9),
        tti_optim_or(o.beta2, 0.999),
        tti_optim_or(o.eps, 1e-8),
        tti_optim_or(o.weight_decay, weight_decay),
        o.amsgrad,
        o.maximize,
    };

    return tt_optim_new(ops, NULL, params, n, numbers);
}

tt_optim *tt_adam_new(tt_tensor *const *params, int n, const tt_adam_options *opt)
{
    return new_as(&adam, params, n, opt, 0);
}

tt_optim *tt_adamw_new(tt_tensor *const *params, int n, const tt_adam_options *opt)
{
    return new_as(&adamw, params, n, opt, 0.01);
}

tt_optim *tt_sparse_adam_new(tt_tensor *const *params, int n, const tt_adam_options *opt)
{
    for (int i = 0; params != NULL && i < n; i++)
        if (check_real(params[i]) != TT_OK)
            return NULL;
    return new_as(&sparse_adam, params, n, opt, 0);
}
