/* SPDX-License-Identifier: Apache-2.0 */
/* Everybody's bytes to everybody, through a store. Each rank sets its own value and adds one to a count;
 * whoever brings the count to the size sets `done`, for which the others wait: four requests per rank,
 * however many there are. Between slices of waiting a rank looks whether somebody has died or given up.
 * models/create.pml checks that nobody waits for ever and that only who failed is blamed. */
#include "rendezvous/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/store.h"
#include "store/wire.h"

#define SLICE_MS 20
#define PRESENT_MS 2000 /* to get what is there, from a busy server */
#define PEEKS 8         /* values looked at per slice */
#define PIDS 64         /* processes looked at per slice */
#define CAUSE_MS 20     /* for the launcher to say how a rank ended */
#define HEAD 8          /* of a value: version, number of bytes */
#define KEY_SIZE 160
#define GAVE_UP \
    "x/gave up" /* "status rank words" of the first rank that gave up, a zero, its tt_error_info */

tt_status tti_exit_record(tt_store *root, int global_rank, const char *words)
{
    char key[40], entry[16];
    int n = snprintf(entry, sizeof entry, "%d ", global_rank);

    snprintf(key, sizeof key, TTI_EXIT_KEY, global_rank);
    TT_TRY(tt_store_set(root, key, words, strlen(words)));
    return tt_store_append(root, TTI_EXIT_LIST, entry, (size_t)n);
}

tt_status tti_exit_announce(tt_store *root)
{
    return tt_store_append(root, TTI_EXIT_LIST, " ", 1);
}

static bool is_present(tt_store *s, const char *key)
{
    bool present = false;

    return tt_store_check(s, &key, 1, &present) == TT_OK && present;
}

/* Whether the exit key is there by the end of the wait. Without somebody who notes exits it will not come. */
static bool has_exit_key(tt_store *root, const char *key, int timeout_ms)
{
    if (is_present(root, key))
        return true;
    return timeout_ms > 0 && is_present(root, TTI_EXIT_LIST) &&
           tt_store_wait(root, &key, 1, timeout_ms) == TT_OK;
}

void tti_exit_cause(tt_store *root, int global_rank, int timeout_ms, char *text, size_t size)
{
    tti_error_copy kept;
    char key[40];
    tt_blob blob;

    if (size > 0)
        text[0] = '\0';
    if (root == NULL || size == 0)
        return;
    tti_error_save(&kept);
    root = tti_store_root(root);
    snprintf(key, sizeof key, TTI_EXIT_KEY, global_rank);
    if (root != NULL && has_exit_key(root, key, timeout_ms) &&
        tt_store_get(root, key, &blob) == TT_OK) {
        snprintf(text, size, "%.*s", (int)(blob.size > 400 ? 400 : blob.size),
                 (const char *)blob.data);
        tt_blob_free(&blob);
    }
    tt_store_free(root);
    tti_error_restore(&kept);
}

static int global_of(const tti_meeting *m, int rank)
{
    return m->global_ranks != NULL ? m->global_ranks[rank] : rank;
}

/* Gives the failure that was just recorded its fields: kind, ranks and what is known of the first. Returns `st`. */
static tt_status add_fields(const tti_meeting *m, const char *step, tt_status st, tt_error_info *e)
{
    snprintf(e->group, sizeof e->group, "%s", m->group);
    snprintf(e->operation, sizeof e->operation, "%s", step);
    tti_error_about(e);
    return st;
}

/* Fields about one rank, of which `id` may be NULL. */
static tt_error_info about_rank(const tti_meeting *m, tt_error_kind kind, int rank,
                                const tti_ident *id)
{
    tt_error_info e = { .kind = kind };

    tti_error_info_add_rank(&e, global_of(m, rank));
    if (id != NULL) {
        e.pid = id->pid;
        snprintf(e.host, sizeof e.host, "%.63s", id->host);
    }
    return e;
}

static void value_key(char *key, const char *step, int rank)
{
    snprintf(key, KEY_SIZE, "x/%.100s/%d", step, rank);
}

static bool is_ident(const tti_meeting *m, size_t n)
{
    return m->idents == NULL && n == sizeof(tti_ident);
}

