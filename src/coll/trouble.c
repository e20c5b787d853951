/* SPDX-License-Identifier: Apache-2.0 */
/* What can go wrong with a peer, and the words for it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "coll/internal.h"
#include "coll/life.h"

void tti_look_for_dead(tti_team *team)
{
    for (int r = 0; r < team->size; r++) {
        tti_peer *p = &team->peers[r];

        if (p->life != NULL && !atomic_load_explicit(&p->dead, memory_order_relaxed) &&
            tti_life_ended(p->life))
            atomic_store_explicit(&p->dead, true, memory_order_release);
    }
}

int tti_team_dead(tti_team *team, int *ranks)
{
    int n = 0;

    tti_look_for_dead(team);
    for (int r = 0; r < team->size; r++)
        if (atomic_load_explicit(&team->peers[r].dead, memory_order_acquire))
            ranks[n++] = r;
    return n;
}

tt_error_info tti_fate_of(tti_team *team, int rank)
{
    const tti_member *m = &team->peers[rank].who;
    const tti_block *b = team->peers[rank].block;
    int standing = atomic_load_explicit(&b->state, memory_order_acquire);
    tt_error_info e = { .kind = TT_ERROR_DIED, .pid = m->pid };

    tti_error_info_add_rank(&e, m->global_rank);
    snprintf(e.host, sizeof e.host, "%s", m->host);
    if (standing == TTI_STANDING_LEFT || standing == TTI_STANDING_ABORTED) {
        e.kind = standing == TTI_STANDING_LEFT ? TT_ERROR_LEFT : TT_ERROR_ABORTED;
        snprintf(e.cause, sizeof e.cause, "%.*s", (int)sizeof b->reason - 1, b->reason);
    } else if (team->cause != NULL) {
        team->cause(team->cause_ctx, rank, e.cause, sizeof e.cause);
    }
    return e;
}

static void add_fate(const tt_error_info *e, tti_text *t)
{
    tti_text_addf(t, "rank %d (pid %d on %s) %s%s%s", e->ranks[0], e->pid, e->host,
                  e->kind == TT_ERROR_LEFT      ? "left the group"
                  : e->kind == TT_ERROR_ABORTED ? "aborted"
                                                : "died",
                  e->cause[0] != '\0' ? ": " : "", e->cause);
}

void tti_add_fate(tti_team *team, int rank, tti_text *t)
{
    tt_error_info e = tti_fate_of(team, rank);

    add_fate(&e, t);
}

void tti_add_fields(const tti_team *team, const tti_doing *doing, tt_error_info *e)
{
    snprintf(e->group, sizeof e->group, "%s", team->group);
    snprintf(e->operation, sizeof e->operation, "%s", doing->what);
    e->number = doing->seq;
    tti_error_about(e);
}

static tt_status fail_gone(tti_team *team, int rank, const tti_doing *doing)
{
    tt_error_info e = tti_fate_of(team, rank);
    tti_text t = { 0 };
    tt_status st;

    add_fate(&e, &t);
    st = TT_FAIL(TT_ERR_PEER, "group %s: %s %llu: %s", team->group, doing->what,
                 (unsigned long long)doing->seq, tti_text_str(&t));
    tti_add_fields(team, doing, &e);
    tti_text_fini(&t);
    return st;
}

/* Another rank failed and left its words and fields: they are about the same operation and the same ranks here. */
static tt_status relay(const tti_team *team, const tti_block *b, const tti_doing *doing)
{
    tt_error_info e = tti_error_info_from(&b->about);
    tt_status st = TT_FAIL((tt_status)b->status == TT_ERR_INVALID ? TT_ERR_INVALID : TT_ERR_PEER,
                           "%.*s", (int)sizeof b->reason - 1, b->reason);

    if (e.operation[0] == '\0')
        tti_add_fields(team, doing, &e);
    else
        tti_error_about(&e);
    return st;
}

