/* SPDX-License-Identifier: Apache-2.0 */
/* Making and freeing optimizers, their groups, and asking about them. */
#include "base/error.h"
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/autograd.h"
#include "tensor/debug.h"

int tti_optim_find(const char *const *names, const char *name)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

double tti_optim_or(double value, double fallback)
{
    if (value != 0)
        return value;
    return signbit(value) ? 0.0 : fallback;
}

tt_status tti_optim_at_least(const char *kind, const char *name, double value, double least)
{
    if (value >= least)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected %s >= %g, got %g", kind, name, least, value);
}

tti_optim_group *tti_optim_group_at(const tt_optim *o, int group, const char *what)
{
    if (o == NULL)
        return TT_NULL_GIVEN(what, "an optimizer");
    if (group < 0 || (size_t)group >= o->n_groups)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected a group below %zu, got %d", what,
                            o->n_groups, group);
    return &o->groups[group];
}

/* ---- making -------------------------------------------------------------------------------- */

static tt_status check_param(const tt_optim *o, const tt_tensor *p, int i)
{
    tt_dtype d;

    TT_TRY(tti_check_alive(p, o->ops->name));
    if (p == NULL)
        return TTI_NULL("%s: parameter %d is NULL", o->ops->name, i);
    d = (tt_dtype)p->dtype;
    if (!tt_dtype_is_floating(d) && !tt_dtype_is_complex(d))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected floating parameters, parameter %d is %s",
                       o->ops->name, i, tt_dtype_name(d));
    if (p->grad_fn != NULL || p->storage == NULL)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected dense leaves, parameter %d is %s",
                       o->ops->name, i,
                       p->storage == NULL ? "sparse" : "the result of an operator");
    return TT_OK;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (tt_tensor *const *)a, y = (uintptr_t) * (tt_tensor *const *)b;

    return (x > y) - (x < y);
}

/* No parameter may be there twice: it would be updated twice with one gradient. */
static tt_status check_distinct(const tt_optim *o, tt_tensor *const *params, int n)
{
    size_t total = (size_t)n + o->n_params;
    tt_tensor **all = tti_malloc(total * sizeof *all);
    tt_status st = TT_OK;

    if (all == NULL)
        return TT_ERR_NOMEM;
    for (size_t i = 0; i < total; i++)
        all[i] = i < o->n_params ? o->params[i] : params[i - o->n_params];
    qsort(all, total, sizeof *all, by_address);
    for (size_t i = 1; i < total && st == TT_OK; i++)
        if (all[i] == all[i - 1])
            st = TT_FAIL(TT_ERR_INVALID, "%s: a parameter is there more than once", o->ops->name);
    tti_mfree(all);
    return st;
}

static tt_status add_group(tt_optim *o, tt_tensor *const *params, int n, const double *numbers)
{
    tti_optim_group g = { .initial_lr = NAN, .n_slots = n };

    if (n < 0 || (n > 0 && params == NULL))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected an array of parameters, got %d of them",
                       o->ops->name, n);
    for (int i = 0; i < n; i++)
        TT_TRY(check_param(o, params[i], i));
    TT_TRY(check_distinct(o, params, n));
    if (o->ops->check != NULL)
        TT_TRY(o->ops->check(numbers));
    TT_TRY(tti_vec_reserve((void **)&o->groups, &o->cap_groups, o->n_groups + 1, sizeof g));
    TT_TRY(tti_vec_reserve((void **)&o->params, &o->cap_params, o->n_params + (size_t)n,
                           sizeof *o->params));
    g.slots = tti_calloc((size_t)n, sizeof *g.slots);
    if (g.slots == NULL)
        return TT_ERR_NOMEM;
    memcpy(g.numbers, numbers, (size_t)o->n_numbers * sizeof *numbers);
    for (int i = 0; i < n; i++) {
        g.slots[i].param = tt_tensor_retain(params[i]);
        g.slots[i].ctx = o->ctx;
        o->params[o->n_params++] = params[i];
    }
    o->groups[o->n_groups++] = g;
    return TT_OK;
}

tt_optim *tt_optim_new(const tt_optim_ops *ops, void *ctx, tt_tensor *const *params, int n,
                       const double *numbers)
{
    tt_optim *o;

    if (ops == NULL || ops->update == NULL || numbers == NULL || ops->numbers[0] == NULL ||
        strcmp(ops->numbers[0], "lr") != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "optim: expected a table with an update function, "
                                            "whose numbers begin with lr");
    o = tti_calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    o->ops = ops;
    o->ctx = ctx;
    while (ops->numbers[o->n_numbers] != NULL)
        o->n_numbers++;
    while (ops->states[o->n_states] != NULL)
        o->n_states++;
    if (o->n_numbers > TT_OPTIM_NUMBERS || o->n_states > TT_OPTIM_STATES) {
        (void)TT_FAIL(TT_ERR_INVALID, "%s: at most %d numbers and %d states, got %d and %d",
                      ops->name, TT_OPTIM_NUMBERS, TT_OPTIM_STATES, o->n_numbers, o->n_states);
        goto fail;
    }
    memcpy(o->defaults, numbers, (size_t)o->n_numbers * sizeof *numbers);
    if (add_group(o, params, n, numbers) != TT_OK)
        goto fail;
    return o;

fail:
    o->ctx = NULL;
    tt_optim_free(o);
    return NULL;
}

