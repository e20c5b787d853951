/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: a process that sleeps until the launcher has gone. If it went without a word it was killed;
 * then the guard kills what is left of the ranks' process groups and removes the job's directory. It is
 * forked before there are threads and does nothing but system calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
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

static void guard(int fd, pid_t *pids, int cap, const char *dir)
{
    int n = 0;
    pid_t pid;
    ssize_t got;

    fd = isolate(fd);
    while ((got = read(fd, &pid, sizeof pid)) == (ssize_t)sizeof pid ||
           (got < 0 && errno == EINTR)) {
        if (pid == FAREWELL)
            _exit(0);
        pids[n] = pid;
        n = n + 1 < cap ? n + 1 : 0;
    }
    for (int i = 0; i < cap; i++)
        if (pids[i] > 0)
            kill(-pids[i], SIGKILL);
    if (dir != NULL)
        execl("/bin/rm", "rm", "-rf", "--", dir, (char *)NULL);
    _exit(0);
}

tt_status tti_guard_start(tti_job *job)
{
    int p[2], cap = job->n * 2; /* of restarts only the last matter */
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
