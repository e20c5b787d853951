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

/* What tti_error_copy does not hold. The last few failures of a thread are remembered, so that one that comes back
 * with tti_error_restore after clean-up code gets its own again; it is known by its words. */
typedef struct about {
    uint64_t words; /* a hash of them */
    unsigned char state;
    tt_error_info info;
} about;

enum { REMEMBERED = 4 };

typedef struct record {
    tti_error_copy error;
    about about;
    about before[REMEMBERED]; /* a ring */
    unsigned next;
} record;

/* Thread-local room is scarce in a library that is opened late, and records are large: each thread gets its own
 * from the heap with its first failure. When there is no memory for it, the failure goes to the spare record, which is
 * always there: its words may be cut, and it has no fields. At most one of the two is in use. */
static TTI_HOT_TLS record *mine;
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
static record *full_record(void)
{
    if (mine != NULL)
        return mine;
    pthread_once(&once, make_key);
    record *fresh = has_key && !tti_alloc_fault() ? calloc(1, sizeof *fresh) : NULL;
    if (fresh == NULL || pthread_setspecific(key, fresh) != 0) {
        free(fresh);
        return NULL;
    }
    return mine = fresh;
}

static uint64_t hash_words(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

/* The failure that is about to be replaced. */
static void remember(record *r)
{
    if (r->error.status == TT_OK)
        return;
    r->about.words = hash_words(r->error.text);
    r->about.state = tti_error_state;
    r->before[r->next++ % REMEMBERED] = r->about;
}

static void write_record(tt_status st, const char *text, const char *where)
{
    record *r = full_record();

    if (r == NULL) {
        spare.status = st;
        snprintf(spare.text, sizeof spare.text, "%s", text);
        snprintf(spare.where, sizeof spare.where, "%s", where);
    } else {
        remember(r);
        spare.status = TT_OK;
        r->error.status = st;
        snprintf(r->error.text, sizeof r->error.text, "%s", text);
        snprintf(r->error.where, sizeof r->error.where, "%s", where);
        r->about.info = (tt_error_info){ 0 };
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
    char text[sizeof mine->error.text], where[sizeof mine->error.where];

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
    return spare.status != TT_OK ? spare.text : mine != NULL ? mine->error.text : "";
}

static const char *last_where(void)
{
    return spare.status != TT_OK ? spare.where : mine != NULL ? mine->error.where : "";
}

bool tti_error_is_users(void)
{
    return strcmp(last_where(), users) == 0;
}

tt_status tt_last_status(void)
{
    return spare.status != TT_OK ? spare.status : mine != NULL ? mine->error.status : TT_OK;
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
        *info_p = mine->about.info;
    info_p->status = tt_last_status();
    return info_p->status != TT_OK;
}

void tt_clear_error(void)
{
    tti_error_state = TTI_ERROR_HANDLED;
    spare.status = TT_OK;
    if (mine != NULL) {
        mine->error = (tti_error_copy){ 0 };
        mine->about = (about){ 0 };
    }
}

/* ---- keeping and adding ----------------------------------------------------------------------- */

void tti_error_save(tti_error_copy *copy)
{
    if (spare.status == TT_OK && mine != NULL) {
        *copy = mine->error;
        return;
    }
    *copy = (tti_error_copy){ .status = spare.status };
    snprintf(copy->text, sizeof copy->text, "%s", tti_last_error());
    snprintf(copy->where, sizeof copy->where, "%s", last_where());
}

static bool is_last(const tti_error_copy *copy)
{
    return copy->status == tt_last_status() && strcmp(copy->text, tti_last_error()) == 0;
}

void tti_error_restore(const tti_error_copy *copy)
{
    uint64_t words;

    if (copy->status == TT_OK) {
        tt_clear_error();
        return;
    }
    if (is_last(copy))
        return;
    write_record(copy->status, copy->text, copy->where);
    if (mine == NULL || spare.status != TT_OK)
        return;
    words = hash_words(copy->text);
    for (int i = 0; i < REMEMBERED; i++)
        if (mine->before[i].words == words) {
            mine->about.info = mine->before[i].info;
            tti_error_state = mine->before[i].state;
        }
}

void tti_failure_save(tti_failure *f)
{
    tti_error_save(&f->error);
    f->info = (tt_error_info){ 0 };
    if (spare.status == TT_OK && mine != NULL)
        f->info = mine->about.info;
}

void tti_failure_restore(const tti_failure *f)
{
    write_record(f->error.status, f->error.text, f->error.where);
    tti_error_about(&f->info);
}

void tti_error_about(const tt_error_info *info)
{
    if (spare.status == TT_OK && mine != NULL)
        mine->about.info = *info;
}

void tti_error_add(const char *fmt, ...)
{
    char *text = spare.status != TT_OK ? spare.text : mine != NULL ? mine->error.text : NULL;
    size_t room = spare.status != TT_OK ? sizeof spare.text : sizeof mine->error.text;
    va_list args;

    if (text == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(text + strlen(text), room - strlen(text), fmt, args);
    va_end(args);
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