/* What another rank sent, checked: the same protocol, the same length, the same world. */
static tt_status take_value(const tti_meeting *m, int rank, const tt_blob *b, const void *mine,
                            size_t n, uint8_t *value)
{
    const uint8_t *p = b->data;
    tti_ident theirs, ours;

    if (b->size < HEAD || tti_load32(p) != TTI_IDENT_VERSION)
        return TT_FAIL(TT_ERR_PEER,
                       "group %s: rank %d speaks version %u of the protocol, this rank (%d) "
                       "version %d",
                       m->group, rank, b->size < HEAD ? 0 : tti_load32(p), m->rank,
                       TTI_IDENT_VERSION);
    if (tti_load32(p + 4) != n || b->size != HEAD + n)
        return TT_FAIL(TT_ERR_PEER, "group %s: rank %d sent %zu bytes, this rank (%d) expects %zu",
                       m->group, rank, b->size - HEAD, m->rank, n);
    if (is_ident(m, n)) {
        memcpy(&theirs, p + HEAD, sizeof theirs);
        memcpy(&ours, mine, sizeof ours);
        if (theirs.version != ours.version)
            return TT_FAIL(TT_ERR_PEER,
                           "group %s: rank %d speaks version %u of the protocol, this rank (%d) "
                           "version %u",
                           m->group, rank, theirs.version, m->rank, ours.version);
        if (theirs.world_size != ours.world_size)
            return TT_FAIL(TT_ERR_PEER,
                           "group %s: rank %d (pid %d on %.63s) was told a world size of %d, this "
                           "rank (%d) one of %d",
                           m->group, rank, theirs.pid, theirs.host, theirs.world_size, m->rank,
                           ours.world_size);
    }
    if (n > 0 && value != NULL)
        memcpy(value, p + HEAD, n);
    return TT_OK;
}

static tt_status publish(const tti_meeting *m, const char *step, const void *mine, size_t n,
                         bool *last_p)
{
    char key[KEY_SIZE], count[KEY_SIZE];
    uint8_t *value = tti_malloc(HEAD + n);
    int64_t arrived = 0;
    tt_status st;

    if (value == NULL)
        return TT_ERR_NOMEM;
    tti_store32(value, TTI_IDENT_VERSION);
    tti_store32(value + 4, (uint32_t)n);
    if (n > 0)
        memcpy(value + HEAD, mine, n);
    value_key(key, step, m->rank);
    snprintf(count, sizeof count, "x/%.100s/count", step);
    st = tt_store_set(m->store, key, value, HEAD + n);
    if (st == TT_OK)
        st = tt_store_add(m->store, count, 1, &arrived);
    tti_mfree(value);
    *last_p = arrived >= m->size;
    return st;
}

/* All values are there, unless a rank that was told a smaller world said that everybody came: do not wait long. */
static tt_status get_present(const tti_meeting *m, const char *const *keys, tt_blob *blobs)
{
    int usual = tt_store_timeout(m->store);
    tt_status st;

    TT_TRY(tt_store_set_timeout(m->store, m->timeout_ms < PRESENT_MS ? m->timeout_ms : PRESENT_MS));
    st = tt_store_multi_get(m->store, keys, m->size, blobs);
    TT_TRY(tt_store_set_timeout(m->store, usual));
    return st;
}

static tt_status collect(const tti_meeting *m, const char *step, const void *mine, size_t n,
                         uint8_t *all)
{
    char *names = tti_malloc((size_t)m->size * KEY_SIZE);
    const char **keys = tti_calloc((size_t)m->size, sizeof *keys);
    tt_blob *blobs = tti_calloc((size_t)m->size, sizeof *blobs);
    tt_status st = TT_ERR_NOMEM;

    if (names != NULL && keys != NULL && blobs != NULL) {
        for (int r = 0; r < m->size; r++) {
            keys[r] = names + (size_t)r * KEY_SIZE;
            value_key(names + (size_t)r * KEY_SIZE, step, r);
        }
        st = get_present(m, keys, blobs);
        for (int r = 0; r < m->size && st == TT_OK; r++)
            st = take_value(m, r, &blobs[r], mine, n, all + (size_t)r * n);
        for (int r = 0; r < m->size; r++)
            tt_blob_free(&blobs[r]);
    }
    tti_mfree(blobs);
    tti_mfree(keys);
    tti_mfree(names);
    return st;
}

static bool arrived(const tti_meeting *m, const char *step, int rank)
{
    char name[KEY_SIZE];
    const char *key = name;
    bool present = false;

    value_key(name, step, rank);
    return tt_store_check(m->store, &key, 1, &present) == TT_OK && present;
}

