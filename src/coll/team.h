/* SPDX-License-Identifier: Apache-2.0 */
/* A team: one rank's hold on the memory that the ranks of a group share, and the operations that run on
 * it. Ranks are processes of one host, or threads of one process; the algorithms are the same.
 *
 * Everything here moves bytes of host memory; tensors, works and queues are the business of `pg`.
 * Failures are recorded with TT_FAIL and name group, operation, sequence number and ranks. */
#ifndef TTI_COLL_TEAM_H
#define TTI_COLL_TEAM_H

#include "base/status.h"
#include "tutti/collective.h"

typedef struct tti_team tti_team;

/* Who a rank is, as learnt when the ranks met. */
typedef struct tti_member {
    int global_rank;
    int pid;
    char host[64];
} tti_member;

typedef struct tti_team_args {
    int rank, size;
    const char *group;         /* its name, for messages */
    const tti_member *members; /* `size` of them; copied */
    bool same_process;         /* ranks are threads: their pointers can be read directly */
    bool no_cma;
    size_t staging_bytes; /* per rank; 0: chosen */
    int timeout_ms;       /* for opening */

    /* Everybody's `n` bytes in the order of ranks, to all[0 .. size * n - 1]. Collective; `step` names the
     * exchange in keys and messages. Fails when a rank died or gave up, or the time is over. */
    tt_status (*exchange)(void *ctx, const char *step, const void *mine, size_t n, void *all);
    void *ctx; /* of exchange; only used until tti_team_open returns */

    /* Optional: a few words on how a rank (of the group) ended; called when it is found dead. */
    void (*cause)(void *ctx, int rank, char *text, size_t size);
    void *cause_ctx; /* valid until tti_team_close */
} tti_team_args;

/* Collective. On failure nothing is left behind; the caller tells the other ranks that this one gave up, which ends the
 * exchange that they are in. */
tt_status tti_team_open(const tti_team_args *args, tti_team **team_p);
/* Not collective: says to the peers that this rank left, unmaps, frees. Accepts NULL. Memory from
 * tti_team_alloc stays mapped until it is freed. */
void tti_team_close(tti_team *team);
/* Makes every wait of this rank return TT_ERR_ABORTED, and those of the peers TT_ERR_PEER with `reason`.
 * From any thread, any number of times. */
void tti_team_abort(tti_team *team, const char *reason);
/* This rank is about to wait for ranks[0 .. n-1] of this team, to make a group of them. If a rank that is not among them is dead that
 * group replaces the team, which can complete no collective any more. Then those of the others that wait for this rank, in
 * this team or in any other one of the process, are told so until tti_team_replaced, with the name of the dead rank: they could not
 * come to the new group otherwise. `id` is the new group's, the same on all its ranks. */
void tti_team_replace(tti_team *team, const int *ranks, int n, uint64_t id);
/* The new group is made, or failed. */
void tti_team_replaced(tti_team *team);
/* For a rank that waits for others to make a group, whose identity is `id` (0: it has none): PEER, recorded with `group` as the
 * name of that group, when a rank of any team of this process waits for it in another group, one of survivors. */
tt_status tti_teams_check_awaited(const char *group, uint64_t id);
/* Dead ranks known by now, ascending; asks the kernel. */
int tti_team_dead(tti_team *team, int *ranks);

/* ---- collectives ----------------------------------------------------------------------- */

typedef enum tti_coll_kind {
    TTI_COLL_BARRIER,
    TTI_COLL_BROADCAST,
    TTI_COLL_ALL_REDUCE,
    TTI_COLL_REDUCE,
    TTI_COLL_GATHER,
    TTI_COLL_ALL_GATHER,
    TTI_COLL_SCATTER,
    TTI_COLL_REDUCE_SCATTER,
    TTI_COLL_ALL_TO_ALL,
    TTI_COLL_FINGERPRINT, /* in: 64 bytes that should be the same everywhere; DETAIL level */
    TTI_N_COLL_KINDS
} tti_coll_kind;

/* "all_reduce". */
const char *tti_coll_name(tti_coll_kind kind);

typedef struct tti_span {
    void *data;
    size_t bytes;
} tti_span;

