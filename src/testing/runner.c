/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tests, each in a forked child with its own process group, captured output and time limit.
 * The runner is one thread that sleeps in poll until a child changes, a limit passes or a signal
 * arrives. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testing/testing.h"

enum { MAX_OUTPUT = 64 << 20, SHOWN_OUTPUT = 256 << 10 };

/* Seconds a child gets to print its stacks when its time is up. */
static const double stack_time = 0.5;

/* Seconds more for a test of several ranks: whoever leads them keeps the limit and collects their
 * stacks. */
static const double leader_time = 8;

/* A child that is running. */
typedef struct child {
    tti_test_run *run;
    tti_test_record *record;
    pid_t pid;
    int output; /* a memory file: it cannot fill up and no one has to drain it */
    double start;
    double limit;
    int slots;
    double patience; /* more than the limit: 0, or leader_time */
    bool timed_out;  /* and has been asked for its stacks */
    bool too_loud;
} child;

typedef struct runner {
    const tti_test_options *opt;
    child *children; /* the first n are running */
    int n;
    int slots_used;
    int signal_fd;
    sigset_t old_mask;
    int interrupted; /* the signal, or 0 */
} runner;

double tti_test_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- In the child ---- */

static void run_child(const runner *r, const child *c, pid_t runner_pid) __attribute__((noreturn));
static void run_child(const runner *r, const child *c, pid_t runner_pid)
{
    int nothing = open("/dev/null", O_RDONLY);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != runner_pid) /* the runner died before it could be watched */
        _exit(TT_TEST_EXIT_FAIL);
    sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
    close(r->signal_fd);
    dup2(nothing, STDIN_FILENO);
    dup2(c->output, STDOUT_FILENO);
    dup2(c->output, STDERR_FILENO);
    close(nothing);
    for (int i = 0; i < r->n; i++)
        close(r->children[i].output);
    close(c->output);
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that a crash loses nothing */
    tti_test_stack_install(!tti_test_sanitized());
    _exit(tti_test_body(c->run->test, c->record, c->run->seed, c->limit, true));
}

/* ---- In the runner ---- */

static void not_started(tti_test_run *run, const char *what)
{
    run->done = true;
    run->verdict = TTI_TEST_FAIL;
    snprintf(run->note, sizeof run->note, "could not be started: %s: %s", what, strerror(errno));
    tti_test_console_result(run);
}

static int slots_of(const runner *r, const tt_test *t)
{
    int slots = t->slots > 0 ? t->slots : tti_test_n_ranks(t);

    return slots < r->opt->jobs ? slots : r->opt->jobs;
}

static void start(runner *r, tti_test_run *run)
{
    child *c = &r->children[r->n];
    pid_t runner_pid = getpid();

    *c = (child){ .run = run, .slots = slots_of(r, run->test) };
    c->limit = tti_test_limit(run->test, r->opt);
    c->patience = run->test->kind != TT_TEST_KIND_PLAIN ? leader_time : 0;
    c->record = tti_test_record_new();
    c->output = memfd_create("test output", MFD_CLOEXEC);
    if (c->record == NULL || c->output < 0) {
        not_started(run, "memory");
        goto fail;
    }
    fflush(NULL);
    c->start = tti_test_now();
    c->pid = fork();
    if (c->pid == 0)
        run_child(r, c, runner_pid);
    if (c->pid < 0) {
        not_started(run, "fork");
        goto fail;
    }
    setpgid(c->pid, c->pid);
    r->n++;
    r->slots_used += c->slots;
    tti_test_console_running(run);
    return;

fail:
    tti_test_record_free(c->record);
    if (c->output >= 0)
        close(c->output);
}

