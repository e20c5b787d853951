/* SPDX-License-Identifier: Apache-2.0 */
/* The monitored barrier: every rank says that it came, rank 0 waits for each and says when all may go, or that it
 * failed and who was missing. Its words are used for nothing else, and each caller has a set of them. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "coll/internal.h"

typedef struct visit {
    tti_team *team;
    tti_monitored_by by;
    uint64_t n;
    int rank; /* waited for */
    tti_doing doing;
    uint64_t missing[TTI_RANK_WORDS]; /* the ranks to name when it failed, one bit each */
} visit;

static tti_monitored *words_of(const visit *v, int rank)
{
    return &v->team->peers[rank].block->monitored[v->by];
}

static bool rank_came(const visit *v, int rank)
{
    return atomic_load_explicit(&words_of(v, rank)->here, memory_order_acquire) >= v->n;
}

static bool came(void *ctx)
{
    const visit *v = ctx;

    return rank_came(v, v->rank);
}

static bool answered(void *ctx)
{
    const visit *v = ctx;
    tti_monitored *m = words_of(v, 0);

    return atomic_load_explicit(&m->go, memory_order_acquire) >= v->n ||
           atomic_load_explicit(&m->failed, memory_order_acquire) >= v->n;
}

static bool has_ended(const tti_team *team, int rank)
{
    int standing = atomic_load_explicit(&team->peers[rank].block->state, memory_order_acquire);

    return standing == TTI_STANDING_LEFT || standing == TTI_STANDING_ABORTED ||
           atomic_load_explicit(&team->peers[rank].dead, memory_order_acquire);
}

/* Whether a rank cannot come any more: even one whose collectives failed can, but not one that waits for the others, or
 * for this rank, in a group of survivors. */
static bool is_gone(const tti_team *team, int rank)
{
    return has_ended(team, rank) || tti_is_elsewhere(team, rank);
}

/* Everybody looks after all who have not come: the one that is waited for may be late while another one died. Rank 0 has
 * to live until it answered, too. */
static tt_status check(void *ctx)
{
    visit *v = ctx;
    tti_team *team = v->team;

    tti_look_for_dead(team);
    TT_TRY(tti_check_self(team, &v->doing));
    for (int r = 0; r < team->size; r++)
        if (r != team->rank && is_gone(team, r) && (!rank_came(v, r) || r == 0)) {
            v->rank = r;
            return TT_ERR_PEER;
        }
    return TT_OK;
}

static bool is_missing(const visit *v, int rank)
{
    return v->missing[rank / 64] >> rank % 64 & 1;
}

/* "rank 1" or "ranks 1, 3", from v->missing. */
static void add_missing(const visit *v, tti_text *t)
{
    int n = 0, total = 0;

    for (int r = 0; r < v->team->size; r++)
        total += is_missing(v, r);
    for (int r = 0; r < v->team->size; r++)
        if (is_missing(v, r))
            tti_text_addf(t, "%s%d",
                          n++ > 0     ? ", "
                          : total > 1 ? "ranks "
                                      : "rank ",
                          v->team->peers[r].who.global_rank);
}

/* ": rank 1 (pid 77 on anna) died; rank 3 ...", for those of the missing who cannot come any more. */
static void add_fates(const visit *v, tti_text *t)
{
    const char *between = ": ";

    for (int r = 0; r < v->team->size; r++)
        if (is_missing(v, r) && is_gone(v->team, r)) {
            tti_text_add(t, between);
            if (has_ended(v->team, r))
                tti_add_fate(v->team, r, t);
            else
                tti_add_elsewhere(v->team, r, t);
            between = "; ";
        }
}

/* Notes all who have not come; PEER: only those who cannot come any more. */
static void note_missing(visit *v, tt_status st)
{
    for (int r = 0; r < v->team->size; r++)
        if (r != v->team->rank && !rank_came(v, r) && (st != TT_ERR_PEER || is_gone(v->team, r)))
            v->missing[r / 64] |= (uint64_t)1 << r % 64;
}

/* The same ranks in fields: if one is gone, it and those who are gone in the same way; otherwise all. Returns `st`. */
static tt_status add_fields(const visit *v, tt_status st)
{
    tt_error_info e = { .kind = TT_ERROR_MISSING };

    for (int r = 0; r < v->team->size; r++)
        if (is_missing(v, r) && is_gone(v->team, r)) {
            tt_error_info fate = tti_fate_of(v->team, r);

            if (e.n_ranks == 0)
                e = fate;
            else if (e.kind == fate.kind)
                tti_error_info_add_rank(&e, fate.ranks[0]);
        }
    for (int r = e.n_ranks == 0 ? 0 : v->team->size; r < v->team->size; r++)
        if (is_missing(v, r))
            tti_error_info_add_rank(&e, v->team->peers[r].who.global_rank);
    tti_add_fields(v->team, &v->doing, &e);
    return st;
}

