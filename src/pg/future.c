/* SPDX-License-Identifier: Apache-2.0 */
/* Futures: values that come later, chains of functions on them, and waiting for several. Functions
 * are called with no lock held, on the thread that completes. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/refcount.h"
#include "pg/pg.h"
#include "pg/work.h"
#include "tutti/work.h"

typedef struct next_step {
    void (*fn)(void *ctx, tt_future *f);
    void *ctx;
    struct next_step *next;
} next_step;

struct tt_future {
    atomic_int refs;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    atomic_bool done; /* set with mu held; status, value and error are then fixed */
    tt_status status;
    tt_value *value;
    tti_error_copy *failure;    /* NULL: none, or no memory for it */
    next_step *first, **last_p; /* mu: to be called in this order */

    /* Whose end it waits for, so that a thread can tell that it would wait for itself. The futures before it are
     * borrowed: each is taken out of the list, with mu held, when it has ended, and lives until then. */
    const tt_pg *engine; /* its engine thread ends it; only compared */
    struct tt_future **before, *one_before;
    int n_before;
};

tt_future *tt_future_new(void)
{
    tt_future *f = tti_calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    atomic_init(&f->refs, 1);
    pthread_mutex_init(&f->mu, NULL);
    tti_cond_init(&f->cv);
    f->last_p = &f->first;
    return f;
}

tt_future *tt_future_retain(tt_future *f)
{
    if (f != NULL)
        tti_ref(&f->refs);
    return f;
}

static tt_status complete(tt_future *f, tt_status st, tt_value *v, tti_error_copy *failure);

void tt_future_free(tt_future *f)
{
    if (f == NULL || !tti_unref(&f->refs))
        return;
    if (f->first != NULL) { /* nobody is left to complete it, but others wait for what follows */
        tti_ref(&f->refs);
        tt_future_fail(f, TT_ERR_ABORTED, "the future was given up");
        tt_future_free(f);
        return;
    }
    tt_value_free(f->value);
    tti_mfree(f->failure);
    if (f->before != &f->one_before)
        tti_mfree(f->before);
    pthread_cond_destroy(&f->cv);
    pthread_mutex_destroy(&f->mu);
    tti_mfree(f);
}

bool tt_future_done(const tt_future *f)
{
    return f == NULL || atomic_load_explicit(&f->done, memory_order_acquire);
}

/* Completes it; `v` (a reference) and `failure` are taken over. */
static tt_status complete(tt_future *f, tt_status st, tt_value *v, tti_error_copy *failure)
{
    pthread_mutex_lock(&f->mu);
    if (atomic_load_explicit(&f->done, memory_order_relaxed)) {
        pthread_mutex_unlock(&f->mu);
        tt_value_free(v);
        tti_mfree(failure);
        return TT_FAIL(TT_ERR_INVALID, "future: it has been completed before");
    }
    f->status = st;
    f->value = v;
    f->failure = failure;
    next_step *steps = f->first;
    f->first = NULL;
    f->last_p = &f->first;
    atomic_store_explicit(&f->done, true, memory_order_release);
    pthread_cond_broadcast(&f->cv);
    tti_ref(&f->refs); /* a step may drop the caller's reference */
    pthread_mutex_unlock(&f->mu);

    while (steps != NULL) {
        next_step *s = steps;
        steps = s->next;
        s->fn(s->ctx, f);
        tti_mfree(s);
    }
    tt_future_free(f);
    return TT_OK;
}

tt_status tt_future_set(tt_future *f, tt_value *v)
{
    if (f == NULL)
        return tti_null_given("future_set", "a future");
    tt_value *kept = v != NULL ? tt_value_retain(v) : tt_value_null_new();
    return kept != NULL ? complete(f, TT_OK, kept, NULL) : TT_ERR_NOMEM;
}

tt_status tt_future_fail(tt_future *f, tt_status st, const char *words)
{
    tti_error_copy before;

    if (f == NULL)
        return tti_null_given("future_fail", "a future");
    if (st == TT_OK)
        return TT_FAIL(TT_ERR_INVALID, "future_fail: expected a failure, got TT_OK");
    tti_error_save(&before);
    TT_FAIL(st, "%s", words != NULL ? words : tt_status_text(st));
    tti_error_copy *failure = tti_failure_new();
    tti_error_restore(&before);
    return complete(f, st, NULL, failure);
}

tt_status tti_future_fail_with(tt_future *f, tt_status st, tti_error_copy *failure)
{
    return complete(f, st, NULL, failure);
}

