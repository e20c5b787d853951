/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over a tree of modules: all modules, all parameters, all buffers, in PyTorch's order. */
#include "nn/module.h"

typedef struct walker {
    tt_module_each_fn fn;
    void *ctx;
    tti_text path;
    tti_ptr_map seen;
    bool duplicates, own;
} walker;

static tt_status visit(walker *w, tt_module *m)
{
    size_t n_path = w->path.n;
    bool found = false;

    if (!w->duplicates)
        TT_TRY(tti_ptr_map_add(&w->seen, m, NULL, &found));
    if (found)
        return TT_OK;
    TT_TRY(w->fn(w->ctx, tti_text_str(&w->path), m));
    for (size_t i = 0; !w->own && i < m->slots[TTI_CHILD].n; i++) {
        tt_module *child = tt_module_retain(m->slots[TTI_CHILD].items[i].m);
        tt_status st;

        tti_text_addf(&w->path, "%s%s", n_path > 0 ? "." : "", m->slots[TTI_CHILD].items[i].name);
        st = w->path.status;
        if (st == TT_OK)
            st = visit(w, child);
        tti_text_cut(&w->path, n_path);
        tt_module_free(child);
        TT_TRY(st);
    }
    return TT_OK;
}

static tt_status walk(walker *w, const tt_module *m, const char *prefix)
{
    tt_status st;

    if (prefix != NULL)
        tti_text_add(&w->path, prefix);
    st = w->path.status;
    if (st == TT_OK)
        st = visit(w, (tt_module *)m);
    tti_text_fini(&w->path);
    tti_ptr_map_fini(&w->seen);
    return st;
}

tt_status tt_module_each(tt_module *m, tt_module_each_fn fn, void *ctx)
{
    walker w = { .fn = fn, .ctx = ctx };

    if (m == NULL || fn == NULL)
        return tti_null_given("module each", "a module and a function");
    return walk(&w, m, NULL);
}

/* ---- children first ---------------------------------------------------------------------- */

static tt_status apply(tti_ptr_map *seen, tt_module *m, tt_module_apply_fn fn, void *ctx)
{
    bool found;

    TT_TRY(tti_ptr_map_add(seen, m, NULL, &found));
    if (found)
        return TT_OK;
    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++) {
        tt_module *child = tt_module_retain(m->slots[TTI_CHILD].items[i].m);
        tt_status st = apply(seen, child, fn, ctx);

        tt_module_free(child);
        TT_TRY(st);
    }
    return fn(ctx, m);
}

tt_status tt_module_apply(tt_module *m, tt_module_apply_fn fn, void *ctx)
{
    tti_ptr_map seen = { 0 };
    tt_status st;

    if (m == NULL || fn == NULL)
        return tti_null_given("module apply", "a module and a function");
    st = apply(&seen, m, fn, ctx);
    tti_ptr_map_fini(&seen);
    return st;
}

/* ---- named tensors ----------------------------------------------------------------------- */

typedef struct collector {
    tt_state_dict *out;
    tti_slot_kind kind;
    tti_ptr_map seen;
    bool duplicates;
} collector;

static tt_status collect(void *ctx, const char *name, tt_module *m)
{
    collector *c = ctx;
    tti_text full = { 0 };

    for (size_t i = 0; i < m->slots[c->kind].n; i++) {
        const tti_slot *s = &m->slots[c->kind].items[i];
        bool found = false;
        tt_status st = TT_OK;

        if (s->t == NULL)
            continue;
        if (!c->duplicates)
            st = tti_ptr_map_add(&c->seen, s->t, NULL, &found);
        if (st == TT_OK && !found) {
            tti_text_cut(&full, 0);
            tti_text_addf(&full, "%s%s%s", name, name[0] != '\0' ? "." : "", s->name);
            st = full.status;
            if (st == TT_OK)
                st = tti_state_dict_append(c->out, full.data, s->t);
        }
        if (st != TT_OK) {
            tti_text_fini(&full);
            return st;
        }
    }
    tti_text_fini(&full);
    return TT_OK;
}

static tt_state_dict *named(const tt_module *m, tti_slot_kind kind, const tt_named_options *opt)
{
    tt_named_options o = opt != NULL ? *opt : (tt_named_options){ 0 };
    collector c = { .kind = kind, .duplicates = o.duplicates };
    walker w = { .fn = collect, .ctx = &c, .duplicates = o.duplicates, .own = o.own };

    if (m == NULL) {
        tti_null_given("module tensors", "a module");
        return NULL;
    }
    c.out = tt_state_dict_new();
    if (c.out == NULL)
        return NULL;
    if (walk(&w, m, o.prefix) != TT_OK) {
        tt_state_dict_free(c.out);
        c.out = NULL;
    }
    tti_ptr_map_fini(&c.seen);
    return c.out;
}

tt_state_dict *tt_module_params(const tt_module *m, const tt_named_options *opt)
{
    return named(m, TTI_PARAM, opt);
}

tt_state_dict *tt_module_buffers(const tt_module *m, const tt_named_options *opt)
{
    return named(m, TTI_BUFFER, opt);
}

int64_t tt_module_count_params(const tt_module *m)
{
    tt_state_dict *all = tt_module_params(m, NULL);
    int64_t n = 0;

    for (int i = 0; i < tt_state_dict_count(all); i++)
        n += tt_tensor_numel(tt_state_dict_tensor(all, i));
    tt_state_dict_free(all);
    return n;
}
