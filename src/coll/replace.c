/* SPDX-License-Identifier: Apache-2.0 */
/* Survivors of a death who make a group without the dead rank wait there for the other survivors. Some of those may not know of
 * the death: they wait for this rank in an operation that it will not call, in the broken team or in a team without the dead
 * rank. Both would wait for ever. So a rank that makes such a group says so in the memory of all its teams, and all waits look
 * there: those of collectives, messages and monitored barriers, and that for the members of another group.
 * (models/replace.pml) */
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "coll/internal.h"

#define REMEMBERED 16 /* groups: who came to one may leave it while others are still about to */

static pthread_mutex_t mu_teams = PTHREAD_MUTEX_INITIALIZER;
static tti_team *teams; /* mu_teams */
static uint64_t
    joined[REMEMBERED]; /* mu_teams: the last groups that this process made, or tried to */
static size_t n_joined; /* mu_teams */

void tti_teams_add(tti_team *team)
{
    pthread_mutex_lock(&mu_teams);
    team->next = teams;
    teams = team;
    pthread_mutex_unlock(&mu_teams);
}

void tti_teams_remove(tti_team *team)
{
    pthread_mutex_lock(&mu_teams);
    for (tti_team **t = &teams; *t != NULL; t = &(*t)->next)
        if (*t == team) {
            *t = team->next;
            break;
        }
    pthread_mutex_unlock(&mu_teams);
}

/* With mu_teams held. */
static bool has_joined(uint64_t id)
{
    for (int i = 0; i < REMEMBERED; i++)
        if (joined[i] == id)
            return true;
    return false;
}

/* Of processes, and not of the one that this one was forked from. */
static bool is_ours(const tti_team *team)
{
    return !team->same_process && team->peers[team->rank].pid == getpid();
}

