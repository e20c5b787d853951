/* SPDX-License-Identifier: Apache-2.0 */
/* Names of statuses and the error record of each thread. Whoever notices a failure writes the
 * record once, through TT_FAIL; nobody else touches it. */
#include "base/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_fault.h"
#include "base/error.h"

/* Thread-local room is scarce in a library that is opened late, and records are large: each thread gets its own
 * from the heap with its first failure. When there is no memory for it, the failure goes to the spare record, which is
 * always there: its words may be cut, and it has no fields. At most one of the two is in use. */
static TTI_HOT_TLS tti_error_copy *mine; /* its state is in tti_error_state */
static TTI_HOT_TLS struct {
    tt_status status;
    char text[120];
    char where[36];
} spare;
TTI_HOT_TLS unsigned char tti_error_state;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void thread_ends(void *r)
{
    mine = NULL;
    free(r);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, thread_ends) == 0;
}

/* This thread's full record; NULL when there is no memory for one. */
static tti_error_copy *full_record(void)
{
    if (mine != NULL)
        return mine;
    pthread_once(&once, make_key);
    tti_error_copy *fresh = has_key && !tti_alloc_fault() ? calloc(1, sizeof *fresh) : NULL;
    if (fresh == NULL || pthread_setspecific(key, fresh) != 0) {
        free(fresh);
        return NULL;
    }
    return mine = fresh;
}

