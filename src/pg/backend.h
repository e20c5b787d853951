/* SPDX-License-Identifier: Apache-2.0 */
/* A backend of process groups: one folder and one row. */
#ifndef TTI_PG_BACKEND_H
#define TTI_PG_BACKEND_H

#include "coll/team.h"

typedef struct tti_backend tti_backend; /* a backend's own struct for one group */

/* Messages; see tti_p2p_start and its neighbours in coll/team.h. */
typedef struct tti_p2p_ops {
    tt_status (*start)(tti_backend *b, const tti_p2p_args *args, tti_p2p **op_p);
    bool (*now)(tti_backend *b, const tti_p2p_args *args, bool patient);
    void (*progress)(tti_backend *b);
    void (*idle)(tti_backend *b, int64_t deadline_ns);
    void (*wake)(tti_backend *b);
    bool (*done)(const tti_p2p *op);
    bool (*look)(tti_p2p *op);
    tt_status (*wait)(tti_p2p *op, int64_t deadline_ns);
    tt_status (*result)(tti_p2p *op, int *source_p);
    void (*free)(tti_p2p *op);
} tti_p2p_ops;

/* Functions that block do so on the calling thread, until the deadline in their arguments at most. */
typedef struct tti_backend_ops {
    const char *name;
    bool local; /* ranks are threads: default groups are per thread */

    /* Collective; see tti_team_args. */
    tt_status (*open)(const tti_team_args *args, tti_backend **backend_p);
    void (*close)(tti_backend *b);
    void (*abort)(tti_backend *b, const char *reason);
    int (*dead)(tti_backend *b, int *ranks);
    /* Optional; see tti_team_replace and tti_team_replaced. */
    void (*replace)(tti_backend *b, const int *ranks, int n, uint64_t id);
    void (*replaced)(tti_backend *b);

    tt_status (*run)(tti_backend *b, const tti_coll *c);
    tt_status (*monitored_barrier)(tti_backend *b, tti_monitored_by by, uint64_t seq,
                                   int64_t deadline_ns, bool report_all);

    const tti_p2p_ops *p2p; /* NULL: messages are done as soon as they start, and nothing arrives */

    /* Optional: NULL means plain memory. Memory may be freed after the group has ended: `b` is then NULL. */
    void *(*alloc)(tti_backend *b, size_t bytes);
    void (*free_bytes)(tti_backend *b, void *p);
} tti_backend_ops;

/* All backends of this build, NULL last; in src/registry.c. */
extern const tti_backend_ops *const tti_backends[];

extern const tti_backend_ops tti_backend_shm;
extern const tti_backend_ops tti_backend_threads;
extern const tti_backend_ops tti_backend_fake;

#endif
