/* SPDX-License-Identifier: Apache-2.0 */
/* Finding what a module holds, by dotted name or by position. */
#include <string.h>

#include "nn/module.h"

/* The slot in m whose name is the first n characters of `name`. */
static tti_slot *find_n(const tt_module *m, const char *name, size_t n, tti_slot_kind *kind_p)
{
    for (int k = 0; k < TTI_N_SLOT_KINDS; k++) {
        const tti_slots *list = &m->slots[k];

        for (size_t i = 0; i < list->n; i++)
            if (strncmp(list->items[i].name, name, n) == 0 && list->items[i].name[n] == '\0') {
                if (kind_p != NULL)
                    *kind_p = (tti_slot_kind)k;
                return &list->items[i];
            }
    }
    return NULL;
}

tti_slot *tti_slot_find(const tt_module *m, const char *name, tti_slot_kind *kind_p)
{
    return find_n(m, name, strlen(name), kind_p);
}

/* As tti_slot_resolve, without recording. */
static tti_slot *look(const tt_module *m, const char *dotted, tti_slot_kind *kind_p,
                      tt_module **owner_p)
{
    const char *dot = strchr(dotted, '.');
    tti_slot_kind kind;
    tti_slot *s;

    while (dot != NULL) {
        s = find_n(m, dotted, (size_t)(dot - dotted), &kind);
        if (s == NULL || kind != TTI_CHILD)
            return NULL;
        m = s->m;
        dotted = dot + 1;
        dot = strchr(dotted, '.');
    }
    if (owner_p != NULL)
        *owner_p = (tt_module *)m;
    return tti_slot_find(m, dotted, kind_p);
}

tti_slot *tti_slot_resolve(const tt_module *m, const char *dotted, tti_slot_kind *kind_p,
                           tt_module **owner_p)
{
    tti_slot *s;

    if (m == NULL || dotted == NULL) {
        tti_null_given("module look-up", "a module and a name");
        return NULL;
    }
    s = look(m, dotted, kind_p, owner_p);
    if (s == NULL)
        return TT_FAIL_NULL(TT_ERR_NOT_FOUND, "module %s: there is no \"%s\"", m->cls->name,
                            dotted);
    return s;
}

static tti_slot *resolve_kind(const tt_module *m, const char *name, tti_slot_kind kind)
{
    static const char *const words[] = { "parameter", "buffer", "child" };
    tti_slot_kind found;
    tti_slot *s = tti_slot_resolve(m, name, &found, NULL);

    if (s != NULL && found != kind)
        return TT_FAIL_NULL(TT_ERR_NOT_FOUND, "module %s: \"%s\" is a %s, not a %s", m->cls->name,
                            name, words[found], words[kind]);
    return s;
}

tt_tensor *tt_module_param(const tt_module *m, const char *name)
{
    tti_slot *s = resolve_kind(m, name, TTI_PARAM);

    return s != NULL ? s->t : NULL;
}

tt_tensor *tt_module_buffer(const tt_module *m, const char *name)
{
    tti_slot *s = resolve_kind(m, name, TTI_BUFFER);

    return s != NULL ? s->t : NULL;
}

tt_module *tt_module_child(const tt_module *m, const char *name)
{
    tti_slot *s;

    if (m != NULL && name != NULL && name[0] == '\0')
        return (tt_module *)m;
    s = resolve_kind(m, name, TTI_CHILD);
    return s != NULL ? s->m : NULL;
}

bool tt_module_has(const tt_module *m, const char *name)
{
    return m != NULL && name != NULL && look(m, name, NULL, NULL) != NULL;
}

/* ---- by position ------------------------------------------------------------------------- */

static tti_slot *slot_at(const tt_module *m, tti_slot_kind kind, int i)
{
    if (m == NULL || i < 0 || (size_t)i >= m->slots[kind].n)
        return NULL;
    return &m->slots[kind].items[i];
}

int tt_module_n_own_params(const tt_module *m)
{
    return m != NULL ? (int)m->slots[TTI_PARAM].n : 0;
}

int tt_module_n_own_buffers(const tt_module *m)
{
    return m != NULL ? (int)m->slots[TTI_BUFFER].n : 0;
}

int tt_module_n_children(const tt_module *m)
{
    return m != NULL ? (int)m->slots[TTI_CHILD].n : 0;
}

tt_tensor *tt_module_param_at(const tt_module *m, int i)
{
    tti_slot *s = slot_at(m, TTI_PARAM, i);

    return s != NULL ? s->t : NULL;
}

tt_tensor *tt_module_buffer_at(const tt_module *m, int i)
{
    tti_slot *s = slot_at(m, TTI_BUFFER, i);

    return s != NULL ? s->t : NULL;
}

tt_module *tt_module_child_at(const tt_module *m, int i)
{
    tti_slot *s = slot_at(m, TTI_CHILD, i);

    return s != NULL ? s->m : NULL;
}

const char *tt_module_child_name_at(const tt_module *m, int i)
{
    tti_slot *s = slot_at(m, TTI_CHILD, i);

    return s != NULL ? s->name : NULL;
}
