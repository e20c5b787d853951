/* SPDX-License-Identifier: Apache-2.0 */
/* Half precision around another hook: that one sees the same bucket with shorter numbers. */
#include <stdio.h>
#include <string.h>

#include "ddp/hooks/stock.h"
#include "tutti/ops.h"

/* The context of a wrapper. */
typedef struct wrapper {
    tt_ddp_hook inner;
    tt_dtype dtype;
    char name[];
} wrapper;

static void wrapper_free(void *ctx)
{
    wrapper *w = ctx;

    if (w == NULL)
        return;
    tt_ddp_hook_drop(&w->inner);
    tti_mfree(w);
}

/* One bucket on its way through. */
typedef struct passage {
    tt_ddp_bucket bucket; /* as the inner hook sees it */
    tt_tensor *flat;      /* retained: the outer one */
    tt_tensor *views[];   /* retained: bucket.grads */
} passage;

static void passage_free(passage *p)
{
    for (int i = 0; i < p->bucket.n; i++)
        tt_tensor_free(p->views[i]);
    tt_tensor_free(p->bucket.flat);
    tt_tensor_free(p->flat);
    tti_mfree(p);
}

static passage *passage_new(const tt_ddp_bucket *b, tt_dtype dtype)
{
    tt_tensor *half = tt_copy_(tt_pg_alloc(b->pg, tt_tensor_shape(b->flat), dtype), b->flat);
    passage *p;

    if (half == NULL)
        return NULL;
    p = tti_calloc(1, sizeof *p + (size_t)b->n * sizeof(tt_tensor *));
    if (p == NULL)
        return NULL;
    p->bucket = *b;
    p->bucket.flat = tt_tensor_retain(half);
    p->bucket.grads = p->views;
    p->flat = tt_tensor_retain(b->flat);
    for (int i = 0; i < b->n; i++) {
        const tt_tensor *g = b->grads[i];
        ptrdiff_t at = (const char *)tti_data(g) - (const char *)tti_data(b->flat);

        p->views[i] = tt_tensor_retain(
            tti_view_raw(half, g->dims, g->strides, g->n_dims, at / (ptrdiff_t)tti_esize(g)));
        if (p->views[i] == NULL) {
            passage_free(p);
            return NULL;
        }
    }
    return p;
}

static tt_value *come_back(void *ctx, tt_future *f)
{
    passage *p = ctx;
    tt_value *v = f != NULL ? tt_future_value(f) : NULL, *out = NULL;
    tt_tensor *t = v != NULL ? tti_hook_tensor(v) : NULL;

    if (t != NULL && tt_tensor_numel(t) == tt_tensor_numel(p->flat))
        TT_SCOPE
            TT_NO_GRAD
            {
                if (tt_copy_(p->flat, tt_reshape(t, tt_tensor_shape(p->flat))) != NULL)
                    out = tt_value_tensor_new(p->flat);
            }
    else if (v != NULL)
        TT_FAIL(TT_ERR_INVALID, "the hook inside of the wrapper gave no tensor of %lld elements",
                (long long)tt_tensor_numel(p->flat));
    passage_free(p);
    return out;
}

static tt_future *call_wrapped(void *ctx, const tt_ddp_bucket *b)
{
    wrapper *w = ctx;
    tt_dtype dtype = tt_tensor_dtype(b->flat);
    passage *p;

    if (!tt_dtype_is_floating(dtype) || dtype == w->dtype)
        return w->inner.fn(w->inner.ctx, b);
    p = passage_new(b, w->dtype);
    if (p == NULL)
        return NULL;
    return tti_hook_then(w->inner.fn(w->inner.ctx, &p->bucket), come_back, p);
}

static tt_status wrapped_done(void *ctx, const tt_ddp_bucket *b)
{
    wrapper *w = ctx;

    return w->inner.done != NULL ? w->inner.done(w->inner.ctx, b) : TT_OK;
}

static tt_status wrap(const char *kind, tt_dtype dtype, const tt_ddp_hook *given,
                      tt_ddp_hook *hook_p)
{
    tt_ddp_hook inner;
    size_t size;
    wrapper *w;

    TT_TRY(tti_hook_take_inner(kind, given, hook_p, &inner));
    size = strlen(kind) + strlen(inner.name) + 3;
    w = tti_calloc(1, sizeof *w + size);
    if (w == NULL) {
        tt_ddp_hook_drop(&inner);
        return TT_ERR_NOMEM;
    }
    snprintf(w->name, size, "%s(%s)", kind, inner.name);
    w->inner = inner;
    w->inner.name = NULL; /* it may not last */
    w->dtype = dtype;
    *hook_p = (tt_ddp_hook){ .name = w->name,
                             .fn = call_wrapped,
                             .done = inner.done != NULL ? wrapped_done : NULL,
                             .ctx = w,
                             .free_ctx = wrapper_free };
    return TT_OK;
}

tt_status tt_ddp_fp16_compress_wrapper(const tt_ddp_hook *inner, tt_ddp_hook *hook_p)
{
    return wrap("fp16_compress_wrapper", TT_F16, inner, hook_p);
}

tt_status tt_ddp_bf16_compress_wrapper(const tt_ddp_hook *inner, tt_ddp_hook *hook_p)
{
    return wrap("bf16_compress_wrapper", TT_BF16, inner, hook_p);
}
