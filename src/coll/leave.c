/* SPDX-License-Identifier: Apache-2.0 */
/* Leaving an operation that was not completed, so that no peer touches this rank's memory afterwards.
 *
 * Peers use memory of this rank in place only in an operation that it has announced, and until their phase says that they
 * are done. A rank that completes the operation has seen those phases. One that leaves it without (time-out, abort, a
 * failure of anybody) first stores how it stands, and then:
 *
 * - Between processes, a peer may have been stopped in the middle of a write and go on with it in an hour. What peers
 *   could still write into becomes private memory of this rank (tti_heap_leave): their writes go to pages that nobody
 *   reads. Peers that read compare afterwards how this rank stands: what they read before it left is right, and all else is
 *   an error on the reader.
 * - Threads share their addresses. Who touches memory of others says so in a word of its own, and then looks how they
 *   stand; who leaves looks at those words after it said how it stands. The two fences are totally ordered, so either the
 *   toucher sees that the rank has left and keeps off, or the leaver sees the toucher and waits until the piece, which is
 *   of bounded size, is done. A thread cannot be stopped alone, so that wait is short.
 *
 * (models/leave.pml) */
#include <sched.h>

#include "coll/heap.h"
#include "coll/internal.h"

/* ---- those who touch ---------------------------------------------------------------------- */

/* PEER, recorded, when `rank` (-1: any peer) has left the operation. */
static tt_status check_here(tti_team *team, int rank)
{
    tti_doing d = { tti_coll_name(team->c->kind), team->c->seq };

    for (int r = rank < 0 ? 0 : rank; r < (rank < 0 ? team->size : rank + 1); r++)
        if (r != team->rank &&
            tt_unlikely(atomic_load_explicit(&team->peers[r].block->state, memory_order_acquire) !=
                        TTI_STANDING_HERE))
            return tti_check_peer(team, r, &d);
    return TT_OK;
}

tt_status tti_touch(tti_team *team, int rank)
{
    tt_status st;

    if (!team->same_process)
        return TT_OK;
    atomic_store_explicit(&team->mine->touching, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with that of await_untouched */
    st = check_here(team, rank);
    if (tt_unlikely(st != TT_OK))
        atomic_store_explicit(&team->mine->touching, 0, memory_order_release);
    return st;
}

tt_status tti_touched(tti_team *team, int rank)
{
    if (team->same_process) {
        atomic_store_explicit(&team->mine->touching, 0, memory_order_release);
        return TT_OK;
    }
    atomic_thread_fence(memory_order_acquire); /* what was read was read before this */
    return check_here(team, rank);
}

/* ---- who leaves ---------------------------------------------------------------------------- */

static void await_untouched(const tti_team *team)
{
    atomic_thread_fence(memory_order_seq_cst); /* after how this rank stands was stored */
    for (int r = 0; r < team->size; r++)
        while (r != team->rank &&
               atomic_load_explicit(&team->peers[r].block->touching, memory_order_acquire) != 0)
            sched_yield();
}

/* Whether a peer may write into what this rank lent, now or later. Who failed or closed its team says so when it has
 * returned from the operation; who aborted, or replaces the team by another one (replace.c), says so while another
 * thread of it may still be in the operation. */
static bool may_write(const tti_team *team, int rank)
{
    const tti_peer *p = &team->peers[rank];
    int standing = atomic_load_explicit(&p->block->state, memory_order_acquire);

    if (standing == TTI_STANDING_LEFT ||
        (standing == TTI_STANDING_FAILED &&
         atomic_load_explicit(&p->block->replaced, memory_order_acquire) == 0))
        return false;
    return atomic_load_explicit(&p->block->phase, memory_order_acquire) < team->lent_phase &&
           !atomic_load_explicit(&p->dead, memory_order_acquire);
}

/* Memory stays shared when nobody may write into it any more. Memory that has to stay shared over a change of members
 * would wait here, for a while, until every survivor has said that it left and the others are dead. */
static bool anybody_may_write(tti_team *team)
{
    tti_look_for_dead(team);
    for (int r = 0; r < team->size; r++)
        if (r != team->rank && may_write(team, r))
            return true;
    return false;
}

tt_status tti_leave_direct(tti_team *team, tt_status st)
{
    if (team->same_process) {
        atomic_store_explicit(&team->mine->touching, 0, memory_order_release);
        await_untouched(team);
        return st;
    }
    if (team->lent.bytes == 0 || !anybody_may_write(team) ||
        tti_heap_leave(team->lent.data, team->lent.bytes))
        return st;
    return TT_FAIL(TT_ERR_NOMEM,
                   "%s; and there is no memory to keep its %zu bytes from late writes of the "
                   "peers: they are zero now",
                   team->broken_text, team->lent.bytes);
}