static tt_status wait_for(visit *v, tti_ready_fn ready, int64_t deadline_ns)
{
    tti_wait w = { .ready = ready, .ctx = v, .check = check, .deadline_ns = deadline_ns };

    return tti_bell_wait(&v->team->mine->bell, &v->team->patience, &w);
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static tt_status lead_failed(visit *v, tt_status st, bool report_all)
{
    const tti_team *team = v->team;
    tti_text t = { 0 };
    visit told = *v;

    if (!report_all) {
        memset(told.missing, 0, sizeof told.missing);
        told.missing[v->rank / 64] = (uint64_t)1 << v->rank % 64;
    }
    add_missing(&told, &t);
    tti_text_add(&t, " did not come");
    add_fates(&told, &t);
    st = TT_FAIL(st, "group %s: monitored barrier %llu: %s", team->group,
                 (unsigned long long)v->doing.seq, tti_text_str(&t));
    tti_text_fini(&t);
    return add_fields(&told, st);
}

/* Tells the others. The ranks that were missing stand there before the word that says that it failed. */
static void answer(visit *v, bool ok)
{
    tti_monitored *m = words_of(v, 0);

    for (int i = 0; i < TTI_RANK_WORDS && !ok; i++)
        atomic_store_explicit(&m->missing[i], v->missing[i], memory_order_relaxed);
    atomic_store_explicit(ok ? &m->go : &m->failed, v->n, memory_order_release);
    tti_ring_peers(v->team, false);
}

static tt_status lead(visit *v, int64_t deadline_ns, bool report_all)
{
    tti_team *team = v->team;
    tt_status st = TT_OK;
    bool late = tti_now_ns() >= deadline_ns;

    for (int r = 1; st == TT_OK && r < team->size; r++) {
        v->rank = r;
        st = wait_for(v, came, deadline_ns);
    }
    if (st == TT_ERR_TIMEOUT && late) {
        st = TT_FAIL(st,
                     "group %s: monitored barrier %llu: rank %d timed out before it could wait for "
                     "the others",
                     team->group, (unsigned long long)v->doing.seq, team->peers[0].who.global_rank);
    } else if (st == TT_ERR_TIMEOUT || st == TT_ERR_PEER) {
        note_missing(v, st);
        st = lead_failed(v, st, report_all);
    }
    answer(v, st == TT_OK);
    return st;
}

/* ---- the others ------------------------------------------------------------------------------ */

/* Takes over whom rank 0 missed; false when it has failed once more since, and that is not known any more. */
static bool take_missing(visit *v)
{
    tti_monitored *m = words_of(v, 0);

    for (int i = 0; i < TTI_RANK_WORDS; i++)
        v->missing[i] = atomic_load_explicit(&m->missing[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&m->failed, memory_order_relaxed) == v->n;
}

/* `how` follows "rank 1 reached the monitored barrier but". */
static tt_status follow_failed(const visit *v, tt_status st, const char *how)
{
    const tti_team *team = v->team;

    return TT_FAIL(st,
                   "group %s: monitored barrier %llu: rank %d reached the monitored barrier but %s",
                   team->group, (unsigned long long)v->doing.seq,
                   team->peers[team->rank].who.global_rank, how);
}

/* Rank 0 said that it failed. If somebody cannot come, that is why. */
static tt_status lead_has_failed(visit *v)
{
    tti_text t = { 0 };
    tt_status st = TT_ERR_TIMEOUT;

    tti_text_addf(&t, "failed waiting for rank %d, which ", v->team->peers[0].who.global_rank);
    tti_look_for_dead(v->team);
    if (!take_missing(v)) {
        tti_text_add(&t, "missed others");
    } else {
        size_t before = t.n;

        tti_text_add(&t, "missed ");
        add_missing(v, &t);
        if (t.n == before + strlen("missed "))
            tti_text_add(&t, "others: its own time was over");
        add_fates(v, &t);
        for (int r = 0; r < v->team->size; r++)
            if (is_missing(v, r) && is_gone(v->team, r))
                st = TT_ERR_PEER;
    }
    st = follow_failed(v, st, tti_text_str(&t));
    tti_text_fini(&t);
    return add_fields(v, st);
}

/* Rank 0 did not answer: it is late or gone, or somebody else cannot come any more. */
static tt_status no_answer(visit *v, tt_status st)
{
    tti_text t = { 0 };

    note_missing(v, st);
    if (st == TT_ERR_PEER && v->rank != 0) {
        add_missing(v, &t);
        tti_text_add(&t, " did not come");
    } else {
        memset(v->missing, 0, sizeof v->missing);
        v->missing[0] = 1;
        tti_text_addf(&t, "failed waiting for rank %d", v->team->peers[0].who.global_rank);
    }
    add_fates(v, &t);
    st = follow_failed(v, st, tti_text_str(&t));
    tti_text_fini(&t);
    return add_fields(v, st);
}

static tt_status follow(visit *v, int64_t deadline_ns)
{
    tt_status st;

    v->rank = 0;
    st = wait_for(v, answered, deadline_ns);
    if (st == TT_ERR_TIMEOUT || st == TT_ERR_PEER)
        return no_answer(v, st);
    if (st != TT_OK || atomic_load_explicit(&words_of(v, 0)->go, memory_order_acquire) >= v->n)
        return st;
    return lead_has_failed(v);
}

tt_status tti_team_monitored_barrier(tti_team *team, tti_monitored_by by, uint64_t seq,
                                     int64_t deadline_ns, bool report_all)
{
    visit v = { .team = team, .by = by, .doing = { "monitored barrier", seq } };
    tt_status st;

    TT_TRY(tti_check_self(team, &v.doing));
    pthread_mutex_lock(&team->mu_monitored[by]);
    v.n = ++team->n_monitored[by];
    atomic_store_explicit(&words_of(&v, team->rank)->here, v.n, memory_order_release);
    if (team->rank != 0)
        tti_bell_ring(&team->peers[0].block->bell);
    st = team->rank == 0 ? lead(&v, deadline_ns, report_all) : follow(&v, deadline_ns);
    pthread_mutex_unlock(&team->mu_monitored[by]);
    return st;
}
