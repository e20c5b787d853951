/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers inside of backward: behind a hook, bucket by bucket, or at the parameters themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ddp/ddp.h"
#include "ddp/hooks/stock.h"
#include "optim/optim.h"

/* ---- where an optimizer has a parameter ------------------------------------------------------------ */

typedef struct place {
    const tt_tensor *param;
    int group, i;
} place;

typedef struct places {
    tt_optim *opt; /* borrowed */
    place *at;     /* by address; owned */
    size_t n;
} places;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const place *)a)->param, y = (uintptr_t)((const place *)b)->param;

    return (x > y) - (x < y);
}

/* Groups may have been added since the last time. */
static tt_status know(places *ps)
{
    const tt_optim *o = ps->opt;
    size_t n = 0;

    if (ps->at != NULL && ps->n == o->n_params)
        return TT_OK;
    tti_mfree(ps->at);
    ps->at = tti_malloc((o->n_params + 1) * sizeof *ps->at);
    if (ps->at == NULL)
        return TT_ERR_NOMEM;
    for (int g = 0; g < (int)o->n_groups; g++)
        for (int i = 0; i < o->groups[g].n_slots; i++)
            ps->at[n++] = (place){ o->groups[g].slots[i].param, g, i };
    ps->n = n;
    qsort(ps->at, n, sizeof *ps->at, by_address);
    return TT_OK;
}

/* Updates a parameter, if the optimizer has it. */
static tt_status step(places *ps, const tt_tensor *param)
{
    const place key = { .param = param };
    const place *found;

    TT_TRY(know(ps));
    found = bsearch(&key, ps->at, ps->n, sizeof key, by_address);
    return found != NULL ? tti_optim_step_one(ps->opt, found->group, found->i) : TT_OK;
}

/* ---- behind a hook ------------------------------------------------------------------------------- */

typedef struct fused {
    tt_ddp_hook inner;
    places opt;
    char name[];
} fused;

static void fused_free(void *ctx)
{
    fused *f = ctx;

    tt_ddp_hook_drop(&f->inner);
    tti_mfree(f->opt.at);
    tti_mfree(f);
}

static tt_future *fused_call(void *ctx, const tt_ddp_bucket *b)
{
    fused *f = ctx;

    return f->inner.fn(f->inner.ctx, b);
}

static tt_status fused_done(void *ctx, const tt_ddp_bucket *b)
{
    fused *f = ctx;

    if (f->inner.done != NULL)
        TT_TRY(f->inner.done(f->inner.ctx, b));
    for (int i = 0; i < b->n; i++)
        TT_TRY(step(&f->opt, b->params[i]));
    return TT_OK;
}

tt_status tt_ddp_hook_with_optimizer(const tt_ddp_hook *given, tt_optim *opt, tt_ddp_hook *hook_p)
{
    tt_ddp_hook inner;
    size_t size;
    fused *f;

    TT_TRY(tti_hook_take_inner("hook_with_optimizer", given, hook_p, &inner));
    if (opt == NULL) {
        tt_ddp_hook_drop(&inner);
        return tti_null_given("hook_with_optimizer", "an optimizer");
    }
    size = strlen(inner.name) + strlen(tt_optim_name(opt)) + sizeof "hook_with_optimizer(, )";
    f = tti_calloc(1, sizeof *f + size);
    if (f == NULL) {
        tt_ddp_hook_drop(&inner);
        return TT_ERR_NOMEM;
    }
    snprintf(f->name, size, "hook_with_optimizer(%s, %s)", inner.name, tt_optim_name(opt));
    f->inner = inner;
    f->inner.name = NULL; /* it may not last */
    f->opt.opt = opt;
    *hook_p = (tt_ddp_hook){
        .name = f->name, .fn = fused_call, .done = fused_done, .ctx = f, .free_ctx = fused_free
    };
    return TT_OK;
}

/* ---- at the parameters ----------------------------------------------------------------------------- */

struct tt_in_backward {
    places opt;
    bool keep_grads;
    tt_hook **hooks; /* one per parameter */
    int n;
};

static tt_status update(tt_in_backward *b, tt_tensor *leaf)
{
    TT_TRY(step(&b->opt, leaf));
    return b->keep_grads ? TT_OK : tt_set_grad(leaf, NULL);
}

/* Whether somebody reduces the gradient of this leaf, now or in a later backward. */
static bool is_reduced(const tt_tensor *leaf)
{
    for (const tt_hook *h = leaf->meta->post_hooks; h != NULL; h = h->next)
        if (!atomic_load(&h->dead) && h->fn.leaf == tti_ddp_leaf_hook)
            return true;
    return false;
}

static tt_status leaf_hook(void *ctx, tt_tensor *leaf)
{
    return is_reduced(leaf) ? TT_OK : update(ctx, leaf);
}

bool tti_ddp_updates(const tt_tensor *leaf)
{
    for (const tt_hook *h = leaf->meta != NULL ? leaf->meta->post_hooks : NULL; h != NULL;
         h = h->next)
        if (!atomic_load(&h->dead) && h->fn.leaf == leaf_hook)
            return true;
    return false;
}

tt_status tti_ddp_update(tt_tensor *leaf)
{
    for (tt_hook *h = leaf->meta != NULL ? leaf->meta->post_hooks : NULL; h != NULL; h = h->next)
        if (!atomic_load(&h->dead) && h->fn.leaf == leaf_hook)
            TT_TRY(update(h->ctx, leaf));
    return TT_OK;
}

static tt_status attach(tt_in_backward *b)
{
    const tt_optim *o = b->opt.opt;

    b->hooks = tti_calloc(o->n_params + 1, sizeof(tt_hook *));
    if (b->hooks == NULL)
        return TT_ERR_NOMEM;
    for (size_t i = 0; i < o->n_params; i++) {
        tt_tensor *p = o->params[i];

        if (!tt_requires_grad(p))
            continue;
        if (tti_ddp_updates(p))
            return TT_FAIL(TT_ERR_INVALID,
                           "in_backward: parameter %zu has an optimizer inside of backward already",
                           i);
        b->hooks[b->n] = tt_leaf_add_post_hook(p, leaf_hook, b);
        if (b->hooks[b->n] == NULL)
            return tt_last_status();
        b->n++;
    }
    return TT_OK;
}

tt_in_backward *tt_in_backward_new(tt_optim *opt, const tt_in_backward_options *options)
{
    tt_in_backward *b;

    if (opt == NULL)
        return TT_NULL_GIVEN("in_backward", "an optimizer");
    b = tti_calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->opt.opt = opt;
    b->keep_grads = options != NULL && options->keep_grads;
    if (attach(b) == TT_OK)
        return b;
    tt_in_backward_free(b);
    return NULL;
}

void tt_in_backward_free(tt_in_backward *b)
{
    if (b == NULL)
        return;
    for (int i = 0; i < b->n; i++)
        tt_hook_remove(b->hooks[i]);
    tti_mfree(b->hooks);
    tti_mfree(b->opt.at);
    tti_mfree(b);
}
