/* SPDX-License-Identifier: Apache-2.0 */
/* A tt_zero with uneven inputs: a rank without goes on updating its parameters, with the gradients that its
 * tt_ddp got from the others and the numbers (rates, ...) that they use now. */
#include <string.h>

#include "optim/optim.h"
#include "tutti/collective.h"
#include "tutti/ops.h"
#include "zero/zero.h"

enum { STEPS, CLIPS }; /* events */

/* Everybody gets the numbers of the lowest rank with inputs. */
static tt_status send_numbers(tt_zero *z, double *numbers, int n)
{
    tt_tensor *t = tt_from_data(numbers, TT_SHAPE(n), TT_F64);

    if (t == NULL)
        return tt_last_status();
    TT_TRY(tt_pg_broadcast(z->pg, t, tt_join_first_active(z->join), NULL, NULL));
    memcpy(numbers, tti_data(t), (size_t)n * sizeof *numbers);
    return TT_OK;
}

static tt_status send_groups(tt_zero *z)
{
    tt_status st = TT_OK;

    TT_SCOPE
        for (size_t g = 0; st == TT_OK && g < z->optim->n_groups; g++)
            st = send_numbers(z, z->optim->groups[g].numbers, z->optim->n_numbers);
    return st;
}

static tt_status send_clip(tt_zero *z, double *max_norm_p, tt_clip_options *opt)
{
    double numbers[3] = { *max_norm_p, opt->norm_type, opt->error_if_nonfinite };
    tt_status st = TT_OK;

    TT_SCOPE {
        st = send_numbers(z, numbers, 3);
    }
    *max_norm_p = numbers[0];
    opt->norm_type = numbers[1];
    opt->error_if_nonfinite = numbers[2] != 0;
    return st;
}

tt_status tti_zero_tell_step(tt_zero *z)
{
    if (z->join == NULL)
        return TT_OK;
    TT_TRY(tt_join_notify(z->join, z, STEPS));
    return send_groups(z);
}

tt_status tti_zero_tell_clip(tt_zero *z, double max_norm, const tt_clip_options *opt)
{
    tt_clip_options mine = opt != NULL ? *opt : (tt_clip_options){ 0 };

    if (z->join == NULL)
        return TT_OK;
    TT_TRY(tt_join_notify(z->join, z, CLIPS));
    return send_clip(z, &max_norm, &mine);
}

/* ---- the table ------------------------------------------------------------------------------ */

static tt_pg *group(void *self)
{
    return ((tt_zero *)self)->pg;
}

static tt_status check(void *self, const tt_join_options *opt)
{
    (void)opt;
    if (((tt_zero *)self)->join != NULL)
        return TT_FAIL(TT_ERR_INVALID, "join: this tt_zero is in a scope already");
    return TT_OK;
}

static void attach(void *self, tt_join *j)
{
    ((tt_zero *)self)->join = j;
}

static tt_status shadow(void *self, tt_join *j, int event)
{
    tt_clip_options opt = { 0 };
    double max_norm = 0;
    tt_zero *z = self;

    (void)j;
    if (event == STEPS) {
        TT_TRY(send_groups(z));
        return tti_zero_step(z);
    }
    TT_TRY(send_clip(z, &max_norm, &opt));
    return tti_zero_clip(z, max_norm, &opt, NULL);
}

static const tt_joinable_ops ops = {
    .name = "zero", .group = group, .check = check, .attach = attach, .shadow = shadow
};

tt_joinable tt_zero_joinable(tt_zero *z)
{
    return (tt_joinable){ .ops = &ops, .self = z };
}
