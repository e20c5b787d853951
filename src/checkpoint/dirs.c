/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, naming and removing the directories of checkpoints. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/open.h"
#include "checkpoint/checkpoint.h"
#include "io/file.h"

/* Newer ones compare greater. */
typedef struct place {
    long long step;
    int attempt;
    char name[64];
} place;

typedef struct places {
    place *items;
    size_t n, cap;
} places;

static int by_age(const void *x, const void *y)
{
    const place *a = x, *b = y;

    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->attempt > b->attempt) - (a->attempt < b->attempt);
}

/* "step-<number>-<number>" and nothing else. */
static bool parse(const char *name, place *p)
{
    int end = 0;

    if (strlen(name) >= sizeof p->name ||
        sscanf(name, "step-%18lld-%9d%n", &p->step, &p->attempt, &end) != 2 || name[end] != '\0')
        return false;
    snprintf(p->name, sizeof p->name, "%s", name);
    return true;
}

/* All of them, oldest first. No directory: none. */
static tt_status list(const char *dir, places *all)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    tt_status st = TT_OK;
    place p;

    if (d == NULL && errno == ENOENT)
        return TT_OK;
    if (d == NULL)
        return TT_FAIL(TT_ERR_IO, "checkpoint: cannot read \"%s\": %s", dir, strerror(errno));
    while (st == TT_OK && (entry = readdir(d)) != NULL) {
        if (!parse(entry->d_name, &p))
            continue;
        st = tti_vec_reserve((void **)&all->items, &all->cap, all->n + 1, sizeof p);
        if (st == TT_OK)
            all->items[all->n++] = p;
    }
    closedir(d);
    if (all->n > 1)
        qsort(all->items, all->n, sizeof p, by_age);
    return st;
}

static bool is_complete(const char *dir, const char *name)
{
    char *path = tti_path_join(dir, name);
    char *manifest = path != NULL ? tti_path_join(path, TTI_MANIFEST) : NULL;
    bool there = manifest != NULL && access(manifest, F_OK) == 0;

    tti_mfree(manifest);
    tti_mfree(path);
    return there;
}

/* ---- the latest ------------------------------------------------------------------------------ */

tt_status tti_checkpoint_set_latest(const char *dir, const char *name)
{
    char *path = tti_path_join(dir, TTI_LATEST);
    tti_writer w;
    tt_status st;

    if (path == NULL)
        return TT_ERR_NOMEM;
    tti_writer_open(&w, "checkpoint", path, TTI_WRITER_DURABLE);
    tti_writer_put(&w, name, strlen(name));
    tti_writer_put(&w, "\n", 1);
    st = tti_writer_finish(&w);
    tti_mfree(path);
    return st;
}

/* What "latest" says, if that is a complete checkpoint. */
static bool read_latest(const char *dir, char *name, size_t size)
{
    char *path = tti_path_join(dir, TTI_LATEST);
    int fd = path != NULL ? tti_open_regular("checkpoint", path) : -1;
    ssize_t n = fd >= 0 ? read(fd, name, size - 1) : -1;
    place p;

    if (fd >= 0)
        close(fd);
    tti_mfree(path);
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return n > 0 && parse(name, &p) && is_complete(dir, name);
}

/* The number of a checkpoint's save: 0 for those of earlier versions, -1 if its manifest cannot be read. */
static int64_t serial_of(const char *dir, const char *name)
{
    char *path = tti_path_join(dir, name);
    char *manifest = path != NULL ? tti_path_join(path, TTI_MANIFEST) : NULL;
    tt_value *v = manifest != NULL ? tti_value_read(manifest) : NULL;
    int64_t serial = v != NULL ? tt_value_as_int(tt_value_map_get(v, "serial")) : -1;

    tt_value_free(v);
    tti_mfree(manifest);
    tti_mfree(path);
    return serial;
}

tt_status tti_checkpoint_next_serial(const char *dir, int64_t *serial_p)
{
    places all = { 0 };
    tt_status st = list(dir, &all);

    *serial_p = 1;
    for (size_t i = 0; i < all.n; i++)
        if (is_complete(dir, all.items[i].name)) {
            int64_t serial = serial_of(dir, all.items[i].name);

            if (serial >= *serial_p && serial < INT64_MAX)
                *serial_p = serial + 1;
        }
    tti_mfree(all.items);
    return st;
}

