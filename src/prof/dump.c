/* SPDX-License-Identifier: Apache-2.0 */
/* Files from disks that were full and processes that died: nothing in them is trusted. */
#include "prof/dump.h"

#include <cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/open.h"

#define MAX_BYTES ((size_t)64 << 20)
#define MAX_SIZE 1000000 /* ranks of a group */

/* ---- members of objects ------------------------------------------------------------------ */

static bool get_number(const cJSON *j, const char *key, double lo, double hi, double *value_p)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= lo && item->valuedouble <= hi))
        return false;
    *value_p = item->valuedouble;
    return true;
}

static bool get_int(const cJSON *j, const char *key, int lo, int hi, int *value_p)
{
    double d;

    if (!get_number(j, key, lo, hi, &d))
        return false;
    *value_p = (int)d;
    return true;
}

static bool get_uint(const cJSON *j, const char *key, uint64_t *value_p)
{
    double d;

    if (!get_number(j, key, 0, 9e18, &d))
        return false;
    *value_p = (uint64_t)d;
    return true;
}

/* Cut to the room there is. */
static bool get_text(const cJSON *j, const char *key, char *text, size_t room)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, key));

    if (s == NULL)
        return false;
    snprintf(text, room, "%s", s);
    return true;
}

/* ---- one file ---------------------------------------------------------------------------- */

static bool read_state(const cJSON *j, tti_dump_state *state_p)
{
    static const char *const names[] = { "issued", "started", "completed", "failed" };
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "state"));

    for (int i = 0; s != NULL && i < 4; i++)
        if (strcmp(names[i], s) == 0) {
            *state_p = (tti_dump_state)i;
            return true;
        }
    return false;
}

static bool read_entry(const cJSON *j, tti_dump_entry *e)
{
    double ns = 0;

    if (!get_text(j, "op", e->op, sizeof e->op) || !get_uint(j, "seq", &e->seq) ||
        !read_state(j, &e->state) || !get_uint(j, "in_bytes", &e->in_bytes) ||
        !get_uint(j, "out_bytes", &e->out_bytes) ||
        !get_text(j, "dtype", e->dtype, sizeof e->dtype) ||
        !get_int(j, "peer", -1, MAX_SIZE, &e->peer) || !get_number(j, "issued_ns", 0, 9e18, &ns))
        return false;
    e->p2p = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "p2p"));
    (void)get_text(j, "status", e->status, sizeof e->status);
    (void)get_number(j, "started_ns", 0, 9e18, &ns);
    e->begin_s = ns * 1e-9;
    if (e->state >= TTI_DUMP_COMPLETED) {
        if (!get_number(j, "ended_ns", 0, 9e18, &ns))
            return false;
        e->end_s = ns * 1e-9;
    }
    return true;
}

/* NULL when all is well, else what is wrong. */
static const char *read_group(const cJSON *j, tti_dump *d)
{
    const cJSON *g = cJSON_GetObjectItemCaseSensitive(j, "group");
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(g, "global_ranks"), *item;
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(g, "name"));
    int i = 0;

    if (name == NULL || !get_int(g, "size", 1, MAX_SIZE, &d->size) ||
        !get_int(g, "rank", 0, d->size - 1, &d->rank) || !cJSON_IsArray(ranks) ||
        cJSON_GetArraySize(ranks) != d->size)
        return "its group is not as expected";
    d->group = tti_strdup(name);
    d->global_ranks = tti_calloc((size_t)d->size, sizeof *d->global_ranks);
    if (d->group == NULL || d->global_ranks == NULL)
        return "out of memory";
    cJSON_ArrayForEach(item, ranks)
    {
        if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > MAX_SIZE)
            return "its group has a rank that is none";
        d->global_ranks[i++] = (int)item->valuedouble;
    }
    d->global_rank = d->global_ranks[d->rank];
    return NULL;
}

