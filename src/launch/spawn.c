/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a rank: a process in a group of its own, which dies with the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/job.h"

#define PIPE_BYTES (256 << 10)

static const char *path_variable(void)
{
    for (char **e = environ; e != NULL && *e != NULL; e++)
        if (strncmp(*e, "PATH=", 5) == 0)
            return *e + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static tt_status found(const char *path, char **path_p, int *code_p)
{
    *code_p = 126;
    if (!is_file(path))
        return TT_FAIL(TT_ERR_INVALID, "%s is a directory", path);
    if (access(path, X_OK) != 0)
        return TT_FAIL(TT_ERR_INVALID, "%s is not executable%s", path,
                       strstr(path, ".py") != NULL ? "; did you mean `python3 SCRIPT`?" : "");
    *code_p = 0;
    *path_p = tti_strdup(path);
    return *path_p != NULL ? TT_OK : TT_ERR_NOMEM;
}

tt_status tti_program_find(const char *name, char **path_p, int *code_p)
{
    const char *dir = path_variable();
    char path[PATH_MAX], denied[PATH_MAX] = "";

    *code_p = 127;
    if (strchr(name, '/') != NULL) {
        if (access(name, F_OK) == 0)
            return found(name, path_p, code_p);
        return TT_FAIL(TT_ERR_NOT_FOUND, "%s: %s", name, strerror(errno));
    }
    for (;;) {
        size_t n = strcspn(dir, ":");

        snprintf(path, sizeof path, "%.*s/%s", n > 0 ? (int)n : 1, n > 0 ? dir : ".", name);
        if (is_file(path) && access(path, X_OK) == 0)
            return found(path, path_p, code_p);
        if (is_file(path))
            memcpy(denied, path, sizeof denied);
        if (dir[n] == '\0')
            break;
        dir += n + 1;
    }
    if (denied[0] != '\0')
        return found(denied, path_p, code_p);
    if (is_file(name))
        return TT_FAIL(TT_ERR_NOT_FOUND, "%s is not in PATH; did you mean ./%s?", name, name);
    return TT_FAIL(TT_ERR_NOT_FOUND, "%s is not in PATH", name);
}

/* ---- the child ---------------------------------------------------------------------------- */

typedef struct birth {
    const tti_job *job;
    const cpu_set_t *cpus;
    char **env;
    int in, out, err;
    pid_t parent;
    volatile int error; /* of exec, told through shared memory */
} birth;

/* In the child, which shares the memory of the parent until exec: nothing but system calls. */
static void become(birth *b)
{
    struct sigaction dfl = { .sa_handler = SIG_DFL };

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->parent)
        _exit(125);
    if (b->cpus != NULL)
        sched_setaffinity(0, sizeof *b->cpus, b->cpus);
    dup2(b->in, 0);
    dup2(b->out, 1);
    dup2(b->err, 2);
    if (b->job->old_pipe.sa_handler != SIG_IGN)
        sigaction(SIGPIPE, &dfl, NULL);
    sigprocmask(SIG_SETMASK, &b->job->old_mask, NULL);
    execve(b->job->program, (char *const *)b->job->argv, b->env);
    b->error = errno;
    _exit(127);
}

static __attribute__((noinline)) pid_t give_birth(birth *b)
{
    pid_t pid = vfork();

    if (pid == 0)
        become(b);
    return pid;
}

/* ---- the parent --------------------------------------------------------------------------- */

static tt_status open_pipe(tti_stream *s, int *write_p)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC) != 0)
        return TT_FAIL(TT_ERR_IO, "launch: no pipe: %s", strerror(errno));
    (void)fcntl(p[0], F_SETPIPE_SZ,
                PIPE_BYTES); /* fewer wake-ups; limited per user, so it may fail */
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    s->fd = p[0];
    *write_p = p[1];
    return TT_OK;
}

/* Rank 0 may read what is given to the launcher, unless that is a terminal, which a process in the
 * background must not touch. */
static int input_of(const tti_rank *r)
{
    if (r->rank == 0 && !isatty(0) && fcntl(0, F_GETFD) >= 0)
        return fcntl(0, F_DUPFD_CLOEXEC, 3);
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static tt_status start(tti_job *job, tti_rank *r, birth *b)
{
    r->pid = give_birth(b);
    if (r->pid < 0) {
        r->pid = 0;
        return TT_FAIL(TT_ERR_IO, "launch: rank %d: no process: %s", r->rank, strerror(errno));
    }
    if (b->error != 0) {
        waitpid(r->pid, NULL, 0);
        r->pid = 0;
        return TT_FAIL(TT_ERR_INVALID, "%s: %s%s", job->program, strerror(b->error),
                       b->error == ENOEXEC  ? " (a script needs a first line like #!/bin/sh)"
                       : b->error == ENOENT ? " (is the interpreter of its first line there?)"
                                            : "");
    }
    /* The child does the same. A thread sanitizer turns vfork into fork, so the child may not have come that
     * far, and signals to its group would reach nobody. */
    (void)setpgid(r->pid, r->pid);
    r->shown_pid = r->pid;
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    if (r->pidfd < 0) { /* nobody could notice its end: it must not run */
        int error = errno;

        kill(-r->pid, SIGKILL);
        kill(r->pid, SIGKILL);
        waitpid(r->pid, NULL, 0);
        r->pid = 0;
        return TT_FAIL(TT_ERR_IO, "launch: rank %d: no pidfd: %s", r->rank, strerror(error));
    }
    fcntl(r->pidfd, F_SETFD, FD_CLOEXEC);
    tti_guard_tell(job, r->pid);
    job->n_alive++;
    return TT_OK;
}

tt_status tti_launch_spawn(tti_job *job, tti_rank *r)
{
    birth b = { .job = job, .in = -1, .out = -1, .err = -1, .parent = getpid() };
    tt_status st = tti_launch_env(job, r, &b.env);

    if (st == TT_OK)
        st = open_pipe(&r->out, &b.out);
    if (st == TT_OK)
        st = open_pipe(&r->err, &b.err);
    if (st == TT_OK) {
        b.in = input_of(r);
        b.cpus = job->cpus.sets != NULL ? &job->cpus.sets[r->local_rank] : NULL;
        st = start(job, r, &b);
    }
    if (b.in >= 0)
        close(b.in);
    if (b.out >= 0)
        close(b.out);
    if (b.err >= 0)
        close(b.err);
    tti_mfree(b.env);
    return st;
}
