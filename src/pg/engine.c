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
    return served != NULL && served == pg;
}

bool tti_on_some_engine(void)
{
    return served != NULL;
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
    if (tt_last_status() != TT_OK)
        tt_clear_error(); /* of an earlier work */
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

/* ---- messages ------------------------------------------------------------------------------ */

/* Whoever starts a message usually waits for it soon, and the thread that waits moves all messages on. So the engine
 * only looks every millisecond, without being told of new ones, and steps in for those that it meets a second time while
 * nobody waits. Then it sleeps until a message can move, as a waiting thread does. */
#define LOOK_EVERY_MS 1
#define LINGER 50 /* looks without a message before the thread sleeps until it is called */

static void unlink_message(tt_work *w)
{
    *w->prev_p = w->next;
    if (w->next != NULL)
        w->next->prev_p = w->prev_p;
    w->prev_p = NULL;
    w->next = NULL;
}

/* Takes the messages that are over out of the list; mu_queue is held. `left_p`: some that are met again, and nobody waits. */
static tt_work *take_ended(tt_pg *pg, bool *left_p)
{
    int64_t now = tti_now_ns();
    bool met_again = false, waited = false;
    tt_work *ended = NULL;

    for (tt_work *w = pg->messages, *next; w != NULL; w = next) {
        bool unclaimed = false;

        next = w->next;
        if (tti_message_over(w, now, &unclaimed)) {
            unlink_message(w);
            w->next = ended;
            ended = w;
            continue;
        }
        waited |= !unclaimed;
        met_again |= w->met;
        w->met = true;
    }
    *left_p = met_again && !waited;
    return ended;
}

/* Ends messages that are over, and moves the others on unless all are young or somebody waits for one; mu_queue is held, and
 * given up meanwhile. True: some are left that nobody waits for. */
static bool serve_messages(tt_pg *pg)
{
    bool left;
    tt_work *ended = take_ended(pg, &left);

    if (ended == NULL && !left)
        return false;
    pthread_mutex_unlock(&pg->mu_queue);
    if (left)
        pg->ops->p2p->progress(pg->backend);
    while (ended != NULL) {
        tt_work *w = ended;

        ended = w->next;
        w->next = NULL;
        tti_message_end(w);
        tt_work_free(w);
    }
    pthread_mutex_lock(&pg->mu_queue);
    return left;
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

/* One look after messages. `steps_in`: what the last one said. */
static bool look_after_messages(tt_pg *pg, bool steps_in)
{
    if (!steps_in)
        tti_cond_wait_until(&pg->cv_queue, &pg->mu_queue, tti_deadline(LOOK_EVERY_MS));
    if (pg->first != NULL || pg->messages == NULL || !serve_messages(pg))
        return false;
    if (pg->first == NULL)
        idle_locked(pg);
    return true;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void run_first(tt_pg *pg)
{
    tt_work *w = pg->first;

    pg->first = w->next;
    if (pg->first == NULL)
        pg->last = NULL;
    pthread_mutex_unlock(&pg->mu_queue);
    run_work(pg, w);
    pthread_mutex_lock(&pg->mu_queue);
    pthread_cond_broadcast(&pg->cv_queue);
}

static void *engine_main(void *arg)
{
    tt_pg *pg = arg;
    char name[16];
    bool steps_in = false;
    int looks = 0; /* that are left before it sleeps */

    snprintf(name, sizeof name, "tt-%.12s", pg->name);
    pthread_setname_np(pthread_self(), name);
    served = pg;
    pthread_mutex_lock(&pg->mu_queue);
    while (pg->first != NULL || pg->messages != NULL || !pg->stopping) {
        looks = pg->messages != NULL ? LINGER : looks - 1;
        if (pg->first != NULL) {
            run_first(pg);
        } else if (looks > 0) {
            steps_in = look_after_messages(pg, steps_in);
        } else {
            pg->asleep = true;
            pthread_cond_wait(&pg->cv_queue, &pg->mu_queue);
            pg->asleep = false;
        }
    }
    pthread_mutex_unlock(&pg->mu_queue);
    if (pg->orphaned)
        tti_group_destroy(pg);
    return NULL;
}

/* Starts the thread if need be; mu_queue is held. */
static tt_status start_locked(tt_pg *pg)
{
    if (!pg->has_engine) {
        TT_TRY(start_thread(pg, engine_main));
        pg->has_engine = true;
    }
    return TT_OK;
}

tt_status tti_engine_submit(tt_pg *pg, tt_work *w)
{
    pthread_mutex_lock(&pg->mu_queue);
    tt_status st = start_locked(pg);
    if (st == TT_OK) {
        pthread_cond_broadcast(&pg->cv_queue);
        if (pg->in_idle)
            pg->ops->p2p->wake(pg->backend);
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
    tt_status st = start_locked(pg);
    if (st == TT_OK) {
        if (pg->asleep)
            pthread_cond_broadcast(&pg->cv_queue);
        tti_ref(&w->refs);
        w->next = pg->messages;
        if (w->next != NULL)
            w->next->prev_p = &w->next;
        w->prev_p = &pg->messages;
        pg->messages = w;
    }
    pthread_mutex_unlock(&pg->mu_queue);
    return st;
}

bool tti_engine_unwatch(tt_pg *pg, tt_work *w)
{
    pthread_mutex_lock(&pg->mu_queue);
    bool watched = w->prev_p != NULL;
    if (watched)
        unlink_message(w);
    if (watched && pg->in_idle && pg->messages == NULL)
        pg->ops->p2p->wake(pg->backend);
    pthread_mutex_unlock(&pg->mu_queue);
    return watched;
}

void tti_engine_hurry(tt_pg *pg, tt_work *w)
{
    pthread_mutex_lock(&pg->mu_queue);
    w->met = true;
    pthread_cond_broadcast(&pg->cv_queue);
    pthread_mutex_unlock(&pg->mu_queue);
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
    if (pg->in_idle)
        pg->ops->p2p->wake(pg->backend);
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
    tt_work *on_heap = NULL; /* calls with a work are on the heap: the engine may run this one */
    tti_call *c = tti_call_open(NULL, pg, op, NULL, work_p != NULL ? work_p : &on_heap,
                                __builtin_return_address(0));
    if (c == NULL) {
        if (free_ctx != NULL)
            free_ctx(ctx);
        return tt_last_status();
    }
    c->fn = fn;
    c->ctx = ctx;
    c->free_ctx = free_ctx;
    return tti_call_submit(c, work_p);
}
