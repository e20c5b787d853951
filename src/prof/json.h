/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written to a file piece by piece; the file is there complete or not at all, also when the process is
 * killed meanwhile. After the first failure the calls do nothing, and tti_json_finish reports it. */
#ifndef TTI_PROF_JSON_H
#define TTI_PROF_JSON_H

#include "base/writer.h"

#define TTI_JSON_DEPTH 16

typedef struct tti_json {
    const char *what; /* begins messages */
    tti_writer file;
    char *buffer;
    size_t n;
    int depth;
    bool filled[TTI_JSON_DEPTH]; /* a comma is due */
} tti_json;

/* `flags` as for tti_writer_open. */
void tti_json_open(tti_json *j, const char *what, const char *path, int flags);
void tti_json_begin(tti_json *j, const char *key, char bracket); /* key NULL: inside a list */
void tti_json_end(tti_json *j, char bracket);
/* Members; with key NULL items of a list. Text that is not UTF-8 is made harmless. */
void tti_json_text(tti_json *j, const char *key, const char *text);
void tti_json_int(tti_json *j, const char *key, int64_t value);
void tti_json_uint(tti_json *j, const char *key, uint64_t value);
void tti_json_bool(tti_json *j, const char *key, bool value);
void tti_json_micros(tti_json *j, const char *key, int64_t ns); /* as microseconds, exactly */
void tti_json_line(tti_json *j);                                /* begin a new line */
tt_status tti_json_finish(tti_json *j);

#endif