void tt_optim_free(tt_optim *o)
{
    if (o == NULL)
        return;
    for (size_t g = 0; g < o->n_groups; g++) {
        for (int i = 0; i < o->groups[g].n_slots; i++) {
            for (int s = 0; s < TT_OPTIM_STATES; s++)
                tt_tensor_free(o->groups[g].slots[i].state[s]);
            tt_tensor_free(o->groups[g].slots[i].param);
        }
        tti_mfree(o->groups[g].slots);
    }
    tti_mfree(o->groups);
    tti_mfree(o->params);
    if (o->ops->free_ctx != NULL && o->ctx != NULL)
        o->ops->free_ctx(o->ctx);
    tti_mfree(o);
}

tt_status tt_optim_add_group(tt_optim *o, tt_tensor *const *params, int n,
                             const tt_group_options *opt)
{
    double numbers[TT_OPTIM_NUMBERS];
    tt_group_options in = opt != NULL ? *opt : (tt_group_options){ 0 };
    int decay;

    if (o == NULL)
        return tti_null_given("optim", "an optimizer");
    decay = tti_optim_find(o->ops->numbers, "weight_decay");
    if (decay < 0 && in.weight_decay != 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: has no weight decay", o->ops->name);
    memcpy(numbers, o->defaults, sizeof numbers);
    numbers[0] = tti_optim_or(in.lr, numbers[0]);
    if (decay >= 0)
        numbers[decay] = tti_optim_or(in.weight_decay, numbers[decay]);
    return add_group(o, params, n, numbers);
}

/* ---- asking -------------------------------------------------------------------------------- */

static tt_optim_slot *slot_at(const tt_optim *o, int group, int i)
{
    if (o == NULL || group < 0 || (size_t)group >= o->n_groups || i < 0 ||
        i >= o->groups[group].n_slots)
        return NULL;
    return &o->groups[group].slots[i];
}

int tt_optim_n_groups(const tt_optim *o)
{
    return o != NULL ? (int)o->n_groups : 0;
}

int tt_optim_n_params(const tt_optim *o, int group)
{
    if (o == NULL || group < 0 || (size_t)group >= o->n_groups)
        return -1;
    return o->groups[group].n_slots;
}

tt_tensor *tt_optim_param(const tt_optim *o, int group, int i)
{
    tt_optim_slot *slot = slot_at(o, group, i);

    return slot != NULL ? slot->param : NULL;
}

tt_tensor *tt_optim_param_state(const tt_optim *o, int group, int i, const char *name)
{
    tt_optim_slot *slot = slot_at(o, group, i);
    int s = slot != NULL ? tti_optim_find(o->ops->states, name) : -1;

    return s >= 0 ? slot->state[s] : NULL;
}

int64_t tt_optim_param_steps(const tt_optim *o, int group, int i)
{
    tt_optim_slot *slot = slot_at(o, group, i);

    return slot != NULL ? slot->step : -1;
}

const char *tt_optim_name(const tt_optim *o)
{
    return o != NULL ? o->ops->name : "";
}

double tt_optim_get_number(const tt_optim *o, int group, const char *name)
{
    int i;

    if (o == NULL || group < 0 || (size_t)group >= o->n_groups)
        return NAN;
    i = tti_optim_find(o->ops->numbers, name);
    return i >= 0 ? o->groups[group].numbers[i] : NAN;
}

tt_status tt_optim_set_number(tt_optim *o, int group, const char *name, double value)
{
    tti_optim_group *g = tti_optim_group_at(o, group, "optim_set_number");
    double numbers[TT_OPTIM_NUMBERS];
    int i;

    if (g == NULL)
        return tt_last_status();
    i = tti_optim_find(o->ops->numbers, name);
    if (i < 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: has no number \"%s\"", o->ops->name, name);
    memcpy(numbers, g->numbers, sizeof numbers);
    numbers[i] = value;
    if (o->ops->check != NULL)
        TT_TRY(o->ops->check(numbers));
    g->numbers[i] = value;
    return TT_OK;
}

double tt_optim_get_lr(const tt_optim *o, int group)
{
    return tt_optim_get_number(o, group, "lr");
}

tt_status tt_optim_set_lr(tt_optim *o, int group, double lr)
{
    return tt_optim_set_number(o, group, "lr", lr);
}
