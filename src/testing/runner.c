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

#include "testing/kept.h"
#include "testing/testing.h"

enum { MAX_OUTPUT = 64 << 20, SHOWN_OUTPUT = 256 << 10, MOST_TOGETHER = 32 };

/* Seconds a child gets on a quiet machine to print its stacks when its time is up. */
static const double stack_time = 0.5;

/* Seconds more for a test of several ranks: whoever leads them keeps the limit and collects their
 * stacks. */
static const double leader_time = 8;

/* A child that is running. */
typedef struct child {
    tti_test_run *run;
    tti_test_record *record;
    tti_test_run **batch;      /* tests of a suite that share this child */
    tti_test_record **records; /* one for each */
    int n_batch;
    pid_t pid;
    int output; /* a memory file: it cannot fill up and no one has to drain it */
    double start;
    double limit;
    int slots;
    double patience;   /* more than the limit: 0, or leader_time */
    double stack_time; /* and more for its stacks */
    bool timed_out;    /* and has been asked for its stacks */
    bool too_loud;
} child;

typedef struct runner {
    const tti_test_options *opt;
    child *children; /* the first n are running */
    int n;
    int slots_used;
    int signal_fd;
    sigset_t old_mask;
    tti_test_run *end; /* of all runs */
    int interrupted;   /* the signal, or 0 */
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
    if (c->n_batch > 0 && c->run->test->together)
        tti_test_together(c->batch, c->records, c->n_batch);
    if (c->n_batch > 0)
        tti_kept_lead(c->batch, c->records, c->n_batch, r->opt);
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

static void free_batch(child *c)
{
    for (int i = 0; i < c->n_batch; i++)
        tti_test_record_free(c->records[i]);
    free(c->batch);
    free(c->records);
}

static bool shares_child(const tt_test *t)
{
    return t->kind == TT_TEST_KIND_KEPT || (t->together && tti_test_together_pays());
}

/* Tests whose ranks are kept run with all others of their suite that have as many; small ones with the next few. */
static bool gather_batch(runner *r, child *c, tti_test_run *run)
{
    c->batch = calloc((size_t)(r->end - run), sizeof *c->batch);
    c->records = calloc((size_t)(r->end - run), sizeof *c->records);
    if (c->batch == NULL || c->records == NULL)
        return false;
    c->limit = 0;
    for (tti_test_run *other = run; other < r->end; other++) {
        if ((other->started && other != run) ||
            (run->test->together && c->n_batch == MOST_TOGETHER))
            continue;
        if (other->test->kind != run->test->kind || other->test->together != run->test->together ||
            strcmp(other->test->suite, run->test->suite) != 0 ||
            tti_test_n_ranks(other->test) != tti_test_n_ranks(run->test))
            continue;
        other->started = true;
        c->records[c->n_batch] = tti_test_record_new();
        c->batch[c->n_batch] = other;
        if (c->records[c->n_batch++] == NULL)
            return false;
        c->limit += tti_test_limit_now(other->test, r->opt);
    }
    return true;
}

static void start(runner *r, tti_test_run *run)
{
    child *c = &r->children[r->n];
    pid_t runner_pid = getpid();

    *c = (child){ .run = run, .slots = slots_of(r, run->test) };
    c->limit = tti_test_limit_now(run->test, r->opt);
    c->stack_time = stack_time * tti_test_stretch();
    c->patience = run->test->kind != TT_TEST_KIND_PLAIN ? leader_time * tti_test_stretch() : 0;
    run->started = true;
    c->record = tti_test_record_new();
    c->output = memfd_create("test output", MFD_CLOEXEC);
    if (c->record == NULL || c->output < 0 ||
        (shares_child(run->test) && !gather_batch(r, c, run))) {
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
    free_batch(c);
    if (c->output >= 0)
        close(c->output);
}

/* The output between two places; to < 0: to the end. */
static char *read_output(int fd, off_t from, off_t to)
{
    struct stat st;
    size_t size, skipped;
    char *text;
    ssize_t got;

    if (fstat(fd, &st) != 0)
        return NULL;
    if (to < 0 || to > st.st_size)
        to = st.st_size;
    if (to <= from)
        return NULL;
    size = (size_t)(to - from);
    skipped = size > SHOWN_OUTPUT ? size - SHOWN_OUTPUT : 0;
    text = malloc(size - skipped + 1);
    if (text == NULL)
        return NULL;
    got = pread(fd, text, size - skipped, from + (off_t)skipped);
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

/* One test of a batch, from its record; one that has not ended shares the fate of the child. */
static int finish_one_shared(const child *c, int i, int status)
{
    const tti_test_record *rec = c->records[i];
    tti_test_run *run = c->batch[i];
    bool ended = atomic_load(&rec->finished);

    run->done = true;
    run->seconds = rec->seconds;
    run->output = read_output(c->output, rec->output_from, ended ? rec->output_to : -1);
    if (!ended && (status == 0 || (i > 0 && !atomic_load(&c->records[i - 1]->finished)))) {
        run->verdict = TTI_TEST_FAIL;
        snprintf(run->note, sizeof run->note,
                 "it was never run: the process of its suite had ended");
    } else {
        tti_test_judge(run, rec, ended ? rec->code << 8 : status, c->limit, !ended && c->timed_out);
    }
    run->seed_used = atomic_load(&rec->seed_used);
    if (!ended && tti_test_sanitized())
        note_summary(run);
    tti_test_console_result(run);
    free(run->output);
    run->output = NULL;
    return run->verdict == TTI_TEST_FAIL;
}

static int finish_alone(const child *c, int status)
{
    tti_test_run *run = c->run;

    run->seconds = tti_test_now() - c->start;
    run->done = true;
    run->output = read_output(c->output, 0, -1);
    if (c->timed_out || WIFSIGNALED(status))
        run->output = tti_test_stack_resolve(run->output);
    tti_test_judge(run, c->record, status, c->limit, c->timed_out);
    if (tti_test_sanitized())
        note_summary(run);
    if (c->too_loud)
        snprintf(run->note, sizeof run->note, "printed more than %d MB", MAX_OUTPUT >> 20);
    run->seed_used = atomic_load(&c->record->seed_used);
    tti_test_console_result(run);
    free(run->output);
    run->output = NULL;
    return run->verdict == TTI_TEST_FAIL;
}

/* The child is dead but not yet reaped, so its process group is still its own: whatever it left
 * running goes with it. Returns how many tests failed. */
static int finish(runner *r, int i)
{
    child c = r->children[i];
    int status = 0, n_failed = 0;

    kill(-c.pid, SIGKILL);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    r->slots_used -= c.slots;
    r->children[i] = r->children[--r->n];
    for (int k = 0; k < c.n_batch; k++)
        n_failed += finish_one_shared(&c, k, status);
    if (c.n_batch == 0)
        n_failed = finish_alone(&c, status);
    tti_test_record_free(c.record);
    free_batch(&c);
    close(c.output);
    return n_failed;
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
    if (c->too_loud || now > c->start + c->limit + c->patience + c->stack_time)
        kill(-c->pid, SIGKILL);
}

/* Milliseconds to sleep: until the next limit passes, but at most one second, so that a child which
 * prints without end is noticed. */
static int patience(const runner *r)
{
    double now = tti_test_now(), wait = 1.0;

    for (int i = 0; i < r->n; i++) {
        const child *c = &r->children[i];
        double left = c->start + c->limit + c->patience + (c->timed_out ? c->stack_time : 0) - now;

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
        if (is_dead(r->children[i].pid))
            n_failed += finish(r, i);
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
        free_batch(c);
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

static bool fits(const runner *r, const tt_test *t)
{
    return r->slots_used + slots_of(r, t) <= r->opt->jobs;
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
    r.end = runs + n_runs;
    tti_test_stack_prepare();
    while (r.interrupted == 0 && !(opt->fail_fast && n_failed > 0)) {
        while (next < n_runs && (runs[next].started || fits(&r, runs[next].test))) {
            if (!runs[next].started)
                start(&r, &runs[next]);
            next++;
        }
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
