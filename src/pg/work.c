/* SPDX-License-Identifier: Apache-2.0 */
/* Works: handles of operations under way. */
#include "pg/work.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/refcount.h"
#include "base/small.h"
#include "pg/pg.h"
#include "tutti/tensor.h"

void tti_cond_init(pthread_cond_t *cv)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cv, &attr);
    pthread_condattr_destroy(&attr);
}

bool tti_cond_wait_until(pthread_cond_t *cv, pthread_mutex_t *mu, int64_t deadline_ns)
{
    if (deadline_ns == TTI_NEVER) {
        pthread_cond_wait(cv, mu);
        return true;
    }
    struct timespec at = { deadline_ns / 1000000000, deadline_ns % 1000000000 };
    return pthread_cond_timedwait(cv, mu, &at) != ETIMEDOUT;
}

tt_work *tti_work_new(tt_pg *pg, const char *op, uint64_t seq)
{
    tt_work *w = tti_small_alloc(sizeof *w);
    if (w == NULL)
        return NULL;
    memset(w, 0, sizeof *w);
    atomic_init(&w->refs, 1);
    w->op = op;
    w->seq = seq;
    w->pg = pg;
    w->fork_id = atomic_load_explicit(&tti_fork_id, memory_order_relaxed);
    w->source = -1;
    pthread_mutex_init(&w->mu_done, NULL);
    tti_cond_init(&w->cv_done);
    return w;
}

