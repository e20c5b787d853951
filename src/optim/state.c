/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers and schedules to and from state dictionaries. Numbers are tensors of one element, so that
 * a dictionary is the same in memory and in a file. Loading checks everything first, prepares copies,
 * and only then changes the optimizer. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ops/element.h"
#include "optim/schedule.h"
#include "tensor/shape.h"
#include "tutti/nn.h"

#define NAME_BYTES 256

typedef struct naming {
    const char *prefix;
    char text[NAME_BYTES];
} naming;

static const char *name_of(naming *n, const char *kind, int64_t i, const char *what)
{
    if (kind == NULL)
        snprintf(n->text, sizeof n->text, "%s%s", n->prefix, what);
    else
        snprintf(n->text, sizeof n->text, "%s%s.%" PRId64 ".%s", n->prefix, kind, i, what);
    return n->text;
}

static tt_status naming_init(naming *n, const char *what, const tt_state_dict *sd,
                             const char *prefix)
{
    n->prefix = prefix != NULL ? prefix : "";
    if (sd == NULL)
        return tti_null_given(what, "a state dictionary");
    if (strlen(n->prefix) > NAME_BYTES / 2)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a prefix of at most %d characters", what,
                       NAME_BYTES / 2);
    return TT_OK;
}

/* ---- single values ---------------------------------------------------------------------------- */

static tt_status put_number(tt_state_dict *sd, const char *name, double value)
{
    TT_SCOPE {
        tt_tensor *t = tt_from_data(&value, TT_SHAPE_SCALAR, TT_F64);

        return t != NULL ? tt_state_dict_set(sd, name, t) : tt_last_status();
    }
    return TT_OK;
}

static tt_status put_text(tt_state_dict *sd, const char *name, const char *text)
{
    TT_SCOPE {
        tt_tensor *t = tt_from_data(text, TT_SHAPE((int64_t)strlen(text)), TT_U8);

        return t != NULL ? tt_state_dict_set(sd, name, t) : tt_last_status();
    }
    return TT_OK;
}

static tt_status get_number(const tt_state_dict *sd, const char *name, double *value_p)
{
    tt_tensor *t = tt_state_dict_get(sd, name);

    if (t == NULL)
        return TT_FAIL(TT_ERR_NOT_FOUND, "load: the state has no \"%s\"", name);
    if (t->dtype != TT_F64 || t->numel != 1 || t->storage == NULL)
        return TT_FAIL(TT_ERR_FORMAT, "load: expected \"%s\" to be one float64, got %s %s", name,
                       tt_dtype_name((tt_dtype)t->dtype), TTI_SHAPE_OF(t));
    return tt_copy_out_f64(t, value_p, 1);
}

/* The state must have been saved by something of this name. */
static tt_status check_kind(const tt_state_dict *sd, naming *n, const char *want)
{
    tt_tensor *t = tt_state_dict_get(sd, name_of(n, NULL, 0, "kind")), *host;
    char got[64] = "";

    if (t == NULL)
        return TT_FAIL(TT_ERR_NOT_FOUND, "load: the state has no \"%s\"", n->text);
    if (t->dtype == TT_U8 && t->n_dims == 1 && t->numel < (int64_t)sizeof got)
        TT_SCOPE {
            host = tti_host_copy(t);
            if (host == NULL)
                return tt_last_status();
            memcpy(got, tti_data(host), (size_t)t->numel);
        }
    if (strcmp(got, want) == 0)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "load: expected the state of %s, got that of %s", want,
                   got[0] != '\0' ? got : "something else");
}

/* ---- saving ------------------------------------------------------------------------------------ */

static tt_status save_group(const tt_optim *o, int64_t i, tt_state_dict *sd, naming *n)
{
    const tti_optim_group *g = &o->groups[i];

    TT_TRY(put_number(sd, name_of(n, "group", i, "n_params"), g->n_slots));
    for (int k = 0; k < o->n_numbers; k++)
        TT_TRY(put_number(sd, name_of(n, "group", i, o->ops->numbers[k]), g->numbers[k]));
    if (!isnan(g->initial_lr))
        TT_TRY(put_number(sd, name_of(n, "group", i, "initial_lr"), g->initial_lr));
    return TT_OK;
}

static tt_status save_copy(tt_state_dict *sd, const char *name, tt_tensor *t)
{
    TT_SCOPE {
        tt_tensor *copy = tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, t->device);

        if (copy == NULL)
            return tt_last_status();
        TT_TRY(tti_copy(copy, t));
        return tt_state_dict_set(sd, name, copy);
    }
    return TT_OK;
}