/* ---- ranks that gave up ------------------------------------------------------------------ */

/* Ranks that give up because of another one may end before the rest has noticed anything, and would be blamed in its
 * place. So the first rank that gives up says why, and all others fail with its words. */
void tti_exchange_give_up(const tti_meeting *m, tt_status st, const char *words)
{
    char value[1100 + sizeof(tt_error_info)];
    tt_blob held = { 0 };
    tti_error_copy kept;

    tti_error_save(&kept); /* when it cannot be said, the others have their time-outs */
    size_t n = 1 + (size_t)snprintf(value, 1100, "%d %d %.1024s", (int)st, m->rank, words);
    memcpy(value + n, &kept.info, sizeof kept.info);
    if (m->size > 1 && tt_store_compare_set(m->store, GAVE_UP, NULL, 0, value, n + sizeof kept.info,
                                            &held) == TT_OK)
        tt_blob_free(&held);
    tti_error_restore(&kept);
}

/* Deaths and time-outs are about other ranks than the one that noticed them. */
static tt_status fail_as_told(const tti_meeting *m, const char *step, const tt_blob *told)
{
    char *end;
    tt_status st = (tt_status)strtol(told->data, &end, 10);
    int rank = (int)strtol(end, &end, 10);
    tt_error_info e = { 0 };

    if (strlen(told->data) + 1 + sizeof e == told->size) {
        memcpy(&e, (const char *)told->data + strlen(told->data) + 1, sizeof e);
        e = tti_error_info_from(&e);
    }
    end += *end == ' ';
    if (st == TT_ERR_PEER || st == TT_ERR_TIMEOUT) {
        TT_FAIL(st, "%s", end);
        return add_fields(m, step, st, &e);
    }
    TT_FAIL(TT_ERR_PEER, "group %s: %s: rank %d gave up: %s", m->group, step, rank, end);
    e = about_rank(m, TT_ERROR_OTHER, rank >= 0 && rank < m->size ? rank : m->rank, NULL);
    snprintf(e.cause, sizeof e.cause, "%.*s", (int)sizeof e.cause - 1, end);
    return add_fields(m, step, TT_ERR_PEER, &e);
}

static tt_status look_who_gave_up(const tti_meeting *m, const char *step)
{
    tt_status st;
    tt_blob blob;

    if (!is_present(m->store, GAVE_UP))
        return TT_OK;
    TT_TRY(tt_store_get(m->store, GAVE_UP, &blob));
    st = fail_as_told(m, step, &blob);
    tt_blob_free(&blob);
    return st;
}

/* ---- ranks that died --------------------------------------------------------------------- */

/* A rank is known to have ended: say so, with all that is known about it. `id` may be NULL. */
static tt_status fail_dead(const tti_meeting *m, const char *step, int rank, const tti_ident *id)
{
    char cause[420], who[120] = "";

    TT_TRY(look_who_gave_up(m, step)); /* it may have ended because of another one */
    tti_exit_cause(m->root, global_of(m, rank), CAUSE_MS, cause, sizeof cause);
    if (id != NULL)
        snprintf(who, sizeof who, " (pid %d on %.63s)", id->pid, id->host);
    TT_FAIL(TT_ERR_PEER, "group %s: %s: rank %d%s has ended%s%s", m->group, step, rank, who,
            cause[0] != '\0' ? ": " : "", cause);
    tt_error_info e = about_rank(m, TT_ERROR_DIED, rank, id);
    snprintf(e.cause, sizeof e.cause, "%s", cause);
    return add_fields(m, step, TT_ERR_PEER, &e);
}

static const tti_ident *ident_of(const tti_meeting *m, int rank)
{
    return m->idents != NULL ? &m->idents[rank] : NULL;
}

/* Whether the launcher has noted the end of a member. */
static tt_status look_at_exits(const tti_meeting *m, const char *step)
{
    const char *list = TTI_EXIT_LIST;
    bool present = false;
    int dead = -1;
    tt_blob blob;

    if (m->root == NULL)
        return TT_OK;
    TT_TRY(tt_store_check(m->root, &list, 1, &present));
    if (!present)
        return TT_OK;
    TT_TRY(tt_store_get(m->root, list, &blob));
    for (char *p = blob.data, *end; dead < 0; p = end) {
        long global = strtol(p, &end, 10);

        if (end == p)
            break;
        for (int r = 0; r < m->size && dead < 0; r++)
            if (global_of(m, r) == global && !arrived(m, step, r))
                dead = r;
    }
    tt_blob_free(&blob);
    return dead < 0 ? TT_OK : fail_dead(m, step, dead, ident_of(m, dead));
}

