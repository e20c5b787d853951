/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad. With d the gradient plus weight decay and t the step, counted from 1:
 *     s = s + d^2,  p = p - lr / (1 + (t - 1) lr_decay) * d / (sqrt(s) + eps)
 */
#include "ops/kernels.h"
#include "optim/optim.h"

enum { LR, LR_DECAY, WEIGHT_DECAY, INITIAL, EPS, MAXIMIZE };

static const char *const numbers_names[] = {
    "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "maximize", NULL
};
static const char *const state_names[] = { "sum", NULL };

static tt_status check(const double *v)
{
    for (int i = LR; i <= EPS; i++)
        TT_TRY(tti_optim_at_least("adagrad", numbers_names[i], v[i], 0));
    return TT_OK;
}

static tt_status update(tt_optim_slot *slot, const double *v)
{
    tt_tensor *sum = tt_optim_slot_state(slot, 0, v[INITIAL]);
    tti_adagrad_args a = {
        .lr = v[LR],
        .lr_decay = v[LR_DECAY],
        .eps = v[EPS],
        .weight_decay = v[WEIGHT_DECAY],
        .step = (double)slot->step,
        .maximize = v[MAXIMIZE] != 0,
    };

    if (sum == NULL)
        return tt_last_status();
    if (slot->grad->sparse != NULL && v[WEIGHT_DECAY] != 0)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "adagrad: sparse gradients need weight_decay 0, got %g",
                       v[WEIGHT_DECAY]);
    return TTI_RUN("adagrad", slot->param, optim, adagrad, slot->param, slot->grad, sum, &a);
}

static const tt_optim_ops ops = {
    .name = "adagrad",
    .numbers = numbers_names,
    .states = state_names,
    .sparse = true,
    .coalesced = true,
    .check = check,
    .update = update,
};

tt_optim *tt_adagrad_new(tt_tensor *const *params, int n, const tt_adagrad_options *opt)
{
    tt_adagrad_options o = opt != NULL ? *opt : (tt_adagrad_options){ 0 };
    double numbers[] = {
        tti_optim_or(o.lr, 1e-2),   o.lr_decay, o.weight_decay, o.initial_accumulator_value,
        tti_optim_or(o.eps, 1e-10), o.maximize
    };

    return tt_optim_new(&ops, NULL, params, n, numbers);
}
