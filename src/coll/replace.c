/* SPDX-License-Identifier: Apache-2.0 */
/* Survivors of a death who make a group without the dead rank wait there for the other survivors. Some of those may not know of
 * the death: they wait for this rank in an operation that it will not call, in the broken team or in a team without the dead
 * rank. Both would wait for ever. So a rank that makes such a group says so in the memory of all its teams. */
#include <stdio.h>

#include "base/text.h"
#include "coll/internal.h"

static pthread_mutex_t mu_teams = PTHREAD_MUTEX_INITIALIZER;
static tti_team *teams; /* mu_teams */

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
    tti_text t = { 0 };

    tti_text_addf(&t, "group %s: ", team->group);
    tti_add_fate(team, lost, &t);
    tti_text_addf(&t, "; rank %d makes a group without it",
                  team->peers[team->rank].who.global_rank);
    atomic_store_explicit(&team->mine->replaced, 1, memory_order_release);
    tti_set_standing(team, TTI_STANDING_FAILED, TT_ERR_PEER, tti_text_str(&t));
    for (int r = 0; r < team->size; r++)
        tti_p2p_box_alarm(team->box, r);
    tti_text_fini(&t);
}

/* In another team of this process: which of its ranks are waited for in the new group. */
static void say_awaited(tti_team *other, const tti_team *team, const int *ranks, int n, int lost)
{
    uint64_t awaited[TTI_RANK_WORDS] = { 0 };

    for (int r = 0; r < other->size; r++)
        for (int i = 0; i < n; i++)
            if (r != other->rank && other->peers[r].pid == team->peers[ranks[i]].pid)
                awaited[r / 64] |= (uint64_t)1 << r % 64;
    for (int i = 0; i < TTI_RANK_WORDS; i++)
        atomic_store_explicit(&other->mine->awaited[i], awaited[i], memory_order_relaxed);
    atomic_store_explicit(&other->mine->lost, team->peers[lost].who.global_rank + 1,
                          memory_order_release);
}

void tti_team_replace(tti_team *team, const int *ranks, int n)
{
    int lost = lost_rank(team, ranks, n);

    if (lost < 0 || !is_listed(ranks, n, team->rank))
        return;
    give_up_team(team, lost);
    pthread_mutex_lock(&mu_teams);
    for (tti_team *t = teams; t != NULL; t = t->next)
        if (t != team && !t->same_process)
            say_awaited(t, team, ranks, n, lost);
    pthread_mutex_unlock(&mu_teams);
}

void tti_team_replaced(tti_team *team)
{
    if (atomic_load_explicit(&team->mine->replaced, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&mu_teams);
    for (tti_team *t = teams; t != NULL; t = t->next)
        atomic_store_explicit(&t->mine->lost, 0, memory_order_release);
    pthread_mutex_unlock(&mu_teams);
}

tt_status tti_check_awaited(tti_team *team, const tti_doing *doing)
{
    for (int r = 0; r < team->size; r++) {
        const tti_block *b = team->peers[r].block;
        const tti_member *m = &team->peers[r].who;
        int lost = atomic_load_explicit(&b->lost, memory_order_acquire);

        if (tt_likely(lost == 0) || tti_did_part(team, r) ||
            !(atomic_load_explicit(&b->awaited[team->rank / 64], memory_order_relaxed) >>
                  team->rank % 64 &
              1))
            continue;
        return TT_FAIL(TT_ERR_PEER,
                       "group %s: %s %llu: rank %d died, and rank %d (pid %d on %s) waits for this "
                       "rank in a group without it",
                       team->group, doing->what, (unsigned long long)doing->seq, lost - 1,
                       m->global_rank, m->pid, m->host);
    }
    return TT_OK;
}