tt_status tti_work_keep(tt_work *w, tt_tensor *const *outs, int n)
{
    if (n == 0)
        return TT_OK;
    w->outs = n == 1 ? &w->out : tti_calloc((size_t)n, sizeof *w->outs);
    if (w->outs == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        w->outs[i] = tt_tensor_retain(outs[i]);
    w->n_outs = n;
    return TT_OK;
}

tt_work *tti_work_done_new(const char *op)
{
    tt_work *w = tti_work_new(NULL, op, 0);
    if (w != NULL)
        atomic_store_explicit(&w->done, true, memory_order_release);
    return w;
}

/* The list of the outputs, for a future; NULL on failure. */
static tt_value *work_value(const tt_work *w)
{
    tt_value *list = tt_value_list_new();
    if (list == NULL)
        return NULL;
    for (int i = 0; i < w->n_outs; i++)
        if (tt_value_list_give(list, tt_value_tensor_new(w->outs[i])) != TT_OK) {
            tt_value_free(list);
            return NULL;
        }
    return list;
}

tti_error_copy *tti_failure_copy(const tti_error_copy *failure)
{
    tti_error_copy *kept = failure != NULL ? tti_malloc(sizeof *kept) : NULL;

    if (kept != NULL)
        *kept = *failure;
    return kept;
}

tti_error_copy *tti_failure_new(void)
{
    tti_error_copy now;

    tti_error_save(&now); /* the allocation may fail, and record that */
    return tti_failure_copy(&now);
}

tt_status tti_failure_report(const tti_error_copy *failure, tt_status st)
{
    if (failure == NULL)
        return TT_FAIL(st, "%s", tt_status_text(st));
    tti_error_raise(failure);
    return st;
}

static void complete_future(const tt_work *w, tt_future *f)
{
    if (w->status != TT_OK) {
        tti_future_fail_with(f, w->status, tti_failure_copy(w->failure));
        return;
    }
    tt_value *v = work_value(w);
    if (v == NULL)
        tt_future_fail(f, TT_ERR_NOMEM, "out of memory for the result of a work");
    else
        tt_future_set(f, v);
    tt_value_free(v);
}

void tti_work_complete(tt_work *w, tt_status st)
{
    if (st != TT_OK && tt_last_status() == TT_OK)
        TT_FAIL(st, "%s %llu: %s", w->op, (unsigned long long)w->seq, tt_status_text(st));
    tti_error_copy *failure = st != TT_OK ? tti_failure_new() : NULL;

    pthread_mutex_lock(&w->mu_done);
    w->status = st;
    w->failure = failure;
    w->pg = NULL;
    atomic_store_explicit(&w->done, true, memory_order_release);
    tt_future *f = tt_future_retain(w->future);
    pthread_cond_broadcast(&w->cv_done);
    pthread_mutex_unlock(&w->mu_done);

    if (f != NULL)
        complete_future(w, f);
    tt_future_free(f);
}

void tti_work_born_done(tt_work *w, tt_status st)
{
    w->failure = st != TT_OK ? tti_failure_new() : NULL;
    w->status = st;
    w->pg = NULL;
    atomic_store_explicit(&w->done, true, memory_order_release);
}

/* Whether it was under way before this process was forked: it ends in the parent only. */
static bool of_parent(const tt_work *w)
{
    return w->fork_id != atomic_load_explicit(&tti_fork_id, memory_order_relaxed);
}

bool tt_work_done(const tt_work *w)
{
    if (w == NULL || atomic_load_explicit(&w->done, memory_order_acquire))
        return true;
    tt_work *mine = (tt_work *)w;
    return mine->message && !of_parent(w) && tti_message_poll(mine);
}

/* The end of a work as this thread's status and last error. */
static tt_status report(const tt_work *w)
{
    if (w->status == TT_OK) {
        tti_error_passed();
        return TT_OK;
    }
    return tti_failure_report(w->failure, w->status);
}

static tt_status wait_done(tt_work *w, int64_t deadline_ns)
{
    bool in_time = true;

    pthread_mutex_lock(&w->mu_done);
    if (!atomic_load_explicit(&w->done, memory_order_relaxed) && tti_on_engine(w->pg)) {
        pthread_mutex_unlock(&w->mu_done);
        return TT_FAIL(
            TT_ERR_INVALID,
            "%s #%llu would never end: the thread that has to run it waits for it; call it "
            "without a work here",
            w->op, (unsigned long long)w->seq);
    }
    while (!atomic_load_explicit(&w->done, memory_order_relaxed) && in_time)
        in_time = tti_cond_wait_until(&w->cv_done, &w->mu_done, deadline_ns);
    bool done = atomic_load_explicit(&w->done, memory_order_relaxed);
    pthread_mutex_unlock(&w->mu_done);
    return done ? TT_OK : TT_ERR_TIMEOUT;
}

tt_status tt_work_wait(tt_work *w, int timeout_ms)
{
    if (w == NULL)
        return tti_null_given("work_wait", "a work");
    if (timeout_ms < 0)
        return TT_FAIL(TT_ERR_INVALID, "tt_work_wait: expected a time-out of 0 ms or more, got %d",
                       timeout_ms);
    if (!atomic_load_explicit(&w->done, memory_order_acquire)) {
        if (of_parent(w))
            return TT_FAIL(TT_ERR_INVALID,
                           "%s #%llu was begun before this process was forked; only the parent can "
                           "wait for it",
                           w->op, (unsigned long long)w->seq);
        int64_t deadline = timeout_ms == 0 ? TTI_NEVER : tti_deadline(timeout_ms);
        tt_status st = w->message ? tti_message_wait(w, deadline) : wait_done(w, deadline);
        if (st == TT_ERR_INVALID && !atomic_load_explicit(&w->done, memory_order_acquire))
            return st;
        if (st == TT_ERR_TIMEOUT && !atomic_load_explicit(&w->done, memory_order_acquire))
            return TT_FAIL(TT_ERR_TIMEOUT,
                           "%s #%llu is not done after a wait of %d ms (it goes on)", w->op,
                           (unsigned long long)w->seq, timeout_ms);
    }
    return report(w);
}

tt_status tt_work_status(const tt_work *w)
{
    return w != NULL && atomic_load_explicit(&w->done, memory_order_acquire) ? w->status : TT_OK;
}

const char *tt_work_error(const tt_work *w)
{
    if (w == NULL || !atomic_load_explicit(&w->done, memory_order_acquire) || w->status == TT_OK)
        return "";
    return w->failure != NULL ? w->failure->text : tt_status_text(w->status);
}

bool tt_work_error_info(const tt_work *w, tt_error_info *info_p)
{
    *info_p = (tt_error_info){ 0 };
    if (tt_work_status(w) == TT_OK)
        return false;
    if (w->failure != NULL)
        *info_p = w->failure->info;
    info_p->status = w->status;
    return true;
}

int tt_work_source(const tt_work *w)
{
    return w != NULL && atomic_load_explicit(&w->done, memory_order_acquire) ? w->source : -1;
}

const char *tt_work_op(const tt_work *w)
{
    return w != NULL ? w->op : "";
}

uint64_t tt_work_seq(const tt_work *w)
{
    return w != NULL ? w->seq : 0;
}

tt_future *tt_work_future(tt_work *w)
{
    if (w == NULL)
        return TT_NULL_GIVEN("work_future", "a work");
    bool done = false;

    pthread_mutex_lock(&w->mu_done);
    tt_future *made = w->future == NULL ? w->future = tt_future_new() : NULL;
    if (made != NULL)
        tti_future_ends_on(made, w->pg);
    tt_future *f = tt_future_retain(w->future);
    done = atomic_load_explicit(&w->done, memory_order_relaxed);
    pthread_mutex_unlock(&w->mu_done);
    if (done && made != NULL)
        complete_future(w, made); /* tti_work_complete has seen none */
    else if (made != NULL && w->message && !of_parent(w))
        tti_message_hurry(w);
    return f;
}

tt_work *tt_work_retain(tt_work *w)
{
    if (w != NULL)
        tti_ref(&w->refs);
    return w;
}

void tt_work_free(tt_work *w)
{
    if (w == NULL || !tti_unref(&w->refs))
        return;
    for (int i = 0; i < w->n_outs; i++)
        tt_tensor_free(w->outs[i]);
    if (w->outs != &w->out)
        tti_mfree(w->outs);
    tt_future_free(w->future);
    tti_mfree(w->failure);
    pthread_cond_destroy(&w->cv_done);
    pthread_mutex_destroy(&w->mu_done);
    tti_small_free(w, sizeof *w);
}