static bool is_listed(const int *ranks, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* The first rank that is dead, did not leave before and is not among the ranks; -1: none. */
static int lost_rank(tti_team *team, const int *ranks, int n)
{
    tti_look_for_dead(team);
    for (int r = 0; r < team->size; r++)
        if (atomic_load_explicit(&team->peers[r].dead, memory_order_acquire) &&
            atomic_load_explicit(&team->peers[r].block->state, memory_order_acquire) !=
                TTI_STANDING_LEFT &&
            !is_listed(ranks, n, r))
            return r;
    return -1;
}

/* The team itself is given up for good. */
static void give_up_team(tti_team *team, int lost)
{
    tt_error_info fate = tti_fate_of(team, lost);
    tti_text t = { 0 };

    snprintf(fate.group, sizeof fate.group, "%s", team->group);
    tti_text_addf(&t, "group %s: ", team->group);
    tti_add_fate(team, lost, &t);
    tti_text_addf(&t, "; rank %d makes a group without it",
                  team->peers[team->rank].who.global_rank);
    atomic_store_explicit(&team->mine->replaced, 1, memory_order_release);
    tti_set_standing(team, TTI_STANDING_FAILED, TT_ERR_PEER, tti_text_str(&t), &fate);
    for (int r = 0; r < team->size; r++)
        tti_p2p_box_alarm(team->box, r);
    tti_text_fini(&t);
}

/* In another team of this process: which of its ranks are waited for in the new group. */
static void say_awaited(tti_team *other, const tti_team *team, const int *ranks, int n, int lost,
                        uint64_t id)
{
    uint64_t awaited[TTI_RANK_WORDS] = { 0 };

    for (int r = 0; r < other->size; r++)
        for (int i = 0; i < n; i++)
            if (r != other->rank && other->peers[r].pid == team->peers[ranks[i]].pid)
                awaited[r / 64] |= (uint64_t)1 << r % 64;
    for (int i = 0; i < TTI_RANK_WORDS; i++)
        atomic_store_explicit(&other->mine->awaited[i], awaited[i], memory_order_relaxed);
    atomic_store_explicit(&other->mine->joining, id, memory_order_relaxed);
    atomic_store_explicit(&other->mine->lost, team->peers[lost].who.global_rank + 1,
                          memory_order_release);
}

void tti_team_replace(tti_team *team, const int *ranks, int n, uint64_t id)
{
    int lost = lost_rank(team, ranks, n);

    if (!is_listed(ranks, n, team->rank))
        return;
    pthread_mutex_lock(&mu_teams);
    joined[n_joined++ % REMEMBERED] = id; /* others may know of a death already */
    pthread_mutex_unlock(&mu_teams);
    if (lost < 0)
        return;
    give_up_team(team, lost);
    pthread_mutex_lock(&mu_teams);
    for (tti_team *t = teams; t != NULL; t = t->next)
        if (is_ours(t))
            say_awaited(t, team, ranks, n, lost, id);
    pthread_mutex_unlock(&mu_teams);
}

void tti_team_replaced(tti_team *team)
{
    if (atomic_load_explicit(&team->mine->replaced, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&mu_teams);
    for (tti_team *t = teams; t != NULL; t = t->next)
        if (is_ours(t))
            atomic_store_explicit(&t->mine->lost, 0, memory_order_release);
    pthread_mutex_unlock(&mu_teams);
}

/* ---- those who are waited for ------------------------------------------------------------------ */

/* The global rank that died, when `rank` waits for this one elsewhere; -1: it does not. *id_p: in which group. */
static int awaited_without(const tti_team *team, int rank, uint64_t *id_p)
{
    const tti_block *b = team->peers[rank].block;
    int lost = atomic_load_explicit(&b->lost, memory_order_acquire);

    if (tt_likely(lost == 0) || rank == team->rank ||
        !(atomic_load_explicit(&b->awaited[team->rank / 64], memory_order_relaxed) >>
              team->rank % 64 &
          1))
        return -1;
    *id_p = atomic_load_explicit(&b->joining, memory_order_relaxed);
    return lost - 1;
}

bool tti_awaits(const tti_team *team, int rank, int *lost_p)
{
    uint64_t id;
    int lost = awaited_without(team, rank, &id);
    bool came;

    if (tt_likely(lost < 0))
        return false;
    pthread_mutex_lock(&mu_teams);
    came = has_joined(id);
    pthread_mutex_unlock(&mu_teams);
    *lost_p = lost;
    return !came;
}

bool tti_is_elsewhere(const tti_team *team, int rank)
{
    int lost;

    return rank != team->rank &&
           (atomic_load_explicit(&team->peers[rank].block->replaced, memory_order_acquire) != 0 ||
            tti_awaits(team, rank, &lost));
}

static void add_awaits(const tti_team *team, int rank, int lost, tti_text *t)
{
    const tti_member *m = &team->peers[rank].who;

    tti_text_addf(
        t, "rank %d died, and rank %d (pid %d on %s) waits for rank %d in a group without it", lost,
        m->global_rank, m->pid, m->host, team->peers[team->rank].who.global_rank);
}

void tti_add_elsewhere(const tti_team *team, int rank, tti_text *t)
{
    const tti_block *b = team->peers[rank].block;
    int lost;

    if (tti_awaits(team, rank, &lost))
        add_awaits(team, rank, lost, t);
    else if (atomic_load_explicit(&b->replaced, memory_order_acquire) != 0 &&
             atomic_load_explicit(&b->state, memory_order_acquire) == TTI_STANDING_FAILED)
        tti_text_addf(t, "%.*s", (int)sizeof b->reason - 1, b->reason);
    else
        tti_text_addf(t, "rank %d went on in another group", team->peers[rank].who.global_rank);
}

static tt_status fail_awaited(const tti_team *team, int rank, int lost, const char *where)
{
    tti_text t = { 0 };
    tt_status st;

    add_awaits(team, rank, lost, &t);
    st = TT_FAIL(TT_ERR_PEER, "group %s: %s", where, tti_text_str(&t));
    tti_text_fini(&t);
    return st;
}

tt_status tti_check_awaited(tti_team *team, const tti_doing *doing)
{
    for (int r = 0; r < team->size; r++) {
        char where[256];
        int lost;

        if (tt_likely(!tti_awaits(team, r, &lost)) || tti_did_part(team, r))
            continue;
        snprintf(where, sizeof where, "%s: %s %llu", team->group, doing->what,
                 (unsigned long long)doing->seq);
        fail_awaited(team, r, lost, where);
        tti_add_fields(team, doing,
                       &(tt_error_info){ .kind = TT_ERROR_DIED, .n_ranks = 1, .ranks = { lost } });
        return TT_ERR_PEER;
    }
    return TT_OK;
}

/* The first rank of a team that waits for this one in a group that is not `id`, and that this one did not come to; -1: none.
 * With mu_teams held. */
static int waiting_rank(const tti_team *team, uint64_t id, int *lost_p)
{
    uint64_t theirs;

    for (int r = 0; r < team->size; r++) {
        *lost_p = awaited_without(team, r, &theirs);
        if (tt_unlikely(*lost_p >= 0) && theirs != id && !has_joined(theirs))
            return r;
    }
    return -1;
}

tt_status tti_teams_check_awaited(const char *group, uint64_t id)
{
    tt_status st = TT_OK;
    int lost;

    pthread_mutex_lock(&mu_teams);
    for (tti_team *t = teams; t != NULL && st == TT_OK; t = t->next) {
        int rank = is_ours(t) ? waiting_rank(t, id, &lost) : -1;

        if (tt_unlikely(rank >= 0))
            st = fail_awaited(t, rank, lost, group);
    }
    pthread_mutex_unlock(&mu_teams);
    return st;
}
