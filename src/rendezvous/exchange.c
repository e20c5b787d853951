/* SPDX-License-Identifier: Apache-2.0 */
/* Everybody's bytes to everybody, through a store. Each rank sets its own value and adds one to a count;
 * whoever brings the count to the size sets `done`, for which the others wait: four requests per rank,
 * however many there are. Between slices of waiting a rank looks whether somebody has died. */
#include "rendezvous/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/store.h"
#include "store/wire.h"

#define SLICE_MS 40
#define PRESENT_MS 2000 /* to get what is there, from a busy server */
#define PEEKS 16        /* values looked at per slice */
#define HEAD 8          /* of a value: version, number of bytes */
#define KEY_SIZE 160

tt_status tti_exit_record(tt_store *root, int global_rank, const char *words)
{
    char key[40], entry[16];
    int n = snprintf(entry, sizeof entry, "%d ", global_rank);

    snprintf(key, sizeof key, TTI_EXIT_KEY, global_rank);
    TT_TRY(tt_store_set(root, key, words, strlen(words)));
    return tt_store_append(root, TTI_EXIT_LIST, entry, (size_t)n);
}

void tti_exit_cause(tt_store *root, int global_rank, int timeout_ms, char *text, size_t size)
{
    tti_error_copy kept;
    const char *key;
    char name[40];
    tt_blob blob;

    if (size > 0)
        text[0] = '\0';
    if (root == NULL || size == 0)
        return;
    tti_error_save(&kept);
    root = tti_store_root(root);
    snprintf(name, sizeof name, TTI_EXIT_KEY, global_rank);
    key = name;
    if (root != NULL && tt_store_wait(root, &key, 1, timeout_ms > 0 ? timeout_ms : 1) == TT_OK &&
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

/* Ranks that give up because of a dead one end as well, and would be blamed in their turn: the first to be found
 * dead is noted in the store, and it is the one that all name. */
int tti_exchange_dead(const tti_meeting *m, int rank)
{
    char mine[16];
    tt_blob held = { 0 };

    snprintf(mine, sizeof mine, "%d", rank);
    if (tt_store_compare_set(m->store, "x/dead", NULL, 0, mine, strlen(mine), &held) == TT_OK) {
        int noted = atoi(held.data);
        rank = noted >= 0 && noted < m->size ? noted : rank;
    }
    tt_blob_free(&held);
    return rank;
}

/* A rank is known to have ended: say so, with all that is known about it. */
static tt_status fail_dead(const tti_meeting *m, const char *step, int rank, int wait_ms)
{
    rank = tti_exchange_dead(m, rank);
    const tti_ident *id = m->idents != NULL ? &m->idents[rank] : NULL;
    char cause[420], who[120] = "";

    tti_exit_cause(m->root, global_of(m, rank), wait_ms, cause, sizeof cause);
    if (id != NULL)
        snprintf(who, sizeof who, " (pid %d on %.63s)", id->pid, id->host);
    return TT_FAIL(TT_ERR_PEER, "group %s: %s: rank %d%s has ended%s%s", m->group, step, rank, who,
                   cause[0] != '\0' ? ": " : "", cause);
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
    return dead < 0 ? TT_OK : fail_dead(m, step, dead, 1);
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
            st = take_value(m, rank, &blob, mine, n, NULL);
            tt_blob_free(&blob);
            TT_TRY(st);
        } else if (m->root != NULL) {
            snprintf(name, sizeof name, TTI_EXIT_KEY, global_of(m, rank));
            TT_TRY(tt_store_check(m->root, &key, 1, &present));
            if (present)
                return fail_dead(m, step, rank, 1);
        }
    }
    return TT_OK;
}

/* Members on this host whose process is gone. */
static tt_status look_at_pids(const tti_meeting *m, const char *step)
{
    for (int r = 0; m->idents != NULL && r < m->size; r++)
        if (r != m->rank && tti_ident_same_host(&m->idents[r], &m->idents[m->rank]) &&
            !tti_ident_alive(&m->idents[r]))
            return fail_dead(m, step, r, 20);
    return TT_OK;
}

static tt_status fail_late(const tti_meeting *m, const char *step)
{
    tti_text names = { 0 };
    int n_missing = 0;
    tt_status st;

    for (int r = 0; r < m->size; r++) {
        if (arrived(m, step, r))
            continue;
        if (n_missing++ < 32)
            tti_text_addf(&names, "%s%d", n_missing > 1 ? ", " : "", r);
    }
    st = TT_FAIL(TT_ERR_TIMEOUT, "group %s: %s: waited %d ms for %d of %d ranks: %s%s", m->group,
                 step, m->timeout_ms, n_missing, m->size, tti_text_str(&names),
                 n_missing > 32 ? ", ..." : "");
    tti_text_fini(&names);
    return st;
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
    int next = m->rank + 1;

    snprintf(name, sizeof name, "x/%.100s/done", step);
    for (;;) {
        int left = tti_ms_left(deadline);
        int slice = left < SLICE_MS ? left : SLICE_MS;
        tt_status st = tt_store_wait(m->store, &key, 1, slice > 0 ? slice : 1);

        if (st != TT_ERR_TIMEOUT)
            return st;
        if (all_arrived(m, step))
            return TT_OK;
        TT_TRY(look_at_pids(m, step));
        TT_TRY(look_at_exits(m, step));
        TT_TRY(look_at_some(m, step, mine, n, &next));
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
    st = exchange(&m, step, mine, n, all);
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
