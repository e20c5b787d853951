/* SPDX-License-Identifier: Apache-2.0 */
/* The engine thread of a group: runs queued collectives in order and moves messages on while nobody
 * waits for them. Started with the first asynchronous operation. */
#include <signal.h>
#include <stdio.h>

#include "base/refcount.h"
#include "pg/call.h"

static _Thread_local tt_pg *served; /* by this thread, if it is an engine */

bool tti_on_engine(const tt_pg *pg)
{
    return served == pg;
}

/* Blocks all signals: they belong to the program's threads. */
static tt_status start_thread(tt_pg *pg, void *(*fn)(void *))
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&pg->engine, NULL, fn, pg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error == 0 ? TT_OK
                      : TT_FAIL(TT_ERR_IO, "group %s: cannot start its engine thread", pg->name);
}

static void run_work(tt_pg *pg, tt_work *w)
{
    tti_call *c = w->call;

    w->call = NULL;
    tt_status st = tti_call_run(c);
    tti_error_copy cause;
    if (st != TT_OK)
        tti_error_save(&cause);
    tti_call_drop(c);
    if (st != TT_OK)
        tti_error_restore(&cause);
    /* Before the work is done: who then calls synchronously finds the group idle. */
    atomic_fetch_sub_explicit(&pg->n_pending, 1, memory_order_release);
    tti_work_complete(w, st);
    tt_work_free(w);
}

/* Takes a message that is done out of the list and completes it; true if there was one. */
static bool finish_message(tt_pg *pg)
{
    for (tt_work **w_p = &pg->messages; *w_p != NULL; w_p = &(*w_p)->next) {
        tt_work *w = *w_p;
        bool done = atomic_load_explicit(&w->done, memory_order_acquire);
        if (!done) {
            pthread_mutex_unlock(&pg->mu_queue);
            done = tti_message_poll(w);
            pthread_mutex_lock(&pg->mu_queue);
        }
        if (!done)
            continue;
        for (w_p = &pg->messages; *w_p != w; w_p = &(*w_p)->next)
            ; /* the list may have grown at its head meanwhile */
        *w_p = w->next;
        pthread_mutex_unlock(&pg->mu_queue);
        tt_work_free(w);
        pthread_mutex_lock(&pg->mu_queue);
        return true;
    }
    return false;
}

/* Waits until a message may have moved; mu_queue is held and given back. */
static void idle_locked(tt_pg *pg)
{
    pg->in_idle = true;
    pthread_mutex_unlock(&pg->mu_queue);
    pg->ops->p2p->idle(pg->backend, tti_deadline(100));
    pthread_mutex_lock(&pg->mu_queue);
    pg->in_idle = false;
}

static void *engine_main(void *arg)
{
    tt_pg *pg = arg;
    char name[16];

    snprintf(name, sizeof name, "tt-%.12s", pg->name);
    pthread_setname_np(pthread_self(), name);
    served = pg;
    pthread_mutex_lock(&pg->mu_queue);
    for (;;) {
        tt_work *w = pg->first;
        if (w != NULL) {
            pg->first = w->next;
            if (pg->first == NULL)
                pg->last = NULL;
            pthread_mutex_unlock(&pg->mu_queue);
            run_work(pg, w);
            pthread_mutex_lock(&pg->mu_queue);
            pthread_cond_broadcast(&pg->cv_queue);
        } else if (pg->messages != NULL) {
            if (!finish_message(pg) && pg->first == NULL)
                idle_locked(pg);
        } else if (pg->stopping) {
            break;
        } else {
            pthread_cond_wait(&pg->cv_queue, &pg->mu_queue);
        }
    }
    pthread_mutex_unlock(&pg->mu_queue);
    if (pg->orphaned)
        tti_group_destroy(pg);
    return NULL;
}

/* Starts the thread if need be and tells it that there is something; mu_queue is held. */
static tt_status rouse_locked(tt_pg *pg)
{
    if (!pg->has_engine) {
        TT_TRY(start_thread(pg, engine_main));
        pg->has_engine = true;
    }
    pthread_cond_broadcast(&pg->cv_queue);
    if (pg->in_idle)
        pg->ops->p2p->wake(pg->backend);
    return TT_OK;
}

tt_status tti_engine_submit(tt_pg *pg, tt_work *w)
{
    pthread_mutex_lock(&pg->mu_queue);
    tt_status st = rouse_locked(pg);
    if (st == TT_OK) {
        tti_ref(&w->refs);
        atomic_fetch_add_explicit(&pg->n_pending, 1, memory_order_relaxed);
        w->next = NULL;
        if (pg->last != NULL)
            pg->last->next = w;
        else
            pg->first = w;
        pg->last = w;
    }
    pthread_mutex_unlock(&pg->mu_queue);
    return st;
}

tt_status tti_engine_watch(tt_pg *pg, tt_work *w)
{
    pthread_mutex_lock(&pg->mu_queue);
    tt_status st = rouse_locked(pg);
    if (st == TT_OK) {
        tti_ref(&w->refs);
        w->next = pg->messages;
        pg->messages = w;
    }
    pthread_mutex_unlock(&pg->mu_queue);
    return st;
}

bool tti_engine_stop(tt_pg *pg)
{
    if (pg->fork_id != atomic_load_explicit(&tti_fork_id, memory_order_relaxed))
        return true; /* the thread is the parent's */
    pthread_mutex_lock(&pg->mu_queue);
    bool has = pg->has_engine;
    bool self = has && pthread_equal(pg->engine, pthread_self());
    pg->stopping = true;
    pg->orphaned = self;
    pthread_cond_broadcast(&pg->cv_queue);
    pthread_mutex_unlock(&pg->mu_queue);
    if (self)
        pthread_detach(pg->engine);
    else if (has)
        pthread_join(pg->engine, NULL);
    return !self;
}

tt_status tti_pg_run_async(tt_pg *pg, const char *op, tti_pg_fn fn, void *ctx,
                           void (*free_ctx)(void *ctx), tt_work **work_p)
{
    tt_work *waited = NULL;
    tti_call *c = tti_call_open(NULL, pg, op, NULL, work_p != NULL ? work_p : &waited,
                                __builtin_return_address(0));
    if (c == NULL) {
        if (free_ctx != NULL)
            free_ctx(ctx);
        return tt_last_status();
    }
    c->fn = fn;
    c->ctx = ctx;
    c->free_ctx = free_ctx;
    if (work_p != NULL)
        return tti_call_submit(c, work_p);
    TT_TRY(tti_call_submit(c, &waited));
    tt_status st = tt_work_wait(waited, 0);
    tt_work_free(waited);
    return st;
}