static tt_status gone(tti_team *team, int rank, int standing, const tti_doing *doing)
{
    return standing == TTI_STANDING_FAILED ? relay(team, team->peers[rank].block, doing)
                                           : fail_gone(team, rank, doing);
}

/* This rank called tt_pg_abort itself. */
static tt_status fail_aborted(tti_team *team, const tti_doing *doing)
{
    tt_error_info e = { .kind = TT_ERROR_ABORTED };
    tt_status st = TT_FAIL(TT_ERR_ABORTED, "group %s: %s %llu: aborted%s%s", team->group,
                           doing->what, (unsigned long long)doing->seq,
                           team->mine->reason[0] != '\0' ? ": " : "", team->mine->reason);

    tti_error_info_add_rank(&e, team->peers[team->rank].who.global_rank);
    e.pid = team->peers[team->rank].who.pid;
    snprintf(e.host, sizeof e.host, "%s", team->peers[team->rank].who.host);
    snprintf(e.cause, sizeof e.cause, "%s", team->mine->reason);
    tti_add_fields(team, doing, &e);
    return st;
}

tt_status tti_check_self(tti_team *team, const tti_doing *doing)
{
    if (atomic_load_explicit(&team->aborted, memory_order_acquire) == 0)
        return TT_OK;
    return fail_aborted(team, doing);
}

tt_status tti_check_peer(tti_team *team, int rank, const tti_doing *doing)
{
    const tti_peer *p = &team->peers[rank];
    int standing;

    TT_TRY(tti_check_self(team, doing));
    standing = atomic_load_explicit(&p->block->state, memory_order_acquire);
    if (standing != TTI_STANDING_HERE)
        return gone(team, rank, standing, doing);
    if (atomic_load_explicit(&p->dead, memory_order_acquire))
        return fail_gone(team, rank, doing);
    return TT_OK;
}

bool tti_did_part(const tti_team *team, int rank)
{
    uint64_t word =
        atomic_load_explicit(&tti_slot_of(team, rank, team->running)->word, memory_order_acquire);

    return tti_has_begun(word, team->running) &&
           atomic_load_explicit(&team->peers[rank].block->phase, memory_order_acquire) >=
               team->last_phase;
}

/* A peer has timed out, or left in peace, less than a second before this rank times out: that is what the caller asked for, and
 * this rank can list all that are missing. */
static bool rather_times_out(const tti_team *team, const tti_block *b, int standing)
{
    return (standing == TTI_STANDING_LEFT ||
            (standing == TTI_STANDING_FAILED && b->status == TT_ERR_TIMEOUT)) &&
           team->deadline_ns != TTI_NEVER && team->deadline_ns - tti_now_ns() < 1000000000;
}

/* A rank that said that it left, failed or aborted. Aborts count in any case. */
static tt_status check_standing(tti_team *team, int rank, bool waited_for, const tti_doing *doing)
{
    const tti_block *b = team->peers[rank].block;
    int standing = atomic_load_explicit(&b->state, memory_order_acquire);

    if (standing == TTI_STANDING_HERE || rather_times_out(team, b, standing))
        return TT_OK;
    if (standing != TTI_STANDING_ABORTED && !waited_for && tti_did_part(team, rank))
        return TT_OK;
    return gone(team, rank, standing, doing);
}

tt_status tti_check_peers(tti_team *team, int waited_for, const tti_doing *doing)
{
    TT_TRY(tti_check_self(team, doing));
    /* First those who died without a word: when others left or failed, that may be why. */
    for (int r = 0; r < team->size; r++) {
        const tti_peer *p = &team->peers[r];

        if (tt_unlikely(atomic_load_explicit(&p->dead, memory_order_acquire)) &&
            atomic_load_explicit(&p->block->state, memory_order_acquire) == TTI_STANDING_HERE &&
            (r == waited_for || !tti_did_part(team, r)))
            return fail_gone(team, r, doing);
    }
    TT_TRY(check_standing(team, waited_for, true, doing));
    for (int r = 0; r < team->size; r++)
        if (r != team->rank)
            TT_TRY(check_standing(team, r, r == waited_for, doing));
    return tti_check_awaited(team, doing);
}

