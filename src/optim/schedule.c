/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: making, stepping and freeing. Their formulas are in schedule_kinds.c. */
#include "base/error.h"
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

/* Sets the rates of step s->step. */
static tt_status apply(tt_schedule *s)
{
    for (size_t i = 0; i < s->optim->n_groups; i++) {
        tti_optim_group *g = &s->optim->groups[i];
        double lr;

        if (isnan(g->initial_lr))
            g->initial_lr = g->numbers[0];
        lr = s->ops->rate(s, g);
        if (isnan(lr))
            return tt_last_status();
        g->numbers[0] = lr;
    }
    return TT_OK;
}

tt_schedule *tti_schedule_start(const tt_schedule *like)
{
    tt_schedule *s;

    if (like->optim == NULL)
        return TT_NULL_GIVEN(like->ops->name, "an optimizer");
    s = tti_malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    *s = *like;
    s->milestones = NULL;
    if (like->n_milestones > 0) {
        s->milestones = tti_malloc((size_t)like->n_milestones * sizeof *s->milestones);
        if (s->milestones == NULL)
            goto fail;
        memcpy(s->milestones, like->milestones, (size_t)s->n_milestones * sizeof *s->milestones);
    }
    if (apply(s) != TT_OK)
        goto fail;
    return s;

fail:
    tt_schedule_free(s);
    return NULL;
}

static const tti_schedule_ops chained = { .name = "chained_lr" };

tt_schedule *tt_chained_lr_new(tt_schedule *const *schedules, int n)
{
    tt_schedule *s;

    if (n < 1 || schedules == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "chained_lr: expected schedules, got %d", n);
    for (int i = 0; i < n; i++)
        if (schedules[i] == NULL)
            return ((void)TTI_NULL("chained_lr: schedule %d is NULL", i), NULL);
    s = tti_calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->ops = &chained;
    s->children = tti_malloc((size_t)n * sizeof *s->children);
    if (s->children == NULL) {
        tt_schedule_free(s);
        return NULL;
    }
    memcpy(s->children, schedules, (size_t)n * sizeof *s->children);
    s->n_children = n;
    return s;
}

void tt_schedule_free(tt_schedule *s)
{
    if (s == NULL)
        return;
    tti_mfree(s->children);
    tti_mfree(s->milestones);
    tti_mfree(s);
}

tt_status tt_schedule_step(tt_schedule *s)
{
    tt_status st;

    if (s == NULL)
        return tti_null_given("schedule_step", "a schedule");
    for (int i = 0; i < s->n_children; i++)
        TT_TRY(tt_schedule_step(s->children[i]));
    s->step++;
    if (s->optim == NULL)
        return TT_OK;
    st = apply(s);
    if (st != TT_OK)
        s->step--;
    return st;
}

int64_t tt_schedule_steps(const tt_schedule *s)
{
    return s != NULL ? s->step : 0;
}
