/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are kept for all tests of a suite: started at its first test, told the name of each test
 * through a channel, ended after the last. A test that fails poisons the rest: the ranks may stand
 * anywhere after it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/kept.h"
#include "testing/testing.h"
#include "testing/world.h"

enum { CHANNEL_FD = 4 };

/* Seconds ranks get to answer after another one has failed, and to end when asked. */
static const double grace = 1.0, farewell = 10.0;

typedef struct task {
    bool last; /* no test: end */
    uint64_t seed;
    char name[512];
} task;

typedef struct answer {
    int code;
    char name[512]; /* of the task, so that a rank out of step is noticed */
} answer;

/* ---- a rank ---- */

/* What the suite wants done once, before its first test. Gives the code that all tests end with then,
 * or 0. */
static int set_up(tti_world *w, int rank)
{
    const tt_test_suite *s;
    tt_test t = { .suite = w->suite, .name = "set-up", .kind = TT_TEST_KIND_KEPT };

    tti_test_find(w->suite, w->name); /* tables may declare the suite */
    s = tti_test_suite_find(w->suite);
    if (s == NULL || s->set_up == NULL)
        return 0;
    t.fn = s->set_up;
    t.ctx = s->ctx;
    return tti_test_kept_body(&t, &w->ranks[rank].record, w->seed);
}

static int run_task(tti_world *w, int rank, const task *job)
{
    const tt_test *t = tti_test_find(w->suite, job->name);

    if (t == NULL) {
        fprintf(stderr, "testing: there is no test %s.%s\n", w->suite, job->name);
        return TT_TEST_EXIT_FAIL;
    }
    return tti_test_kept_body(t, &w->ranks[rank].record, job->seed);
}

int tti_kept_loop(tti_world *w, int rank)
{
    tti_test_record *record = &w->ranks[rank].record;
    char note[sizeof record->note];
    bool failed = false;
    int every;
    task job;

    fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC);
    every = set_up(w, rank);
    memcpy(note, record->note, sizeof note);
    while (recv(CHANNEL_FD, &job, sizeof job, 0) == (ssize_t)sizeof job && !job.last) {
        answer a = { .code = every };

        if (every == 0)
            a.code = run_task(w, rank, &job);
        else
            memcpy(record->note, note, sizeof note);
        failed = failed || a.code == TT_TEST_EXIT_FAIL;
        fflush(NULL);
        memcpy(a.name, job.name, sizeof a.name);
        if (send(CHANNEL_FD, &a, sizeof a, MSG_NOSIGNAL) != (ssize_t)sizeof a)
            break;
    }
    if (!failed) /* leaving a group waits for the others, who may not be able to */
        tti_world_end_group();
    tti_test_leave(0);
}

/* ---- the leader ---- */

typedef struct kept {
    tti_world *w;
    int world_fd;
    tti_rank_proc *procs;
    tti_rank_end *ends; /* of the current test */
    bool spawned;
    char poison[600]; /* why the rest is skipped; "" while all is well */
    int first;
} kept;

double tti_kept_slice(double timeout)
{
    double slice = timeout / 4;

    if (!(timeout > 0))
        return 120;
    return slice < 10 ? 10 : slice > 120 ? 120 : slice;
}

static bool spawn(kept *k, const tti_test_run *run, double limit)
{
    int n = tti_test_n_ranks(run->test);

    k->spawned = true;
    k->w = tti_world_new(run->test, run->seed, limit, &k->world_fd);
    k->procs = calloc((size_t)n, sizeof *k->procs);
    k->ends = calloc((size_t)n, sizeof *k->ends);
    if (k->w == NULL || k->procs == NULL || k->ends == NULL)
        return false;
    for (int i = 0; i < n; i++)
        k->procs[i] = (tti_rank_proc){ .pid = -1, .pid_fd = -1, .output = -1, .channel = -1 };
    for (int i = 0; i < n; i++) {
        if (!tti_rank_spawn(&k->procs[i], k->w, k->world_fd, i, true))
            return false;
    }
    return true;
}

