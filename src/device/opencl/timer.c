/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that does things at a time and then completes a user event, on which a queue waits. That makes
 * queues sleep, and lets them call host functions on devices that cannot do so themselves. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/opencl/cl.h"

typedef struct job {
    struct job *next; /* sorted by time */
    int64_t at;
    void (*fn)(void *arg);
    void *arg;
    cl_event user;
} job;

static pthread_mutex_t mu_jobs = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static job *jobs;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int start_error;

static void do_job(job *j)
{
    if (j->fn != NULL)
        j->fn(j->arg);
    tti_mfree(j->arg);
    tti_cl.SetUserEventStatus(j->user, CL_COMPLETE); /* never a negative one: PoCL aborts */
    tti_cl.ReleaseEvent(j->user);
    tti_mfree(j);
}

static void *run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mu_jobs);
    for (;;) {
        job *j = jobs;
        struct timespec until;

        if (j == NULL) {
            pthread_cond_wait(&changed, &mu_jobs);
        } else if (j->at > tti_now_ns()) {
            until = (struct timespec){ (time_t)(j->at / 1000000000u), (long)(j->at % 1000000000u) };
            pthread_cond_timedwait(&changed, &mu_jobs, &until);
        } else {
            jobs = j->next;
            pthread_mutex_unlock(&mu_jobs);
            do_job(j);
            pthread_mutex_lock(&mu_jobs);
        }
    }
    return NULL;
}

static void start(void)
{
    pthread_condattr_t attr;
    pthread_t thread;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
    start_error = pthread_create(&thread, NULL, run, NULL);
    if (start_error == 0)
        pthread_detach(thread);
}

tt_status tti_cl_timer_add(uint64_t ns, void (*fn)(void *arg), void *arg, cl_event user)
{
    job *j = tti_calloc(1, sizeof *j), **at;

    if (j == NULL)
        return TT_ERR_NOMEM;
    pthread_once(&once, start);
    if (start_error != 0) {
        tti_mfree(j);
        return TT_FAIL(TT_ERR_IO, "cl: cannot start a thread: %s", strerror(start_error));
    }
    *j = (job){ .at = tti_now_ns() + (int64_t)ns, .fn = fn, .arg = arg, .user = user };
    pthread_mutex_lock(&mu_jobs);
    for (at = &jobs; *at != NULL && (*at)->at <= j->at; at = &(*at)->next)
        ;
    j->next = *at;
    *at = j;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mu_jobs);
    return TT_OK;
}
