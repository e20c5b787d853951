/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: a process that sleeps until the launcher has gone. If it went without a word it was killed;
 * then the guard kills what is left of the ranks' process groups, and every process whose environment names the job's
 * directory, and removes that directory. It is forked from a program that may have threads and does nothing but system calls. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/job.h"

#define FAREWELL ((pid_t)0)

/* Keeps the pipe and drops all else, standard output included: nobody may have to wait for us. */
static int isolate(int fd)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "tutti-guard");
    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
    dup2(fd, 3);
    close_range(4, ~0u, 0);
    return 3;
}

/* ---- what the ranks started ------------------------------------------------------------------ */

/* Whether the environment of a process, as it was when its program began, has `mark` in it. */
static bool has_mark(int proc, const char *pid, const char *mark, char *buffer, size_t size)
{
    size_t length = strlen(mark), kept = 0;
    bool found = false;
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/environ", pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found && (n = read(fd, buffer + kept, size - kept)) > 0) {
        size_t have = kept + (size_t)n;

        found = memmem(buffer, have, mark, length) != NULL;
        kept = have < length ? have : length - 1; /* it may go on in the next piece */
        memmove(buffer, buffer + have - kept, kept);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

struct entry {
    ino64_t d_ino;
    off64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

/* Kills every process that has the job's mark; how many those were. Without opendir, which allocates memory. */
static int kill_marked(const char *mark)
{
    static char names[16384], buffer[65536];
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n_killed = 0;
    long n;

    while (proc >= 0 && (n = syscall(SYS_getdents64, proc, names, sizeof names)) > 0)
        for (long at = 0; at < n;) {
            const struct entry *e = (const struct entry *)(names + at);
            pid_t pid = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? atoi(e->d_name) : 0;

            if (pid > 1 && pid != getpid() &&
                has_mark(proc, e->d_name, mark, buffer, sizeof buffer))
                n_killed += kill(pid, SIGKILL) == 0;
            at += e->d_reclen;
        }
    if (proc >= 0)
        close(proc);
    return n_killed;
}

/* Processes of the ranks may have left their groups (setsid) and gone on forking: until none is found. A killed one has no
 * environment any more. */
static void kill_descendants(const char *dir)
{
    char mark[4200];

    if (snprintf(mark, sizeof mark, "TORCHELASTIC_ERROR_FILE=%s/", dir) >= (int)sizeof mark)
        return;
    for (int turn = 0; turn < 1000 && kill_marked(mark) > 0; turn++)
        poll(NULL, 0, 1);
}

/* ---- the guard --------------------------------------------------------------------------------- */

static void note(pid_t *pids, int cap, pid_t pid)
{
    for (int i = 0; i < cap; i++)
        if (pids[i] == (pid > 0 ? 0 : -pid)) {
            pids[i] = pid > 0 ? pid : 0;
            return;
        }
}

static void guard(int fd, pid_t *pids, int cap, const char *dir)
{
    pid_t pid;
    ssize_t got;

    fd = isolate(fd);
    while ((got = read(fd, &pid, sizeof pid)) == (ssize_t)sizeof pid ||
           (got < 0 && errno == EINTR)) {
        if (got < 0)
            continue;
        if (pid == FAREWELL)
            _exit(0);
        note(pids, cap, pid);
    }
    for (int i = 0; i < cap; i++)
        if (pids[i] > 0)
            kill(-pids[i], SIGKILL);
    if (dir != NULL) {
        kill_descendants(dir);
        execl("/bin/rm", "rm", "-rf", "--", dir, (char *)NULL);
    }
    _exit(0);
}

tt_status tti_guard_start(tti_job *job)
{
    int p[2],
        cap = job->n * 2; /* those of a restart may come before the last of the round before go */
    pid_t *pids = tti_calloc((size_t)cap, sizeof *pids);

    if (pids == NULL)
        return TT_ERR_NOMEM;
    if (pipe2(p, O_CLOEXEC) != 0) {
        tti_mfree(pids);
        return TT_FAIL(TT_ERR_IO, "launch: no pipe: %s", strerror(errno));
    }
    job->guard = fork();
    if (job->guard == 0) {
        close(p[1]);
        guard(p[0], pids, cap, job->dir);
    }
    tti_mfree(pids);
    close(p[0]);
    job->guard_fd = p[1];
    if (job->guard < 0) {
        job->guard = 0;
        return TT_FAIL(TT_ERR_IO, "launch: no process for the guard: %s", strerror(errno));
    }
    return TT_OK;
}

void tti_guard_tell(const tti_job *job, pid_t pid)
{
    if (job->guard > 0)
        (void)!write(job->guard_fd, &pid, sizeof pid);
}

void tti_guard_forget(const tti_job *job, pid_t pid)
{
    tti_guard_tell(job, -pid);
}

void tti_guard_stop(tti_job *job)
{
    if (job->guard > 0) {
        tti_guard_tell(job, FAREWELL);
        waitpid(job->guard, NULL, 0);
    }
    if (job->guard_fd >= 0)
        close(job->guard_fd);
    job->guard = 0;
    job->guard_fd = -1;
}
