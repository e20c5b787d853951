/* SPDX-License-Identifier: Apache-2.0 */
/* Averagers: which group averages in which step. A periodic one has a single level. */
#include <inttypes.h>

#include "base/error.h"
#include "graph/graph.h"
#include "tutti/average.h"
#include "tutti/collective.h"
#include "tensor/debug.h"

typedef struct level {
    int64_t period;
    tt_pg_list groups; /* those made for this level; zero for the last */
    tt_pg *pg;         /* this rank's; borrowed */
} level;

struct tt_averager {
    tt_pg *pg; /* retained; that of the last level */
    int64_t step, warmup;
    level *levels;
    int n_levels;
};

/* ---- averaging ----------------------------------------------------------------------------- */

static tt_pg *or_default(tt_pg *pg)
{
    if (pg == NULL && !tt_pg_is_initialized())
        return TT_NULL_GIVEN("average", "a group, because there is no default group");
    return pg != NULL ? pg : tt_pg_default();
}

/* The tensors that have elements and, if asked for, a gradient; returns how many. */
static int chosen(tt_tensor *const *ts, int n, bool with_grad, tt_tensor **out)
{
    int many = 0;

    for (int i = 0; i < n; i++)
        if (ts[i]->numel > 0 && (!with_grad || tt_grad_of(ts[i]) != NULL))
            out[many++] = ts[i];
    return many;
}

static tt_status average(tt_tensor *const *ts, int n, tt_pg *pg, bool with_grad)
{
    tt_tensor **list;
    tt_status st = TT_OK;

    for (int i = 0; i < n; i++) {
        TT_TRY(tti_check_alive(ts[i], "average"));
        if (ts[i] == NULL)
            return TTI_NULL("average: expected %d tensors, number %d is NULL", n, i);
    }
    if (!tt_pg_is_member(pg) || n == 0)
        return TT_OK;
    list = tti_malloc((size_t)n * sizeof(tt_tensor *));
    if (list == NULL)
        return TT_ERR_NOMEM;
    n = chosen(ts, n, with_grad, list);
    if (n > 0)
        TT_NO_GRAD
        {
            st = tt_pg_all_reduce_coalesced(pg, list, n, &(tt_coll_options){ .op = TT_REDUCE_AVG },
                                            NULL);
        }
    tti_mfree(list);
    return st;
}

tt_status tt_average_tensors(tt_tensor *const *ts, int n, tt_pg *pg)
{
    pg = or_default(pg);
    if (pg == NULL)
        return tt_last_status();
    if (n < 0 || (n > 0 && ts == NULL))
        return TT_FAIL(TT_ERR_INVALID, "average: expected a list of tensors, got %d", n);
    return average(ts, n, pg, false);
}

/* ---- making -------------------------------------------------------------------------------- */

void tt_averager_free(tt_averager *a)
{
    if (a == NULL)
        return;
    for (int i = 0; i < a->n_levels; i++)
        tt_pg_list_free(&a->levels[i].groups);
    tti_mfree(a->levels);
    tt_pg_free(a->pg);
    tti_mfree(a);
}

static tt_status check_times(int64_t period, int64_t warmup)
{
    if (period < 1)
        return TT_FAIL(TT_ERR_INVALID, "averager: expected a period >= 1, got %" PRId64, period);
    if (warmup < 0)
        return TT_FAIL(TT_ERR_INVALID, "averager: expected a warm-up >= 0, got %" PRId64, warmup);
    return TT_OK;
}

static tt_status check_levels(const tt_averager_level *levels, int n, int size)
{
    if (levels == NULL || n < 1)
        return TT_FAIL(TT_ERR_INVALID, "averager: expected at least one level, got %d", n);
    for (int i = 0; i < n; i++) {
        TT_TRY(check_times(levels[i].period, 0));
        if (i > 0 && levels[i].period <= levels[i - 1].period)
            return TT_FAIL(TT_ERR_INVALID,
                           "averager: expected ascending periods, got %" PRId64 " after %" PRId64,
                           levels[i].period, levels[i - 1].period);
    }
    if (levels[n - 1].group_size != size)
        return TT_FAIL(
            TT_ERR_INVALID,
            "averager: expected the last level to be the whole group of %d ranks, got %d", size,
            levels[n - 1].group_size);
    return TT_OK;
}

