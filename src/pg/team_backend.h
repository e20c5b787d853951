/* SPDX-License-Identifier: Apache-2.0 */
/* What the backends `shm` and `threads` share: both are a team (coll/team.h). */
#ifndef TTI_PG_TEAM_BACKEND_H
#define TTI_PG_TEAM_BACKEND_H

#include "pg/backend.h"

tt_status tti_team_backend_open(const tti_team_args *args, tti_backend **backend_p);
void tti_team_backend_close(tti_backend *b);
void tti_team_backend_abort(tti_backend *b, const char *reason);
int tti_team_backend_dead(tti_backend *b, int *ranks);
void tti_team_backend_replace(tti_backend *b, const int *ranks, int n, uint64_t id);
void tti_team_backend_replaced(tti_backend *b);
tt_status tti_team_backend_run(tti_backend *b, const tti_coll *c);
tt_status tti_team_backend_monitored(tti_backend *b, tti_monitored_by by, uint64_t seq,
                                     int64_t deadline_ns, bool report_all);
void *tti_team_backend_alloc(tti_backend *b, size_t bytes);
void tti_team_backend_free_bytes(tti_backend *b, void *p);
extern const tti_p2p_ops tti_team_p2p_ops;

/* The row of a backend whose groups are teams. */
#define TTI_TEAM_BACKEND(backend_name, ranks_are_threads)                                    \
    {                                                                                        \
        .name = (backend_name), .local = (ranks_are_threads), .open = tti_team_backend_open, \
        .close = tti_team_backend_close, .abort = tti_team_backend_abort,                    \
        .dead = tti_team_backend_dead, .replace = tti_team_backend_replace,                  \
        .replaced = tti_team_backend_replaced, .run = tti_team_backend_run,                  \
        .monitored_barrier = tti_team_backend_monitored, .p2p = &tti_team_p2p_ops,           \
        .alloc = tti_team_backend_alloc, .free_bytes = tti_team_backend_free_bytes,          \
    }

#endif
