/* SPDX-License-Identifier: Apache-2.0 */
/* Deep copies of modules, and their printed form. */
#include <string.h>

#include "nn/module.h"
#include "tensor/shape.h"
#include "tutti/ops.h"

typedef struct copier {
    tti_ptr_map modules, tensors; /* old to new */
    const tti_ptr_map *given;     /* tensors to take instead of copies; NULL: none */
} copier;

/* A copy of t that the caller owns; the same one for the same t. */
static tt_tensor *copy_tensor(copier *c, tt_tensor *t)
{
    tt_tensor *copy = tti_ptr_map_get(c->given != NULL ? c->given : &c->tensors, t);
    bool found;

    if (copy != NULL)
        return tt_tensor_retain(copy);
    if (c->given != NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "module copy: a tensor %s came in meanwhile",
                            TTI_SHAPE_OF(t));
    TT_SCOPE {
        TT_NO_GRAD
        {
            copy = tt_tensor_retain(tt_clone(t));
        }
    }
    if (copy == NULL)
        return NULL;
    if ((t->grad_fn == NULL && tti_wants_grad(t) && tt_set_requires_grad(copy, true) != TT_OK) ||
        tti_ptr_map_add(&c->tensors, t, copy, &found) != TT_OK) {
        tt_tensor_free(copy);
        return NULL;
    }
    return copy;
}

static tt_module *copy_module(copier *c, const tt_module *m);

static tt_status copy_slot(copier *c, tt_module *dst, tti_slot_kind kind, const tti_slot *s)
{
    tti_slots *list = &dst->slots[kind];
    tti_slot *d;

    TT_TRY(tti_vec_reserve((void **)&list->items, &list->cap, list->n + 1, sizeof *list->items));
    d = &list->items[list->n];
    *d = (tti_slot){ .name = tti_strdup(s->name), .temp = s->temp };
    list->n++;
    if (d->name == NULL)
        return TT_ERR_NOMEM;
    if (s->t != NULL) {
        d->t = copy_tensor(c, s->t);
        return d->t != NULL ? TT_OK : tt_last_status();
    }
    if (s->m != NULL) {
        tt_module *child = copy_module(c, s->m);

        dst->slots[kind].items[list->n - 1].m = child;
        return child != NULL ? TT_OK : tt_last_status();
    }
    return TT_OK;
}

static tt_status copy_data(tt_module *dst, const tt_module *src)
{
    if (src->cls->data_size != 0)
        memcpy(dst->data, src->data, src->cls->data_size);
    return src->cls->copy != NULL ? src->cls->copy(dst, src) : TT_OK;
}

static tt_module *copy_module(copier *c, const tt_module *m)
{
    tt_module *dst = tti_ptr_map_get(&c->modules, m);
    tt_status st;
    bool found;

    if (dst != NULL)
        return tt_module_retain(dst);
    if (m->cls->free != NULL && m->cls->copy == NULL)
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED,
                            "module copy: the class %s has `free` but no `copy`", m->cls->name);
    dst = tt_module_new(m->cls);
    if (dst == NULL)
        return NULL;
    dst->training = m->training;
    st = copy_data(dst, m);
    for (int k = 0; k < TTI_N_SLOT_KINDS; k++)
        for (size_t i = 0; st == TT_OK && i < m->slots[k].n; i++)
            st = copy_slot(c, dst, (tti_slot_kind)k, &m->slots[k].items[i]);
    if (st == TT_OK)
        st = tti_ptr_map_add(&c->modules, m, dst, &found);
    if (st != TT_OK) {
        tt_module_free(dst);
        return NULL;
    }
    return dst;
}

tt_module *tti_module_copy_with(const tt_module *m, const tti_ptr_map *tensors)
{
    copier c = { .given = tensors };
    tt_module *copy;

    if (m == NULL) {
        tti_null_given("module copy", "a module");
        return NULL;
    }
    copy = copy_module(&c, m);
    tti_ptr_map_fini(&c.modules);
    tti_ptr_map_fini(&c.tensors);
    return copy;
}

tt_module *tt_module_copy(const tt_module *m)
{
    return tti_module_copy_with(m, NULL);
}

/* ---- text -------------------------------------------------------------------------------- */

static void add_module(tti_text *out, const tt_module *m, int indent)
{
    char words[256] = "";

    if (m->cls->describe != NULL)
        m->cls->describe(m, words, sizeof words);
    tti_text_addf(out, "%s(%s", m->cls->name, words);
    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++) {
        const tti_slot *s = &m->slots[TTI_CHILD].items[i];

        if (i == 0 && words[0] != '\0')
            tti_text_add(out, ",");
        tti_text_addf(out, "\n%*s(%s): ", indent + 2, "", s->name);
        add_module(out, s->m, indent + 2);
    }
    if (m->slots[TTI_CHILD].n > 0)
        tti_text_addf(out, "\n%*s", indent, "");
    tti_text_add(out, ")");
}

char *tt_module_text(const tt_module *m)
{
    tti_text out = { 0 };

    if (m == NULL) {
        tti_null_given("module text", "a module");
        return NULL;
    }
    add_module(&out, m, 0);
    return tti_text_take(&out);
}
