/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks print: read from pipes, cut into whole lines, tagged, passed on without ever blocking. */
#ifndef TTI_LAUNCH_OUTPUT_H
#define TTI_LAUNCH_OUTPUT_H

#include "base/status.h"

#define TTI_LINE_MAX ((size_t)1 << 20)  /* longer lines are passed on in pieces of this size */
#define TTI_SINK_HIGH ((size_t)4 << 20) /* a sink that holds so much makes ranks wait */
#define TTI_TAIL 8192                   /* the end of what a stream said, for the summary */

/* Where output goes: a descriptor and what it has not taken yet. */
typedef struct tti_sink {
    int fd;
    bool own;     /* a description of our own, which does not block */
    bool chunked; /* may block: small pieces, only when poll says so */
    bool colour;
    bool broken; /* nobody reads it any more: everything is dropped */
    char *data;
    size_t start, n, cap;
} tti_sink;

void tti_sink_open(tti_sink *s, int fd);
void tti_sink_close(tti_sink *s);
/* Queues bytes. What memory has no room for is lost, and said so by the status. */
tt_status tti_sink_put(tti_sink *s, const char *data, size_t n);
/* Writes what the descriptor takes now. */
void tti_sink_flush(tti_sink *s);
static inline bool tti_sink_full(const tti_sink *s)
{
    return s->n >= TTI_SINK_HIGH;
}

/* One of the two outputs of a rank. */
typedef struct tti_stream {
    int fd;     /* the pipe; -1: ended */
    int log_fd; /* -1: none */
    bool shown; /* goes to the sink */
    bool raw;   /* without tags and lines */
    tti_sink *sink;
    char prefix[96];
    size_t n_prefix;
    char *line; /* begun, not ended */
    size_t n_line, cap_line;
    char tail[TTI_TAIL];
    size_t n_tail; /* ever written; the ring holds the last */
} tti_stream;

/* Reads what is there, at most a piece. False when the stream has ended. */
bool tti_stream_read(tti_stream *s);
/* Reads on until the pipe is empty or the sink is full; then ends the stream. */
void tti_stream_end(tti_stream *s);
void tti_stream_close(tti_stream *s);
/* The last lines, oldest first, ended by zero. */
void tti_stream_tail(const tti_stream *s, int n_lines, char *text, size_t size);

#endif
