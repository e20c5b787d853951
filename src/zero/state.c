/* SPDX-License-Identifier: Apache-2.0 */
/* State dictionaries of the undivided optimizer: put together from the ranks' parts, and taken apart. The
 * parts are what tt_optim_save gives, with parameters numbered as if there were one rank. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "tutti/collective.h"
#include "tutti/nn.h"
#include "tutti/ops.h"
#include "zero/zero.h"

#define NAME_BYTES 384

/* Splits "param.12.exp_avg"; NULL when the name begins otherwise. */
static const char *split(const char *name, const char *kind, int64_t *i_p)
{
    size_t n = strlen(kind);
    char *end;

    if (strncmp(name, kind, n) != 0 || name[n] != '.')
        return NULL;
    *i_p = strtoll(name + n + 1, &end, 10);
    return end > name + n + 1 && *end == '.' ? end + 1 : NULL;
}

/* ---- numbers of parameters -------------------------------------------------------------------- */

/* Of this rank's parameters: their number among all, by their number among the rank's own. */
typedef struct numbering {
    int64_t *global;
    int64_t n;
} numbering;

static tt_status numbering_init(numbering *nr, const tt_zero *z)
{
    int64_t at = 0, total = 0;

    for (size_t g = 0; g < z->n_groups; g++)
        total += z->groups[g].n;
    *nr = (numbering){ .global = tti_malloc((size_t)total * sizeof *nr->global) };
    if (nr->global == NULL)
        return TT_ERR_NOMEM;
    for (size_t g = 0; g < z->n_groups; g++)
        for (int i = 0; i < z->groups[g].n; i++, at++)
            if (z->groups[g].params[i].owner == z->rank)
                nr->global[nr->n++] = at;
    return TT_OK;
}

/* ---- saving ----------------------------------------------------------------------------------- */

/* The parameters' entries of a part, renumbered: a map. */
static tt_status pack(const tt_state_dict *part, const numbering *nr, tt_value *map)
{
    char name[NAME_BYTES];

    for (int i = 0; i < tt_state_dict_count(part); i++) {
        int64_t k;
        const char *rest = split(tt_state_dict_name(part, i), "param", &k);

        if (rest == NULL || k >= nr->n)
            continue;
        snprintf(name, sizeof name, "param.%" PRId64 ".%s", nr->global[k], rest);
        TT_TRY(tt_value_map_give(map, name, tt_value_tensor_new(tt_state_dict_tensor(part, i))));
    }
    return TT_OK;
}

static tt_status put(tt_state_dict *sd, const char *prefix, const char *name, tt_tensor *t)
{
    char text[NAME_BYTES];

    snprintf(text, sizeof text, "%s%s", prefix, name);
    return tt_state_dict_set(sd, text, t);
}

static tt_status put_count(tt_state_dict *sd, const char *prefix, const char *name, int n)
{
    double value = n;

    TT_SCOPE {
        tt_tensor *t = tt_from_data(&value, TT_SHAPE_SCALAR, TT_F64);

        return t != NULL ? put(sd, prefix, name, t) : tt_last_status();
    }
    return TT_OK;
}

/* What is no parameter's: kind, numbers of groups, how many parameters those have in all. */
static tt_status put_groups(const tt_zero *z, const tt_state_dict *part, const char *prefix,
                            tt_state_dict *sd)
{
    for (int i = 0; i < tt_state_dict_count(part); i++) {
        const char *name = tt_state_dict_name(part, i), *rest;
        int64_t k;

        if (split(name, "param", &k) != NULL)
            continue;
        rest = split(name, "group", &k);
        if (rest != NULL && strcmp(rest, "n_params") == 0)
            TT_TRY(put_count(sd, prefix, name, z->groups[k].n));
        else
            TT_TRY(put(sd, prefix, name, tt_state_dict_tensor(part, i)));
    }
    return TT_OK;
}

