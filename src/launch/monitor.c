/* SPDX-License-Identifier: Apache-2.0 */
/* Watching over the ranks of a round: one loop that passes on what they print, notices how they end,
 * and ends the rest when one fails or the launcher is told to stop. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/job.h"
#include "launch/jobstore.h"

#define DUMP_MS 200
#define DRAIN_MS 2000
#define KILLED_MS \
    10000 /* after SIGKILL, for processes that cannot end: those that wait in the kernel */

/* ---- telling the ranks ---------------------------------------------------------------------- */

static void tell(tti_job *job, int sig)
{
    for (int i = 0; i < job->n; i++) {
        tti_rank *r = &job->ranks[i];

        if (r->pid > 0 && !r->ended)
            kill(-r->pid, sig);
    }
}

/* Whether the process has a handler for the signal: without one SIGUSR2 would kill it. */
static bool handles(pid_t pid, int sig)
{
    char path[40], line[128];
    unsigned long long mask = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "SigCgt: %llx", &mask) == 1)
            break;
    fclose(f);
    return (mask >> (sig - 1) & 1) != 0;
}

static void phase_set(tti_job *job, tti_phase phase, int ms)
{
    job->phase = phase;
    job->phase_end = ms < 0 ? TTI_NEVER : tti_deadline(ms);
}

/* The next step towards the end: SIGTERM, then SIGKILL. */
static void phase_next(tti_job *job)
{
    for (int i = 0; i < job->n; i++)
        job->ranks[i].by_us = job->ranks[i].by_us || !job->ranks[i].ended;
    if (job->phase < TTI_PHASE_TERM && job->opt.grace_ms > 0) {
        tell(job, SIGTERM);
        tell(job, SIGCONT); /* a stopped process has to run to notice */
        phase_set(job, TTI_PHASE_TERM, job->opt.grace_ms);
        return;
    }
    tell(job, SIGKILL);
    phase_set(job, TTI_PHASE_KILL, -1);
}

void tti_job_end(tti_job *job)
{
    bool asked = false;

    if (job->phase != TTI_PHASE_RUN)
        return;
    for (int i = 0; i < job->n; i++) {
        tti_rank *r = &job->ranks[i];

        if (r->pid > 0 && !r->ended && handles(r->pid, SIGUSR2))
            asked = kill(r->pid, SIGUSR2) == 0 || asked;
    }
    phase_set(job, TTI_PHASE_DUMP, DUMP_MS);
    if (!asked)
        phase_next(job);
}

/* ---- signals to the launcher ----------------------------------------------------------------- */

tt_status tti_job_signals_take(tti_job *job)
{
    static const int taken[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD };
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; job->opt.own_process && i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&set, taken[i]);
    pthread_sigmask(SIG_BLOCK, &set, &job->old_mask);
    sigaction(SIGPIPE, &ignore, &job->old_pipe);
    if (!job->opt.own_process)
        return TT_OK;
    job->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signal_fd < 0)
        return TT_FAIL(TT_ERR_IO, "launch: no signalfd: %s", strerror(errno));
    return TT_OK;
}

void tti_job_signals_give_back(tti_job *job)
{
    if (job->signal_fd >= 0)
        close(job->signal_fd);
    job->signal_fd = -1;
    sigaction(SIGPIPE, &job->old_pipe, NULL);
    /* A process that ends with the code of a signal must not be ended by the next one on its way out. */
    if (!job->opt.own_process || job->signal == 0)
        pthread_sigmask(SIG_SETMASK, &job->old_mask, NULL);
}

static void ended_by(tti_job *job, int sig)
{
    if (job->signal == 0)
        job->signal = sig;
    for (int i = 0; i < job->n; i++)
        job->ranks[i].by_us = job->ranks[i].by_us || !job->ranks[i].ended;
    if (++job->n_signals > 1 || job->opt.grace_ms < 0) {
        tell(job, SIGKILL);
        phase_set(job, TTI_PHASE_KILL, -1);
        return;
    }
    tell(job, sig == SIGPIPE ? SIGTERM : sig);
    tell(job, SIGCONT);
    if (job->phase < TTI_PHASE_TERM)
        phase_set(job, TTI_PHASE_TERM, job->opt.grace_ms);
    tti_job_say(job, "%s: passed on to the ranks; they have %.3g s, a second one kills them",
                tti_signal_name(sig), job->opt.grace_ms / 1e3);
}

