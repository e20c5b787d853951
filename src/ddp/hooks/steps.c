/* SPDX-License-Identifier: Apache-2.0 */
/* Several collectives one after the other, as one function on the thread of a group. */
#include "base/error.h"
#include "base/refcount.h"
#include "ddp/hooks/stock.h"
#include "pg/pg.h"

typedef struct steps {
    atomic_int refs; /* of the call and of the future's function */
    tt_ddp_steps_fn fn;
    void *ctx;
    void (*free_ctx)(void *ctx);
    tt_value *result; /* owned */
} steps;

static void steps_free(steps *s)
{
    if (!tti_unref(&s->refs))
        return;
    tt_value_free(s->result);
    tti_mfree(s);
}

static void call_over(void *ctx)
{
    steps *s = ctx;

    if (s->free_ctx != NULL)
        s->free_ctx(s->ctx);
    steps_free(s);
}

static tt_status run(void *ctx, tt_pg *pg)
{
    steps *s = ctx;

    tt_clear_error();
    TT_SCOPE
        TT_NO_GRAD
        {
            s->result = s->fn(s->ctx, pg);
        }
    if (s->result != NULL)
        return TT_OK;
    return tt_last_status() != TT_OK ? tt_last_status()
                                     : TT_FAIL(TT_ERR_INVALID, "a function of steps gave no value");
}

static tt_value *give_result(void *ctx, tt_future *f)
{
    steps *s = ctx;
    tt_value *v = f != NULL && tt_future_value(f) != NULL ? tt_value_retain(s->result) : NULL;

    steps_free(s);
    return v;
}

static tt_status check(const tt_pg *pg, tt_ddp_steps_fn fn)
{
    TT_TRY(tti_pg_check(pg, "steps"));
    if (fn == NULL)
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a function for steps, got NULL");
    return tt_pg_is_member(pg)
               ? TT_OK
               : TT_FAIL(TT_ERR_INVALID, "steps: this process is not in group %s", tt_pg_name(pg));
}

tt_future *tt_ddp_run_steps(tt_pg *pg, tt_ddp_steps_fn fn, void *ctx, void (*free_ctx)(void *ctx))
{
    bool fine = check(pg, fn) == TT_OK;
    steps *s = fine ? tti_calloc(1, sizeof *s) : NULL;
    tt_work *w = NULL;

    if (s == NULL) {
        if (free_ctx != NULL)
            free_ctx(ctx);
        return NULL;
    }
    atomic_init(&s->refs, 2);
    s->fn = fn;
    s->ctx = ctx;
    s->free_ctx = free_ctx;
    if (tti_pg_run_async(pg, "steps", run, s, call_over, &w) != TT_OK) {
        steps_free(s);
        return NULL;
    }
    return tti_hook_then(tti_hook_future(w), give_result, s);
}
