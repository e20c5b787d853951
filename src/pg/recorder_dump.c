/* SPDX-License-Identifier: Apache-2.0 */
/* A recorder as a file: docs/flight-recorder.md says what is in it. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/recorder_ring.h"
#include "prof/json.h"

/* ---- one operation --------------------------------------------------------------------- */

/* "train_step+0x1c (program)"; nothing when nobody knows. */
static void put_site(tti_json *j, const void *site)
{
    Dl_info at;
    char text[512];
    const char *file;

    if (site == NULL || dladdr(site, &at) == 0)
        return;
    file = at.dli_fname != NULL ? at.dli_fname : "?";
    file = strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file;
    if (at.dli_sname != NULL)
        snprintf(text, sizeof text, "%s+0x%zx (%s)", at.dli_sname,
                 (size_t)((const char *)site - (const char *)at.dli_saddr), file);
    else
        snprintf(text, sizeof text, "+0x%zx (%s)",
                 (size_t)((const char *)site - (const char *)at.dli_fbase), file);
    tti_json_text(j, "site", text);
}

static const char *state_of(const tti_recorded_copy *c)
{
    if (c->ended != 0)
        return c->status == TT_OK ? "completed" : "failed";
    return c->started != 0 ? "started" : "issued";
}

static void put_times(tti_json *j, const tti_recorded_copy *c, const tti_ticks_scale *scale)
{
    int64_t issued = tti_ticks_ns(scale, c->issued);
    int64_t started = c->started != 0 ? tti_ticks_ns(scale, c->started) : 0;
    int64_t ended = c->ended != 0 ? tti_ticks_ns(scale, c->ended) : 0;
    int64_t begin = c->started != 0 ? started : issued;

    tti_json_int(j, "issued_ns", issued);
    if (c->started != 0)
        tti_json_int(j, "started_ns", started);
    if (c->ended != 0) {
        tti_json_int(j, "ended_ns", ended);
        tti_json_int(j, "duration_ns", ended > begin ? ended - begin : 0);
    }
}

static void put_entry(tti_json *j, const tti_recorded_copy *c, const tti_ticks_scale *scale)
{
    const tti_record *rec = &c->rec;

    tti_json_line(j);
    tti_json_begin(j, NULL, '{');
    tti_json_text(j, "op", rec->op);
    tti_json_uint(j, "seq", rec->seq);
    tti_json_text(j, "state", state_of(c));
    if (c->ended != 0 && c->status != TT_OK)
        tti_json_text(j, "status", tt_status_name(c->status));
    tti_json_bool(j, "p2p", rec->p2p);
    tti_json_bool(j, "async", rec->async);
    tti_json_int(j, "peer", rec->peer);
    tti_json_text(j, "dtype", tt_dtype_name(rec->dtype));
    tti_json_uint(j, "in_bytes", rec->in_bytes);
    tti_json_uint(j, "out_bytes", rec->out_bytes);
    tti_json_begin(j, "dims", '[');
    for (int i = 0; i < rec->n_dims; i++)
        tti_json_int(j, NULL, rec->dims[i]);
    tti_json_end(j, ']');
    put_times(j, c, scale);
    put_site(j, rec->site);
    tti_json_end(j, '}');
}

static void put_entries(tti_json *j, tti_recorder *r, const tti_ticks_scale *scale)
{
    uint64_t end = atomic_load_explicit(&r->next, memory_order_acquire);
    uint64_t first = end > TTI_RECORDER_SIZE ? end - TTI_RECORDER_SIZE : 0;
    tti_recorded_copy c;

    tti_json_uint(j, "n_recorded", end);
    tti_json_begin(j, "entries", '[');
    for (uint64_t t = first; t < end; t++)
        if (tti_recorder_read(r, t, &c))
            put_entry(j, &c, scale);
    tti_json_end(j, ']');
}

/* ---- the rest -------------------------------------------------------------------------- */

static void put_group(tti_json *j, const tti_recorder *r)
{
    tti_json_begin(j, "group", '{');
    tti_json_text(j, "name", r->group);
    tti_json_text(j, "desc", r->desc);
    tti_json_text(j, "backend", r->backend);
    tti_json_int(j, "rank", r->rank);
    tti_json_int(j, "size", r->size);
    tti_json_int(j, "global_rank", r->global_ranks[r->rank]);
    tti_json_begin(j, "global_ranks", '[');
    for (int i = 0; i < r->size; i++)
        tti_json_int(j, NULL, r->global_ranks[i]);
    tti_json_end(j, ']');
    tti_json_int(j, "timeout_ms", atomic_load_explicit(&r->timeout_ms, memory_order_relaxed));
    tti_json_end(j, '}');
}