static void heard_signal(tti_job *job, int sig)
{
    switch (sig) {
    case SIGCHLD: /* it has woken the loop, which reaps */
        break;
    case SIGUSR1:
        tell(job, sig);
        break;
    case SIGUSR2:
        for (int i = 0; i < job->n; i++)
            if (job->ranks[i].pid > 0 && !job->ranks[i].ended && handles(job->ranks[i].pid, sig))
                kill(job->ranks[i].pid, sig);
        break;
    case SIGTSTP:
        tell(job, SIGSTOP);
        raise(SIGSTOP);
        tell(job, SIGCONT);
        break;
    default:
        ended_by(job, sig);
    }
}

static void read_signals(tti_job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        heard_signal(job, (int)info.ssi_signo);
}

/* ---- ends of ranks --------------------------------------------------------------------------- */

/* Reaps a rank; true if it failed, of its own accord. */
static bool reap(tti_job *job, tti_rank *r)
{
    if (waitpid(r->pid, &r->status, WNOHANG) != r->pid)
        return false;
    r->ended = true;
    r->group_left = kill(-r->pid, 0) == 0;
    if (!r->group_left)
        tti_guard_forget(job, r->pid);
    r->end_ns = tti_now_ns();
    close(r->pidfd);
    r->pidfd = -1;
    job->n_alive--;
    if (r->status != 0 || job->n_alive > 0) /* who left in peace may be waited for as well */
        tti_jobstore_exit(job, r);
    return r->status != 0 && !r->by_us;
}

/* Of ranks that failed at the same moment one that was killed is the cause rather than one that gave up. */
static void reap_all(tti_job *job, const struct pollfd *pidfds)
{
    int first = -1;

    for (int i = 0; i < job->n; i++) {
        tti_rank *r = &job->ranks[i];

        if (pidfds[i].revents == 0 || r->ended || !reap(job, r))
            continue;
        if (first < 0 || (WIFSIGNALED(r->status) && !WIFSIGNALED(job->ranks[first].status)))
            first = i;
    }
    if (first < 0 || job->phase != TTI_PHASE_RUN)
        return;
    job->first = first;
    tti_nodes_failed(job, &job->ranks[first]);
    tti_job_end(job);
}

/* Processes whose parents ended are handed to us, who must collect their ends: otherwise they would stay as zombies until
 * the job is over. A rank among the ended is left to its pidfd, which wakes the loop again. */
static void reap_orphans(tti_job *job)
{
    for (;;) {
        siginfo_t info = { 0 };

        if (!job->opt.own_process || waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0)
            return;
        for (int i = 0; i < job->n; i++)
            if (job->ranks[i].pid == info.si_pid && !job->ranks[i].ended)
                return;
        if (info.si_pid == job->guard)
            job->guard = 0;
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

/* Processes that ranks left behind in their groups. Their number cannot have another meaning while they live. */
static void kill_groups(tti_job *job, int sig)
{
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].group_left) {
            kill(-job->ranks[i].pid, sig);
            if (sig == SIGKILL)
                tti_guard_forget(job, job->ranks[i].pid);
        }
}

/* Sends the signal to every child but the guard, and collects those that have ended. Returns how many are left, and one of
 * them in *one_p. */
static int signal_children(const tti_job *job, int sig, pid_t *one_p)
{
    pid_t pids[256];
    int n = tti_children(pids, 256), left = 0;

    for (int i = 0; i < n; i++) {
        if (pids[i] == job->guard || waitpid(pids[i], NULL, WNOHANG) == pids[i])
            continue;
        left++;
        *one_p = pids[i];
        kill(pids[i], sig);
    }
    return left;
}

/* Children that ranks left behind: their process groups, and what was handed to us when they died. They get the grace
 * time, then SIGKILL. */
