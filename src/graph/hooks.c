/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks: small records on a list, kept alive by the list and by the user's handle. Removing one marks
 * it dead; the list's owner frees it. */
#include "base/error.h"
#include "graph/graph.h"
#include "tensor/debug.h"

tt_hook *tti_hook_new(tt_hook **list)
{
    tt_hook *h = tti_calloc(1, sizeof *h);
    tt_hook **at;

    if (h == NULL)
        return NULL;
    atomic_init(&h->refs, 2);
    for (at = list; *at != NULL; at = &(*at)->next) {}
    *at = h;
    return h;
}

static void unref(tt_hook *h)
{
    if (atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) == 1)
        tti_mfree(h);
}

void tti_hooks_free(tt_hook **list)
{
    while (*list != NULL) {
        tt_hook *h = *list;

        *list = h->next;
        unref(h);
    }
}

void tti_hooks_purge(tt_hook **list)
{
    while (*list != NULL) {
        tt_hook *h = *list;

        if (!atomic_load(&h->dead)) {
            list = &h->next;
            continue;
        }
        *list = h->next;
        unref(h);
    }
}

void tt_hook_remove(tt_hook *h)
{
    if (h == NULL)
        return;
    atomic_store(&h->dead, true);
    unref(h);
}

static tt_status check(const char *what, const tt_tensor *t, const void *fn, bool leaf)
{
    TT_TRY(tti_check_alive(t, what));
    if (t == NULL || fn == NULL)
        return tti_null_given(what, "a tensor and a function");
    if (!tti_wants_grad(t))
        return TT_FAIL(TT_ERR_INVALID, "%s: the tensor does not require a gradient", what);
    if (leaf && t->grad_fn != NULL)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a leaf, got a result of \"%s\"", what,
                       t->grad_fn->op->name);
    return TT_OK;
}

static tt_hook *add(tt_hook **list, void *ctx)
{
    tt_hook *h = tti_hook_new(list);

    if (h != NULL)
        h->ctx = ctx;
    return h;
}

tt_hook *tt_tensor_add_hook(tt_tensor *t, tt_tensor_hook_fn fn, void *ctx)
{
    tti_grad_meta *m;
    tt_hook *h;

    if (check("tensor hook", t, (const void *)(uintptr_t)fn, false) != TT_OK)
        return NULL;
    if (t->grad_fn != NULL) {
        h = add(&t->grad_fn->hooks, ctx);
    } else {
        m = tti_meta(t);
        h = m != NULL ? add(&m->hooks, ctx) : NULL;
    }
    if (h == NULL)
        return NULL;
    h->fn.grad = fn;
    h->out_nr = t->out_nr;
    return h;
}

tt_hook *tt_leaf_add_pre_hook(tt_tensor *leaf, tt_tensor_hook_fn fn, void *ctx)
{
    tti_grad_meta *m;
    tt_hook *h;

    if (check("leaf hook", leaf, (const void *)(uintptr_t)fn, true) != TT_OK)
        return NULL;
    m = tti_meta(leaf);
    h = m != NULL ? add(&m->pre_hooks, ctx) : NULL;
    if (h != NULL)
        h->fn.grad = fn;
    return h;
}

tt_hook *tt_leaf_add_post_hook(tt_tensor *leaf, tt_leaf_hook_fn fn, void *ctx)
{
    tti_grad_meta *m;
    tt_hook *h;

    if (check("leaf hook", leaf, (const void *)(uintptr_t)fn, true) != TT_OK)
        return NULL;
    m = tti_meta(leaf);
    h = m != NULL ? add(&m->post_hooks, ctx) : NULL;
    if (h != NULL)
        h->fn.leaf = fn;
    return h;
}
