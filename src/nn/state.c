/* SPDX-License-Identifier: Apache-2.0 */
/* State dictionaries: the list itself, and what a module puts into it. */
#include <string.h>

#include "nn/module.h"
#include "tensor/debug.h"

tt_state_dict *tt_state_dict_new(void)
{
    return tti_calloc(1, sizeof(tt_state_dict));
}

void tt_state_dict_free(tt_state_dict *sd)
{
    if (sd == NULL)
        return;
    for (size_t i = 0; i < sd->n; i++) {
        tti_mfree(sd->items[i].name);
        tt_tensor_free(sd->items[i].t);
    }
    tti_mfree(sd->items);
    tti_mfree(sd);
}

int tt_state_dict_count(const tt_state_dict *sd)
{
    return sd != NULL ? (int)sd->n : 0;
}

static tti_named *entry(const tt_state_dict *sd, int i)
{
    return sd != NULL && i >= 0 && (size_t)i < sd->n ? &sd->items[i] : NULL;
}

const char *tt_state_dict_name(const tt_state_dict *sd, int i)
{
    tti_named *e = entry(sd, i);

    return e != NULL ? e->name : NULL;
}

tt_tensor *tt_state_dict_tensor(const tt_state_dict *sd, int i)
{
    tti_named *e = entry(sd, i);

    return e != NULL ? e->t : NULL;
}

static tti_named *find(const tt_state_dict *sd, const char *name)
{
    for (size_t i = 0; sd != NULL && name != NULL && i < sd->n; i++)
        if (strcmp(sd->items[i].name, name) == 0)
            return &sd->items[i];
    return NULL;
}

tt_tensor *tt_state_dict_get(const tt_state_dict *sd, const char *name)
{
    tti_named *e = find(sd, name);

    return e != NULL ? e->t : NULL;
}

tt_status tti_state_dict_append(tt_state_dict *sd, const char *name, tt_tensor *t)
{
    char *copy;

    TT_TRY(tti_vec_reserve((void **)&sd->items, &sd->cap, sd->n + 1, sizeof *sd->items));
    copy = tti_strdup(name);
    if (copy == NULL)
        return TT_ERR_NOMEM;
    sd->items[sd->n++] = (tti_named){ copy, tt_tensor_retain(t) };
    return TT_OK;
}

tt_status tt_state_dict_set(tt_state_dict *sd, const char *name, tt_tensor *t)
{
    tti_named *e;
    tt_tensor *old;

    TT_TRY(tti_check_alive(t, "state dict"));
    if (sd == NULL || name == NULL || t == NULL)
        return tti_null_given("state dict", "a name and a tensor");
    e = find(sd, name);
    if (e == NULL)
        return tti_state_dict_append(sd, name, t);
    old = e->t;
    e->t = tt_tensor_retain(t);
    tt_tensor_free(old);
    return TT_OK;
}

bool tt_state_dict_remove(tt_state_dict *sd, const char *name)
{
    tti_named *e = find(sd, name);

    if (e == NULL)
        return false;
    tti_mfree(e->name);
    tt_tensor_free(e->t);
    memmove(e, e + 1, (sd->n - (size_t)(e - sd->items) - 1) * sizeof *e);
    sd->n--;
    return true;
}

/* ---- of a module ------------------------------------------------------------------------- */

static tt_status add_slots(tt_state_dict *sd, tti_text *path, const tti_slots *list)
{
    size_t n_path = path->n;

    for (size_t i = 0; i < list->n; i++) {
        tt_tensor *t = list->items[i].t;
        tt_status st;

        if (t == NULL || list->items[i].temp)
            continue;
        tti_text_add(path, list->items[i].name);
        TT_TRY(path->status);
        TT_SCOPE {
            tt_tensor *plain = tt_detach(t);

            st = plain != NULL ? tti_state_dict_append(sd, path->data, plain) : tt_last_status();
        }
        TT_TRY(st);
        tti_text_cut(path, n_path);
    }
    return TT_OK;
}

static tt_status add_module(tt_state_dict *sd, tti_text *path, const tt_module *m)
{
    size_t n_path = path->n;

    TT_TRY(add_slots(sd, path, &m->slots[TTI_PARAM]));
    TT_TRY(add_slots(sd, path, &m->slots[TTI_BUFFER]));
    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++) {
        tti_text_addf(path, "%s.", m->slots[TTI_CHILD].items[i].name);
        TT_TRY(path->status);
        TT_TRY(add_module(sd, path, m->slots[TTI_CHILD].items[i].m));
        tti_text_cut(path, n_path);
    }
    return TT_OK;
}

tt_state_dict *tt_module_state_dict(const tt_module *m)
{
    tti_text path = { 0 };
    tt_state_dict *sd;

    if (m == NULL) {
        tti_null_given("state dict", "a module");
        return NULL;
    }
    sd = tt_state_dict_new();
    if (sd != NULL && add_module(sd, &path, m) != TT_OK) {
        tt_state_dict_free(sd);
        sd = NULL;
    }
    tti_text_fini(&path);
    return sd;
}
