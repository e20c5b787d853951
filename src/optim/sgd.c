/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent. With d the gradient plus weight decay:
 *     b = momentum * b + (1 - dampening) * d     (the first b is d)
 *     p = p - lr * b                             (nesterov: d + momentum * b)
 */
#include "ops/kernels.h"
#include "optim/optim.h"

enum { LR, MOMENTUM, DAMPENING, WEIGHT_DECAY, NESTEROV, MAXIMIZE };

static const char *const numbers_names[] = { "lr",       "momentum", "dampening", "weight_decay",
                                             "nesterov", "maximize", NULL };
static const char *const state_names[] = { "momentum_buffer", NULL };

static tt_status check(const double *v)
{
    TT_TRY(tti_optim_at_least("sgd", "lr", v[LR], 0));
    TT_TRY(tti_optim_at_least("sgd", "momentum", v[MOMENTUM], 0));
    TT_TRY(tti_optim_at_least("sgd", "weight_decay", v[WEIGHT_DECAY], 0));
    if (v[NESTEROV] != 0 && (v[MOMENTUM] <= 0 || v[DAMPENING] != 0))
        return TT_FAIL(TT_ERR_INVALID,
                       "sgd: nesterov needs momentum > 0 and dampening 0, got %g and %g",
                       v[MOMENTUM], v[DAMPENING]);
    return TT_OK;
}

static tt_status update(tt_optim_slot *slot, const double *v)
{
    tt_tensor *buf = NULL;
    tti_sgd_args a = {
        .lr = v[LR],
        .momentum = v[MOMENTUM],
        .dampening = v[DAMPENING],
        .weight_decay = v[WEIGHT_DECAY],
        .nesterov = v[NESTEROV] != 0,
        .maximize = v[MAXIMIZE] != 0,
    };

    if (slot->grad->sparse != NULL && (v[MOMENTUM] != 0 || v[WEIGHT_DECAY] != 0))
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "sgd: sparse gradients need momentum 0 and weight_decay 0, got %g and %g",
                       v[MOMENTUM], v[WEIGHT_DECAY]);
    if (v[MOMENTUM] != 0) {
        a.first = slot->state[0] == NULL;
        buf = tt_optim_slot_state(slot, 0, 0);
        if (buf == NULL)
            return tt_last_status();
    }
    return TTI_RUN("sgd", slot->param, optim, sgd, slot->param, slot->grad, buf, &a);
}

static const tt_optim_ops ops = {
    .name = "sgd",
    .numbers = numbers_names,
    .states = state_names,
    .sparse = true,
    .check = check,
    .update = update,
};

tt_optim *tt_sgd_new(tt_tensor *const *params, int n, const tt_sgd_options *opt)
{
    tt_sgd_options o = opt != NULL ? *opt : (tt_sgd_options){ 0 };
    double numbers[] = { tti_optim_or(o.lr, 1e-3), o.momentum, o.dampening,
                         o.weight_decay,           o.nesterov, o.maximize };

    return tt_optim_new(&ops, NULL, params, n, numbers);
}
