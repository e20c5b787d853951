/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks: output that is never waited for. A terminal or pipe is opened again, so that it can be made not to
 * block without changing it for others who share it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launch/output.h"

#define SMALL 4096 /* what a pipe takes at once when poll says that it can be written */

void tti_sink_open(tti_sink *s, int fd)
{
    char path[32];
    struct stat st;
    int again;

    *s = (tti_sink){ .fd = fd };
    if (fstat(fd, &st) != 0 || S_ISREG(st.st_mode))
        return;
    s->chunked = true;
    if (S_ISSOCK(st.st_mode))
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (again >= 0)
        *s = (tti_sink){ .fd = again, .own = true };
}

void tti_sink_close(tti_sink *s)
{
    if (s->own)
        close(s->fd);
    tti_mfree(s->data);
    *s = (tti_sink){ .fd = -1, .broken = true };
}

tt_status tti_sink_put(tti_sink *s, const char *data, size_t n)
{
    if (s->broken)
        return TT_OK;
    if (s->start + s->n + n > s->cap && s->start > 0) {
        memmove(s->data, s->data + s->start, s->n);
        s->start = 0;
    }
    TT_TRY(tti_vec_reserve((void **)&s->data, &s->cap, s->n + n, 1));
    memcpy(s->data + s->start + s->n, data, n);
    s->n += n;
    return TT_OK;
}

/* How much may be written now without blocking; 0: nothing. */
static size_t room(const tti_sink *s)
{
    struct pollfd p = { .fd = s->fd, .events = POLLOUT };

    if (!s->chunked)
        return s->n;
    if (poll(&p, 1, 0) <= 0 || (p.revents & (POLLOUT | POLLERR | POLLHUP)) == 0)
        return 0;
    return s->n < SMALL ? s->n : SMALL;
}

void tti_sink_flush(tti_sink *s)
{
    while (s->n > 0 && !s->broken) {
        size_t n = room(s);
        ssize_t done = n > 0 ? write(s->fd, s->data + s->start, n) : 0;

        if (done < 0 && errno == EINTR)
            continue;
        if (n == 0 || (done < 0 && errno == EAGAIN))
            return;
        if (done < 0) {
            s->broken = true;
            done = (ssize_t)s->n;
        }
        s->start += (size_t)done;
        s->n -= (size_t)done;
    }
    s->start = s->n = 0; /* all written, or broken */
}