/* The records of the ranks start anew; their directory stays. */
static void clear_records(kept *k, const tti_test_run *run)
{
    for (int i = 0; i < k->w->size; i++) {
        tti_test_record *r = &k->w->ranks[i].record;

        atomic_store(&r->n_failures, 0);
        atomic_store(&r->finished, false);
        atomic_store(&r->seed_used, false);
        r->first[0] = '\0';
        r->note[0] = '\0';
        k->ends[i] = (tti_rank_end){ 0 };
    }
    snprintf(k->w->name, sizeof k->w->name, "%s", run->test->name);
    atomic_store(&k->w->ending, false);
    k->first = -1;
}

static void send_task(kept *k, const tti_test_run *run, bool last)
{
    task job = { .last = last };

    if (run != NULL) {
        job.seed = run->seed;
        snprintf(job.name, sizeof job.name, "%s", run->test->name);
    }
    for (int i = 0; i < k->w->size; i++)
        send(k->procs[i].channel, &job, sizeof job, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take_answer(kept *k, int rank)
{
    tti_rank_proc *p = &k->procs[rank];
    char note[1280];
    answer a;
    ssize_t got = recv(p->channel, &a, sizeof a, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == (ssize_t)sizeof a) {
        k->ends[rank] = (tti_rank_end){ .ended = true, .status = a.code << 8 };
        if (strcmp(a.name, k->w->name) != 0)
            tt_test_fail(__FILE__, __LINE__, "rank %d answered for %s, not %s", rank, a.name,
                         k->w->name);
    } else { /* it has ended without an answer */
        tti_rank_reap(p);
        k->ends[rank] = p->end;
        tti_world_rank_died(k->w, rank, "ended");
    }
    if (tti_rank_judge(k->w, rank, &k->ends[rank], note, sizeof note) == TTI_TEST_PASS)
        return;
    atomic_store(&k->w->ending, true);
    tti_gate_wake(k->w);
    if (k->first < 0)
        k->first = rank;
}

/* Takes one answer from every rank, also after a failure, so that no one is out of step. */
static bool drain(kept *k, double deadline)
{
    struct pollfd polls[TTI_MAX_RANKS];
    int n_left = k->w->size;

    while (n_left > 0) {
        double now = tti_test_now(), slice = tti_kept_slice(k->w->limit);

        if (atomic_load(&k->w->ending) && deadline > now + grace)
            deadline = now + grace;
        if (now >= deadline)
            return false;
        for (int i = 0; i < k->w->size; i++)
            polls[i] = (struct pollfd){ .fd = k->ends[i].ended ? -1 : k->procs[i].channel,
                                        .events = POLLIN };
        if (deadline - now < slice)
            slice = deadline - now;
        poll(polls, (nfds_t)k->w->size, (int)(slice * 1000) + 1);
        n_left = 0;
        for (int i = 0; i < k->w->size; i++) {
            if (polls[i].fd >= 0 && polls[i].revents != 0)
                take_answer(k, i);
            n_left += !k->ends[i].ended;
        }
    }
    return true;
}

static void show(kept *k)
{
    for (int i = 0; i < k->w->size; i++) {
        char *text = tti_rank_output(&k->procs[i]);

        if (text == NULL)
            continue;
        if (WIFSIGNALED(k->ends[i].status) || !k->ends[i].ended)
            text = tti_test_stack_resolve(text);
        printf("---- rank %d\n%s", i, text);
        free(text);
    }
}

static void no_answer(kept *k, char *why, size_t size)
{
    size_t used = (size_t)snprintf(why, size, "%s after %g s: no answer from rank",
                                   k->first < 0 ? "timed out" : "gave up",
                                   k->first < 0 ? k->w->limit : grace);

    for (int i = 0; i < k->w->size; i++) {
        if (k->ends[i].ended)
            continue;
        if (used < size)
            used += (size_t)snprintf(why + used, size - used, " %d", i);
        if (!tti_test_stack_collect(k->procs[i].pid, &k->w->ranks[i].record, 1))
            dprintf(k->procs[i].output, "the stack could not be had\n");
    }
}

static int run_one(kept *k, const tti_test_run *run, double limit)
{
    char why[256] = "";
    int code;

    if (k->poison[0] != '\0')
        return TT_TEST_SKIP_GENERIC;
    if (!k->spawned && !spawn(k, run, limit)) {
        snprintf(k->poison, sizeof k->poison, "the ranks could not be started");
        return TT_TEST_EXIT_FAIL;
    }
    clear_records(k, run);
    k->w->limit = limit;
    send_task(k, run, false);
    if (!drain(k, tti_test_now() + limit))
        no_answer(k, why, sizeof why);
    show(k);
    code = tti_world_judge(k->w, k->ends, k->first, *why ? why : NULL, tti_test_current);
    if (code == TT_TEST_EXIT_FAIL)
        snprintf(k->poison, sizeof k->poison, "%s failed, its ranks are not used again",
                 run->test->name);
    return code;
}

static void end_ranks(kept *k)
{
    double give_up = tti_test_now() + (k->poison[0] != '\0' ? 0 : farewell);

    if (k->poison[0] == '\0')
        send_task(k, NULL, true);
    for (int i = 0; i < k->w->size; i++) {
        struct pollfd p = { .fd = k->procs[i].pid_fd, .events = POLLIN };
        double left = give_up - tti_test_now();

        if (k->procs[i].end.ended || k->procs[i].pid_fd < 0)
            continue;
        if (poll(&p, 1, left > 0 ? (int)(left * 1000) : 0) == 1)
            tti_rank_reap(&k->procs[i]);
        if (k->poison[0] == '\0' && (!k->procs[i].end.ended || k->procs[i].end.status != 0))
            tt_test_fail(__FILE__, __LINE__, "rank %d did not end well after the last test", i);
    }
}

static void kept_close(kept *k)
{
    if (k->w != NULL && k->procs != NULL) {
        end_ranks(k);
        for (int i = 0; i < k->w->size; i++)
            tti_rank_close(&k->procs[i]);
    }
    free(k->procs);
    free(k->ends);
    if (k->world_fd >= 0)
        close(k->world_fd);
    tti_world_free(k->w);
}

static int checked(int code)
{
    return code == TT_TEST_EXIT_PASS && tt_test_failures() > 0 ? TT_TEST_EXIT_FAIL : code;
}

void tti_kept_lead(tti_test_run *const *runs, tti_test_record *const *records, int n,
                   const tti_test_options *opt)
{
    kept k = { .world_fd = -1, .first = -1 };

    for (int i = 0; i < n; i++) {
        tti_test_record *r = records[i];
        double start = tti_test_now();

        tti_test_current = r;
        r->output_from = lseek(STDOUT_FILENO, 0, SEEK_CUR);
        r->code = checked(run_one(&k, runs[i], tti_test_limit_now(runs[i]->test, opt)));
        if (r->code == TT_TEST_SKIP_GENERIC && k.poison[0] != '\0')
            snprintf(r->note, sizeof r->note, "%.500s", k.poison);
        if (i == n - 1)
            kept_close(&k);
        r->code = checked(r->code);
        fflush(NULL);
        r->output_to = lseek(STDOUT_FILENO, 0, SEEK_CUR);
        r->seconds = tti_test_now() - start;
        atomic_store(&r->finished, true);
    }
    tti_test_leave(0);
}

int tti_kept_lead_alone(const tt_test *t, uint64_t seed, double limit)
{
    tti_test_run run = { .test = t, .seed = seed };
    kept k = { .world_fd = -1, .first = -1 };
    int code = run_one(&k, &run, limit);

    kept_close(&k);
    return checked(code);
}