/* One call of one rank. Which members count:
 *
 *   broadcast       out: the buffer (read on the root)
 *   all_reduce      in, out: equal sizes; may be the same buffer
 *   reduce          in; out on the root, may be `in`
 *   gather          in; outs[size] on the root
 *   all_gather      in; outs[size], outs[i] as large as rank i's `in`
 *   scatter         out; ins[size] on the root
 *   reduce_scatter  ins[size], out as large as ins[rank]; ins may overlap nothing else
 *   all_to_all      ins[size], outs[size]
 *
 * outs that follow each other in memory without gaps (one tensor) are noticed and treated as one.
 * outs[rank] may be `in` itself (in place). `uneven`: sizes may differ between ranks, so they are
 * exchanged; otherwise every rank has the same sizes, and a difference is an error on every rank that says
 * who has which. */
typedef struct tti_coll {
    tti_coll_kind kind;
    tt_dtype dtype;  /* of what is reduced; else for messages */
    tt_reduce_op op; /* complex types: SUM, AVG, PREMUL_SUM only (checked above) */
    int root;
    bool uneven;
    double factor;
    tti_span in, out;
    const tti_span *ins;
    const tti_span *outs;
    uint64_t seq;        /* the operation's number, for messages */
    int64_t deadline_ns; /* TTI_NEVER: none; 0: timeout_ms after the first long wait began */
    int timeout_ms;
} tti_coll;

/* Runs it to its end on this thread. One at a time per team (the caller sees to it), all ranks in the same
 * order. After a failure the team is broken: every later call fails with the same words.
 *
 * Statuses: TIMEOUT (names who came and who did not), PEER (who died, left or aborted), ABORTED, INVALID
 * (ranks called different things: who and how), NOMEM. */
tt_status tti_team_run(tti_team *team, const tti_coll *c);

/* Who calls a monitored barrier. Each has a count of its own, because a program and the checks of its collectives may call it
 * at the same time, from different threads, in another order on each rank. */
typedef enum tti_monitored_by {
    TTI_MONITORED_PROGRAM, /* tt_pg_monitored_barrier */
    TTI_MONITORED_CHECKS,  /* debug level DETAIL */
    TTI_N_MONITORED_BY
} tti_monitored_by;

/* See tt_pg_monitored_barrier. On words of its own, so that it works while collectives hang or are broken. From any thread;
 * those of one caller run one after the other. */
tt_status tti_team_monitored_barrier(tti_team *team, tti_monitored_by by, uint64_t seq,
                                     int64_t deadline_ns, bool report_all);

/* ---- point to point --------------------------------------------------------------------- */

/* A message under way. May be used by one thread at a time; different ones by different threads. */
typedef struct tti_p2p tti_p2p;

typedef struct tti_p2p_args {
    bool send;
    void *data; /* left alone until it is done */
    size_t bytes;
    int peer; /* -1 for a receive: anyone */
    int tag;
    uint64_t seq;
} tti_p2p_args;

/* Starts it; never blocks. */
tt_status tti_p2p_start(tti_team *team, const tti_p2p_args *args, tti_p2p **op_p);
/* Does it at once if it is a short one that nothing has to wait for: there is room for a send, the message for a receive
 * is here and nothing else is under way. `patient`: a receive that finds nothing looks for some time, as long as a wait
 * would before it sleeps. False: nothing happened, and it has to be started. */
bool tti_p2p_now(tti_team *team, const tti_p2p_args *args, bool patient);
/* Moves all messages of this rank on as far as they go without blocking. */
void tti_p2p_progress(tti_team *team);
bool tti_p2p_done(const tti_p2p *op);
/* Waits for it as long as a wait does before it gives the core away or looks at a clock. True: it is done. */
bool tti_p2p_look(tti_p2p *op);
/* Waits for it, moving others on meanwhile. A time-out leaves it under way. */
tt_status tti_p2p_wait(tti_p2p *op, int64_t deadline_ns);
/* Waits until any message of this rank could move, `deadline_ns` passed or tti_team_wake was called. */
void tti_p2p_idle(tti_team *team, int64_t deadline_ns);
void tti_team_wake(tti_team *team);
/* Once done: how it went (recorded as the last error) and from whom. */
tt_status tti_p2p_result(tti_p2p *op, int *source_p);
/* Gives it up; cancels what is not done. Accepts NULL. */
void tti_p2p_free(tti_p2p *op);

/* ---- memory the peers can reach --------------------------------------------------------- */

/* 64-byte aligned. Buffers inside such memory are used in place by tti_team_run. */
void *tti_team_alloc(tti_team *team, size_t bytes);
void tti_team_free_bytes(tti_team *team, void *p);

#endif