void tti_future_ends_on(tt_future *f, const tt_pg *pg)
{
    f->engine = pg;
}

/* Whether only this thread, the engine of a group, can end it. */
static bool ends_here(tt_future *f)
{
    bool here;

    pthread_mutex_lock(&f->mu);
    bool done = atomic_load_explicit(&f->done, memory_order_relaxed);
    here = !done && tti_on_engine(f->engine);
    for (int i = 0; !done && !here && i < f->n_before; i++)
        here = f->before[i] != NULL && ends_here(f->before[i]);
    pthread_mutex_unlock(&f->mu);
    return here;
}

/* The step that ended `before[i]` runs: it need not live any longer. */
static void forget_before(tt_future *f, int i)
{
    pthread_mutex_lock(&f->mu);
    f->before[i] = NULL;
    pthread_mutex_unlock(&f->mu);
}

tt_status tt_future_wait(tt_future *f, int timeout_ms)
{
    if (f == NULL)
        return tti_null_given("future_wait", "a future");
    if (timeout_ms < 0)
        return TT_FAIL(TT_ERR_INVALID, "future_wait: expected a time-out of 0 ms or more, got %d",
                       timeout_ms);
    if (tti_on_some_engine() && ends_here(f))
        return TT_FAIL(TT_ERR_INVALID,
                       "future_wait: the future would never be done: the thread that has to "
                       "complete it waits for it; wait on another thread, or use tt_future_then");
    int64_t deadline = timeout_ms == 0 ? TTI_NEVER : tti_deadline(timeout_ms);
    bool in_time = true;

    pthread_mutex_lock(&f->mu);
    while (!atomic_load_explicit(&f->done, memory_order_relaxed) && in_time)
        in_time = tti_cond_wait_until(&f->cv, &f->mu, deadline);
    bool done = atomic_load_explicit(&f->done, memory_order_relaxed);
    pthread_mutex_unlock(&f->mu);
    if (!done)
        return TT_FAIL(TT_ERR_TIMEOUT, "future: not done after a wait of %d ms", timeout_ms);
    if (f->status != TT_OK)
        return tti_failure_report(f->failure, f->status);
    tti_error_passed();
    return TT_OK;
}

tt_value *tt_future_value(const tt_future *f)
{
    if (f == NULL)
        return TT_NULL_GIVEN("future_value", "a future");
    if (!tt_future_done(f))
        return TT_FAIL_NULL(TT_ERR_INVALID, "future_value: it is not done yet");
    if (f->status != TT_OK)
        return (void)tti_failure_report(f->failure, f->status), NULL;
    return f->value;
}

const char *tt_future_error(const tt_future *f)
{
    if (f == NULL || !tt_future_done(f) || f->status == TT_OK)
        return "";
    return f->failure != NULL ? f->failure->text : tt_status_text(f->status);
}

/* Calls fn(ctx, f) at the end of f: now if it is done. `step` is used up. */
static void when_done(tt_future *f, next_step *step)
{
    pthread_mutex_lock(&f->mu);
    bool done = atomic_load_explicit(&f->done, memory_order_relaxed);
    if (!done) {
        *f->last_p = step;
        f->last_p = &step->next;
    }
    pthread_mutex_unlock(&f->mu);
    if (done) {
        step->fn(step->ctx, f);
        tti_mfree(step);
    }
}

/* ---- then ------------------------------------------------------------------------------ */

typedef struct then_ctx {
    tt_future_fn fn;
    void *ctx;
    tt_future *out; /* a reference */
} then_ctx;

static void run_then(void *ctx, tt_future *f)
{
    then_ctx t = *(then_ctx *)ctx;
    tti_error_copy before; /* of a program that calls tt_future_then or tt_future_set */

    tti_mfree(ctx);
    forget_before(t.out, 0);
    tti_error_save(&before);
    tt_clear_error();
    tt_value *v = t.fn(t.ctx, f);
    if (v != NULL) {
        tt_future_set(t.out, v);
    } else if (tt_last_status() != TT_OK) {
        tti_future_fail_with(t.out, tt_last_status(), tti_failure_new());
    } else {
        tt_future_fail(t.out, TT_ERR_INVALID, "the function of tt_future_then gave no value");
    }
    tti_error_restore(&before);
    tt_value_free(v);
    tt_future_free(t.out);
}

