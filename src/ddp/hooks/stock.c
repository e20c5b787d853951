/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks that need no state: the mean, the mean in half precision, nothing at all. */
#include "base/error.h"
#include "ddp/hooks/stock.h"

#include "tutti/ops.h"

/* ---- futures -------------------------------------------------------------------------------- */

tt_tensor *tti_hook_tensor(const tt_value *v)
{
    tt_value_kind kind = tt_value_kind_of(v);

    if ((kind == TT_VALUE_LIST || kind == TT_VALUE_TUPLE) && tt_value_count(v) > 0) {
        v = tt_value_at(v, 0);
        kind = tt_value_kind_of(v);
    }
    return kind == TT_VALUE_TENSOR ? tt_value_as_tensor(v) : NULL;
}

tt_future *tti_hook_future(tt_work *w)
{
    tt_future *f = tt_work_future(w);
    tti_error_copy error;

    if (f == NULL) { /* what it works on may end when we do */
        tti_error_save(&error);
        tt_work_wait(w, 0);
        tti_error_restore(&error);
    }
    tt_work_free(w);
    return f;
}

tt_future *tti_hook_mean(tt_pg *pg, tt_tensor *t)
{
    const tt_coll_options mean = { .op = TT_REDUCE_AVG };
    tt_work *w = NULL;

    if (!tt_pg_is_member(pg))
        return tti_hook_ready(t);
    return tt_pg_all_reduce(pg, t, &mean, &w) == TT_OK ? tti_hook_future(w) : NULL;
}

tt_future *tti_hook_ready(tt_tensor *t)
{
    tt_future *f = tt_future_new();
    tt_value *v = tt_value_tensor_new(t);

    if (f == NULL || v == NULL || tt_future_set(f, v) != TT_OK) {
        tt_future_free(f);
        f = NULL;
    }
    tt_value_free(v);
    return f;
}

tt_future *tti_hook_then(tt_future *f, tt_future_fn fn, void *ctx)
{
    tt_future *next = f != NULL ? tt_future_then(f, fn, ctx) : NULL;
    tti_error_copy error;

    if (next == NULL) {
        tti_error_save(&error);
        if (f != NULL)
            tt_future_wait(f, 0);
        tt_value_free(fn(ctx, NULL));
        tti_error_restore(&error);
    }
    tt_future_free(f);
    return next;
}

/* ---- hooks around others ------------------------------------------------------------------------ */

void tt_ddp_hook_drop(tt_ddp_hook *hook)
{
    if (hook == NULL)
        return;
    if (hook->free_ctx != NULL)
        hook->free_ctx(hook->ctx);
    *hook = (tt_ddp_hook){ 0 };
}

tt_status tti_hook_take_inner(const char *what, const tt_ddp_hook *inner, tt_ddp_hook *hook_p,
                              tt_ddp_hook *copy)
{
    *copy = inner != NULL ? *inner : (tt_ddp_hook){ 0 };
    if (copy->name == NULL)
        copy->name = "user";
    if (hook_p != NULL)
        *hook_p = (tt_ddp_hook){ 0 };
    if (copy->fn != NULL && hook_p != NULL)
        return TT_OK;
    tt_ddp_hook_drop(copy);
    return tti_null_given(what, "a hook with a function, and a place for the new one");
}

/* ---- the mean --------------------------------------------------------------------------------- */

tt_future *tt_ddp_allreduce_hook(void *pg, const tt_ddp_bucket *b)
{
    return tti_hook_mean(pg != NULL ? pg : b->pg, b->flat);
}

tt_future *tt_ddp_noop_hook(void *pg, const tt_ddp_bucket *b)
{
    (void)pg;
    return tti_hook_ready(b->flat);
}

/* ---- in half precision -------------------------------------------------------------------------- */

typedef struct squeezed {
    tt_tensor *flat, *half; /* retained */
} squeezed;

/* What was sent, back in the bucket's own type. */
static tt_value *unsqueeze(void *ctx, tt_future *f)
{
    squeezed *s = ctx;
    tt_value *v = NULL;

    if (f != NULL && tt_future_value(f) != NULL)
        TT_SCOPE
            TT_NO_GRAD
            {
                if (tt_copy_(s->flat, s->half) != NULL)
                    v = tt_value_tensor_new(s->flat);
            }
    tt_tensor_free(s->flat);
    tt_tensor_free(s->half);
    tti_mfree(s);
    return v;
}

static tt_future *squeeze(tt_pg *pg, const tt_ddp_bucket *b, tt_dtype dtype)
{
    tt_tensor *half;
    squeezed *s;

    if (!tt_dtype_is_floating(tt_tensor_dtype(b->flat)) || tt_tensor_dtype(b->flat) == dtype)
        return tti_hook_mean(pg, b->flat);
    half = tt_copy_(tt_pg_alloc(pg, tt_tensor_shape(b->flat), dtype), b->flat);
    s = half != NULL ? tti_malloc(sizeof *s) : NULL;
    if (s == NULL)
        return NULL;
    *s = (squeezed){ tt_tensor_retain(b->flat), tt_tensor_retain(half) };
    return tti_hook_then(tti_hook_mean(pg, half), unsqueeze, s);
}

tt_future *tt_ddp_fp16_compress_hook(void *pg, const tt_ddp_bucket *b)
{
    return squeeze(pg != NULL ? pg : b->pg, b, TT_F16);
}

tt_future *tt_ddp_bf16_compress_hook(void *pg, const tt_ddp_bucket *b)
{
    return squeeze(pg != NULL ? pg : b->pg, b, TT_BF16);
}
