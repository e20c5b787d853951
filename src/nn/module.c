/* SPDX-License-Identifier: Apache-2.0 */
/* Making and freeing modules, and registering what they hold. */
#include <string.h>

#include "nn/module.h"
#include "tensor/debug.h"

tt_tensor *tti_scope_keep(tt_tensor *t)
{
    return tti_scope_add(tt_tensor_retain(t));
}

tt_module *tt_module_new(const tt_module_class *cls)
{
    tt_module *m;

    if (cls == NULL || cls->name == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "module: a class needs a name");
    for (size_t i = 0; i < sizeof cls->reserved / sizeof cls->reserved[0]; i++)
        if (cls->reserved[i] != NULL)
            return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "module %s: a class newer than this library",
                                cls->name);
    m = tti_calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    atomic_init(&m->refs, 1);
    m->training = true;
    if (cls->data_size != 0) {
        m->data = tti_calloc(1, cls->data_size);
        if (m->data == NULL) {
            tti_mfree(m);
            return NULL;
        }
    }
    m->cls = cls;
    return m;
}

tt_module *tt_module_retain(tt_module *m)
{
    if (m != NULL)
        atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void tti_slot_fini(tti_slot *s)
{
    tti_mfree(s->name);
    tt_tensor_free(s->t);
    tt_module_free(s->m);
}

void tt_module_free(tt_module *m)
{
    if (m == NULL || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (m->cls->free != NULL)
        m->cls->free(m);
    for (int k = 0; k < TTI_N_SLOT_KINDS; k++) {
        for (size_t i = 0; i < m->slots[k].n; i++)
            tti_slot_fini(&m->slots[k].items[i]);
        tti_mfree(m->slots[k].items);
    }
    tti_hooks_free(&m->pre_hooks);
    tti_hooks_free(&m->hooks);
    tti_hooks_free(&m->back_pre_hooks);
    tti_hooks_free(&m->back_hooks);
    tti_mfree(m->data);
    tti_mfree(m);
}

const tt_module_class *tt_module_class_of(const tt_module *m)
{
    return m != NULL ? m->cls : NULL;
}

void *tt_module_data(const tt_module *m, const tt_module_class *cls)
{
    if (m == NULL || cls == NULL) {
        tti_null_given("module data", "a module and a class");
        return NULL;
    }
    if (m->cls != cls)
        return TT_FAIL_NULL(TT_ERR_INVALID, "module data: expected a %s, got a %s", cls->name,
                            m->cls->name);
    return m->data;
}

/* ---- registering ------------------------------------------------------------------------- */

static tt_status check_name(const tt_module *m, const char *name)
{
    if (m == NULL)
        return tti_null_given("module", "a module");
    if (name == NULL || name[0] == '\0' || strchr(name, '.') != NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "module %s: expected a name without dots, not empty, got \"%s\"",
                       m->cls->name, name != NULL ? name : "NULL");
    if (tti_slot_find(m, name, NULL) != NULL)
        return TT_FAIL(TT_ERR_INVALID, "module %s: the name \"%s\" is used already", m->cls->name,
                       name);
    return TT_OK;
}

/* A new slot at the end, with nothing in it yet. */
static tti_slot *slot_new(tt_module *m, tti_slot_kind kind, const char *name)
{
    tti_slots *list = &m->slots[kind];
    char *copy;

    if (tti_vec_reserve((void **)&list->items, &list->cap, list->n + 1, sizeof *list->items) !=
        TT_OK)
        return NULL;
    copy = tti_strdup(name);
    if (copy == NULL)
        return NULL;
    list->items[list->n] = (tti_slot){ .name = copy };
    return &list->items[list->n++];
}

static tt_status add_tensor(tt_module *m, tti_slot_kind kind, const char *name, tt_tensor *t)
{
    tti_slot *s;

    TT_TRY(check_name(m, name));
    TT_TRY(tti_check_alive(t, m->cls->name));
    if (t == NULL)
        return tti_null_given(m->cls->name, "a tensor");
    s = slot_new(m, kind, name);
    if (s == NULL)
        return TT_ERR_NOMEM;
    s->t = tt_tensor_retain(t);
    return TT_OK;
}

tt_status tt_module_add_param(tt_module *m, const char *name, tt_tensor *t)
{
    if (t != NULL && t->grad_fn != NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "module: parameter \"%s\" must be a leaf, but is a result of \"%s\"",
                       name != NULL ? name : "NULL", t->grad_fn->op->name);
    TT_TRY(add_tensor(m, TTI_PARAM, name, t));
    if (tt_dtype_is_floating((tt_dtype)t->dtype) || tt_dtype_is_complex((tt_dtype)t->dtype))
        return tt_set_requires_grad(t, true);
    return TT_OK;
}

tt_status tt_module_add_buffer(tt_module *m, const char *name, tt_tensor *t)
{
    return add_tensor(m, TTI_BUFFER, name, t);
}

tt_status tt_module_add_temp_buffer(tt_module *m, const char *name, tt_tensor *t)
{
    TT_TRY(add_tensor(m, TTI_BUFFER, name, t));
    m->slots[TTI_BUFFER].items[m->slots[TTI_BUFFER].n - 1].temp = true;
    return TT_OK;
}

static tt_status add_nothing(tt_module *m, tti_slot_kind kind, const char *name)
{
    TT_TRY(check_name(m, name));
    return slot_new(m, kind, name) != NULL ? TT_OK : TT_ERR_NOMEM;
}

tt_status tt_module_add_no_param(tt_module *m, const char *name)
{
    return add_nothing(m, TTI_PARAM, name);
}

tt_status tt_module_add_no_buffer(tt_module *m, const char *name)
{
    return add_nothing(m, TTI_BUFFER, name);
}

static bool contains(const tt_module *m, const tt_module *wanted)
{
    if (m == wanted)
        return true;
    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++)
        if (contains(m->slots[TTI_CHILD].items[i].m, wanted))
            return true;
    return false;
}

static tt_status check_child(const tt_module *m, const tt_module *child)
{
    if (child == NULL)
        return tti_null_given(m->cls->name, "a child");
    if (contains(child, m))
        return TT_FAIL(TT_ERR_INVALID, "module %s: a module cannot be below itself", m->cls->name);
    return TT_OK;
}

tt_status tt_module_add_child(tt_module *m, const char *name, tt_module *child)
{
    tti_slot *s;

    TT_TRY(check_name(m, name));
    TT_TRY(check_child(m, child));
    s = slot_new(m, TTI_CHILD, name);
    if (s == NULL)
        return TT_ERR_NOMEM;
    s->m = tt_module_retain(child);
    return TT_OK;
}

tt_status tt_module_give_child(tt_module *m, const char *name, tt_module *child)
{
    tt_status st = tt_module_add_child(m, name, child);

    tt_module_free(child);
    return st;
}

/* ---- replacing --------------------------------------------------------------------------- */

static tt_status resolve_kind(tt_module *m, const char *name, tti_slot_kind kind, tti_slot **slot_p,
                              tt_module **owner_p)
{
    static const char *const words[] = { "parameter", "buffer", "child" };
    tti_slot_kind found;

    *slot_p = tti_slot_resolve(m, name, &found, owner_p);
    if (*slot_p == NULL)
        return tt_last_status();
    if (found != kind)
        return TT_FAIL(TT_ERR_INVALID, "module %s: \"%s\" is a %s, not a %s", m->cls->name, name,
                       words[found], words[kind]);
    return TT_OK;
}

static tt_status set_tensor(tt_module *m, tti_slot_kind kind, const char *name, tt_tensor *t)
{
    tti_slot *s;
    tt_tensor *old;

    TT_TRY(resolve_kind(m, name, kind, &s, NULL));
    TT_TRY(tti_check_alive(t, m->cls->name));
    old = s->t;
    s->t = tt_tensor_retain(t);
    tt_tensor_free(old);
    return TT_OK;
}

tt_status tt_module_set_param(tt_module *m, const char *name, tt_tensor *t)
{
    return set_tensor(m, TTI_PARAM, name, t);
}

tt_status tt_module_set_buffer(tt_module *m, const char *name, tt_tensor *t)
{
    return set_tensor(m, TTI_BUFFER, name, t);
}

tt_status tt_module_set_child(tt_module *m, const char *name, tt_module *child)
{
    tt_module *owner, *old;
    tti_slot *s;

    TT_TRY(resolve_kind(m, name, TTI_CHILD, &s, &owner));
    TT_TRY(check_child(owner, child));
    old = s->m;
    s->m = tt_module_retain(child);
    tt_module_free(old);
    return TT_OK;
}

tt_status tt_module_remove(tt_module *m, const char *name)
{
    tt_module *owner;
    tti_slot_kind kind;
    tti_slot *s = tti_slot_resolve(m, name, &kind, &owner);
    tti_slots *list;
    tti_slot gone;
    size_t at;

    if (s == NULL)
        return tt_last_status();
    list = &owner->slots[kind];
    at = (size_t)(s - list->items);
    gone = *s;
    memmove(s, s + 1, (list->n - at - 1) * sizeof *s);
    list->n--;
    tti_slot_fini(&gone);
    return TT_OK;
}
