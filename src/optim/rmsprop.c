/* SPDX-License-Identifier: Apache-2.0 */
/* RMSprop. With d the gradient plus weight decay:
 *     s = alpha s + (1 - alpha) d^2,  centered: a = a + (1 - alpha) (d - a), s' = s - a^2
 *     r = sqrt(s') + eps
 *     p = p - lr d / r,  with momentum: b = momentum b + d / r,  p = p - lr b
 */
#include "ops/kernels.h"
#include "optim/optim.h"

enum { LR, ALPHA, EPS, WEIGHT_DECAY, MOMENTUM, CENTERED, MAXIMIZE };

static const char *const numbers_names[] = { "lr",       "alpha",    "eps",      "weight_decay",
                                             "momentum", "centered", "maximize", NULL };
static const char *const state_names[] = { "square_avg", "momentum_buffer", "grad_avg", NULL };

static tt_status check(const double *v)
{
    for (int i = LR; i <= MOMENTUM; i++)
        TT_TRY(tti_optim_at_least("rmsprop", numbers_names[i], v[i], 0));
    return TT_OK;
}

static tt_status update(tt_optim_slot *slot, const double *v)
{
    tt_tensor *t[3] = { NULL, NULL, NULL };
    const bool wanted[3] = { true, v[MOMENTUM] > 0, v[CENTERED] != 0 };
    tti_rmsprop_args a = {
        .lr = v[LR],
        .alpha = v[ALPHA],
        .eps = v[EPS],
        .weight_decay = v[WEIGHT_DECAY],
        .momentum = v[MOMENTUM],
        .centered = v[CENTERED] != 0,
        .maximize = v[MAXIMIZE] != 0,
    };

    for (int i = 0; i < 3; i++) {
        if (!wanted[i])
            continue;
        t[i] = tt_optim_slot_state(slot, i, 0);
        if (t[i] == NULL)
            return tt_last_status();
    }
    return TTI_RUN("rmsprop", slot->param, optim, rmsprop, slot->param, slot->grad, t[0], t[1],
                   t[2], &a);
}

static const tt_optim_ops ops = {
    .name = "rmsprop",
    .numbers = numbers_names,
    .states = state_names,
    .check = check,
    .update = update,
};

tt_optim *tt_rmsprop_new(tt_tensor *const *params, int n, const tt_rmsprop_options *opt)
{
    tt_rmsprop_options o = opt != NULL ? *opt : (tt_rmsprop_options){ 0 };
    double numbers[] = {
        tti_optim_or(o.lr, 1e-2),
        tti_optim_or(o.alpha, 0.99),
        tti_optim_or(o.eps, 1e-8),
        o.weight_decay,
        o.momentum,
        o.centered,
        o.maximize,
    };

    return tt_optim_new(&ops, NULL, params, n, numbers);
}
