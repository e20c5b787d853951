/* SPDX-License-Identifier: Apache-2.0 */
/* Starts ranks as fresh processes of this program, and the memory they share. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/testing.h"
#include "testing/world.h"

enum { SHOWN_OUTPUT = 128 << 10, CHANNEL_FD = 4, WORLD_FD = 3 };

extern char **environ;

tti_world *tti_world_new(const tt_test *t, uint64_t seed, double limit, int *fd_p)
{
    int size = tti_test_n_ranks(t);
    size_t bytes = sizeof(tti_world) + (size_t)size * sizeof(tti_world_rank);
    const char *dir = tt_test_tmpdir();
    tti_world *w;
    int fd;

    if (dir == NULL)
        return NULL;
    fd = memfd_create("test world", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        goto fail;
    w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (w == MAP_FAILED)
        goto fail;
    w->kind = t->kind;
    w->size = size;
    w->seed = seed;
    w->limit = limit;
    w->bytes = bytes;
    snprintf(w->suite, sizeof w->suite, "%s", t->suite);
    snprintf(w->name, sizeof w->name, "%s", t->name);
    for (int i = 0; i < size; i++)
        snprintf(w->ranks[i].record.tmpdir, sizeof w->ranks[i].record.tmpdir, "%s", dir);
    *fd_p = fd;
    return w;

fail:
    tt_test_fail(__FILE__, __LINE__, "cannot make a world of %d ranks: %s", size, strerror(errno));
    if (fd >= 0)
        close(fd);
    return NULL;
}

void tti_world_free(tti_world *w)
{
    if (w != NULL)
        munmap(w, w->bytes);
}

static void put_number(const char *name, int value, int keep)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, !keep);
}

/* What launchers tell their ranks. Parallel loops get one thread each: the cores are taken. */
static void set_environment(const tti_world *w, int rank)
{
    put_number("RANK", rank, 0);
    put_number("LOCAL_RANK", rank, 0);
    put_number("WORLD_SIZE", w->size, 0);
    put_number("LOCAL_WORLD_SIZE", w->size, 0);
    put_number("OMP_NUM_THREADS", 1, 1);
    setenv("OMP_WAIT_POLICY", "passive", 0);
}

/* Moves fd out of the way of the numbers that a rank expects. */
static int lifted(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10);
}

static void become_rank(const tti_rank_proc *p, const tti_world *w, int world_fd, int rank,
                        int channel) __attribute__((noreturn));
static void become_rank(const tti_rank_proc *p, const tti_world *w, int world_fd, int rank,
                        int channel)
{
    int world = lifted(world_fd), output = lifted(p->output), chan = lifted(channel);
    char program[4096], option[] = TTI_RANK_OPTION, where[32];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *argv[] = { program, option, where, NULL };
    int nothing = open("/dev/null", O_RDONLY);

    program[n > 0 ? n : 0] = '\0';
    snprintf(where, sizeof where, "%d:%d", rank, WORLD_FD);
    if (nothing >= 0 && nothing != STDIN_FILENO) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
    }
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    dup2(world, WORLD_FD);
    if (chan >= 0)
        dup2(chan, CHANNEL_FD);
    set_environment(w, rank);
    execve("/proc/self/exe", argv, environ);
    dprintf(STDERR_FILENO, "cannot start this program again: %s\n", strerror(errno));
    _exit(2);
}

bool tti_rank_spawn(tti_rank_proc *p, const tti_world *w, int world_fd, int rank, bool with_channel)
{
    int ends[2] = { -1, -1 };
    pid_t leader = getpid();

    *p = (tti_rank_proc){ .pid = -1, .pid_fd = -1, .output = -1, .channel = -1 };
    p->output = memfd_create("rank output", MFD_CLOEXEC);
    if (p->output < 0)
        goto fail;
    if (with_channel && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        goto fail;
    fflush(NULL);
    p->pid = fork();
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != leader) /* it died before it could be watched */
            _exit(2);
        become_rank(p, w, world_fd, rank, ends[1]);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    p->channel = ends[0];
    if (p->pid < 0)
        goto fail;
    p->pid_fd = pidfd_open(p->pid, 0);
    if (p->pid_fd < 0)
        goto fail;
    return true;

fail:
    tt_test_fail(__FILE__, __LINE__, "rank %d cannot be started: %s", rank, strerror(errno));
    return false;
}

void tti_rank_reap(tti_rank_proc *p)
{
    while (waitpid(p->pid, &p->end.status, 0) < 0 && errno == EINTR)
        ;
    p->end.ended = true;
}

void tti_rank_close(tti_rank_proc *p)
{
    if (p->pid > 0 && !p->end.ended) {
        kill(p->pid, SIGKILL);
        tti_rank_reap(p);
    }
    if (p->pid_fd >= 0)
        close(p->pid_fd);
    if (p->output >= 0)
        close(p->output);
    if (p->channel >= 0)
        close(p->channel);
}

char *tti_rank_output(tti_rank_proc *p)
{
    struct stat st;
    off_t from = p->shown;
    char *text;
    ssize_t got;

    if (fstat(p->output, &st) != 0 || st.st_size <= from)
        return NULL;
    if (st.st_size - from > SHOWN_OUTPUT)
        from = st.st_size - SHOWN_OUTPUT;
    text = malloc((size_t)(st.st_size - from) + 1);
    if (text == NULL)
        return NULL;
    got = pread(p->output, text, (size_t)(st.st_size - from), from);
    text[got > 0 ? got : 0] = '\0';
    p->shown = st.st_size;
    return text;
}