static tt_status save_slot(const tt_optim *o, const tt_optim_slot *slot, int64_t i,
                           tt_state_dict *sd, naming *n)
{
    const tt_tensor *p = slot->param;

    TT_SCOPE {
        tt_tensor *shape = tt_from_data(p->dims, TT_SHAPE(p->n_dims), TT_I64);

        if (shape == NULL)
            return tt_last_status();
        TT_TRY(tt_state_dict_set(sd, name_of(n, "param", i, "shape"), shape));
    }
    TT_TRY(put_number(sd, name_of(n, "param", i, "step"), (double)slot->step));
    for (int s = 0; s < o->n_states; s++)
        if (slot->state[s] != NULL)
            TT_TRY(save_copy(sd, name_of(n, "param", i, o->ops->states[s]), slot->state[s]));
    return TT_OK;
}

tt_status tt_optim_save(const tt_optim *o, tt_state_dict *sd, const char *prefix)
{
    naming n;
    int64_t at = 0;

    if (o == NULL)
        return tti_null_given("optim_save", "an optimizer");
    TT_TRY(naming_init(&n, "optim_save", sd, prefix));
    TT_TRY(put_text(sd, name_of(&n, NULL, 0, "kind"), o->ops->name));
    TT_TRY(put_number(sd, name_of(&n, NULL, 0, "n_groups"), (double)o->n_groups));
    for (size_t g = 0; g < o->n_groups; g++) {
        TT_TRY(save_group(o, (int64_t)g, sd, &n));
        for (int i = 0; i < o->groups[g].n_slots; i++)
            TT_TRY(save_slot(o, &o->groups[g].slots[i], at++, sd, &n));
    }
    return TT_OK;
}

/* ---- loading ----------------------------------------------------------------------------------- */

/* What a load will put in place: as many groups and slots as the optimizer has. */
typedef struct loaded {
    tti_optim_group *groups; /* numbers and initial_lr only */
    tt_optim_slot *slots;    /* state and step only */
    int64_t n_slots;
} loaded;

static void loaded_free(loaded *in)
{
    for (int64_t i = 0; in->slots != NULL && i < in->n_slots; i++)
        for (int s = 0; s < TT_OPTIM_STATES; s++)
            tt_tensor_free(in->slots[i].state[s]);
    tti_mfree(in->slots);
    tti_mfree(in->groups);
}

static tt_status load_group(const tt_optim *o, int64_t i, const tt_state_dict *sd, naming *n,
                            tti_optim_group *to)
{
    double n_params;

    TT_TRY(get_number(sd, name_of(n, "group", i, "n_params"), &n_params));
    if (n_params != (double)o->groups[i].n_slots)
        return TT_FAIL(TT_ERR_INVALID,
                       "optim_load: expected %d parameters in group %" PRId64 ", the state has %g",
                       o->groups[i].n_slots, i, n_params);
    for (int k = 0; k < o->n_numbers; k++)
        TT_TRY(get_number(sd, name_of(n, "group", i, o->ops->numbers[k]), &to->numbers[k]));
    if (o->ops->check != NULL)
        TT_TRY(o->ops->check(to->numbers));
    to->initial_lr = NAN;
    if (tt_state_dict_get(sd, name_of(n, "group", i, "initial_lr")) != NULL)
        TT_TRY(get_number(sd, n->text, &to->initial_lr));
    return TT_OK;
}

static tt_status check_shape(const tt_state_dict *sd, const char *name, const tt_tensor *p)
{
    tt_tensor *t = tt_state_dict_get(sd, name);
    int64_t dims[TT_MAX_DIMS];

    if (t == NULL)
        return TT_FAIL(TT_ERR_NOT_FOUND, "load: the state has no \"%s\"", name);
    if (t->dtype == TT_I64 && t->n_dims == 1 && t->numel == p->n_dims && t->storage != NULL) {
        TT_TRY(tt_copy_out_i64(t, dims, TT_MAX_DIMS));
        if (memcmp(dims, p->dims, (size_t)p->n_dims * sizeof *p->dims) == 0)
            return TT_OK;
    }
    return TT_FAIL(TT_ERR_INVALID, "optim_load: expected \"%s\" to be %s, it is that of another",
                   name, TTI_SHAPE_OF(p));
}

/* Laid out as the update functions expect it: like the parameter. */
static tt_status load_state(const tt_state_dict *sd, const char *name, const tt_tensor *p,
                            tt_tensor **to)
{
    tt_tensor *from = tt_state_dict_get(sd, name), *t;

    if (from == NULL)
        return TT_OK;
    if (from->storage == NULL || !tti_same_shape(from, p))
        return TT_FAIL(TT_ERR_INVALID, "optim_load: expected \"%s\" to be %s, got %s", name,
                       TTI_SHAPE_OF(p), TTI_SHAPE_OF(from));
    TT_SCOPE {
        t = tti_empty_like(p, (tt_dtype)p->dtype);
        if (t == NULL)
            return tt_last_status();
        TT_TRY(tti_copy(t, from));
        *to = tt_tensor_retain(t);
    }
    return TT_OK;
}