tt_future *tt_future_then(tt_future *f, tt_future_fn fn, void *ctx)
{
    if (f == NULL || fn == NULL)
        return TT_NULL_GIVEN("future_then", "a future and a function");
    tt_future *out = tt_future_new();
    then_ctx *t = tti_malloc(sizeof *t);
    next_step *step = tti_calloc(1, sizeof *step);
    if (out == NULL || t == NULL || step == NULL) {
        tt_future_free(out);
        tti_mfree(t);
        tti_mfree(step);
        return NULL;
    }
    *t = (then_ctx){ fn, ctx, tt_future_retain(out) };
    out->one_before = f;
    out->before = &out->one_before;
    out->n_before = 1;
    *step = (next_step){ run_then, t, NULL };
    when_done(f, step);
    return out;
}

/* ---- all ------------------------------------------------------------------------------- */

/* How one of them ended. It does not keep the future, which keeps it: one that is given up has to end. */
typedef struct outcome {
    struct all_ctx *all;
    tt_status status;
    tt_value *value;         /* a reference */
    tti_error_copy *failure; /* NULL: none, or no memory for it */
} outcome;

typedef struct all_ctx {
    tt_future *out;
    atomic_int left;
    int n;
    outcome of[];
} all_ctx;

static tt_value *values_of(all_ctx *a)
{
    tt_value *list = tt_value_list_new();
    for (int i = 0; list != NULL && i < a->n; i++)
        if (tt_value_list_add(list, a->of[i].value) != TT_OK) {
            tt_value_free(list);
            list = NULL;
        }
    return list;
}

static void finish_all(all_ctx *a)
{
    outcome *failed = NULL;

    for (int i = 0; i < a->n && failed == NULL; i++)
        if (a->of[i].status != TT_OK)
            failed = &a->of[i];
    if (failed != NULL) {
        tti_future_fail_with(a->out, failed->status, failed->failure);
        failed->failure = NULL;
    } else {
        tt_value *list = values_of(a);
        if (list != NULL)
            tt_future_set(a->out, list);
        else
            tt_future_fail(a->out, TT_ERR_NOMEM, "out of memory for a list of results");
        tt_value_free(list);
    }
    for (int i = 0; i < a->n; i++) {
        tt_value_free(a->of[i].value);
        tti_mfree(a->of[i].failure);
    }
    tt_future_free(a->out);
    tti_mfree(a);
}

static void drop_one(all_ctx *a)
{
    if (atomic_fetch_sub_explicit(&a->left, 1, memory_order_acq_rel) == 1)
        finish_all(a);
}

static void one_of_all(void *ctx, tt_future *f)
{
    outcome *o = ctx;

    o->status = f->status;
    o->value = tt_value_retain(f->value);
    o->failure = tti_failure_copy(f->failure);
    forget_before(o->all->out, (int)(o - o->all->of));
    drop_one(o->all);
}

static bool keep_before(tt_future *out, tt_future *const *fs, int n)
{
    out->before = tti_calloc((size_t)n + 1, sizeof(tt_future *));
    if (out->before == NULL)
        return false;
    for (int i = 0; i < n; i++)
        out->before[i] = fs[i];
    out->n_before = n;
    return true;
}

tt_future *tt_future_all(tt_future *const *fs, int n)
{
    if (n < 0 || (n > 0 && fs == NULL))
        return TT_FAIL_NULL(TT_ERR_INVALID, "future_all: expected futures");
    for (int i = 0; i < n; i++)
        if (fs[i] == NULL)
            return (void)TTI_NULL("future_all: future %d of %d is NULL", i, n), NULL;
    tt_future *out = tt_future_new();
    all_ctx *a = tti_calloc(1, sizeof *a + (size_t)n * sizeof a->of[0]);
    next_step **steps = tti_calloc((size_t)n + 1, sizeof *steps);
    bool ok = out != NULL && a != NULL && steps != NULL && keep_before(out, fs, n);
    for (int i = 0; ok && i < n; i++)
        ok = (steps[i] = tti_calloc(1, sizeof *steps[i])) != NULL;
    if (!ok) {
        for (int i = 0; steps != NULL && i < n; i++)
            tti_mfree(steps[i]);
        tti_mfree(steps);
        tti_mfree(a);
        tt_future_free(out);
        return NULL;
    }
    a->out = tt_future_retain(out);
    a->n = n;
    atomic_init(&a->left, n + 1); /* one for this function */
    for (int i = 0; i < n; i++) {
        a->of[i].all = a;
        *steps[i] = (next_step){ one_of_all, &a->of[i], NULL };
        when_done(fs[i], steps[i]);
    }
    tti_mfree(steps);
    drop_one(a);
    return out;
}
