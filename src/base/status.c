/* SPDX-License-Identifier: Apache-2.0 */
/* Names of statuses and the error record of each thread. Whoever notices a failure writes the
 * record once, through TT_FAIL; nobody else touches it. */
#include "base/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tls.h"

/* Thread-local room is scarce in a library that is opened late, and records are large: each thread gets its own
 * from the heap with its first failure. */
static TTI_HOT_TLS tti_error_copy *mine;
static tti_error_copy no_memory; /* for threads that get none, together */
static const tti_error_copy none;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void thread_ends(void *record)
{
    mine = NULL;
    free(record);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, thread_ends) == 0;
}

static const tti_error_copy *last(void)
{
    return mine != NULL ? mine : &none;
}

static tti_error_copy *last_mutable(void)
{
    if (mine != NULL)
        return mine;
    pthread_once(&once, make_key);
    tti_error_copy *fresh = has_key ? calloc(1, sizeof *fresh) : NULL;
    if (fresh == NULL || pthread_setspecific(key, fresh) != 0) {
        free(fresh);
        return &no_memory;
    }
    return mine = fresh;
}

static const struct {
    tt_status status;
    const char *name;
    const char *text;
} table[] = {
#define X(name, value, text) { TT_##name, "TT_" #name, text },
    TT_STATUS_MAP(X)
#undef X
};

const char *tt_status_name(tt_status st)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].status == st)
            return table[i].name;
    return "unknown";
}

const char *tt_status_text(tt_status st)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].status == st)
            return table[i].text;
    return "unknown";
}

/* Paths are kept relative to the source tree, whatever directory the build ran in. */
static const char *short_path(const char *file)
{
    const char *src = strstr(file, "src/");

    return src != NULL ? src : file;
}

static void record(const char *file, int line, tt_status st, const char *fmt, va_list args)
{
    tti_error_copy *r = last_mutable();
    char text[sizeof r->text];

    vsnprintf(text, sizeof text, fmt, args); /* the arguments may point into the old record */
    memcpy(r->text, text, sizeof text);
    r->status = st;
    if (file != NULL)
        snprintf(r->where, sizeof r->where, "%s:%d", short_path(file), line);
    else
        snprintf(r->where, sizeof r->where, "user code");
}

tt_status tti_fail(const char *file, int line, tt_status st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    record(file, line, st, fmt, args);
    va_end(args);
    return st;
}

tt_status tt_fail(tt_status st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    record(NULL, 0, st, fmt, args);
    va_end(args);
    return st;
}

const char *tt_last_error(void)
{
    return last()->text;
}

tt_status tt_last_status(void)
{
    return last()->status;
}

const char *tt_last_error_where(void)
{
    return last()->where;
}

void tt_clear_error(void)
{
    if (mine != NULL)
        *mine = none;
}

void tti_error_save(tti_error_copy *copy)
{
    *copy = *last();
}

void tti_error_restore(const tti_error_copy *copy)
{
    if (mine != NULL || copy->status != TT_OK || copy->text[0] != '\0')
        *last_mutable() = *copy;
}

const char *tt_version(void)
{
#define STRING(x) #x
#define VERSION(a, b, c) STRING(a) "." STRING(b) "." STRING(c)
    return VERSION(TT_VERSION_MAJOR, TT_VERSION_MINOR, TT_VERSION_PATCH);
}