/* ---- saying it to the others ------------------------------------------------------------ */

void tti_set_standing(tti_team *team, tti_standing standing, tt_status status, const char *reason,
                      const tt_error_info *about)
{
    tti_block *b = team->mine;

    pthread_mutex_lock(&team->mu_standing);
    if (atomic_load_explicit(&b->state, memory_order_relaxed) == TTI_STANDING_HERE) {
        b->status = status;
        snprintf(b->reason, sizeof b->reason, "%s", reason != NULL ? reason : "");
        if (about != NULL)
            b->about = *about;
        atomic_store_explicit(&b->state, (int)standing, memory_order_release);
    }
    pthread_mutex_unlock(&team->mu_standing);
    for (int r = 0; r < team->size; r++)
        tti_bell_ring(&team->peers[r].block->bell);
}

void tti_team_abort(tti_team *team, const char *reason)
{
    tti_set_standing(team, TTI_STANDING_ABORTED, TT_ERR_ABORTED, reason, NULL);
    /* Release: who sees it sees the reason. */
    if (atomic_exchange_explicit(&team->aborted, 1, memory_order_acq_rel) != 0)
        return;
    tti_bell_ring(&team->mine->bell);
    for (int r = 0; r < team->size; r++)
        tti_p2p_box_alarm(team->box, r);
}

tt_status tti_team_break(tti_team *team, tt_status st)
{
    tti_error_copy why;

    tti_error_save(&why);
    team->broken = st;
    team->broken_about = why.info;
    snprintf(team->broken_text, sizeof team->broken_text, "%s", why.text);
    tti_set_standing(team, TTI_STANDING_FAILED, st, team->broken_text, &why.info);
    return st;
}

tt_status tti_team_broken(const tti_team *team)
{
    tt_status st = TT_FAIL(team->broken, "%s", team->broken_text);

    tti_error_about(&team->broken_about);
    return st;
}

/* ---- lists of ranks ---------------------------------------------------------------------- */

/* Ranks that have, or have not, begun the operation; listed in the fields too. */
static void add_ranks(const tti_team *team, uint64_t n, bool came, tti_text *t, tt_error_info *e)
{
    int found = 0, total = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < team->size; r++) {
            uint64_t word =
                atomic_load_explicit(&tti_slot_of(team, r, n)->word, memory_order_acquire);

            if ((r == team->rank || tti_has_begun(word, n)) != came)
                continue;
            if (pass == 0) {
                total++;
                tti_error_info_add_rank(e, team->peers[r].who.global_rank);
            } else
                tti_text_addf(t, "%s%d", found++ == 0 ? (total == 1 ? "rank " : "ranks ") : ", ",
                              team->peers[r].who.global_rank);
        }
    if (total == 0)
        tti_text_add(t, "no rank");
}

/* How far a rank has come, counted from this one's operation. */
static int32_t progress(const tti_team *team, int rank)
{
    int32_t most = INT32_MIN;

    for (size_t i = 0; i < team->layout.n_slots; i++) {
        uint64_t word =
            atomic_load_explicit(&tti_slot_of(team, rank, i)->word, memory_order_acquire);
        int32_t ahead = (int32_t)((uint32_t)(word >> 32) - (uint32_t)team->n);

        most = ahead > most ? ahead : most;
    }
    return most;
}

/* Whoever is waited for may itself wait for a rank that is further behind. */
static int furthest_behind(const tti_team *team, int waited_for)
{
    for (int r = 0; r < team->size; r++)
        if (progress(team, r) < progress(team, waited_for))
            waited_for = r;
    return waited_for;
}

