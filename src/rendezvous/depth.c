/* SPDX-License-Identifier: Apache-2.0 */
/* Which ancestor put a variable into the environment. Every process keeps the environment it was started
 * with in /proc/<pid>/environ: the first ancestor that lacks name=value is the one that set it. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "rendezvous/world.h"

#define MAX_DEPTH 32
#define MAX_ENVIRON ((size_t)1 << 20)

static int parent_of(int pid)
{
    char path[40], text[512];
    const char *p;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    p = strrchr(text, ')');
    return p == NULL || strlen(p) < 5 ? -1 : atoi(p + 4); /* ") S ppid" */
}

/* 1: the process was started with this setting, 0: without, -1: its environment cannot be read. */
static int started_with(int pid, const char *setting)
{
    size_t n = 0, length = strlen(setting);
    char path[40], *text;
    int found = 0, fd;

    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    text = tti_malloc(MAX_ENVIRON + 1);
    for (ssize_t r = 1; text != NULL && r > 0 && n<MAX_ENVIRON; n += r> 0 ? (size_t)r : 0) {
        r = read(fd, text + n, MAX_ENVIRON - n);
        if (r < 0)
            found = -1;
    }
    close(fd);
    if (text == NULL || n == 0)
        found = -1;
    else
        text[n] = '\0';
    for (size_t at = 0; found == 0 && at < n; at += strlen(text + at) + 1)
        if (strlen(text + at) == length && memcmp(text + at, setting, length) == 0)
            found = 1;
    tti_mfree(text);
    return found;
}

int tti_env_depth(const char *name, const char *value)
{
    size_t bytes = strlen(name) + strlen(value) + 2;
    char *setting = tti_malloc(bytes);
    int depth = INT_MAX, pid = (int)getppid();

    if (setting == NULL)
        return INT_MAX;
    snprintf(setting, bytes, "%s=%s", name, value);
    for (int d = 0; d < MAX_DEPTH && pid > 0; d++) {
        int with = started_with(pid, setting);

        if (with != 1) {
            depth = with == 0 ? d : INT_MAX;
            break;
        }
        pid = parent_of(pid);
    }
    tti_mfree(setting);
    return depth;
}
