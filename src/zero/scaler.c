/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient scalers: each rank unscales its own gradients, and all skip the step if one of them found something
 * that is not finite. */
#include "base/error.h"
#include "amp/scaler.h"
#include "optim/optim.h"
#include "tutti/autograd.h"
#include "tutti/collective.h"
#include "tutti/ops.h"
#include "zero/zero.h"

static bool has_gradients(const tt_optim *o)
{
    for (size_t i = 0; i < o->n_params; i++)
        if (tt_grad_of(o->params[i]) != NULL)
            return true;
    return false;
}

static bool any_found(const tt_grad_scaler *s, const tt_optim *o)
{
    for (int i = 0; i < tt_grad_scaler_n_found(s, o); i++)
        if (tt_grad_scaler_found(s, o, i, NULL) != 0)
            return true;
    return false;
}

/* *bad_p, of any rank. A rank that failed before says so to the others. */
static tt_status tell(tt_zero *z, tt_status before, bool *bad_p)
{
    const tt_coll_options greatest = { .op = TT_REDUCE_MAX };
    int32_t mine = before != TT_OK ? 2 : *bad_p;
    tti_error_copy error;
    tt_status st = TT_OK;

    tti_error_save(&error);
    TT_SCOPE {
        tt_tensor *t = tt_from_data(&mine, TT_SHAPE(1), TT_I32);

        st = t != NULL ? tt_pg_all_reduce(z->pg, t, &greatest, NULL) : tt_last_status();
        if (st == TT_OK)
            mine = *(const int32_t *)tti_data(t);
    }
    if (before != TT_OK) {
        tti_error_restore(&error);
        return before;
    }
    TT_TRY(st);
    if (mine == 2)
        return TT_FAIL(TT_ERR_PEER, "zero_unscale: another rank could not unscale its gradients");
    *bad_p = mine != 0;
    return TT_OK;
}

static tt_status check(const tt_zero *z, const tt_grad_scaler *s)
{
    if (z == NULL || s == NULL)
        return tti_null_given("zero_unscale", "a tt_zero and a scaler");
    if (z->join != NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "zero_unscale: ranks without inputs have no scaler: not in a scope for "
                       "uneven inputs");
    return TT_OK;
}

static tt_status unscale(tt_zero *z, tt_grad_scaler *s)
{
    tt_status st = has_gradients(z->optim) ? tt_grad_scaler_unscale(s, z->optim) : TT_OK;
    bool bad = any_found(s, z->optim);

    TT_TRY(tell(z, st, &bad));
    return tti_scaler_note(s, z->optim, bad);
}

tt_status tt_zero_unscale(tt_zero *z, tt_grad_scaler *s)
{
    TT_TRY(check(z, s));
    return s->enabled ? unscale(z, s) : TT_OK;
}

static tt_status step(void *ctx)
{
    return tt_zero_step(ctx);
}

tt_status tt_zero_scaler_step(tt_zero *z, tt_grad_scaler *s, bool *skipped_p)
{
    TT_TRY(check(z, s));
    if (s->enabled && tt_grad_scaler_n_found(s, z->optim) == 0)
        TT_TRY(unscale(z, s));
    return tt_grad_scaler_step_with(s, z->optim, step, z, skipped_p);
}