/* "; rank 1 (pid 77 on anna) left the group", for those who did. */
static void add_those_who_left(tti_team *team, tti_text *t)
{
    for (int r = 0; r < team->size; r++)
        if (atomic_load_explicit(&team->peers[r].block->state, memory_order_acquire) ==
            TTI_STANDING_LEFT) {
            tti_text_add(t, "; ");
            tti_add_fate(team, r, t);
        }
}

tt_status tti_timed_out(tti_team *team, int waited_for, const tti_doing *doing)
{
    tti_text came = { 0 }, missing = { 0 }, left = { 0 };
    tt_error_info here = { 0 }, e = { .kind = TT_ERROR_MISSING };
    tt_status st;

    waited_for = furthest_behind(team, waited_for);
    add_ranks(team, team->n, true, &came, &here);
    add_ranks(team, team->n, false, &missing, &e);
    add_those_who_left(team, &left);
    st = TT_FAIL(TT_ERR_TIMEOUT,
                 "group %s: %s %llu: timed out waiting for rank %d; %s came, %s did not%s",
                 team->group, doing->what, (unsigned long long)doing->seq,
                 team->peers[waited_for].who.global_rank, tti_text_str(&came),
                 tti_text_str(&missing), tti_text_str(&left));
    tti_add_fields(team, doing, &e);
    tti_text_fini(&left);
    tti_text_fini(&came);
    tti_text_fini(&missing);
    return st;
}

/* ---- ranks that called different things --------------------------------------------------- */

static void describe(const tti_announced *c, char *text, size_t room)
{
    bool reduces = c->kind == TTI_COLL_ALL_REDUCE || c->kind == TTI_COLL_REDUCE ||
                   c->kind == TTI_COLL_REDUCE_SCATTER;

    snprintf(text, room, "%s (%s, %llu bytes%s%s, root %d%s, number %llu)",
             tti_coll_name((tti_coll_kind)c->kind), tt_dtype_name((tt_dtype)c->dtype),
             (unsigned long long)c->bytes, reduces ? ", " : "",
             reduces ? tti_reduce_name((tt_reduce_op)c->op) : "", c->root,
             c->uneven ? ", sizes differ" : "", (unsigned long long)c->seq);
}

tt_status tti_mismatch(tti_team *team, int rank, uint64_t n)
{
    size_t at = n & (team->layout.n_slots - 1);
    int other = team->rank;
    tti_announced a, b;
    char ours[160], theirs[160];
    tt_error_info e = { 0 };
    bool details;

    /* Everybody should blame the same rank: name the first that differs from the first rank that came. */
    for (int r = 0; r < team->size; r++) {
        uint64_t word = atomic_load_explicit(&tti_slot_of(team, r, n)->word, memory_order_acquire);

        if ((uint32_t)(word >> 32) == (uint32_t)n) {
            other = r;
            break;
        }
    }
    /* The one waited for called what the first did: then it is this rank that differs. */
    if (atomic_load_explicit(&tti_slot_of(team, rank, n)->word, memory_order_acquire) ==
        atomic_load_explicit(&tti_slot_of(team, other, n)->word, memory_order_acquire))
        rank = team->rank;
    a = team->peers[other].block->call[at];
    b = team->peers[rank].block->call[at];
    describe(&a, ours, sizeof ours);
    describe(&b, theirs, sizeof theirs);
    details = a.kind == b.kind && a.words != b.words && a.bytes == b.bytes && a.dtype == b.dtype;
    TT_FAIL(TT_ERR_INVALID, "group %s: ranks called different things: rank %d %s, rank %d %s%s",
            team->group, team->peers[other].who.global_rank, ours,
            team->peers[rank].who.global_rank, theirs,
            details ? ", whose details (sizes or shapes) differ" : "");
    tti_error_info_add_rank(&e, team->peers[rank].who.global_rank);
    e.pid = team->peers[rank].who.pid;
    snprintf(e.host, sizeof e.host, "%s", team->peers[rank].who.host);
    tti_add_fields(team, &(tti_doing){ tti_coll_name((tti_coll_kind)a.kind), a.seq }, &e);
    return TT_ERR_INVALID;
}