static tt_status make_levels(tt_averager *a, const tt_averager_level *levels, int n)
{
    a->levels = tti_calloc((size_t)n, sizeof *a->levels);
    if (a->levels == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        level *l = &a->levels[i];

        l->period = levels[i].period;
        l->pg = a->pg;
        a->n_levels = i + 1;
        if (i == n - 1)
            break;
        TT_TRY(tt_pg_subgroups(a->pg, levels[i].group_size, NULL, &l->groups));
        l->pg = l->groups.mine;
    }
    if (n == 1 && a->levels[0].period == 1)
        tt_warn("average", "averager: a period of 1 averages in every step; tt_ddp, which averages "
                           "gradients, is faster");
    return TT_OK;
}

static tt_averager *averager_new(tt_pg *pg, const tt_averager_level *levels, int n, int64_t warmup)
{
    tt_averager *a = tti_calloc(1, sizeof *a);

    if (a == NULL)
        return NULL;
    a->pg = tt_pg_retain(pg);
    a->warmup = warmup;
    if (make_levels(a, levels, n) == TT_OK)
        return a;
    tt_averager_free(a);
    return NULL;
}

tt_averager *tt_periodic_averager_new(tt_pg *pg, int64_t period, int64_t warmup)
{
    pg = or_default(pg);
    if (pg == NULL || check_times(period, warmup) != TT_OK)
        return NULL;
    return averager_new(pg, &(tt_averager_level){ period, tt_pg_size(pg) }, 1, warmup);
}

tt_averager *tt_hierarchical_averager_new(tt_pg *pg, const tt_averager_level *levels, int n,
                                          int64_t warmup)
{
    pg = or_default(pg);
    if (pg == NULL || check_levels(levels, n, tt_pg_size(pg)) != TT_OK ||
        check_times(1, warmup) != TT_OK)
        return NULL;
    return averager_new(pg, levels, n, warmup);
}

/* ---- using --------------------------------------------------------------------------------- */

tt_pg *tt_averager_due(const tt_averager *a)
{
    int64_t step;

    if (a == NULL || a->step < a->warmup)
        return NULL;
    step = a->n_levels == 1 ? a->step - a->warmup : a->step;
    for (int i = a->n_levels - 1; i >= 0; i--)
        if (step % a->levels[i].period == 0)
            return a->levels[i].pg;
    return NULL;
}

tt_status tt_averager_average(tt_averager *a, tt_tensor *const *params, int n)
{
    tt_pg *pg = tt_averager_due(a);

    if (a == NULL)
        return tti_null_given("averager", "an averager");
    if (n < 0 || (n > 0 && params == NULL))
        return TT_FAIL(TT_ERR_INVALID, "averager: expected an averager and parameters, got %d", n);
    if (pg != NULL)
        TT_TRY(average(params, n, pg, true));
    a->step++;
    return TT_OK;
}

tt_status tt_averager_average_optim(tt_averager *a, const tt_optim *o)
{
    tt_tensor **params;
    tt_status st;
    int n = 0, at = 0;

    if (o == NULL)
        return tti_null_given("averager", "an optimizer");
    for (int g = 0; g < tt_optim_n_groups(o); g++)
        n += tt_optim_n_params(o, g);
    params = tti_malloc((size_t)(n > 0 ? n : 1) * sizeof(tt_tensor *));
    if (params == NULL)
        return TT_ERR_NOMEM;
    for (int g = 0; g < tt_optim_n_groups(o); g++)
        for (int i = 0; i < tt_optim_n_params(o, g); i++)
            params[at++] = tt_optim_param(o, g, i);
    st = tt_averager_average(a, params, n);
    tti_mfree(params);
    return st;
}

int64_t tt_averager_step(const tt_averager *a)
{
    return a != NULL ? a->step : 0;
}

tt_status tt_averager_set_step(tt_averager *a, int64_t step)
{
    if (a == NULL)
        return tti_null_given("averager", "an averager");
    if (step < 0)
        return TT_FAIL(TT_ERR_INVALID, "averager: expected a step >= 0, got %" PRId64, step);
    a->step = step;
    return TT_OK;
}

int tt_averager_n_levels(const tt_averager *a)
{
    return a != NULL ? a->n_levels : 0;
}

tt_pg *tt_averager_group(const tt_averager *a, int i)
{
    if (a == NULL)
        return TT_NULL_GIVEN("averager", "an averager");
    if (i >= 0 && i < a->n_levels)
        return a->levels[i].pg;
    return TT_FAIL_NULL(TT_ERR_INVALID, "averager: expected a level below %d, got %d",
                        tt_averager_n_levels(a), i);
}