static tt_status put_params(tt_value *const *maps, int n, const char *prefix, tt_state_dict *sd)
{
    for (int r = 0; r < n; r++) {
        if (tt_value_kind_of(maps[r]) != TT_VALUE_MAP)
            return TT_FAIL(TT_ERR_PEER, "zero_save: rank %d could not send its part", r);
        for (size_t i = 0; i < tt_value_count(maps[r]); i++) {
            tt_tensor *t = tt_value_as_tensor(tt_value_at(maps[r], i));

            if (t == NULL)
                return TT_FAIL(TT_ERR_PEER, "zero_save: rank %d sent something else than state", r);
            TT_TRY(put(sd, prefix, tt_value_name_at(maps[r], i), t));
        }
    }
    return TT_OK;
}

static tt_status gather(tt_zero *z, const tt_value *mine, tt_value **all, int root)
{
    if (root == TT_ZERO_ALL)
        return tt_pg_all_gather_object(z->pg, mine, all, NULL);
    return tt_pg_gather_object(z->pg, mine, z->rank == root ? all : NULL, root, NULL);
}

static tt_status save(tt_zero *z, const tt_state_dict *part, const tt_value *mine,
                      tt_state_dict *sd, const char *prefix, int root)
{
    tt_value **all = tti_calloc((size_t)z->size, sizeof *all);
    bool takes = root == TT_ZERO_ALL || root == z->rank;
    tt_status st = all != NULL ? gather(z, mine, all, root) : TT_ERR_NOMEM;

    if (st == TT_OK && takes && mine != NULL)
        st = put_groups(z, part, prefix, sd);
    if (st == TT_OK && takes && mine != NULL)
        st = put_params(all, z->size, prefix, sd);
    for (int r = 0; all != NULL && r < z->size; r++)
        tt_value_free(all[r]);
    tti_mfree(all);
    return st;
}

static tt_status check_save(const tt_zero *z, const tt_state_dict *sd, const char *prefix, int root)
{
    if (z == NULL)
        return tti_null_given("zero_save", "a tt_zero");
    if (root != TT_ZERO_ALL && (root < 0 || root >= z->size))
        return TT_FAIL(TT_ERR_INVALID, "zero_save: expected a rank below %d or TT_ZERO_ALL, got %d",
                       z->size, root);
    if (sd == NULL && (root == TT_ZERO_ALL || root == z->rank))
        return tti_null_given("zero_save", "a state dictionary");
    if (prefix != NULL && strlen(prefix) > NAME_BYTES / 3)
        return TT_FAIL(TT_ERR_INVALID, "zero_save: expected a prefix of at most %d characters",
                       NAME_BYTES / 3);
    return TT_OK;
}

static tt_status prepare(const tt_zero *z, tt_state_dict *part, tt_value *mine)
{
    numbering nr = { 0 };
    tt_status st = part != NULL && mine != NULL ? numbering_init(&nr, z) : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tt_optim_save(z->optim, part, NULL);
    if (st == TT_OK)
        st = pack(part, &nr, mine);
    tti_mfree(nr.global);
    return st;
}

tt_status tt_zero_save(tt_zero *z, tt_state_dict *sd, const char *prefix, int root)
{
    tti_error_copy error;
    tt_state_dict *part;
    tt_value *mine;
    tt_status st;

    TT_TRY(check_save(z, sd, prefix, root));
    part = tt_state_dict_new();
    mine = tt_value_map_new();
    st = prepare(z, part, mine);
    if (st == TT_OK) {
        st = save(z, part, mine, sd, prefix != NULL ? prefix : "", root);
    } else { /* the others wait for something */
        tti_error_save(&error);
        (void)save(z, part, NULL, sd, "", root);
        tti_error_restore(&error);
    }
    tt_state_dict_free(part);
    tt_value_free(mine);
    return st;
}

/* ---- loading ---------------------------------------------------------------------------------- */

