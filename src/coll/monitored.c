/* SPDX-License-Identifier: Apache-2.0 */
/* The monitored barrier: every rank says that it came, rank 0 waits for each and says when all may go, or that it
 * failed. Its words are used for nothing else. */
#include <stdio.h>

#include "base/text.h"
#include "coll/internal.h"

typedef struct visit {
    tti_team *team;
    uint64_t n;
    int rank; /* waited for */
    tti_doing doing;
} visit;

static bool came(void *ctx)
{
    const visit *v = ctx;

    return atomic_load_explicit(&v->team->peers[v->rank].block->mon_here, memory_order_acquire) >=
           v->n;
}

static bool answered(void *ctx)
{
    const visit *v = ctx;
    tti_block *b = v->team->peers[0].block;

    return atomic_load_explicit(&b->mon_go, memory_order_acquire) >= v->n ||
           atomic_load_explicit(&b->mon_failed, memory_order_acquire) >= v->n;
}

/* Why a rank cannot come; "" when it can: even one whose collectives failed. */
static const char *why(const tti_team *team, int rank)
{
    int standing = atomic_load_explicit(&team->peers[rank].block->state, memory_order_acquire);

    if (standing == TTI_STANDING_LEFT)
        return ", it left the group";
    if (standing == TTI_STANDING_ABORTED)
        return ", it aborted";
    return atomic_load_explicit(&team->peers[rank].dead, memory_order_acquire) ? ", it died" : "";
}

/* Rank 0 looks after all who have not come: it may be waiting for another one than the one that died. */
static tt_status check(void *ctx)
{
    visit *v = ctx;
    const tti_team *team = v->team;
    int waited_for = v->rank, last = team->rank == 0 ? team->size - 1 : 0;

    tti_look_for_dead(v->team);
    TT_TRY(tti_check_self(v->team, &v->doing));
    for (v->rank = waited_for; v->rank <= last; v->rank++)
        if (why(team, v->rank)[0] != '\0' && (team->rank != 0 || !came(v)))
            return TT_ERR_PEER;
    v->rank = waited_for;
    return TT_OK;
}

/* PEER: those who cannot come any more. TIMEOUT: those who have not come. */
static tt_status missing(visit *v, tt_status st, bool report_all)
{
    const tti_team *team = v->team;
    tti_text t = { 0 };
    int n = 0, first = v->rank;

    for (int r = 1; r < team->size; r++) {
        v->rank = r;
        if (came(v) || (!report_all && r != first) ||
            (st == TT_ERR_PEER && why(team, r)[0] == '\0'))
            continue;
        tti_text_addf(&t, "%s%d", n++ > 0 ? ", " : "", team->peers[r].who.global_rank);
    }
    st = TT_FAIL(st, "group %s: monitored barrier %llu: rank%s %s did not come%s", team->group,
                 (unsigned long long)v->doing.seq, n > 1 ? "s" : "", tti_text_str(&t),
                 n == 1 ? why(team, first) : "");
    tti_text_fini(&t);
    return st;
}

static tt_status wait_for(visit *v, tti_ready_fn ready, int64_t deadline_ns)
{
    tti_wait w = { .ready = ready, .ctx = v, .check = check, .deadline_ns = deadline_ns };

    return tti_bell_wait(&v->team->mine->bell, &v->team->patience, &w);
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
    if (st == TT_ERR_TIMEOUT && late)
        st = TT_FAIL(st,
                     "group %s: monitored barrier %llu: rank %d timed out before it could wait for "
                     "the others",
                     team->group, (unsigned long long)v->doing.seq, team->peers[0].who.global_rank);
    else if (st == TT_ERR_TIMEOUT || st == TT_ERR_PEER)
        st = missing(v, st, report_all);
    atomic_store_explicit(st == TT_OK ? &team->mine->mon_go : &team->mine->mon_failed, v->n,
                          memory_order_release);
    tti_ring_peers(team, false);
    return st;
}

/* Rank 0 failed: if somebody cannot come, that is why. */
static tt_status failed_with(visit *v)
{
    tti_team *team = v->team;
    int me = team->peers[team->rank].who.global_rank, lead = team->peers[0].who.global_rank;
    char cause[64] = ", which missed others";
    tt_status st = TT_ERR_TIMEOUT;

    tti_look_for_dead(team);
    for (v->rank = 1; v->rank < team->size && st == TT_ERR_TIMEOUT; v->rank++)
        if (!came(v) && why(team, v->rank)[0] != '\0') {
            snprintf(cause, sizeof cause, ", which missed rank %d%s",
                     team->peers[v->rank].who.global_rank, why(team, v->rank));
            st = TT_ERR_PEER;
        }
    return TT_FAIL(st,
                   "group %s: monitored barrier %llu: rank %d reached the monitored barrier but "
                   "failed waiting for rank %d%s",
                   team->group, (unsigned long long)v->doing.seq, me, lead, cause);
}

static tt_status follow(visit *v, int64_t deadline_ns)
{
    tti_team *team = v->team;
    tt_status st;

    v->rank = 0;
    st = wait_for(v, answered, deadline_ns);
    if (st == TT_ERR_ABORTED || (st == TT_OK && atomic_load_explicit(&team->peers[0].block->mon_go,
                                                                     memory_order_acquire) >= v->n))
        return st;
    if (st == TT_OK)
        return failed_with(v);
    return TT_FAIL(
        st,
        "group %s: monitored barrier %llu: rank %d reached the monitored barrier but failed "
        "waiting for rank %d%s",
        team->group, (unsigned long long)v->doing.seq, team->peers[team->rank].who.global_rank,
        team->peers[0].who.global_rank, why(team, 0));
}

tt_status tti_team_monitored_barrier(tti_team *team, uint64_t seq, int64_t deadline_ns,
                                     bool report_all)
{
    visit v = { .team = team, .n = ++team->mon_n, .doing = { "monitored barrier", seq } };

    TT_TRY(tti_check_self(team, &v.doing));
    atomic_store_explicit(&team->mine->mon_here, v.n, memory_order_release);
    if (team->rank == 0)
        return lead(&v, deadline_ns, report_all);
    tti_bell_ring(&team->peers[0].block->bell);
    return follow(&v, deadline_ns);
}
