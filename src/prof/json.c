/* SPDX-License-Identifier: Apache-2.0 */
/* JSON by way of a buffer. */
#include "prof/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ROOM ((size_t)64 << 10)

void tti_json_open(tti_json *j, const char *what, const char *path, int flags)
{
    *j = (tti_json){ .what = what };
    tti_writer_open(&j->file, what, path, flags);
    j->buffer = j->file.status == TT_OK ? tti_malloc(ROOM) : NULL;
    if (j->buffer == NULL)
        tti_writer_check(&j->file, TT_ERR_NOMEM);
}

static void flush(tti_json *j)
{
    tti_writer_put(&j->file, j->buffer, j->n);
    j->n = 0;
}

static void put(tti_json *j, const char *s, size_t n)
{
    if (j->file.status != TT_OK)
        return;
    if (j->n + n > ROOM)
        flush(j);
    if (n > ROOM) { /* only texts can be that long, and they come in pieces */
        tti_writer_check(&j->file, TT_FAIL(TT_ERR_INVALID, "%s: a piece of %zu bytes", j->what, n));
        return;
    }
    memcpy(j->buffer + j->n, s, n);
    j->n += n;
}

static void puts_to(tti_json *j, const char *s)
{
    put(j, s, strlen(s));
}

static void put_text(tti_json *j, const char *text)
{
    char piece[8];

    puts_to(j, "\"");
    while (*text != '\0')
        put(j, piece, tti_json_piece(&text, piece));
    puts_to(j, "\"");
}

static void key_of(tti_json *j, const char *key)
{
    if (j->depth > 0) {
        if (j->filled[j->depth - 1])
            puts_to(j, ",");
        j->filled[j->depth - 1] = true;
    }
    if (key == NULL)
        return;
    put_text(j, key);
    puts_to(j, ":");
}

void tti_json_begin(tti_json *j, const char *key, char bracket)
{
    key_of(j, key);
    put(j, &bracket, 1);
    j->filled[j->depth++] = false;
}

void tti_json_end(tti_json *j, char bracket)
{
    j->depth--;
    put(j, &bracket, 1);
}

void tti_json_text(tti_json *j, const char *key, const char *text)
{
    key_of(j, key);
    put_text(j, text != NULL ? text : "");
}

void tti_json_int(tti_json *j, const char *key, int64_t value)
{
    char digits[24];

    key_of(j, key);
    snprintf(digits, sizeof digits, "%" PRId64, value);
    puts_to(j, digits);
}

void tti_json_uint(tti_json *j, const char *key, uint64_t value)
{
    char digits[24];

    key_of(j, key);
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    puts_to(j, digits);
}

void tti_json_bool(tti_json *j, const char *key, bool value)
{
    key_of(j, key);
    puts_to(j, value ? "true" : "false");
}

void tti_json_micros(tti_json *j, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    char digits[32];

    key_of(j, key);
    snprintf(digits, sizeof digits, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", size / 1000,
             (unsigned)(size % 1000));
    puts_to(j, digits);
}

void tti_json_line(tti_json *j)
{
    if (j->depth > 0 && j->filled[j->depth - 1]) {
        puts_to(j, ",\n");
        j->filled[j->depth - 1] = false;
    } else {
        puts_to(j, "\n");
    }
}

tt_status tti_json_finish(tti_json *j)
{
    puts_to(j, "\n");
    flush(j);
    tti_mfree(j->buffer);
    j->buffer = NULL;
    return tti_writer_finish(&j->file);
}