/* This rank's number of parameter `global`; -1: another's. */
static int64_t local_of(const numbering *nr, int64_t global)
{
    int64_t low = 0, high = nr->n;

    while (low < high) {
        int64_t mid = (low + high) / 2;

        if (nr->global[mid] < global)
            low = mid + 1;
        else
            high = mid;
    }
    return low < nr->n && nr->global[low] == global ? low : -1;
}

/* How many parameters the state says a group has, and how many of them are this rank's. */
static tt_status take_count(const tt_zero *z, int64_t group, const char *name, const tt_tensor *t,
                            tt_state_dict *part)
{
    if (group < 0 || (size_t)group >= z->n_groups)
        return TT_OK; /* the number of groups is compared later */
    if (t->dtype != TT_F64 || t->numel != 1 || !tt_device_equal(t->device, TT_CPU))
        return TT_FAIL(TT_ERR_FORMAT, "zero_load: expected \"%s\" to be one float64", name);
    if (*(const double *)tti_data(t) != z->groups[group].n)
        return TT_FAIL(TT_ERR_INVALID,
                       "zero_load: expected %d parameters in group %" PRId64 ", the state has %g",
                       z->groups[group].n, group, *(const double *)tti_data(t));
    return put_count(part, "", name, tt_optim_n_params(z->optim, (int)group));
}

/* Every rank looks at all shapes, so that all refuse the same states. */
static tt_status check_shape(const tt_zero *z, int64_t global, const char *name, const tt_tensor *t)
{
    int64_t at = global;
    size_t g = 0;
    const tt_tensor *p;

    while (g < z->n_groups && at >= z->groups[g].n)
        at -= z->groups[g++].n;
    if (at < 0 || g == z->n_groups)
        return TT_OK; /* the numbers of groups and parameters are compared */
    p = z->groups[g].params[at].t;
    if (t->dtype == TT_I64 && t->numel == p->n_dims && tti_is_contiguous(t) &&
        memcmp(tti_data(t), p->dims, (size_t)p->n_dims * sizeof *p->dims) == 0)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "zero_load: \"%s\" is that of another parameter", name);
}

static tt_status take(const tt_zero *z, const numbering *nr, const char *name, tt_tensor *t,
                      tt_state_dict *part)
{
    char text[NAME_BYTES];
    const char *rest;
    int64_t i, local;

    rest = split(name, "param", &i);
    if (rest != NULL) {
        if (strcmp(rest, "shape") == 0)
            TT_TRY(check_shape(z, i, name, t));
        local = local_of(nr, i);
        if (local < 0)
            return TT_OK;
        snprintf(text, sizeof text, "param.%" PRId64 ".%s", local, rest);
        return tt_state_dict_set(part, text, t);
    }
    rest = split(name, "group", &i);
    if (rest != NULL && strcmp(rest, "n_params") == 0)
        return take_count(z, i, name, t, part);
    return tt_state_dict_set(part, name, t);
}

static tt_status take_all(const tt_zero *z, const numbering *nr, const tt_state_dict *sd,
                          const char *prefix, tt_state_dict *part)
{
    size_t n = strlen(prefix);

    for (int i = 0; i < tt_state_dict_count(sd); i++) {
        const char *name = tt_state_dict_name(sd, i);

        if (strncmp(name, prefix, n) == 0)
            TT_TRY(take(z, nr, name + n, tt_state_dict_tensor(sd, i), part));
    }
    return TT_OK;
}

tt_status tt_zero_load(tt_zero *z, const tt_state_dict *sd, const char *prefix)
{
    numbering nr = { 0 };
    tt_state_dict *part;
    tt_status st;

    if (z == NULL || sd == NULL)
        return tti_null_given("zero_load", "a tt_zero and a state dictionary");
    part = tt_state_dict_new();
    st = part != NULL ? numbering_init(&nr, z) : TT_ERR_NOMEM;
    if (st == TT_OK)
        st = take_all(z, &nr, sd, prefix != NULL ? prefix : "", part);
    if (st == TT_OK)
        st = tt_optim_load(z->optim, part, NULL);
    tti_mfree(nr.global);
    tt_state_dict_free(part);
    return st;
}