/* A rank that came to the first exchange said who it is there; it may have died since. */
static tt_status check_ident(const tti_meeting *m, const char *step, int rank, const void *mine,
                             const tt_blob *b)
{
    tti_ident theirs, ours;

    TT_TRY(take_value(m, rank, b, mine, sizeof theirs, (uint8_t *)&theirs));
    memcpy(&ours, mine, sizeof ours);
    if (rank != m->rank && tti_ident_same_host(&theirs, &ours) && !tti_ident_alive(&theirs))
        return fail_dead(m, step, rank, &theirs);
    return TT_OK;
}

/* A few exit keys without the list, and a few values that are there already; others at each call. */
static tt_status look_at_some(const tti_meeting *m, const char *step, const void *mine, size_t n,
                              int *next)
{
    for (int i = 0; i < PEEKS && i < m->size; i++) {
        int rank = (*next)++ % m->size;
        char name[KEY_SIZE];
        const char *key = name;
        bool present = false;
        tt_blob blob;
        tt_status st;

        if (arrived(m, step, rank)) {
            if (!is_ident(m, n))
                continue;
            value_key(name, step, rank);
            TT_TRY(tt_store_get(m->store, name, &blob));
            st = check_ident(m, step, rank, mine, &blob);
            tt_blob_free(&blob);
            TT_TRY(st);
        } else if (m->root != NULL) {
            snprintf(name, sizeof name, TTI_EXIT_KEY, global_of(m, rank));
            TT_TRY(tt_store_check(m->root, &key, 1, &present));
            if (present)
                return fail_dead(m, step, rank, ident_of(m, rank));
        }
    }
    return TT_OK;
}

/* Members on this host whose process is gone; others at each call when there are many. */
static tt_status look_at_pids(const tti_meeting *m, const char *step, int *next)
{
    for (int i = 0; m->idents != NULL && i < PIDS && i < m->size; i++) {
        int r = (*next)++ % m->size;

        if (r != m->rank && tti_ident_same_host(&m->idents[r], &m->idents[m->rank]) &&
            !tti_ident_alive(&m->idents[r]))
            return fail_dead(m, step, r, &m->idents[r]);
    }
    return TT_OK;
}

/* What to do about it, at the end of the messages. */
#define NO_STORE                                                                                \
    "no group can be made any more (a store that outlives rank 0 is that of `tutti run`, or a " \
    "file://)"

/* Requests fail: without a launcher rank 0 of the world serves the store, and may have ended. */
static tt_status fail_without_store(const tti_meeting *m, const char *step, tt_status st)
{
    char words[512];

    snprintf(words, sizeof words, "%s", tti_last_error());
    for (int r = 0; m->idents != NULL && r < m->size; r++)
        if (global_of(m, r) == 0 && r != m->rank &&
            tti_ident_same_host(&m->idents[r], &m->idents[m->rank]) &&
            !tti_ident_alive(&m->idents[r])) {
            tt_error_info e = about_rank(m, TT_ERROR_DIED, r, &m->idents[r]);

            TT_FAIL(TT_ERR_PEER,
                    "group %s: %s: rank %d (pid %d on %.63s) has ended, and the store cannot "
                    "be reached since: %s; " NO_STORE,
                    m->group, step, r, m->idents[r].pid, m->idents[r].host, words);
            return add_fields(m, step, TT_ERR_PEER, &e);
        }
    return TT_FAIL(
        st,
        "group %s: %s: the store, which global rank 0 serves unless a launcher does, cannot "
        "be reached: %s; " NO_STORE,
        m->group, step, words);
}

static tt_status fail_late(const tti_meeting *m, const char *step)
{
    tt_error_info e = { .kind = TT_ERROR_MISSING };
    tti_text names = { 0 };
    int n_missing = 0;
    tt_status st;

    for (int r = 0; r < m->size; r++) {
        if (arrived(m, step, r))
            continue;
        if (n_missing++ < 32)
            tti_text_addf(&names, "%s%d", n_missing > 1 ? ", " : "", r);
        tti_error_info_add_rank(&e, global_of(m, r));
    }
    st = TT_FAIL(TT_ERR_TIMEOUT, "group %s: %s: waited %d ms for %d of %d ranks: %s%s", m->group,
                 step, m->timeout_ms, n_missing, m->size, tti_text_str(&names),
                 n_missing > 32 ? ", ..." : "");
    tti_text_fini(&names);
    return add_fields(m, step, st, &e);
}