static void put_causes(tti_json *j, const tti_recorder *r)
{
    tti_json_begin(j, "causes", '[');
    for (int i = 0; i < r->n_causes; i++) {
        tti_json_begin(j, NULL, '{');
        tti_json_text(j, "cause", r->causes[i].cause);
        tti_json_text(j, "words", r->causes[i].words);
        tti_json_int(j, "ns", r->causes[i].ns);
        tti_json_end(j, '}');
    }
    tti_json_end(j, ']');
}

static void put_last(tti_json *j, const char *prefix, tti_recorder *r, int kind)
{
    const uint64_t last[] = { atomic_load_explicit(&r->last_issued[kind], memory_order_relaxed),
                              atomic_load_explicit(&r->last_started[kind], memory_order_relaxed),
                              tti_recorder_last_ended(r, kind) };
    static const char *const names[] = { "last_issued", "last_started", "last_completed" };
    char key[40];

    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, names[i]);
        tti_json_uint(j, key, last[i]);
    }
}

static void put_all(tti_json *j, tti_recorder *r, const tti_cause *latest)
{
    tti_ticks_scale scale = tti_ticks_measure();
    char host[256] = "";
    struct timespec wall;

    (void)gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &wall);
    tti_json_begin(j, NULL, '{');
    tti_json_text(j, "format", "tutti flight recorder 1");
    tti_json_text(j, "version", tt_version());
    tti_json_text(j, "host", host);
    tti_json_int(j, "pid", getpid());
    tti_json_int(j, "wall_s", wall.tv_sec);
    tti_json_int(j, "now_ns", tti_now_ns());
    tti_json_text(j, "cause", latest->cause);
    tti_json_text(j, "words", latest->words);
    put_causes(j, r);
    put_group(j, r);
    put_last(j, "", r, 0);
    put_last(j, "p2p_", r, 1);
    put_entries(j, r, &scale);
    tti_json_end(j, '}');
}

/* `room` characters: DIR/<group>.<global rank>.json. */
static void file_name(const tti_recorder *r, const char *dir, char *path, size_t room)
{
    size_t n = (size_t)snprintf(path, room, "%s/", dir);
    size_t most = n + 120; /* names of files have a limit */

    for (const char *s = r->group; *s != '\0' && n < most && n + 24 < room; s++) {
        bool plain = (*s >= '0' && *s <= '9') || (*s >= 'A' && *s <= 'Z') ||
                     (*s >= 'a' && *s <= 'z') || *s == '-' || *s == '_' ||
                     (*s == '.' && s != r->group);

        path[n++] = plain ? *s : '_';
    }
    snprintf(path + n, room - n, ".%d.json", r->global_ranks[r->rank]);
}

static tt_status write_file(tti_recorder *r, const char *dir, const tti_cause *latest)
{
    size_t room = strlen(dir) + 160;
    char *path = tti_malloc(room);
    tti_json j;
    tt_status st;

    if (path == NULL)
        return TT_ERR_NOMEM;
    (void)mkdir(dir, 0700);
    file_name(r, dir, path, room);
    tti_json_open(&j, "flight recorder", path, TTI_WRITER_PRIVATE);
    put_all(&j, r, latest);
    st = tti_json_finish(&j);
    if (st == TT_OK)
        tti_log(TT_LOG_INFO, "flight recorder: group %s rank %d wrote %s: %s", r->group, r->rank,
                path, latest->cause);
    tti_mfree(path);
    return st;
}

/* False when there was a dump with this cause. When there are many causes the last one gives way. */
static bool note_cause(tti_recorder *r, const char *cause, const char *words, tti_cause *latest)
{
    int i = 0;
    bool known;

    snprintf(latest->cause, sizeof latest->cause, "%s", cause);
    snprintf(latest->words, sizeof latest->words, "%s", words != NULL ? words : "");
    latest->ns = tti_now_ns();
    while (i < r->n_causes && strcmp(r->causes[i].cause, latest->cause) != 0)
        i++;
    known = i < r->n_causes;
    if (!known && r->n_causes < TTI_CAUSES)
        r->n_causes++;
    r->causes[i < TTI_CAUSES ? i : TTI_CAUSES - 1] = *latest;
    return !known;
}

void tti_recorder_write(tti_recorder *r, const char *cause, const char *words, bool again)
{
    const char *dir = tti_env_get(TTI_ENV_FLIGHT_DIR);
    tti_error_copy before;
    tti_cause latest;

    if (dir == NULL)
        return;
    tti_error_save(&before);
    pthread_mutex_lock(&r->mu_dump);
    if (note_cause(r, cause, words, &latest) || again)
        if (write_file(r, dir, &latest) != TT_OK)
            tti_log(TT_LOG_WARN, "flight recorder: group %s rank %d has no dump: %s", r->group,
                    r->rank, tti_last_error());
    pthread_mutex_unlock(&r->mu_dump);
    tti_error_restore(&before);
}

void tti_recorder_dump(tti_recorder *r, const char *cause, const char *words)
{
    if (r != NULL)
        tti_recorder_write(r, cause, words, false);
}
