/* SPDX-License-Identifier: Apache-2.0 */
/* Registering a hook, and calling it: the bucket as it sees it, the future it gives, its failures. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "ddp/ddp.h"
#include "ddp/hooks/hooks.h"
#include "ddp/hooks/stock.h"
#include "tutti/ops.h"

struct tti_ddp_shown {
    tt_ddp_bucket bucket;
    void *lists[]; /* grads, params, names */
};

static tti_ddp_shown *show(tt_ddp *d, tti_ddp_bucket *b)
{
    size_t n = (size_t)b->n_params;
    tti_ddp_shown *s = tti_calloc(1, sizeof *s + 3 * n * sizeof(void *));
    tt_tensor **grads, **params;
    const char **names;

    if (s == NULL)
        return NULL;
    grads = (tt_tensor **)s->lists;
    params = (tt_tensor **)(s->lists + n);
    names = (const char **)(s->lists + 2 * n);
    for (size_t i = 0; i < n; i++) {
        const tti_ddp_param *p = &d->params[b->params[i]];

        grads[i] = p->view;
        params[i] = p->t;
        names[i] = p->name;
    }
    s->bucket = (tt_ddp_bucket){ .index = (int)(b - d->buckets),
                                 .ddp = d,
                                 .pg = d->pg,
                                 .flat = b->flat,
                                 .n = b->n_params,
                                 .grads = grads,
                                 .params = params,
                                 .names = names };
    return s;
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Says whose failure the last error is; returns its status. */
static tt_status blame(const tt_ddp *d, const tti_ddp_bucket *b, const char *silent)
{
    tti_error_copy cause;
    const char *words = silent;

    tti_error_save(&cause);
    if (cause.status == TT_OK)
        cause.status = TT_ERR_INVALID;
    else
        words = cause.text;
    return TT_FAIL(cause.status, "ddp: hook \"%s\" failed for bucket %d on rank %d: %s",
                   d->hook->name, (int)(b - d->buckets), tt_pg_rank(d->pg), words);
}

/* ---- calling -------------------------------------------------------------------------------- */

/* Sparse gradients and what nobody uses do not come to hooks. */
static bool is_last(const tt_ddp *d, const tti_ddp_bucket *b)
{
    while (++b < d->buckets + d->n_buckets)
        if (b->flat != NULL && !b->skip)
            return false;
    return true;
}

tt_status tti_ddp_hook_start(tt_ddp *d, tti_ddp_bucket *b)
{
    tti_error_copy before;

    if (b->shown == NULL)
        b->shown = show(d, b);
    if (b->shown == NULL)
        return TT_ERR_NOMEM;
    b->shown->bucket.iteration = d->iteration + d->n_shadowed;
    b->shown->bucket.is_last = is_last(d, b);
    tti_error_save(&before);
    tt_clear_error();
    TT_SCOPE
        TT_NO_GRAD
        {
            b->future = d->hook->fn(d->hook->ctx, &b->shown->bucket);
        }
    if (b->future == NULL)
        return blame(d, b, "it gave no future");
    tti_error_restore(&before);
    return TT_OK;
}

static tt_status take(tti_ddp_bucket *b, const tt_value *v)
{
    tt_tensor *t = tti_hook_tensor(v);
    int64_t n = tt_tensor_numel(b->flat);

    if (t == NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "expected a tensor, or a list that begins with one, as result; got %s",
                       tt_value_kind_name(tt_value_kind_of(v)));
    if (tt_tensor_numel(t) != n)
        return TT_FAIL(TT_ERR_INVALID, "expected a result of %lld elements, got %lld", (long long)n,
                       (long long)tt_tensor_numel(t));
    if (t == b->flat)
        return TT_OK;
    return tt_copy_(b->flat, tt_reshape(t, TT_SHAPE(n))) != NULL ? TT_OK : tt_last_status();
}

tt_status tti_ddp_hook_wait(tt_ddp *d, tti_ddp_bucket *b)
{
    tt_future *f = b->future;
    tt_status st;

    if (f == NULL)
        return TT_OK;
    st = tt_future_wait(f, 0);
    if (st == TT_OK)
        TT_SCOPE
            TT_NO_GRAD
            {
                st = take(b, tt_future_value(f));
            }
    b->future = NULL;
    if (st != TT_OK)
        st = blame(d, b, "");
    tt_future_free(f);
    return st;
}

tt_status tti_ddp_hook_done(tt_ddp *d, tti_ddp_bucket *b)
{
    tt_status st = TT_OK;

    if (d->hook == NULL || d->hook->done == NULL || b->shown == NULL)
        return TT_OK;
    TT_SCOPE
        TT_NO_GRAD
        {
            st = d->hook->done(d->hook->ctx, &b->shown->bucket);
        }
    return st == TT_OK ? TT_OK : blame(d, b, "");
}

void tti_ddp_hook_forget(tti_ddp_bucket *b)
{
    tti_error_copy error;

    if (b->future != NULL) {
        tti_error_save(&error);
        if (!tt_future_done(b->future))
            tt_future_wait(b->future, tt_pg_timeout(b->shown->bucket.pg));
        tti_error_restore(&error);
        if (!tt_future_done(b->future))
            b->shown = NULL; /* somebody may still look at it */
        tt_future_free(b->future);
    }
    tti_mfree(b->shown);
    b->future = NULL;
    b->shown = NULL;
}

/* ---- registering ---------------------------------------------------------------------------- */

static void drop(tt_ddp_hook *h)
{
    if (h->free_ctx != NULL)
        h->free_ctx(h->ctx);
    tti_mfree((char *)h->name);
    tti_mfree(h);
}

void tti_ddp_hook_free(tt_ddp *d)
{
    if (d->hook != NULL)
        drop(d->hook);
    d->hook = NULL;
}

static tt_status check(const tt_ddp *d, const tt_ddp_hook *hook)
{
    if (d == NULL || hook == NULL || hook->fn == NULL)
        return tti_null_given("ddp", "a tt_ddp and a hook with a function");
    if (d->hook != NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "ddp: expected a tt_ddp without a hook, but \"%s\" is registered already",
                       d->hook->name);
    if (d->state == TTI_DDP_REDUCING)
        return TT_FAIL(TT_ERR_INVALID, "ddp: a hook cannot be registered inside of backward");
    return TT_OK;
}

static tt_status keep(tt_ddp *d, const tt_ddp_hook *hook)
{
    tt_ddp_hook *h;

    TT_TRY(check(d, hook));
    h = tti_malloc(sizeof *h);
    if (h == NULL)
        return TT_ERR_NOMEM;
    *h = *hook;
    h->name = tti_strdup(hook->name != NULL ? hook->name : "user");
    if (h->name == NULL) {
        tti_mfree(h);
        return TT_ERR_NOMEM;
    }
    d->hook = h;
    return TT_OK;
}

tt_status tt_ddp_register_hook(tt_ddp *d, const tt_ddp_hook *hook)
{
    tt_status st = keep(d, hook);
    tti_error_copy error;

    if (st == TT_OK)
        return TT_OK;
    tti_error_save(&error);
    if (hook != NULL && hook->free_ctx != NULL)
        hook->free_ctx(hook->ctx);
    tti_error_restore(&error);
    return d != NULL ? tti_ddp_note_error(d, st) : st;
}

const char *tt_ddp_hook_name(const tt_ddp *d)
{
    return d != NULL && d->hook != NULL ? d->hook->name : NULL;
}