/* Collectives first, each kind by number. */
static int by_seq(const void *a, const void *b)
{
    const tti_dump_entry *x = a, *y = b;

    if (x->p2p != y->p2p)
        return x->p2p ? 1 : -1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static const char *read_dump(const cJSON *j, tti_dump *d)
{
    const cJSON *entries = cJSON_GetObjectItemCaseSensitive(j, "entries"), *item;
    const char *wrong;
    double ns = 0;

    if (!cJSON_IsObject(j) || !cJSON_IsArray(entries) ||
        !get_uint(j, "last_issued", &d->last_issued) || !get_number(j, "now_ns", 0, 9e18, &ns))
        return "it is no flight recorder dump";
    d->now_s = ns * 1e-9;
    (void)get_text(j, "host", d->host, sizeof d->host);
    (void)get_text(j, "cause", d->cause, sizeof d->cause);
    wrong = read_group(j, d);
    if (wrong != NULL)
        return wrong;
    d->entries = tti_calloc((size_t)cJSON_GetArraySize(entries) + 1, sizeof *d->entries);
    if (d->entries == NULL)
        return "out of memory";
    cJSON_ArrayForEach(item, entries)
    {
        if (!read_entry(item, &d->entries[d->n_entries]))
            return "an entry is not as expected";
        d->n_entries++;
    }
    qsort(d->entries, (size_t)d->n_entries, sizeof *d->entries, by_seq);
    return NULL;
}

static void dump_fini(tti_dump *d)
{
    tti_mfree(d->group);
    tti_mfree(d->global_ranks);
    tti_mfree(d->entries);
}

/* The file's text, to be freed; NULL with the cause recorded. */
static char *read_file(const char *path)
{
    int fd = tti_open_regular("hang", path);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *text = NULL;
    size_t n = 0, cap = 0, got;

    if (fd < 0)
        return NULL;
    if (f == NULL) {
        close(fd);
        return TT_FAIL_NULL(TT_ERR_IO, "hang: %s: %s", path, strerror(errno));
    }
    do {
        if (tti_vec_reserve((void **)&text, &cap, n + 65536, 1) != TT_OK)
            goto fail;
        got = fread(text + n, 1, 65535, f);
        n += got;
        if (n > MAX_BYTES) {
            (void)TT_FAIL(TT_ERR_FORMAT, "hang: %s: too large for a dump", path);
            goto fail;
        }
    } while (got > 0);
    if (ferror(f)) {
        (void)TT_FAIL(TT_ERR_IO, "hang: %s: %s", path, strerror(errno));
        goto fail;
    }
    text[n] = '\0';
    fclose(f);
    return text;
fail:
    fclose(f);
    tti_mfree(text);
    return NULL;
}

static tt_status load_file(const char *path, tti_dump *d)
{
    char *text = read_file(path);
    const char *wrong;
    cJSON *j;

    if (text == NULL)
        return tt_last_status();
    j = cJSON_ParseWithOpts(text, NULL, true);
    wrong = j != NULL ? read_dump(j, d) : "it is no whole JSON file";
    cJSON_Delete(j);
    tti_mfree(text);
    return wrong != NULL ? TT_FAIL(TT_ERR_FORMAT, "hang: %s: %s", path, wrong) : TT_OK;
}

/* ---- the directory ------------------------------------------------------------------------ */

static int by_group(const void *a, const void *b)
{
    const tti_dump *x = a, *y = b;
    int c = strcmp(x->group, y->group);

    if (c != 0)
        return c;
    /* Groups of the same name are told apart by their members. */
    if (x->global_ranks[0] != y->global_ranks[0])
        return x->global_ranks[0] < y->global_ranks[0] ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static tt_status add_file(tti_dumps *dumps, size_t *cap, const char *dir, const char *name)
{
    size_t room = strlen(dir) + strlen(name) + 2;
    char *path;
    tti_dump *d;
    tt_status st;

    TT_TRY(tti_vec_reserve((void **)&dumps->all, cap, (size_t)dumps->n + 1, sizeof *dumps->all));
    path = tti_malloc(room);
    if (path == NULL)
        return TT_ERR_NOMEM;
    snprintf(path, room, "%s/%s", dir, name);
    d = &dumps->all[dumps->n];
    *d = (tti_dump){ 0 };
    st = load_file(path, d);
    tti_mfree(path);
    if (st == TT_OK)
        dumps->n++;
    else
        dump_fini(d);
    return st;
}

tt_status tti_dumps_load(const char *dir, tti_dumps *dumps)
{
    DIR *stream = opendir(dir);
    tt_status st = TT_OK;
    struct dirent *e;
    size_t cap = 0;

    *dumps = (tti_dumps){ 0 };
    if (stream == NULL)
        return TT_FAIL(TT_ERR_NOT_FOUND, "hang: %s: %s", dir, strerror(errno));
    while (st == TT_OK && (e = readdir(stream)) != NULL) {
        size_t n = strlen(e->d_name);

        if (n > 5 && strcmp(e->d_name + n - 5, ".json") == 0)
            st = add_file(dumps, &cap, dir, e->d_name);
    }
    closedir(stream);
    if (st == TT_OK && dumps->n == 0)
        st = TT_FAIL(TT_ERR_NOT_FOUND, "hang: %s: no dumps there (files that end in .json)", dir);
    if (st != TT_OK)
        tti_dumps_fini(dumps);
    else
        qsort(dumps->all, (size_t)dumps->n, sizeof *dumps->all, by_group);
    return st;
}

void tti_dumps_fini(tti_dumps *dumps)
{
    for (int i = 0; i < dumps->n; i++)
        dump_fini(&dumps->all[i]);
    tti_mfree(dumps->all);
    *dumps = (tti_dumps){ 0 };
}
