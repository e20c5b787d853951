/* SPDX-License-Identifier: Apache-2.0 */
/* Why a message failed, in words. */
#include "coll/p2p_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* How users number it. */
static int global(const tti_p2p *op, int rank)
{
    return op->box->env.members[rank].global_rank;
}

/* "group g: recv 12 from rank 3, tag 7, 64 bytes": how every message begins. */
static const char *name_op(const tti_p2p *op, char *text, size_t size)
{
    char whom[32] = "anyone";

    if (op->peer >= 0)
        snprintf(whom, sizeof whom, "rank %d", global(op, op->peer));
    snprintf(text, size, "group %s: %s %" PRIu64 " %s %s, tag %d, %zu bytes", op->box->env.group,
             op->send ? "send" : "recv", op->seq, op->send ? "to" : "from", whom, op->tag,
             op->bytes);
    return text;
}

/* Gives the failure that was just recorded its fields. Returns `st`. */
static tt_status add_fields(const tti_p2p *op, tt_status st, tt_error_info *e)
{
    e->number = op->seq;
    snprintf(e->group, sizeof e->group, "%s", op->box->env.group);
    snprintf(e->operation, sizeof e->operation, "%s", op->send ? "send" : "recv");
    tti_error_about(e);
    return st;
}

/* Fields about `rank` of the group; -1: no single one. */
static tt_status add_rank(const tti_p2p *op, tt_status st, tt_error_kind kind, int rank,
                          const char *cause)
{
    tt_error_info e = { .kind = kind };

    snprintf(e.cause, sizeof e.cause, "%s", cause);
    if (rank >= 0) {
        const tti_member *m = &op->box->env.members[rank];

        tti_error_info_add_rank(&e, m->global_rank);
        e.pid = m->pid;
        snprintf(e.host, sizeof e.host, "%s", m->host);
    }
    return add_fields(op, st, &e);
}

static const char *progress_of(tti_p2p *op, size_t *moved_p)
{
    tti_p2p_box *box = op->box;
    const char *words = "";

    tti_p2p_lock(box);
    *moved_p = op->moved;
    switch ((tti_p2p_state)op->state) {
    case TTI_P2P_QUEUED:
        words = "no room at the receiver, which takes nothing";
        break;
    case TTI_P2P_OFFERED:
        words = "no matching receive, or it has not been copied";
        break;
    case TTI_P2P_POSTED:
        words = "no matching message came";
        break;
    case TTI_P2P_STREAMING:
    case TTI_P2P_COPYING:
        words = "part of it was moved";
        if (!op->send && op->state == TTI_P2P_STREAMING)
            *moved_p = box->peers[op->source].stream.moved;
        break;
    case TTI_P2P_ENDED:
        break;
    }
    tti_p2p_unlock(box);
    return words;
}

tt_status tti_p2p_say_timeout(tti_p2p *op)
{
    size_t moved;
    const char *words = progress_of(op, &moved);
    char name[256];

    tt_status st = TT_FAIL(TT_ERR_TIMEOUT, "%s: timed out: %s (%zu of %zu bytes)",
                           name_op(op, name, sizeof name), words, moved, op->bytes);
    return add_rank(op, st, TT_ERROR_MISSING, op->peer, "");
}

/* How a rank ended or why it aborted: "" or ": words". A closed box has nobody left to ask. */
static tti_rank_state p2p_reason(tti_p2p_box *box, int rank, char *text, size_t size)
{
    tti_rank_state state = rank == box->rank ? TTI_RANK_ABORTED : TTI_RANK_LEFT;

    snprintf(text, size, ": ");
    tti_p2p_lock(box);
    if (!box->closed && rank != box->rank)
        state = box->env.state(box->env.ctx, rank, true);
    if (!box->closed && box->env.reason != NULL && state != TTI_RANK_LEFT)
        box->env.reason(box->env.ctx, rank, state, text + 2, size - 2);
    tti_p2p_unlock(box);
    if (text[2] == '\0')
        text[0] = '\0';
    return state;
}

static tt_status say_gone(tti_p2p *op, const char *name)
{
    tti_p2p_box *box = op->box;
    int peer = op->peer >= 0 ? op->peer : op->source;
    char reason[480];
    tti_rank_state state = p2p_reason(box, peer, reason, sizeof reason);

    TT_FAIL(TT_ERR_PEER, "%s: rank %d (pid %d on %s) %s%s", name, global(op, peer),
            box->env.members[peer].pid, box->env.members[peer].host,
            state == TTI_RANK_DEAD        ? "died"
            : state == TTI_RANK_ABORTED   ? "aborted"
            : state == TTI_RANK_ELSEWHERE ? "goes on in another group"
                                          : "left the group",
            reason);
    return add_rank(op, TT_ERR_PEER,
                    state == TTI_RANK_DEAD      ? TT_ERROR_DIED
                    : state == TTI_RANK_ABORTED ? TT_ERROR_ABORTED
                                                : TT_ERROR_LEFT,
                    peer, reason[0] != '\0' ? reason + 2 : "");
}