/* Whoever came last may have died before it could say so. One request. */
static bool all_arrived(const tti_meeting *m, const char *step)
{
    char *names = tti_malloc((size_t)m->size * KEY_SIZE);
    const char **keys = tti_calloc((size_t)m->size, sizeof *keys);
    bool present = false;

    if (names != NULL && keys != NULL) {
        for (int r = 0; r < m->size; r++) {
            keys[r] = names + (size_t)r * KEY_SIZE;
            value_key(names + (size_t)r * KEY_SIZE, step, r);
        }
        present = tt_store_check(m->store, keys, m->size, &present) == TT_OK && present;
    }
    tti_mfree(keys);
    tti_mfree(names);
    return present;
}

static tt_status wait_done(const tti_meeting *m, const char *step, const void *mine, size_t n)
{
    int64_t deadline = tti_deadline(m->timeout_ms);
    char name[KEY_SIZE];
    const char *key = name;
    int next = m->rank + 1, next_pid = 0;

    snprintf(name, sizeof name, "x/%.100s/done", step);
    for (;;) {
        int left = tti_ms_left(deadline);
        int slice = left < SLICE_MS ? left : SLICE_MS;
        tt_status st = tt_store_wait(m->store, &key, 1, slice > 0 ? slice : 1);

        if (st != TT_ERR_TIMEOUT)
            return st;
        if (all_arrived(m, step))
            return TT_OK;
        /* First what this rank can see for itself: that ranks were told different things is more than that one gave up. */
        TT_TRY(look_at_some(m, step, mine, n, &next));
        TT_TRY(look_who_gave_up(m, step));
        TT_TRY(look_at_pids(m, step, &next_pid));
        TT_TRY(look_at_exits(m, step));
        if (m->look != NULL)
            TT_TRY(m->look(m->look_ctx));
        if (left == 0)
            return fail_late(m, step);
    }
}

static tt_status exchange(const tti_meeting *m, const char *step, const void *mine, size_t n,
                          void *all)
{
    char done[KEY_SIZE];
    bool last;

    TT_TRY(publish(m, step, mine, n, &last));
    snprintf(done, sizeof done, "x/%.100s/done", step);
    if (last)
        TT_TRY(tt_store_set(m->store, done, "1", 1));
    else
        TT_TRY(wait_done(m, step, mine, n));
    tt_status st = collect(m, step, mine, n, all);
    for (int i = 0, next = 0; st == TT_ERR_TIMEOUT && i < m->size; i += PEEKS)
        TT_TRY(look_at_some(m, step, mine, n, &next));
    return st == TT_ERR_TIMEOUT ? fail_late(m, step) : st;
}

tt_status tti_exchange(const tti_meeting *meeting, const char *step, const void *mine, size_t n,
                       void *all)
{
    tti_meeting m = *meeting;
    tti_error_copy before;
    tt_status st;

    if (m.size == 1) {
        if (n > 0)
            memcpy(all, mine, n);
        return TT_OK;
    }
    if (m.root != NULL) {
        m.root = tti_store_root(m.root);
        if (m.root == NULL)
            return TT_ERR_NOMEM;
    }
    tti_error_save(&before);
    st = exchange(&m, step, mine, n, all);
    if (st == TT_ERR_IO)
        st = fail_without_store(&m, step, st);
    else if (st == TT_OK)
        tti_error_restore(&before); /* waits that came to their end were recorded meanwhile */
    tt_store_free(m.root);
    return st;
}

void tti_exchange_forget(const tti_meeting *m, const char *step)
{
    char key[KEY_SIZE];
    tti_error_copy kept;

    tti_error_save(&kept); /* what stays behind is only a few bytes */
    value_key(key, step, m->rank);
    tt_store_delete(m->store, key, NULL);
    if (m->rank == 0) {
        snprintf(key, sizeof key, "x/%.100s/count", step);
        tt_store_delete(m->store, key, NULL);
        snprintf(key, sizeof key, "x/%.100s/done", step);
        tt_store_delete(m->store, key, NULL);
    }
    tti_error_restore(&kept);
}
