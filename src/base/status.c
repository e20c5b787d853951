/* SPDX-License-Identifier: Apache-2.0 */
/* Names of statuses and the error record of each thread. Whoever notices a failure writes the
 * record once, through TT_FAIL; nobody else touches it. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local tti_error_copy last;

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
    char text[sizeof last.text];

    vsnprintf(text, sizeof text, fmt, args); /* the arguments may point into the old record */
    memcpy(last.text, text, sizeof text);
    last.status = st;
    if (file != NULL)
        snprintf(last.where, sizeof last.where, "%s:%d", short_path(file), line);
    else
        snprintf(last.where, sizeof last.where, "user code");
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
    return last.text;
}

tt_status tt_last_status(void)
{
    return last.status;
}

const char *tt_last_error_where(void)
{
    return last.where;
}

void tt_clear_error(void)
{
    last = (tti_error_copy){ 0 };
}

void tti_error_save(tti_error_copy *copy)
{
    *copy = last;
}

void tti_error_restore(const tti_error_copy *copy)
{
    last = *copy;
}

const char *tt_version(void)
{
#define STRING(x) #x
#define VERSION(a, b, c) STRING(a) "." STRING(b) "." STRING(c)
    return VERSION(TT_VERSION_MAJOR, TT_VERSION_MINOR, TT_VERSION_PATCH);
}
