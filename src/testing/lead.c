/* SPDX-License-Identifier: Apache-2.0 */
/* Leads the ranks of one test: starts them, watches them, ends them when one has failed or time is
 * up, and puts together what they said. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "testing/kept.h"
#include "testing/testing.h"
#include "testing/world.h"

enum { MAX_OUTPUT = 64 << 20 };

/* Seconds the others get to fail by themselves, so that their words are kept, after the first. */
static const double last_words = 0.05;
/* Seconds all ranks together get to print their stacks. */
static const double stack_time = 5;

typedef struct leader {
    tti_world *w;
    tti_rank_proc *procs;
    int n_live;
    int first;      /* the rank that ended the test by failing; -1: none */
    double kill_at; /* 0: not yet */
    char why[256];  /* what ended the test, if it was no rank */
} leader;

bool tti_world_wanted(const tt_test *t)
{
    return t->kind != TT_TEST_KIND_PLAIN && tti_rank_get().world == NULL;
}

int tti_test_n_ranks(const tt_test *t)
{
    if (t->kind == TT_TEST_KIND_PLAIN)
        return 1;
    if (t->ranks > 0)
        return t->ranks < TTI_MAX_RANKS ? t->ranks : TTI_MAX_RANKS;
    return (int)tti_env_int(TTI_ENV_TEST_RANKS, 1, TTI_MAX_RANKS, 4);
}

static void describe(const tti_rank_end *end, char *text, size_t size)
{
    if (WIFSIGNALED(end->status))
        snprintf(text, size, "killed by signal %d", WTERMSIG(end->status));
    else
        snprintf(text, size, "ended with exit code %d", WEXITSTATUS(end->status));
}

static void end_test(leader *l)
{
    atomic_store(&l->w->ending, true);
    if (l->kill_at == 0)
        l->kill_at = tti_test_now() + last_words;
}

static void on_end(leader *l, int rank)
{
    tti_rank_proc *p = &l->procs[rank];
    char text[1280];
    tti_test_verdict verdict;

    tti_rank_reap(p);
    l->n_live--;
    if (p->end.status != 0) {
        describe(&p->end, text, sizeof text);
        tti_world_rank_died(l->w, rank, text);
    }
    verdict = tti_rank_judge(l->w, rank, &p->end, text, sizeof text);
    if (verdict == TTI_TEST_FAIL && l->first < 0)
        l->first = rank;
    if (verdict != TTI_TEST_PASS)
        end_test(l);
}

static void kill_rest(leader *l)
{
    for (int i = 0; i < l->w->size; i++) {
        tti_rank_proc *p = &l->procs[i];

        if (p->end.ended || p->end.stopped)
            continue;
        p->end.stopped = true;
        kill(p->pid, SIGKILL);
    }
}

static void name_live(const leader *l, char *text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < l->w->size && used < size; i++) {
        if (!l->procs[i].end.ended)
            used += (size_t)snprintf(text + used, size - used, "%s%d", used > 0 ? ", " : "", i);
    }
}

static void time_is_up(leader *l)
{
    double give_up = tti_test_now() + stack_time;
    char ranks[160] = "";

    name_live(l, ranks, sizeof ranks);
    snprintf(l->why, sizeof l->why, "timed out after %g s: rank %s had not ended", l->w->limit,
             ranks);
    for (int i = 0; i < l->w->size; i++) {
        tti_rank_proc *p = &l->procs[i];
        double left = (give_up - tti_test_now()) / (double)(l->w->size - i);

        if (p->end.ended)
            continue;
        if (!tti_test_stack_collect(p->pid, &l->w->ranks[i].record, left > 0.2 ? left : 0.2))
            dprintf(p->output, "the stack could not be had\n");
    }
    kill_rest(l);
}

static void check_output(leader *l)
{
    struct stat st;

    for (int i = 0; i < l->w->size; i++) {
        if (l->procs[i].end.ended || fstat(l->procs[i].output, &st) != 0 ||
            st.st_size <= MAX_OUTPUT)
            continue;
        snprintf(l->why, sizeof l->why, "rank %d printed more than %d MB", i, MAX_OUTPUT >> 20);
        kill_rest(l);
    }
}

