/* SPDX-License-Identifier: Apache-2.0 */
/* The file has no name until it is complete (O_TMPFILE), where the file system can do that; elsewhere it
 * has a name that ends in .tmp. */
#include "prof/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM ((size_t)64 << 10)

static void fail_errno(tti_json *j, const char *doing)
{
    if (j->status == TT_OK)
        j->status =
            TT_FAIL(TT_ERR_IO, "%s: cannot %s %s: %s", j->what, doing, j->path, strerror(errno));
}

/* A file without a name in the directory of `path`; -1 if there is no such thing. */
static int open_nameless(const char *path)
{
    char *directory = tti_strdup(path), *slash;
    int fd;

    if (directory == NULL)
        return -1;
    slash = strrchr(directory, '/');
    if (slash != NULL)
        slash[slash == directory ? 1 : 0] = '\0';
    fd = open(slash != NULL ? directory : ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    tti_mfree(directory);
    return fd;
}

void tti_json_open(tti_json *j, const char *what, const char *path)
{
    static atomic_uint counter;
    size_t room;

    *j = (tti_json){ .what = what, .path = path, .fd = -1 };
    if (path == NULL) {
        j->status = TT_FAIL(TT_ERR_INVALID, "%s: expected a path, got NULL", what);
        return;
    }
    room = strlen(path) + 40;
    j->temporary = tti_malloc(room);
    j->buffer = j->temporary != NULL ? tti_malloc(ROOM) : NULL;
    if (j->buffer == NULL) {
        j->status = TT_ERR_NOMEM;
        return;
    }
    snprintf(j->temporary, room, "%s.%ld.%u.tmp", path, (long)getpid(),
             atomic_fetch_add(&counter, 1));
    j->fd = open_nameless(path);
    if (j->fd < 0) {
        j->fd = open(j->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        j->named = j->fd >= 0;
    }
    if (j->fd < 0)
        fail_errno(j, "create");
}

static void flush(tti_json *j)
{
    size_t done = 0;

    while (j->status == TT_OK && done < j->n) {
        ssize_t n = write(j->fd, j->buffer + done, j->n - done);

        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            fail_errno(j, "write");
    }
    j->n = 0;
}

static void put(tti_json *j, const char *s, size_t n)
{
    if (j->status != TT_OK)
        return;
    if (j->n + n > ROOM)
        flush(j);
    if (n > ROOM) { /* only texts can be that long, and they come in pieces */
        j->status = TT_FAIL(TT_ERR_INVALID, "%s: a piece of %zu bytes", j->what, n);
        return;
    }
    memcpy(j->buffer + j->n, s, n);
    j->n += n;
}

static void puts_to(tti_json *j, const char *s)
{
    put(j, s, strlen(s));
}

/* How many bytes the UTF-8 character at `s` has; 0 when it is none. */
static size_t utf8_length(const unsigned char *s)
{
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static void put_text(tti_json *j, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    char escape[8];

    puts_to(j, "\"");
    while (*s != '\0') {
        size_t n = utf8_length(s);

        if (*s == '"' || *s == '\\') {
            put(j, "\\", 1);
            put(j, (const char *)s, 1);
        } else if (n == 0) {
            puts_to(j, "\\ufffd");
        } else if (*s < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", *s);
            puts_to(j, escape);
        } else {
            put(j, (const char *)s, n);
        }
        s += n != 0 ? n : 1;
    }
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

/* Gives a nameless file its temporary name: a link cannot replace a file, a rename can. */
static void give_name(tti_json *j)
{
    char proc[40];

    if (j->named || j->status != TT_OK)
        return;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", j->fd);
    if (linkat(AT_FDCWD, proc, AT_FDCWD, j->temporary, AT_SYMLINK_FOLLOW) == 0)
        j->named = true;
    else
        fail_errno(j, "name");
}

tt_status tti_json_finish(tti_json *j)
{
    if (j->fd >= 0) {
        puts_to(j, "\n");
        flush(j);
        give_name(j);
        if (close(j->fd) != 0)
            fail_errno(j, "close");
        if (j->status == TT_OK && rename(j->temporary, j->path) != 0)
            fail_errno(j, "replace");
        if (j->status != TT_OK && j->named)
            unlink(j->temporary);
    }
    tti_mfree(j->temporary);
    tti_mfree(j->buffer);
    j->temporary = j->buffer = NULL;
    j->fd = -1;
    return j->status;
}