/* Nobody is left. The fields name those who died, or else all others. */
static tt_status say_all_gone(tti_p2p *op, const char *name)
{
    tti_p2p_box *box = op->box;
    tt_error_info died = { .kind = TT_ERROR_DIED }, left = { .kind = TT_ERROR_LEFT };

    TT_FAIL(TT_ERR_PEER, "%s: every other rank died or left", name);
    tti_p2p_lock(box);
    for (int r = 0; r < box->env.size; r++) {
        if (r == box->rank)
            continue;
        tti_error_info_add_rank(&left, global(op, r));
        if (!box->closed && box->env.state(box->env.ctx, r, false) == TTI_RANK_DEAD)
            tti_error_info_add_rank(&died, global(op, r));
    }
    tti_p2p_unlock(box);
    return add_fields(op, TT_ERR_PEER, died.n_ranks > 0 ? &died : &left);
}

static tt_status say_awaited(tti_p2p *op, const char *name)
{
    tti_p2p_box *box = op->box;
    int peer = op->peer >= 0 ? op->peer : op->source;
    char died[64] = "";

    tti_p2p_lock(box);
    if (!box->closed && box->env.reason != NULL)
        box->env.reason(box->env.ctx, peer, TTI_RANK_AWAITS, died, sizeof died);
    tti_p2p_unlock(box);
    TT_FAIL(TT_ERR_PEER,
            "%s: %s, and rank %d (pid %d on %s) waits for rank %d in a group without it", name,
            died[0] != '\0' ? died : "a rank died", global(op, peer), box->env.members[peer].pid,
            box->env.members[peer].host, global(op, box->rank));
    return add_rank(op, TT_ERR_PEER, TT_ERROR_LEFT, peer, died);
}

static tt_status say_aborted(tti_p2p *op, const char *name)
{
    char reason[480];

    p2p_reason(op->box, op->box->rank, reason, sizeof reason);
    TT_FAIL(TT_ERR_ABORTED, "%s: aborted on this rank%s", name, reason);
    return add_rank(op, TT_ERR_ABORTED, TT_ERROR_ABORTED, op->box->rank,
                    reason[0] != '\0' ? reason + 2 : "");
}

/* Ends that are about this message only. `rank`: who sent or should have sent it. */
static tt_status say_other(tti_p2p *op, const char *name, int *rank)
{
    *rank = op->source;
    switch ((tti_p2p_end)op->end) {
    case TTI_END_SIZE:
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected %zu bytes, got %" PRIu64 " from rank %d with tag %d", name,
                       op->bytes, op->got, global(op, op->source), op->tag);
    case TTI_END_DROPPED:
        return TT_FAIL(TT_ERR_PEER, "%s: rank %d gave up its send after %" PRIu64 " bytes", name,
                       global(op, op->source), op->got);
    case TTI_END_COPY:
        return TT_FAIL(TT_ERR_IO, "%s: cannot read the memory of rank %d: %s", name,
                       global(op, op->source), strerror((int)op->got));
    case TTI_END_UNSOUND:
        *rank = op->peer >= 0 ? op->peer : op->source;
        return TT_FAIL(TT_ERR_PEER, "%s: rank %d wrote something that is no message", name,
                       global(op, *rank));
    default:
        *rank = -1;
        return TT_FAIL(TT_ERR_NOMEM, "%s: no memory to keep it", name);
    }
}

tt_status tti_p2p_say_end(tti_p2p *op)
{
    char name[256];
    int rank;

    if (op->end == TTI_END_OK)
        return TT_OK;
    name_op(op, name, sizeof name);
    if (op->end == TTI_END_PEER)
        return say_gone(op, name);
    if (op->end == TTI_END_AWAITED)
        return say_awaited(op, name);
    if (op->end == TTI_END_ALL)
        return say_all_gone(op, name);
    if (op->end == TTI_END_ABORTED)
        return say_aborted(op, name);
    tt_status st = say_other(op, name, &rank);
    return add_rank(op, st, TT_ERROR_OTHER, rank, "");
}