/* The complete checkpoint that was saved last, other than `named`, which has number `serial`. */
static void find_newer(const places *all, const char *dir, int64_t serial, char *name, size_t size)
{
    for (size_t i = all->n; i-- > 0;) {
        const char *candidate = all->items[i].name;
        int64_t number = is_complete(dir, candidate) ? serial_of(dir, candidate) : -1;

        if (number > serial) {
            serial = number;
            snprintf(name, size, "%s", candidate);
        }
    }
}

/* "latest" names the last checkpoint, unless the process was killed between the manifest and "latest": then a complete
 * one has a greater number. A damaged one that "latest" names is not passed over: loading reports it. */
char *tt_training_latest(const char *dir)
{
    char name[64] = "";
    places all = { 0 };
    tt_status st = dir != NULL ? TT_OK : TT_FAIL(TT_ERR_INVALID, "checkpoint: no directory");
    char *path = NULL;
    int64_t serial = -1;

    if (st == TT_OK) {
        bool named = read_latest(dir, name, sizeof name);

        if (named)
            serial = serial_of(dir, name);
        else
            name[0] = '\0';
        st = !named || serial >= 0 ? list(dir, &all) : TT_OK;
    }
    if (st == TT_OK)
        find_newer(&all, dir, serial, name, sizeof name);
    for (size_t i = all.n; st == TT_OK && name[0] == '\0' && i-- > 0;)
        if (is_complete(dir, all.items[i].name)) /* damaged, or it would have a number */
            snprintf(name, sizeof name, "%s", all.items[i].name);
    tti_mfree(all.items);
    if (st == TT_OK && name[0] == '\0')
        TT_FAIL(TT_ERR_NOT_FOUND, "checkpoint: there is no complete one in \"%s\"", dir);
    else if (st == TT_OK)
        path = tti_path_join(dir, name);
    return path;
}

/* ---- making and removing ------------------------------------------------------------------- */

static tt_status make_parents(const char *dir)
{
    char *path = tti_strdup(dir);
    tt_status st = path != NULL ? TT_OK : TT_ERR_NOMEM;

    for (char *at = path; st == TT_OK && at != NULL;) {
        at = strchr(at + 1, '/');
        if (at != NULL)
            *at = '\0';
        st = tti_directory_make("checkpoint", path, true);
        if (at != NULL)
            *at = '/';
    }
    tti_mfree(path);
    return st;
}

/* One more than the last attempt at this step, so that names tell which is newer. */
static tt_status next_attempt(const char *dir, int64_t step, int *attempt_p)
{
    places all = { 0 };
    tt_status st = list(dir, &all);

    *attempt_p = 0;
    for (size_t i = 0; i < all.n; i++)
        if (all.items[i].step == step && all.items[i].attempt >= *attempt_p)
            *attempt_p = all.items[i].attempt + 1;
    tti_mfree(all.items);
    return st;
}

char *tti_checkpoint_make_dir(const char *dir, int64_t step)
{
    char name[64];
    char *path;
    int attempt;
    tt_status st;

    if (make_parents(dir) != TT_OK || next_attempt(dir, step, &attempt) != TT_OK)
        return NULL;
    tti_checkpoint_prune(dir, NULL, INT_MAX);
    snprintf(name, sizeof name, "step-%010lld-%d", (long long)step, attempt);
    path = tti_path_join(dir, name);
    if (path == NULL)
        return NULL;
    st = tti_directory_make("checkpoint", path, false);
    tti_mfree(path);
    return st == TT_OK ? tti_strdup(name) : NULL;
}

void tti_checkpoint_remove(const char *dir, const char *name)
{
    char *path = tti_path_join(dir, name);
    int fd = path != NULL ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (d != NULL) {
        unlinkat(fd, TTI_MANIFEST, 0); /* from here on it does not count */
        while ((entry = readdir(d)) != NULL)
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                unlinkat(fd, entry->d_name, 0);
        closedir(d);
    } else if (fd >= 0) {
        close(fd);
    }
    if (path != NULL && rmdir(path) != 0)
        tti_log(TT_LOG_WARN, "checkpoint: cannot remove \"%s\": %s", path, strerror(errno));
    tti_mfree(path);
}

void tti_checkpoint_prune(const char *dir, const char *latest, int keep)
{
    places all = { 0 };
    int n_complete = latest != NULL;

    if (list(dir, &all) != TT_OK)
        tti_log(TT_LOG_WARN, "checkpoint: %s", tti_last_error());
    for (size_t i = all.n; i-- > 0;) {
        const char *name = all.items[i].name;

        if (latest != NULL && strcmp(name, latest) == 0)
            continue;
        if (is_complete(dir, name) && n_complete < keep)
            n_complete++;
        else
            tti_checkpoint_remove(dir, name);
    }
    tti_mfree(all.items);
}
