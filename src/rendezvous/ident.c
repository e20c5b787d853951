/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is, as others on the same host can check it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/exchange.h"

static ssize_t read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, text, size - 1);
    close(fd);
    if (n >= 0)
        text[n] = '\0';
    return n;
}

/* Field 22 of /proc/<pid>/stat, and the state (field 3). Names may hold spaces and brackets: the last
 * bracket ends them. False when there is no such process. */
static bool process_stat(int pid, char *state_p, uint64_t *start_p)
{
    char path[40], text[1024];
    const char *p;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_text(path, text, sizeof text) <= 0)
        return false;
    p = strrchr(text, ')');
    if (p == NULL || p[1] == '\0')
        return false;
    p += 2;
    *state_p = *p;
    for (int field = 3; field < 22; field++) {
        p = strchr(p, ' ');
        if (p == NULL)
            return false;
        p++;
    }
    *start_p = strtoull(p, NULL, 10);
    return true;
}

static uint64_t namespace_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

tt_status tti_ident_self(int global_rank, int world_size, tti_ident *ident_p)
{
    tti_ident id = { .pid = (int32_t)getpid(),
                     .global_rank = global_rank,
                     .world_size = world_size,
                     .version = TTI_IDENT_VERSION };
    char state;

    if (!process_stat(id.pid, &state, &id.start_time))
        return TT_FAIL(TT_ERR_IO, "rendezvous: /proc/%d/stat: %s", id.pid, strerror(errno));
    id.pid_namespace = namespace_of("/proc/self/ns/pid");
    id.ipc_namespace = namespace_of("/proc/self/ns/ipc");
    if (read_text("/proc/sys/kernel/random/boot_id", id.boot_id, sizeof id.boot_id) < 0)
        id.boot_id[0] = '\0';
    id.boot_id[strcspn(id.boot_id, "\n")] = '\0';
    if (gethostname(id.host, sizeof id.host - 1) != 0)
        snprintf(id.host, sizeof id.host, "unknown");
    *ident_p = id;
    return TT_OK;
}

bool tti_ident_same_kernel(const tti_ident *a, const tti_ident *b)
{
    return a->boot_id[0] != '\0' && strncmp(a->boot_id, b->boot_id, sizeof a->boot_id) == 0;
}

bool tti_ident_same_host(const tti_ident *a, const tti_ident *b)
{
    return tti_ident_same_kernel(a, b) && a->pid_namespace == b->pid_namespace;
}

bool tti_ident_alive(const tti_ident *ident)
{
    uint64_t start;
    char state;

    if (ident->pid == (int32_t)getpid())
        return true;
    if (!process_stat(ident->pid, &state, &start))
        return !(kill(ident->pid, 0) != 0 && errno == ESRCH);
    return start == ident->start_time && state != 'Z' && state != 'X';
}