static char *read_output(int fd)
{
    struct stat st;
    size_t size, skipped;
    char *text;
    ssize_t got;

    if (fstat(fd, &st) != 0 || st.st_size == 0)
        return NULL;
    size = (size_t)st.st_size;
    skipped = size > SHOWN_OUTPUT ? size - SHOWN_OUTPUT : 0;
    text = malloc(size - skipped + 1);
    if (text == NULL)
        return NULL;
    got = pread(fd, text, size - skipped, (off_t)skipped);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

/* A sanitizer ends the process its own way; its summary says more than the exit code. */
static void note_summary(tti_test_run *run)
{
    const char *at = run->output != NULL ? strstr(run->output, "SUMMARY: ") : NULL;
    size_t used = strlen(run->note);

    if (at != NULL && run->verdict == TTI_TEST_FAIL)
        snprintf(run->note + used, sizeof run->note - used, "; %.*s", (int)strcspn(at, "\n"), at);
}

/* The child is dead but not yet reaped, so its process group is still its own: whatever it left
 * running goes with it. */
static void finish(runner *r, int i)
{
    child c = r->children[i];
    tti_test_run *run = c.run;
    int status = 0;

    kill(-c.pid, SIGKILL);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    run->seconds = tti_test_now() - c.start;
    run->done = true;
    run->output = read_output(c.output);
    if (c.timed_out || WIFSIGNALED(status))
        run->output = tti_test_stack_resolve(run->output);
    tti_test_judge(run, c.record, status, c.limit, c.timed_out);
    if (tti_test_sanitized())
        note_summary(run);
    if (c.too_loud)
        snprintf(run->note, sizeof run->note, "printed more than %d MB", MAX_OUTPUT >> 20);
    run->seed_used = atomic_load(&c.record->seed_used);
    tti_test_record_free(c.record);
    close(c.output);
    r->slots_used -= c.slots;
    r->children[i] = r->children[--r->n];
    tti_test_console_result(run);
    free(run->output);
    run->output = NULL;
}

/* When time is up a child is asked for its stacks, and killed a little later. */
static void check_limit(child *c, double now)
{
    struct stat st;

    if (!c->timed_out && now > c->start + c->limit + c->patience) {
        c->timed_out = true;
        tti_test_stack_request(c->pid);
    }
    if (fstat(c->output, &st) == 0 && st.st_size > MAX_OUTPUT)
        c->too_loud = true;
    if (c->too_loud || now > c->start + c->limit + c->patience + stack_time)
        kill(-c->pid, SIGKILL);
}

/* Milliseconds to sleep: until the next limit passes, but at most one second, so that a child which
 * prints without end is noticed. */
static int patience(const runner *r)
{
    double now = tti_test_now(), wait = 1.0;

    for (int i = 0; i < r->n; i++) {
        const child *c = &r->children[i];
        double left = c->start + c->limit + c->patience + (c->timed_out ? stack_time : 0) - now;

        if (left < wait)
            wait = left;
    }
    return wait > 0 ? (int)(wait * 1000) + 1 : 1;
}

static void read_signals(runner *r)
{
    struct signalfd_siginfo info;

    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD)
            r->interrupted = (int)info.ssi_signo;
    }
}

static bool is_dead(pid_t pid)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Sleeps until something happens, then finishes the children that are dead. Returns how many of
 * them failed. */
static int wait_some(runner *r)
{
    struct pollfd p = { .fd = r->signal_fd, .events = POLLIN };
    int n_failed = 0;

    poll(&p, 1, patience(r));
    read_signals(r);
    for (int i = 0; i < r->n; i++)
        check_limit(&r->children[i], tti_test_now());
    for (int i = r->n - 1; i >= 0; i--) {
        tti_test_run *run = r->children[i].run;

        if (!is_dead(r->children[i].pid))
            continue;
        finish(r, i);
        n_failed += run->verdict == TTI_TEST_FAIL;
    }
    return n_failed;
}

/* Ends what is running without judging it. */
static void abandon(runner *r)
{
    for (int i = 0; i < r->n; i++) {
        child *c = &r->children[i];

        kill(-c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        tti_test_record_free(c->record);
        close(c->output);
    }
    r->n = 0;
}

static bool runner_open(runner *r, const tti_test_options *opt)
{
    sigset_t mask;

    *r = (runner){ .opt = opt, .signal_fd = -1 };
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, &r->old_mask);
    r->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    r->children = calloc((size_t)opt->jobs, sizeof *r->children);
    return r->signal_fd >= 0 && r->children != NULL;
}

static void runner_close(runner *r)
{
    if (r->signal_fd >= 0)
        close(r->signal_fd);
    free(r->children);
    sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
}

int tti_test_run_forked(tti_test_run *runs, int n_runs, const tti_test_options *opt)
{
    runner r;
    int next = 0, n_failed = 0, interrupted;

    if (!runner_open(&r, opt)) {
        fprintf(stderr, "testing: cannot start: %s\n", strerror(errno));
        runner_close(&r);
        return SIGABRT;
    }
    tti_test_stack_prepare();
    while (r.interrupted == 0 && !(opt->fail_fast && n_failed > 0)) {
        while (next < n_runs && r.slots_used + slots_of(&r, runs[next].test) <= opt->jobs)
            start(&r, &runs[next++]);
        if (r.n == 0 && next == n_runs)
            break;
        n_failed += wait_some(&r);
    }
    abandon(&r);
    interrupted = r.interrupted;
    runner_close(&r);
    return interrupted;
}

int tti_test_run_inline(tti_test_run *runs, int n_runs, const tti_test_options *opt)
{
    for (int i = 0; i < n_runs; i++) {
        tti_test_run *run = &runs[i];
        tti_test_record *record = tti_test_record_new();
        double start_time = tti_test_now();
        int code;

        if (record == NULL) {
            not_started(run, "memory");
            continue;
        }
        tti_test_console_running(run);
        code = tti_test_body(run->test, record, run->seed, tti_test_limit(run->test, opt), false);
        tti_test_judge(run, record, code << 8, 0, false);
        run->seconds = tti_test_now() - start_time;
        run->done = true;
        run->seed_used = atomic_load(&record->seed_used);
        tti_test_record_free(record);
        tti_test_console_result(run);
        if (opt->fail_fast && run->verdict == TTI_TEST_FAIL)
            break;
    }
    return 0;
}
