/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads of the test's process. The main thread runs no test code: it waits for them,
 * with a limit, and puts together what they said. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "testing/testing.h"
#include "testing/world.h"

/* Seconds the other threads get to end by themselves after one has failed. */
static const double grace = 1.0;

typedef struct hook {
    void (*fn)(void *ctx);
    void *ctx;
} hook;

typedef struct seat {
    pthread_t thread;
    int rank;
    tti_rank_end end;          /* guarded by crew.lock */
    hook hooks[TTI_MAX_HOOKS]; /* guarded by crew.lock */
    int n_hooks;
} seat;

static struct {
    const tt_test *test;
    tti_world *w;
    seat *seats;
    pthread_mutex_t lock; /* held while hooks are called, so that their groups cannot go away */
    pthread_cond_t changed;
    int n_ended;
    int first; /* the first rank that failed */
} crew = { .lock = PTHREAD_MUTEX_INITIALIZER };

void tt_test_at_failure(void (*fn)(void *ctx), void *ctx)
{
    tti_rank_self self = tti_rank_get();
    seat *s;
    bool room;

    if (self.world == NULL || self.world != crew.w)
        return;
    s = &crew.seats[self.rank];
    pthread_mutex_lock(&crew.lock);
    room = s->n_hooks < TTI_MAX_HOOKS;
    if (room)
        s->hooks[s->n_hooks++] = (hook){ fn, ctx };
    pthread_mutex_unlock(&crew.lock);
    if (!room)
        tt_test_fail(__FILE__, __LINE__, "more than %d failure hooks", TTI_MAX_HOOKS);
}

/* With crew.lock held: this rank has failed or skipped; nobody should wait for it. */
static void wake_others(int rank)
{
    atomic_store(&crew.w->ending, true);
    for (int i = 0; i < crew.w->size; i++) {
        for (int k = 0; i != rank && k < crew.seats[i].n_hooks; k++)
            crew.seats[i].hooks[k].fn(crew.seats[i].hooks[k].ctx);
    }
    tti_gate_wake(crew.w);
}

static void note_end(seat *s, int code)
{
    bool decisive = code != TT_TEST_EXIT_PASS && code != TTI_EXIT_WOKEN;

    pthread_mutex_lock(&crew.lock);
    s->end = (tti_rank_end){ .ended = true, .status = code << 8 };
    s->n_hooks = 0;
    if (decisive && crew.first < 0)
        crew.first = s->rank;
    if (decisive)
        wake_others(s->rank);
    pthread_mutex_unlock(&crew.lock);
}

/* The body, after what the suite wants done in each thread. */
static void set_up_and_run(void *ctx)
{
    const tt_test_suite *suite = ctx;

    if (suite != NULL && suite->thread_set_up != NULL)
        suite->thread_set_up(suite->ctx);
    crew.test->fn(crew.test->ctx);
}

static void *be_rank(void *arg)
{
    const tt_test_suite *suite = tti_test_suite_find(crew.w->suite);
    tt_test t = *crew.test;
    seat *s = arg;
    int code;

    t.fn = set_up_and_run;
    t.ctx = (void *)(uintptr_t)suite;
    tti_rank_enter_thread(crew.w, s->rank);
    code = tti_test_guarded(&t);
    note_end(s, code);
    tti_world_end_body(code);
    if (suite != NULL && suite->thread_tear_down != NULL)
        suite->thread_tear_down(suite->ctx);
    tti_rank_enter_thread(NULL, 0);
    pthread_mutex_lock(&crew.lock);
    crew.n_ended++;
    pthread_cond_signal(&crew.changed);
    pthread_mutex_unlock(&crew.lock);
    return NULL;
}

static struct timespec time_at(double seconds)
{
    return (struct timespec){ (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
}

/* Waits until all threads have ended: false when the limit, or the grace after a failure, passes. */
static bool wait_for_all(double deadline)
{
    bool all;

    pthread_mutex_lock(&crew.lock);
    while (crew.n_ended < crew.w->size) {
        double now = tti_test_now();
        struct timespec slice;

        if (atomic_load(&crew.w->ending) && deadline > now + grace)
            deadline = now + grace;
        if (now >= deadline)
            break;
        slice = time_at(deadline < now + 0.1 ? deadline : now + 0.1);
        pthread_cond_timedwait(&crew.changed, &crew.lock, &slice);
    }
    all = crew.n_ended == crew.w->size;
    pthread_mutex_unlock(&crew.lock);
    return all;
}

static int judge(const char *why)
{
    tti_rank_end *ends = calloc((size_t)crew.w->size, sizeof *ends);
    int code = TT_TEST_EXIT_FAIL;

    if (ends == NULL) {
        tt_test_fail(__FILE__, __LINE__, "out of memory");
        return code;
    }
    pthread_mutex_lock(&crew.lock);
    for (int i = 0; i < crew.w->size; i++)
        ends[i] = crew.seats[i].end;
    pthread_mutex_unlock(&crew.lock);
    code = tti_world_judge(crew.w, ends, crew.first, why, tti_test_current);
    free(ends);
    return code;
}

/* Threads cannot be ended from outside: the process ends with them. */
static void give_up(void) __attribute__((noreturn));
static void give_up(void)
{
    char why[256], ranks[128] = "";
    size_t used = 0;

    pthread_mutex_lock(&crew.lock);
    for (int i = 0; i < crew.w->size && used < sizeof ranks; i++) {
        if (!crew.seats[i].end.ended)
            used +=
                (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%d", used ? ", " : "", i);
    }
    pthread_mutex_unlock(&crew.lock);
    if (crew.first >= 0)
        snprintf(why, sizeof why, "rank %s had not ended %g s after rank %d did", ranks, grace,
                 crew.first);
    else
        snprintf(why, sizeof why, "timed out after %g s: rank %s had not ended", crew.w->limit,
                 ranks);
    fflush(stdout);
    tti_test_stack_collect(getpid(), tti_test_current, 2);
    /* A skip whose peers wait for it is still a skip; they are where they should be. */
    tti_test_leave(judge(why));
}

static bool start_all(void)
{
    for (int i = 0; i < crew.w->size; i++) {
        int error;

        crew.seats[i].rank = i;
        error = pthread_create(&crew.seats[i].thread, NULL, be_rank, &crew.seats[i]);
        if (error != 0) {
            tt_test_fail(__FILE__, __LINE__, "rank %d cannot be started: %s", i, strerror(error));
            return false;
        }
    }
    return true;
}

int tti_threads_lead(const tt_test *t, tti_world *w)
{
    pthread_condattr_t attr;
    char text[16];
    int code;

    crew.seats = calloc((size_t)w->size, sizeof *crew.seats);
    if (crew.seats == NULL) {
        tt_test_fail(__FILE__, __LINE__, "out of memory");
        return TT_TEST_EXIT_FAIL;
    }
    crew.test = t;
    crew.w = w;
    crew.n_ended = 0;
    crew.first = -1;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&crew.changed, &attr);
    pthread_condattr_destroy(&attr);
    snprintf(text, sizeof text, "%d", w->size);
    setenv("WORLD_SIZE", text, 1);
    if (!start_all())
        tti_test_leave(TT_TEST_EXIT_FAIL); /* those that were started wait for the rest */
    if (!wait_for_all(tti_test_now() + w->limit))
        give_up();
    for (int i = 0; i < w->size; i++)
        pthread_join(crew.seats[i].thread, NULL);
    code = judge(NULL);
    pthread_cond_destroy(&crew.changed);
    free(crew.seats);
    crew.seats = NULL;
    crew.w = NULL;
    return code;
}
