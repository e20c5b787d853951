/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of works and futures. */
#ifndef TTI_PG_WORK_H
#define TTI_PG_WORK_H

#include <pthread.h>
#include <stdatomic.h>

#include "pg/backend.h"
#include "tutti/work.h"

typedef struct tti_call tti_call;

struct tt_work {
    atomic_int refs;
    const char *op;
    uint64_t seq;
    tt_pg *pg;        /* valid until it is done; not kept: a group waits for its works */
    unsigned fork_id; /* tti_fork_id when it was made */

    /* What to do: the side that runs it only. */
    tti_call *call; /* a collective */
    bool message;   /* or a message (fixed) */
    tti_p2p *p2p;   /* of a message: owned by whoever holds `claimed` */
    atomic_bool claimed;
    int64_t deadline_ns; /* of a message */
    tt_work *next;       /* in the queue, guarded by the group's mu_queue */

    pthread_mutex_t mu_done;
    pthread_cond_t cv_done;
    atomic_bool done; /* set last, with mu_done held; everything below is then fixed */
    tt_status status;
    int source;
    char *error;       /* NULL: none, or no memory for it */
    tt_future *future; /* mu_done: made when asked for */
    tt_tensor **outs;  /* retained: the result */
    int n_outs;
};

/* One reference. `outs` are retained. */
tt_work *tti_work_new(tt_pg *pg, const char *op, uint64_t seq);
tt_status tti_work_keep(tt_work *w, tt_tensor *const *outs, int n);
/* A work that is done already. */
tt_work *tti_work_done_new(const char *op);
/* Once per work, with no lock held. A failure takes its words from this thread's last error. */
void tti_work_complete(tt_work *w, tt_status st);

/* Messages (p2p.c). Moves it on and completes it if it is done; true then. */
bool tti_message_poll(tt_work *w);
/* Waits for it on this thread, completing it; TIMEOUT when `deadline_ns` passes first. */
tt_status tti_message_wait(tt_work *w, int64_t deadline_ns);

/* pthread_cond_timedwait on CLOCK_MONOTONIC; false when the deadline passed. */
bool tti_cond_wait_until(pthread_cond_t *cv, pthread_mutex_t *mu, int64_t deadline_ns);
void tti_cond_init(pthread_cond_t *cv);

#endif