static void write_record(tt_status st, const char *text, const char *where)
{
    tti_error_copy *r = full_record();

    if (r == NULL) {
        spare.status = st;
        snprintf(spare.text, sizeof spare.text, "%s", text);
        snprintf(spare.where, sizeof spare.where, "%s", where);
    } else {
        spare.status = TT_OK;
        r->status = st;
        snprintf(r->text, sizeof r->text, "%s", text);
        snprintf(r->where, sizeof r->where, "%s", where);
        r->info = (tt_error_info){ 0 };
    }
    tti_error_state = TTI_ERROR_PENDING;
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

const char *tt_error_kind_name(tt_error_kind kind)
{
    static const char *const names[] = {
        [TT_ERROR_OTHER] = "other",     [TT_ERROR_DIED] = "died",       [TT_ERROR_LEFT] = "left",
        [TT_ERROR_ABORTED] = "aborted", [TT_ERROR_MISSING] = "missing",
    };

    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

/* Paths are kept relative to the source tree, whatever directory the build ran in. */
static const char *short_path(const char *file)
{
    const char *src = strstr(file, "src/");

    return src != NULL ? src : file;
}

static const char users[] = "user code"; /* the place of what tt_fail records */

static void record_words(const char *file, int line, tt_status st, const char *fmt, va_list args)
{
    char text[sizeof mine->text], where[sizeof mine->where];

    vsnprintf(text, sizeof text, fmt, args); /* the arguments may point into the old record */
    if (file != NULL)
        snprintf(where, sizeof where, "%s:%d", short_path(file), line);
    else
        snprintf(where, sizeof where, "%s", users);
    write_record(st, text, where);
}

tt_status tti_fail(const char *file, int line, tt_status st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    record_words(file, line, st, fmt, args);
    va_end(args);
    return st;
}

tt_status tt_fail(tt_status st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    record_words(NULL, 0, st, fmt, args);
    va_end(args);
    return st;
}

/* ---- asking --------------------------------------------------------------------------------- */

const char *tti_last_error(void)
{
    return spare.status != TT_OK ? spare.text : mine != NULL ? mine->text : "";
}

static const char *last_where(void)
{
    return spare.status != TT_OK ? spare.where : mine != NULL ? mine->where : "";
}

bool tti_error_is_users(void)
{
    return strcmp(last_where(), users) == 0;
}

tt_status tt_last_status(void)
{
    return spare.status != TT_OK ? spare.status : mine != NULL ? mine->status : TT_OK;
}

const char *tt_last_error(void)
{
    tti_error_state = TTI_ERROR_HANDLED;
    return tti_last_error();
}

const char *tt_last_error_where(void)
{
    tti_error_state = TTI_ERROR_HANDLED;
    return last_where();
}

bool tt_last_error_info(tt_error_info *info_p)
{
    tti_error_state = TTI_ERROR_HANDLED;
    *info_p = (tt_error_info){ 0 };
    if (spare.status == TT_OK && mine != NULL)
        *info_p = mine->info;
    info_p->status = tt_last_status();
    return info_p->status != TT_OK;
}

void tt_clear_error(void)
{
    tti_error_state = TTI_ERROR_HANDLED;
    spare.status = TT_OK;
    if (mine != NULL)
        *mine = (tti_error_copy){ 0 };
}

/* ---- keeping and adding ----------------------------------------------------------------------- */

void tti_error_save(tti_error_copy *copy)
{
    if (tt_last_status() == TT_OK) { /* cheap: waits save before they look after peers */
        copy->status = TT_OK;
        copy->text[0] = copy->where[0] = '\0';
        memset(&copy->info, 0, sizeof copy->info);
    } else if (spare.status == TT_OK && mine != NULL) {
        *copy = *mine;
    } else {
        *copy = (tti_error_copy){ .status = spare.status };
        snprintf(copy->text, sizeof copy->text, "%s", tti_last_error());
        snprintf(copy->where, sizeof copy->where, "%s", last_where());
    }
    copy->state = tti_error_state;
}

void tti_error_restore(const tti_error_copy *copy)
{
    if (copy->status == TT_OK) {
        tt_clear_error();
        return;
    }
    tti_error_raise(copy);
    tti_error_state = copy->state;
}

void tti_error_raise(const tti_error_copy *copy)
{
    write_record(copy->status, copy->text, copy->where);
    tti_error_about(&copy->info);
}

void tti_error_about(const tt_error_info *info)
{
    if (spare.status == TT_OK && mine != NULL)
        mine->info = *info;
}

void tti_error_add(const char *fmt, ...)
{
    char *text = spare.status != TT_OK ? spare.text : mine != NULL ? mine->text : NULL;
    size_t room = spare.status != TT_OK ? sizeof spare.text : sizeof mine->text;
    va_list args;

    if (text == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(text + strlen(text), room - strlen(text), fmt, args);
    va_end(args);
}

tt_error_info tti_error_info_from(const tt_error_info *theirs)
{
    tt_error_info e = *theirs;

    e.group[sizeof e.group - 1] = e.operation[sizeof e.operation - 1] = '\0';
    e.host[sizeof e.host - 1] = e.cause[sizeof e.cause - 1] = '\0';
    if ((unsigned)e.kind > TT_ERROR_MISSING)
        e.kind = TT_ERROR_OTHER;
    if (e.n_ranks < 0)
        e.n_ranks = 0;
    return e;
}

void tti_error_info_add_rank(tt_error_info *info, int rank)
{
    if (info->n_ranks < TT_ERROR_RANKS)
        info->ranks[info->n_ranks] = rank;
    info->n_ranks++;
}

tt_status tti_null_at(const char *file, int line, const char *fmt, ...)
{
    tt_error_info info = { 0 };
    va_list args;

    if (tti_error_state == TTI_ERROR_PENDING)
        return tt_last_status();
    if (tti_error_state == TTI_ERROR_UNCLEAR)
        snprintf(info.cause, sizeof info.cause, "%.*s", (int)sizeof info.cause - 1,
                 tti_last_error());
    va_start(args, fmt);
    record_words(file, line, TT_ERR_INVALID, fmt, args);
    va_end(args);
    if (info.cause[0] != '\0') {
        tti_error_add("; the failure before was: %s", info.cause);
        tti_error_about(&info);
    }
    return TT_ERR_INVALID;
}

const char *tt_version(void)
{
#define STRING(x) #x
#define VERSION(a, b, c) STRING(a) "." STRING(b) "." STRING(c)
    return VERSION(TT_VERSION_MAJOR, TT_VERSION_MINOR, TT_VERSION_PATCH);
}
