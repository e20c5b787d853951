/* SPDX-License-Identifier: Apache-2.0 */
/* Calling a module with other tensors in place of its own, which come back whatever happens. */
#include "nn/module.h"
#include "tensor/debug.h"

typedef struct swap {
    tt_module *owner; /* retained */
    tti_slot_kind kind;
    size_t at;
    tt_tensor *original; /* owned while swapped */
} swap;

typedef struct swaps {
    swap *items;
    size_t n, cap;
} swaps;

static tt_status put(swaps *all, tt_module *owner, tti_slot_kind kind, size_t at, tt_tensor *t)
{
    tti_slot *s = &owner->slots[kind].items[at];

    TT_TRY(tti_vec_reserve((void **)&all->items, &all->cap, all->n + 1, sizeof *all->items));
    all->items[all->n++] = (swap){ tt_module_retain(owner), kind, at, s->t };
    s->t = tt_tensor_retain(t);
    return TT_OK;
}

static bool swapped(const swaps *all, const tt_module *owner, int kind, size_t at)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].owner == owner && (int)all->items[i].kind == kind &&
            all->items[i].at == at)
            return true;
    return false;
}

/* Give every slot below m that holds `original` the tensor t. */
static tt_status put_shared(swaps *all, tt_module *m, const tt_tensor *original, tt_tensor *t)
{
    for (int k = TTI_PARAM; k <= TTI_BUFFER; k++)
        for (size_t i = 0; i < m->slots[k].n; i++)
            if (m->slots[k].items[i].t == original && !swapped(all, m, k, i))
                TT_TRY(put(all, m, (tti_slot_kind)k, i, t));
    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++)
        TT_TRY(put_shared(all, m->slots[TTI_CHILD].items[i].m, original, t));
    return TT_OK;
}

static void restore(swaps *all)
{
    while (all->n > 0) {
        swap *s = &all->items[--all->n];
        tti_slots *list = &s->owner->slots[s->kind];

        if (s->at < list->n) {
            tt_tensor_free(list->items[s->at].t);
            list->items[s->at].t = s->original;
        } else { /* the slot was removed meanwhile */
            tt_tensor_free(s->original);
        }
        tt_module_free(s->owner);
    }
    tti_mfree(all->items);
}

static tt_status check_names(tt_module *m, const char *const *names, tt_tensor *const *tensors,
                             int n)
{
    tti_text unknown = { 0 };
    tt_status st = TT_OK;

    for (int i = 0; i < n; i++) {
        tti_slot_kind kind;

        if (tti_check_alive(tensors[i], "functional call") != TT_OK)
            st = tt_last_status();
        else if (tensors[i] == NULL || names[i] == NULL)
            st = tti_null_given("functional call", "a name and a tensor");
        else if (!tt_module_has(m, names[i]) ||
                 tti_slot_resolve(m, names[i], &kind, NULL) == NULL || kind == TTI_CHILD)
            tti_text_addf(&unknown, "%s\"%s\"", unknown.n > 0 ? ", " : "", names[i]);
    }
    if (st == TT_OK && unknown.n > 0)
        st = TT_FAIL(TT_ERR_NOT_FOUND,
                     "functional call: module %s has no parameters or buffers called %s",
                     m->cls->name, tti_text_str(&unknown));
    tti_text_fini(&unknown);
    return st;
}

static tt_status put_all(swaps *all, tt_module *m, const char *const *names,
                         tt_tensor *const *tensors, int n)
{
    TT_TRY(check_names(m, names, tensors, n));
    for (int i = 0; i < n; i++) {
        tti_slot_kind kind;
        tt_module *owner;
        tti_slot *s = tti_slot_resolve(m, names[i], &kind, &owner);
        size_t at = (size_t)(s - owner->slots[kind].items);

        if (swapped(all, owner, (int)kind, at))
            continue;
        if (s->t != NULL)
            TT_TRY(put_shared(all, m, s->t, tensors[i]));
        else
            TT_TRY(put(all, owner, kind, at, tensors[i]));
    }
    return TT_OK;
}

tt_tensor *tt_module_functional_call(tt_module *m, const char *const *names,
                                     tt_tensor *const *tensors, int n, tt_tensor *x)
{
    swaps all = { 0 };
    tt_tensor *y = NULL;

    if (m == NULL || x == NULL) {
        tti_null_given("functional call", "a module and an input");
        return NULL;
    }
    if (put_all(&all, m, names, tensors, n) == TT_OK)
        y = tt_module_forward(m, x);
    restore(&all);
    return y;
}

tt_value *tt_module_functional_call_value(tt_module *m, const char *const *names,
                                          tt_tensor *const *tensors, int n, tt_value *in)
{
    swaps all = { 0 };
    tt_value *out = NULL;

    if (m == NULL || in == NULL) {
        tti_null_given("functional call", "a module and an input");
        return NULL;
    }
    if (put_all(&all, m, names, tensors, n) == TT_OK)
        out = tt_module_call(m, in);
    restore(&all);
    return out;
}
