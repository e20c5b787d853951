/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: one pipe of a rank, its log file, its place in a sink, and the end of what it said. */
#include "launch/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define PIECE 65536

static void log_write(tti_stream *s, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t done = write(s->log_fd, data, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return; /* a full disk does not end the job */
        data += done;
        n -= (size_t)done;
    }
}

static void tail_add(tti_stream *s, const char *data, size_t n)
{
    if (n > TTI_TAIL) {
        s->n_tail += n - TTI_TAIL;
        data += n - TTI_TAIL;
        n = TTI_TAIL;
    }
    for (size_t i = 0; i < n; i++)
        s->tail[s->n_tail++ % TTI_TAIL] = data[i];
}

/* One line, with its newline if it has one, behind its tag. */
static void put_line(tti_stream *s, const char *line, size_t n)
{
    (void)tti_sink_put(s->sink, s->prefix, s->n_prefix);
    (void)tti_sink_put(s->sink, line, n);
    if (n == 0 || line[n - 1] != '\n')
        (void)tti_sink_put(s->sink, "\n", 1);
}

static void line_flush(tti_stream *s)
{
    if (s->n_line > 0)
        put_line(s, s->line, s->n_line);
    s->n_line = 0;
}

/* Keeps the begun line; one that grows too long, or for which there is no memory, is passed on. */
static void line_keep(tti_stream *s, const char *data, size_t n)
{
    if (s->n_line + n > TTI_LINE_MAX)
        line_flush(s);
    if (tti_vec_reserve((void **)&s->line, &s->cap_line, s->n_line + n, 1) != TT_OK) {
        line_flush(s);
        put_line(s, data, n);
        return;
    }
    memcpy(s->line + s->n_line, data, n);
    s->n_line += n;
}

static void show(tti_stream *s, const char *data, size_t n)
{
    if (s->raw) {
        (void)tti_sink_put(s->sink, data, n);
        return;
    }
    while (n > 0) {
        const char *end = memchr(data, '\n', n);
        size_t k = end != NULL ? (size_t)(end - data) + 1 : n;

        if (end != NULL && s->n_line == 0) {
            put_line(s, data, k);
        } else {
            line_keep(s, data, k);
            if (end != NULL)
                line_flush(s);
        }
        data += k;
        n -= k;
    }
}

bool tti_stream_read(tti_stream *s)
{
    char piece[PIECE];
    ssize_t n;

    if (s->fd < 0)
        return false;
    do
        n = read(s->fd, piece, sizeof piece);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0) {
        tti_stream_end(s);
        return false;
    }
    if (s->log_fd >= 0)
        log_write(s, piece, (size_t)n);
    tail_add(s, piece, (size_t)n);
    if (s->shown)
        show(s, piece, (size_t)n);
    return true;
}

void tti_stream_end(tti_stream *s)
{
    if (s->fd < 0)
        return;
    if (s->shown && !s->raw)
        line_flush(s);
    close(s->fd);
    s->fd = -1;
}

void tti_stream_close(tti_stream *s)
{
    tti_stream_end(s);
    if (s->log_fd >= 0)
        close(s->log_fd);
    s->log_fd = -1;
    tti_mfree(s->line);
    s->line = NULL;
    s->cap_line = 0;
}

void tti_stream_tail(const tti_stream *s, int n_lines, char *text, size_t size)
{
    size_t n = s->n_tail < TTI_TAIL ? s->n_tail : TTI_TAIL;
    size_t k = 0;

    if (n >= size)
        n = size - 1;
    while (n > 0 && s->tail[(s->n_tail - 1) % TTI_TAIL] == '\n' && k == 0)
        k = 1; /* the last newline ends the last line */
    for (size_t i = k; i < n; i++)
        if (s->tail[(s->n_tail - 1 - i) % TTI_TAIL] == '\n' && --n_lines == 0)
            n = i;
    for (size_t i = 0; i < n; i++) {
        char c = s->tail[(s->n_tail - n + i) % TTI_TAIL];
        text[i] = c == '\0' ? ' ' : c;
    }
    text[n > k ? n - k : 0] = '\0';
}
