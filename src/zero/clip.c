/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping by the norm of gradients that several ranks have: each adds up its own, in double, and the sums are
 * added in the order of ranks. */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "optim/optim.h"
#include "tutti/collective.h"
#include "tutti/ops.h"
#include "zero/zero.h"

/* *sum_p, over all ranks. A rank that failed before says so to the others. */
static tt_status add_over_ranks(tt_pg *pg, const tt_clip_options *opt, tt_status before,
                                double *sum_p)
{
    bool greatest = opt != NULL && isinf(opt->norm_type);
    tt_coll_options how = { .op = greatest ? TT_REDUCE_MAX : TT_REDUCE_SUM };
    double in[2] = { *sum_p, before != TT_OK };

    TT_SCOPE {
        tti_error_copy error;
        tt_tensor *t;
        tt_status st;

        tti_error_save(&error);
        t = tt_from_data(in, TT_SHAPE(2), TT_F64);
        st = t != NULL ? tt_pg_all_reduce(pg, t, &how, NULL) : tt_last_status();
        if (before != TT_OK) {
            tti_error_restore(&error);
            return before;
        }
        TT_TRY(st);
        if (((const double *)tti_data(t))[1] != 0)
            return TT_FAIL(TT_ERR_PEER, "clip_grad_norm: another rank could not add up its own");
        *sum_p = ((const double *)tti_data(t))[0];
    }
    return TT_OK;
}

tt_status tt_pg_clip_grad_norm(tt_pg *pg, tt_tensor *const *params, int n, double max_norm,
                               const tt_clip_options *opt, double *total_p)
{
    double sum = 0;
    tt_status st;

    if (pg == NULL || n < 0 || (n > 0 && params == NULL))
        return tti_null_given("clip_grad_norm", "a group and parameters");
    st = tti_clip_sum(params, n, opt, &sum);
    TT_TRY(add_over_ranks(pg, opt, st, &sum));
    return tti_clip_apply(params, n, max_norm, opt, sum, total_p);
}

tt_status tti_zero_clip(tt_zero *z, double max_norm, const tt_clip_options *opt, double *total_p)
{
    return tt_pg_clip_grad_norm(z->pg, z->optim->params, (int)z->optim->n_params, max_norm, opt,
                                total_p);
}

tt_status tt_zero_clip_grad_norm(tt_zero *z, double max_norm, const tt_clip_options *opt,
                                 double *total_p)
{
    if (z == NULL)
        return tti_null_given("clip_grad_norm", "a tt_zero");
    TT_TRY(tti_zero_tell_clip(z, max_norm, opt));
    return tti_zero_clip(z, max_norm, opt, total_p);
}