static int milliseconds_until(double when)
{
    double left = when - tti_test_now();

    return left > 1 ? 1000 : left > 0 ? (int)(left * 1000) + 1 : 0;
}

static void watch(leader *l, struct pollfd *polls)
{
    double deadline = tti_test_now() + l->w->limit;

    while (l->n_live > 0) {
        double next = l->kill_at > 0 && l->kill_at < deadline ? l->kill_at : deadline;

        for (int i = 0; i < l->w->size; i++) {
            polls[i] = (struct pollfd){ .fd = l->procs[i].pid_fd, .events = POLLIN };
            if (l->procs[i].end.ended)
                polls[i].fd = -1;
        }
        if (poll(polls, (nfds_t)l->w->size, l->why[0] != '\0' ? 1000 : milliseconds_until(next)) <
                0 &&
            errno != EINTR)
            break;
        for (int i = 0; i < l->w->size; i++) {
            if (polls[i].fd >= 0 && polls[i].revents != 0)
                on_end(l, i);
        }
        if (l->n_live > 0 && l->kill_at > 0 && tti_test_now() >= l->kill_at)
            kill_rest(l);
        else if (l->n_live > 0 && l->why[0] == '\0' && tti_test_now() >= deadline)
            time_is_up(l);
        check_output(l);
    }
}

static void show_rank(leader *l, int rank)
{
    tti_rank_proc *p = &l->procs[rank];
    char note[1280];
    tti_test_verdict verdict = tti_rank_judge(l->w, rank, &p->end, note, sizeof note);
    char *text = tti_rank_output(p);

    if (text == NULL && verdict != TTI_TEST_FAIL)
        return;
    if (p->end.stopped || WIFSIGNALED(p->end.status))
        text = tti_test_stack_resolve(text);
    printf("---- rank %d%s%s\n%s", rank, verdict == TTI_TEST_FAIL ? ": " : "",
           verdict == TTI_TEST_FAIL ? note : "", text != NULL ? text : "");
    if (text != NULL && *text != '\0' && text[strlen(text) - 1] != '\n')
        putchar('\n');
    free(text);
}

static int conclude(leader *l)
{
    tti_rank_end *ends = calloc((size_t)l->w->size, sizeof *ends);
    int code;

    if (ends == NULL) {
        tt_test_fail(__FILE__, __LINE__, "out of memory");
        return TT_TEST_EXIT_FAIL;
    }
    for (int i = 0; i < l->w->size; i++) {
        ends[i] = l->procs[i].end;
        show_rank(l, i);
    }
    code =
        tti_world_judge(l->w, ends, l->first, l->why[0] != '\0' ? l->why : NULL, tti_test_here());
    free(ends);
    return code;
}

static int lead_processes(tti_world *w, int world_fd)
{
    leader l = { .w = w, .first = -1 };
    struct pollfd *polls = calloc((size_t)w->size, sizeof *polls);
    int n_started = 0, code = TT_TEST_EXIT_FAIL;

    l.procs = calloc((size_t)w->size, sizeof *l.procs);
    if (polls == NULL || l.procs == NULL) {
        tt_test_fail(__FILE__, __LINE__, "out of memory");
        goto out;
    }
    for (int i = 0; i < w->size; i++) {
        bool started = tti_rank_spawn(&l.procs[i], w, world_fd, i, false);

        n_started++;
        if (!started)
            goto out;
        atomic_store(&w->ranks[i].pid, (int)l.procs[i].pid);
    }
    l.n_live = w->size;
    watch(&l, polls);
    code = conclude(&l);

out:
    for (int i = 0; i < n_started; i++)
        tti_rank_close(&l.procs[i]);
    free(l.procs);
    free(polls);
    return code;
}

int tti_world_lead(const tt_test *t, uint64_t seed, double limit)
{
    int fd = -1, code;
    tti_world *w;

    if (t->kind == TT_TEST_KIND_KEPT)
        return tti_kept_lead_alone(t, seed, limit);
    w = tti_world_new(t, seed, limit, &fd);
    if (w == NULL)
        return TT_TEST_EXIT_FAIL;
    code = t->kind == TT_TEST_KIND_THREADS ? tti_threads_lead(t, w) : lead_processes(w, fd);
    close(fd);
    tti_world_free(w);
    return code;
}
