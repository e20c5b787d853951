/* SPDX-License-Identifier: Apache-2.0 */
/* Watching processes with pidfds, which become readable when the process ends. Where the kernel has none,
 * its entry in /proc is looked at. */
#include "coll/life.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

struct tti_life {
    tti_life *next;
    int pid, fd; /* fd -1: by /proc */
    uint64_t start_time;
    int users;
    atomic_bool ended;
};

static pthread_mutex_t mu_lives = PTHREAD_MUTEX_INITIALIZER;
static tti_life *lives; /* mu_lives */

/* State letter and start time from /proc; false when there is no such process. */
static bool look(int pid, char *state_p, uint64_t *start_p)
{
    char path[32], text[1024];
    const char *at;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at == NULL || at[1] == '\0')
        return false;
    *state_p = at[2];
    for (int field = 2; field < 22 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    *start_p = at != NULL ? strtoull(at, NULL, 10) : 0;
    return true;
}

uint64_t tti_life_start_time(int pid)
{
    char state;
    uint64_t start;

    return look(pid, &state, &start) ? start : 0;
}

/* Only a certain answer is an end: /proc may be hidden. */
static bool other_process(int pid, uint64_t start_time)
{
    char state;
    uint64_t start;

    return start_time != 0 && look(pid, &state, &start) && start != 0 && start != start_time;
}

static tti_life *find_locked(int pid, uint64_t start_time)
{
    for (tti_life *l = lives; l != NULL; l = l->next)
        if (l->pid == pid && l->start_time == start_time)
            return l;
    return NULL;
}

static tt_status make_locked(int pid, uint64_t start_time, tti_life **life_p)
{
    tti_life *l;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0 && errno == ESRCH)
        return TT_ERR_PEER;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return TT_FAIL(TT_ERR_IO, "team: watching process %d: %s", pid, strerror(errno));
    l = tti_calloc(1, sizeof *l);
    if (l == NULL) {
        if (fd >= 0)
            close(fd);
        return TT_ERR_NOMEM;
    }
    l->pid = pid;
    l->fd = fd;
    l->start_time = start_time;
    l->next = lives;
    lives = l;
    *life_p = l;
    return TT_OK;
}

tt_status tti_life_open(int pid, uint64_t start_time, tti_life **life_p)
{
    tti_life *l;
    tt_status st = TT_OK;

    pthread_mutex_lock(&mu_lives);
    l = find_locked(pid, start_time);
    if (l == NULL)
        st = make_locked(pid, start_time, &l);
    if (st == TT_OK)
        l->users++;
    pthread_mutex_unlock(&mu_lives);
    if (st != TT_OK)
        return st;
    if (other_process(pid, start_time)) {
        tti_life_close(l);
        return TT_ERR_PEER;
    }
    *life_p = l;
    return TT_OK;
}

void tti_life_close(tti_life *life)
{
    if (life == NULL)
        return;
    pthread_mutex_lock(&mu_lives);
    if (--life->users > 0)
        life = NULL;
    for (tti_life **l = &lives; life != NULL && *l != NULL; l = &(*l)->next)
        if (*l == life) {
            *l = life->next;
            break;
        }
    pthread_mutex_unlock(&mu_lives);
    if (life == NULL)
        return;
    if (life->fd >= 0)
        close(life->fd);
    tti_mfree(life);
}

bool tti_life_ended(tti_life *life)
{
    struct pollfd p = { .fd = life->fd, .events = POLLIN };
    bool ended = atomic_load_explicit(&life->ended, memory_order_relaxed);
    uint64_t start;
    char state;

    if (ended)
        return true;
    if (life->fd >= 0)
        ended = poll(&p, 1, 0) == 1;
    else if (look(life->pid, &state, &start))
        ended =
            state == 'Z' || state == 'X' || (life->start_time != 0 && start != life->start_time);
    if (ended)
        atomic_store_explicit(&life->ended, true, memory_order_relaxed);
    return ended;
}
