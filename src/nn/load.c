/* SPDX-License-Identifier: Apache-2.0 */
/* Loading state dictionaries: first everything is compared, then everything is copied. */
#include <string.h>

#include "nn/module.h"
#include "tensor/shape.h"
#include "tutti/ops.h"

/* How many names of each kind an error lists. */
#define LISTED 8

typedef struct name_list {
    char **items; /* NULL at the end */
    size_t n, cap;
} name_list;

typedef struct loading {
    tt_load_options opt;
    const tt_module *m;
    tt_state_dict *own;  /* what the module has */
    tt_tensor **sources; /* for each of them; NULL: missing */
    name_list missing, unexpected, mismatched;
    tti_text details; /* of mismatches */
} loading;

static tt_status add_name(name_list *list, const char *name)
{
    TT_TRY(tti_vec_reserve((void **)&list->items, &list->cap, list->n + 2, sizeof *list->items));
    list->items[list->n] = tti_strdup(name);
    if (list->items[list->n] == NULL)
        return TT_ERR_NOMEM;
    list->items[++list->n] = NULL;
    return TT_OK;
}

static void free_names(char **items)
{
    for (char **p = items; p != NULL && *p != NULL; p++)
        tti_mfree(*p);
    tti_mfree(items);
}

void tt_load_report_free(tt_load_report *r)
{
    if (r == NULL)
        return;
    free_names(r->missing);
    free_names(r->unexpected);
    free_names(r->mismatched);
    *r = (tt_load_report){ 0 };
}

/* The module's name for an entry of the dictionary; NULL: not meant for it. */
static const char *own_name(const loading *l, const char *name, char *buffer, size_t size)
{
    size_t n = l->opt.prefix != NULL ? strlen(l->opt.prefix) : 0;

    if (n > 0 && strncmp(name, l->opt.prefix, n) != 0)
        return NULL;
    name += n;
    return l->m->cls->rename != NULL ? l->m->cls->rename(l->m, name, buffer, size) : name;
}

static tt_status match(loading *l, const char *name, tt_tensor *t)
{
    for (size_t i = 0; i < l->own->n; i++) {
        tt_tensor *mine = l->own->items[i].t;

        if (strcmp(l->own->items[i].name, name) != 0)
            continue;
        if (tti_same_shape(mine, t)) {
            l->sources[i] = t;
            return TT_OK;
        }
        if (l->mismatched.n < LISTED)
            tti_text_addf(&l->details, "%s%s (expected %s, got %s)",
                          l->mismatched.n > 0 ? ", " : "", name, TTI_SHAPE_OF(mine),
                          TTI_SHAPE_OF(t));
        l->sources[i] = mine; /* not missing: keeps its value */
        return add_name(&l->mismatched, name);
    }
    return add_name(&l->unexpected, name);
}

static tt_status compare(loading *l, const tt_state_dict *sd)
{
    char buffer[256];

    for (size_t i = 0; i < sd->n; i++) {
        const char *name = own_name(l, sd->items[i].name, buffer, sizeof buffer);

        if (name != NULL)
            TT_TRY(match(l, name, sd->items[i].t));
    }
    for (size_t i = 0; i < l->own->n; i++)
        if (l->sources[i] == NULL)
            TT_TRY(add_name(&l->missing, l->own->items[i].name));
    return TT_OK;
}

static void list_names(tti_text *out, const char *title, const name_list *list)
{
    if (list->n == 0)
        return;
    tti_text_addf(out, "; %s: ", title);
    for (size_t i = 0; i < list->n && i < LISTED; i++)
        tti_text_addf(out, "%s%s", i > 0 ? ", " : "", list->items[i]);
    if (list->n > LISTED)
        tti_text_addf(out, " and %zu more", list->n - LISTED);
}

static tt_status judge(loading *l)
{
    tti_text words = { 0 };
    tt_status st;

    if (!l->opt.allow_missing)
        list_names(&words, "missing", &l->missing);
    if (!l->opt.allow_unexpected)
        list_names(&words, "unexpected", &l->unexpected);
    if (!l->opt.allow_mismatch && l->mismatched.n > 0) {
        tti_text_addf(&words, "; wrong shape: %s", tti_text_str(&l->details));
        if (l->mismatched.n > LISTED)
            tti_text_addf(&words, " and %zu more", l->mismatched.n - LISTED);
    }
    st = words.n == 0 ? words.status
                      : TT_FAIL(TT_ERR_INVALID, "load state dict into %s: %s", l->m->cls->name,
                                words.data + 2);
    tti_text_fini(&words);
    return st;
}

static tt_status copy_all(const loading *l)
{
    for (size_t i = 0; i < l->own->n; i++) {
        tt_tensor *mine = l->own->items[i].t;

        if (l->sources[i] == NULL || l->sources[i] == mine)
            continue;
        TT_SCOPE {
            TT_NO_GRAD
            {
                tt_tensor *src = tt_to_device(tt_detach(l->sources[i]), mine->device);

                if (tt_copy_(mine, src) == NULL)
                    return tt_last_status();
            }
        }
    }
    return TT_OK;
}

static void report(loading *l, tt_load_report *out)
{
    out->missing = l->missing.items;
    out->n_missing = (int)l->missing.n;
    out->unexpected = l->unexpected.items;
    out->n_unexpected = (int)l->unexpected.n;
    out->mismatched = l->mismatched.items;
    out->n_mismatched = (int)l->mismatched.n;
    l->missing = l->unexpected = l->mismatched = (name_list){ 0 };
}

static tt_status load(loading *l, const tt_state_dict *sd, tt_load_report *report_p)
{
    tt_status st;

    l->own = tt_module_state_dict(l->m);
    if (l->own == NULL)
        return tt_last_status();
    l->sources = tti_calloc(l->own->n + 1, sizeof(tt_tensor *));
    if (l->sources == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(compare(l, sd));
    st = judge(l);
    if (report_p != NULL)
        report(l, report_p);
    return st == TT_OK ? copy_all(l) : st;
}

tt_status tt_module_load_state_dict(tt_module *m, const tt_state_dict *sd,
                                    const tt_load_options *opt, tt_load_report *report_p)
{
    loading l = { .m = m };
    tt_status st;

    if (m == NULL || sd == NULL)
        return tti_null_given("load state dict", "a module and a dictionary");
    if (opt != NULL)
        l.opt = *opt;
    st = load(&l, sd, report_p);
    tt_state_dict_free(l.own);
    tti_mfree(l.sources);
    free_names(l.missing.items);
    free_names(l.unexpected.items);
    free_names(l.mismatched.items);
    tti_text_fini(&l.details);
    return st;
}
