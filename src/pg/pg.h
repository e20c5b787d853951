/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of process groups.
 *
 *     public call ──▶ tti_call (checked, buffers as spans) ──▶ caller's thread, if the group is idle
 *                                                          └─▶ queue ──▶ engine thread
 *
 * Collectives of a group run one at a time in the order they were issued. Messages (point to point)
 * are moved on by whoever waits for one, by collectives that wait, and else by the engine thread. */
#ifndef TTI_PG_PG_H
#define TTI_PG_PG_H

#include <pthread.h>
#include <stdatomic.h>

#include "pg/alone.h"
#include "base/clock.h"
#include "base/mem.h"
#include "pg/backend.h"
#include "pg/recorder.h"
#include "rendezvous/exchange.h"
#include "tutti/collective.h"

typedef struct tti_call tti_call;
typedef struct tti_scope_list tti_scope_list;

/* How often some rank list of this group was made a group: part of the new group's key in the store. */
typedef struct tti_child_count {
    uint64_t hash;
    uint64_t n;
} tti_child_count;

struct tt_pg {
    atomic_int refs;

    /* Fixed after creation. */
    char *name, *desc;
    char *uid;                  /* its place in the store; the same on all members */
    int rank, size;             /* -1 for a group that this process is not in */
    int global_rank;            /* of this process */
    int n_ranks;                /* members */
    int *global_ranks;          /* n_ranks */
    tti_ident *idents;          /* n_ranks; NULL: fake, sentinel */
    tt_store *root;             /* the store all groups of this world use; may be NULL (fake) */
    tt_store *store;            /* the group's own view */
    tt_debug_level debug;       /* DEFAULT: that of the process, at every call */
    const tti_backend_ops *ops; /* NULL: sentinel */
    tti_backend *backend;
    tti_recorder *recorder;
    tt_pg_options options; /* what sub-groups take over; texts not kept */
    unsigned fork_id;      /* tti_fork_id when it was made: a forked child may not use it */

    atomic_int timeout_ms;
    atomic_uint_fast64_t seq;     /* collectives issued */
    atomic_uint_fast64_t p2p_seq; /* messages issued */

    /* Held while a collective runs, by the thread that runs it, unless that is `alone`. */
    pthread_mutex_t mu_run;
    tti_alone alone;

    /* The engine thread's queue. */
    pthread_mutex_t mu_queue;
    pthread_cond_t cv_queue; /* something was queued, finished, or stopping was set */
    tt_work *first, *last;   /* mu_queue: collectives not yet taken up */
    tt_work *messages;       /* mu_queue: messages that are not done */
    atomic_int n_pending;    /* collectives queued or running on the engine thread */
    bool stopping;           /* mu_queue */
    bool has_engine;         /* mu_queue */
    bool orphaned;           /* the engine thread's own: nobody else holds the group */
    bool in_idle;            /* mu_queue: the engine waits for messages, not for cv_queue */
    bool asleep;             /* mu_queue: the engine waits for cv_queue, without a time limit */
    pthread_t engine;

    pthread_mutex_t mu_children;
    tti_child_count *children; /* mu_children */
    size_t n_children, cap_children;
};

/* Around a collective: one at a time. */
void tti_run_lock(tt_pg *pg);
void tti_run_unlock(tt_pg *pg);

/* Counts forks: differs in a child from its parent. */
extern atomic_uint tti_fork_id;

/* ---- groups (group.c) -------------------------------------------------------------------- */

typedef struct tti_group_args {
    tt_store *root;
    char *uid;
    const int *global_ranks; /* n_ranks */
    int n_ranks;
    int rank; /* -1: a sentinel */
    int global_rank;
    const tti_ident *idents; /* NULL: to be exchanged */
    const tti_backend_ops *ops;
    tt_pg_options opt; /* all fields decided */
    const char *name;
} tti_group_args;

tt_pg *tti_group_new(const tti_group_args *args);
/* A number for the group with this uid, not 0. */
uint64_t tti_group_id(const char *uid);
void tti_group_destroy(tt_pg *pg);
/* The row of tti_backends called `name` in any case; NULL with an error that lists them. */
const tti_backend_ops *tti_backend_find(const char *name);

/* OK when pg can be used by this process for an operation called `op`; INVALID if not. */
tt_status tti_pg_check(const tt_pg *pg, const char *op);
/* A rank as given by the user -> rank of the group; -1 with an error. */
int tti_pg_root(const tt_pg *pg, int root, const tt_coll_options *opt, const char *op,
                const char *what);
tt_debug_level tti_pg_debug(const tt_pg *pg);

/* ---- engine (engine.c) --------------------------------------------------------------------- */

/* Whether this is the group's engine thread: what it calls runs at once. */
bool tti_on_engine(const tt_pg *pg);
/* Whether this is the engine thread of any group. */
bool tti_on_some_engine(void);
/* Queues a work, which the engine gets a reference of. */
tt_status tti_engine_submit(tt_pg *pg, tt_work *w);
/* Lets the engine look after a message until it is done. */
tt_status tti_engine_watch(tt_pg *pg, tt_work *w);
/* The message is about to be completed: the group may be freed as soon as this returns. True: the caller gets the
 * engine's reference of it. */
bool tti_engine_unwatch(tt_pg *pg, tt_work *w);
/* Nobody will wait for the message: the engine steps in at once. */
void tti_engine_hurry(tt_pg *pg, tt_work *w);
/* Waits until everything queued is done, then ends the thread; true. On the engine thread itself (a callback
 * gave up the last reference) it cannot wait: false, and the thread destroys the group when it ends. */
bool tti_engine_stop(tt_pg *pg);

/* Runs fn(ctx) on the engine thread after what was issued before, as an operation called `op`; `free_ctx`
 * is called once, in every case. With work_p NULL it waits for the end; on the engine thread it then runs at once. */
typedef tt_status (*tti_pg_fn)(void *ctx, tt_pg *pg);
tt_status tti_pg_run_async(tt_pg *pg, const char *op, tti_pg_fn fn, void *ctx,
                           void (*free_ctx)(void *ctx), tt_work **work_p);

/* ---- sparse (sparse.c) ---------------------------------------------------------------------- */

tt_status tti_pg_sparse_all_reduce(tt_pg *pg, tt_tensor *t, const tt_coll_options *opt,
                                   tt_work **work_p);

#endif