void tti_job_kill_strays(tti_job *job)
{
    int64_t deadline = tti_deadline(job->opt.grace_ms > 0 ? job->opt.grace_ms : 0);
    int sig = job->phase == TTI_PHASE_KILL ? SIGKILL : SIGTERM;
    pid_t one = 0;
    int left;

    if (sig == SIGKILL)
        deadline = tti_deadline(KILLED_MS);
    kill_groups(job, job->opt.own_process ? sig : SIGKILL);
    while (job->opt.own_process && (left = signal_children(job, sig, &one)) > 0) {
        if (tti_ms_left(deadline) == 0 && sig == SIGKILL) {
            tti_job_say(job,
                        "%d %s that ranks left behind did not end within %d s of SIGKILL (%s%d): "
                        "the system holds them; not waiting any longer",
                        left, left == 1 ? "process" : "processes", KILLED_MS / 1000,
                        left == 1 ? "process " : "one is process ", (int)one);
            return;
        }
        if (tti_ms_left(deadline) == 0) {
            sig = SIGKILL;
            deadline = tti_deadline(KILLED_MS);
            continue;
        }
        poll(NULL, 0, 2);
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* The descriptors of one turn: two of the job, two sinks, then per rank a pidfd, then its streams. */
enum { AT_SIGNALS, AT_NODES, AT_OUT, AT_ERR, AT_RANKS };

static size_t fill(tti_job *job, struct pollfd *p)
{
    size_t n = (size_t)job->n;
    bool full = tti_sink_full(&job->out) || tti_sink_full(&job->err);

    p[AT_SIGNALS] = (struct pollfd){ job->signal_fd, POLLIN, 0 };
    p[AT_NODES] = (struct pollfd){ tti_nodes_fd(job), POLLIN, 0 };
    p[AT_OUT] = (struct pollfd){ job->out.n > 0 ? job->out.fd : -1, POLLOUT, 0 };
    p[AT_ERR] = (struct pollfd){ job->err.n > 0 ? job->err.fd : -1, POLLOUT, 0 };
    p += AT_RANKS;
    for (size_t i = 0; i < n; i++) {
        tti_rank *r = &job->ranks[i];

        p[i] = (struct pollfd){ r->ended ? -1 : r->pidfd, POLLIN, 0 };
        p[n + 2 * i] = (struct pollfd){ full ? -1 : r->out.fd, POLLIN, 0 };
        p[n + 2 * i + 1] = (struct pollfd){ full ? -1 : r->err.fd, POLLIN, 0 };
    }
    return AT_RANKS + 3 * n;
}

static void read_streams(tti_job *job, const struct pollfd *p, bool last)
{
    for (int i = 0; i < 2 * job->n; i++) {
        tti_rank *r = &job->ranks[i / 2];
        tti_stream *s = i % 2 == 0 ? &r->out : &r->err;

        if (p[i].fd < 0)
            continue;
        if (p[i].revents != 0)
            (void)tti_stream_read(s);
        else if (last) /* empty, and nobody is left who could write */
            tti_stream_end(s);
    }
}

static bool output_left(tti_job *job)
{
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].out.fd >= 0 || job->ranks[i].err.fd >= 0)
            return true;
    return job->out.n > 0 || job->err.n > 0;
}

static void write_sinks(tti_job *job)
{
    tti_sink_flush(&job->err);
    tti_sink_flush(&job->out);
    if ((job->out.broken || job->err.broken) && !job->broken_pipe) {
        job->broken_pipe = true;
        if (job->phase == TTI_PHASE_RUN)
            ended_by(job, SIGPIPE);
    }
}

static void turn(tti_job *job, struct pollfd *p, bool last)
{
    size_t n = fill(job, p);
    int ms = tti_ms_left(job->phase_end);

    if (last && p[AT_OUT].fd < 0 && p[AT_ERR].fd < 0)
        ms = 0;
    if (poll(p, n, job->phase_end == TTI_NEVER && ms != 0 ? -1 : ms) < 0)
        return;
    if (p[AT_SIGNALS].revents != 0)
        read_signals(job);
    if (p[AT_NODES].revents != 0)
        tti_nodes_heard(job);
    read_streams(job, p + AT_RANKS + job->n, last);
    reap_all(job, p + AT_RANKS);
    reap_orphans(job);
    write_sinks(job);
    if (!last && job->phase != TTI_PHASE_RUN && tti_ms_left(job->phase_end) == 0)
        phase_next(job);
}

tt_status tti_job_watch(tti_job *job)
{
    struct pollfd *p = tti_calloc(AT_RANKS + 3 * (size_t)job->n, sizeof *p);

    if (p == NULL)
        return TT_ERR_NOMEM;
    if (job->phase == TTI_PHASE_RUN)
        job->phase_end = TTI_NEVER;
    while (job->n_alive > 0)
        turn(job, p, false);
    tti_job_kill_strays(job);
    /* A reader who is slow may take his time, unless the job was told to stop. */
    job->phase_end = job->signal != 0 ? tti_deadline(DRAIN_MS) : TTI_NEVER;
    while (output_left(job)) {
        turn(job, p, true);
        if (job->n_signals > 1 || (job->signal != 0 && tti_ms_left(job->phase_end) == 0)) {
            job->out.broken = job->err.broken = true;
            tti_sink_flush(&job->out); /* drops it */
            tti_sink_flush(&job->err);
        }
    }
    tti_mfree(p);
    return TT_OK;
}
