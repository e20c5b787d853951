/* SPDX-License-Identifier: Apache-2.0 */
/* A backend whose handle is a team. */
#include "pg/team_backend.h"

static tti_team *team_of(tti_backend *b)
{
    return (tti_team *)b;
}

tt_status tti_team_backend_open(const tti_team_args *args, tti_backend **backend_p)
{
    tti_team *team;

    TT_TRY(tti_team_open(args, &team));
    *backend_p = (tti_backend *)team;
    return TT_OK;
}

void tti_team_backend_close(tti_backend *b)
{
    tti_team_close(team_of(b));
}

void tti_team_backend_abort(tti_backend *b, const char *reason)
{
    tti_team_abort(team_of(b), reason);
}

int tti_team_backend_dead(tti_backend *b, int *ranks)
{
    return tti_team_dead(team_of(b), ranks);
}

void tti_team_backend_replace(tti_backend *b, const int *ranks, int n, uint64_t id)
{
    tti_team_replace(team_of(b), ranks, n, id);
}

void tti_team_backend_replaced(tti_backend *b)
{
    tti_team_replaced(team_of(b));
}

tt_status tti_team_backend_run(tti_backend *b, const tti_coll *c)
{
    return tti_team_run(team_of(b), c);
}

tt_status tti_team_backend_monitored(tti_backend *b, tti_monitored_by by, uint64_t seq,
                                     int64_t deadline_ns, bool report_all)
{
    return tti_team_monitored_barrier(team_of(b), by, seq, deadline_ns, report_all);
}

void *tti_team_backend_alloc(tti_backend *b, size_t bytes)
{
    return tti_team_alloc(team_of(b), bytes);
}

void tti_team_backend_free_bytes(tti_backend *b, void *p)
{
    tti_team_free_bytes(team_of(b), p);
}

static tt_status start(tti_backend *b, const tti_p2p_args *args, tti_p2p **op_p)
{
    return tti_p2p_start(team_of(b), args, op_p);
}

static bool now(tti_backend *b, const tti_p2p_args *args, bool patient)
{
    return tti_p2p_now(team_of(b), args, patient);
}

static void progress(tti_backend *b)
{
    tti_p2p_progress(team_of(b));
}

static void idle(tti_backend *b, int64_t deadline_ns)
{
    tti_p2p_idle(team_of(b), deadline_ns);
}

static void wake(tti_backend *b)
{
    tti_team_wake(team_of(b));
}

const tti_p2p_ops tti_team_p2p_ops = {
    .start = start,
    .now = now,
    .progress = progress,
    .idle = idle,
    .wake = wake,
    .done = tti_p2p_done,
    .look = tti_p2p_look,
    .wait = tti_p2p_wait,
    .result = tti_p2p_result,
    .free = tti_p2p_free,
};