static tt_status load_slot(const tt_optim *o, const tt_optim_slot *slot, int64_t i,
                           const tt_state_dict *sd, naming *n, tt_optim_slot *to)
{
    double step;

    TT_TRY(check_shape(sd, name_of(n, "param", i, "shape"), slot->param));
    TT_TRY(get_number(sd, name_of(n, "param", i, "step"), &step));
    if (!(step >= 0 && step < 9e15))
        return TT_FAIL(TT_ERR_FORMAT, "load: expected \"%s\" to be a count, got %g", n->text, step);
    to->step = (int64_t)step;
    for (int s = 0; s < o->n_states; s++)
        TT_TRY(
            load_state(sd, name_of(n, "param", i, o->ops->states[s]), slot->param, &to->state[s]));
    return TT_OK;
}

static tt_status prepare(const tt_optim *o, const tt_state_dict *sd, naming *n, loaded *in)
{
    int64_t at = 0;
    double n_groups;

    TT_TRY(check_kind(sd, n, o->ops->name));
    TT_TRY(get_number(sd, name_of(n, NULL, 0, "n_groups"), &n_groups));
    if (n_groups != (double)o->n_groups)
        return TT_FAIL(TT_ERR_INVALID, "optim_load: expected %zu groups, the state has %g",
                       o->n_groups, n_groups);
    for (size_t g = 0; g < o->n_groups; g++)
        in->n_slots += o->groups[g].n_slots;
    in->groups = tti_calloc(o->n_groups, sizeof *in->groups);
    in->slots = tti_calloc((size_t)in->n_slots, sizeof *in->slots);
    if (in->groups == NULL || in->slots == NULL)
        return TT_ERR_NOMEM;
    for (size_t g = 0; g < o->n_groups; g++) {
        TT_TRY(load_group(o, (int64_t)g, sd, n, &in->groups[g]));
        for (int i = 0; i < o->groups[g].n_slots; i++, at++)
            TT_TRY(load_slot(o, &o->groups[g].slots[i], at, sd, n, &in->slots[at]));
    }
    return TT_OK;
}

/* Swaps, so that freeing `in` frees what was there before. */
static void commit(tt_optim *o, loaded *in)
{
    tt_optim_slot *from = in->slots;

    for (size_t g = 0; g < o->n_groups; g++) {
        memcpy(o->groups[g].numbers, in->groups[g].numbers, sizeof o->groups[g].numbers);
        o->groups[g].initial_lr = in->groups[g].initial_lr;
        for (int i = 0; i < o->groups[g].n_slots; i++, from++) {
            tt_optim_slot *to = &o->groups[g].slots[i];

            to->step = from->step;
            for (int s = 0; s < TT_OPTIM_STATES; s++) {
                tt_tensor *old = to->state[s];

                to->state[s] = from->state[s];
                from->state[s] = old;
            }
        }
    }
}

tt_status tt_optim_load(tt_optim *o, const tt_state_dict *sd, const char *prefix)
{
    loaded in = { 0 };
    tt_status st;
    naming n;

    if (o == NULL)
        return tti_null_given("optim_load", "an optimizer");
    TT_TRY(naming_init(&n, "optim_load", sd, prefix));
    st = prepare(o, sd, &n, &in);
    if (st == TT_OK)
        commit(o, &in);
    loaded_free(&in);
    return st;
}

/* ---- schedules --------------------------------------------------------------------------------- */

static void child_prefix(char *text, const naming *n, int i)
{
    snprintf(text, NAME_BYTES, "%s%d.", n->prefix, i);
}

tt_status tt_schedule_save(const tt_schedule *s, tt_state_dict *sd, const char *prefix)
{
    char below[NAME_BYTES];
    naming n;

    if (s == NULL)
        return tti_null_given("schedule_save", "a schedule");
    TT_TRY(naming_init(&n, "schedule_save", sd, prefix));
    TT_TRY(put_text(sd, name_of(&n, NULL, 0, "kind"), s->ops->name));
    TT_TRY(put_number(sd, name_of(&n, NULL, 0, "step"), (double)s->step));
    for (int i = 0; i < s->n_children; i++) {
        child_prefix(below, &n, i);
        TT_TRY(tt_schedule_save(s->children[i], sd, below));
    }
    return TT_OK;
}

tt_status tt_schedule_load(tt_schedule *s, const tt_state_dict *sd, const char *prefix)
{
    char below[NAME_BYTES];
    double step;
    naming n;

    if (s == NULL)
        return tti_null_given("schedule_load", "a schedule");
    TT_TRY(naming_init(&n, "schedule_load", sd, prefix));
    TT_TRY(check_kind(sd, &n, s->ops->name));
    TT_TRY(get_number(sd, name_of(&n, NULL, 0, "step"), &step));
    if (!(step >= 0 && step < 9e15))
        return TT_FAIL(TT_ERR_FORMAT, "load: expected \"%s\" to be a count, got %g", n.text, step);
    for (int i = 0; i < s->n_children; i++) {
        child_prefix(below, &n, i);
        TT_TRY(tt_schedule_load(s->children[i], sd, below));
    }
    s->step = (int64_t)step;
    return TT_OK;
}
