/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of works and futures. */
#ifndef TTI_PG_WORK_H
#define TTI_PG_WORK_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
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
    int64_t deadline_ns; /* of a message; 0: not asked for yet (whoever holds `claimed`) */
    tt_work *next;    /* in the queue or in the list of messages, guarded by the group's mu_queue */
    tt_work **prev_p; /* of a message: what points to it; NULL: not in the list (mu_queue) */
    bool met;         /* the engine has seen it in the list before (mu_queue) */

    pthread_mutex_t mu_done;
    pthread_cond_t cv_done;
    atomic_bool done; /* set last, with mu_done held; everything below is then fixed */
    tt_status status;
    int source;
    tti_error_copy *failure; /* NULL: none, or no memory for it */
    tt_future *future;       /* mu_done: made when asked for */
    tt_tensor **outs;        /* retained: the result */
    tt_tensor *out;          /* where `outs` points if there is only one */
    int n_outs;
};

/* One reference. `outs` are retained. */
tt_work *tti_work_new(tt_pg *pg, const char *op, uint64_t seq);
tt_status tti_work_keep(tt_work *w, tt_tensor *const *outs, int n);
/* A work that is done already. */
tt_work *tti_work_done_new(const char *op);
/* Once per work, with no lock held. A failure takes its words and fields from this thread's last error. */
void tti_work_complete(tt_work *w, tt_status st);
/* The same for a work that nobody has seen yet. */
void tti_work_born_done(tt_work *w, tt_status st);

/* This thread's last error on the heap, for whoever asks later, and a copy of one; NULL if there is no memory. */
tti_error_copy *tti_failure_new(void);
tti_error_copy *tti_failure_copy(const tti_error_copy *failure);
/* Makes it the last error of this thread; without one only `st` is known. Returns `st`. */
tt_status tti_failure_report(const tti_error_copy *failure, tt_status st);
/* As tt_future_fail, with a failure that is taken over; NULL if there was no memory for it. */
tt_status tti_future_fail_with(tt_future *f, tt_status st, tti_error_copy *failure);

/* The engine thread of `pg` will complete it. */
void tti_future_ends_on(tt_future *f, const tt_pg *pg);

/* Messages (p2p.c). Moves it on and completes it if it is done; true then. */
bool tti_message_poll(tt_work *w);
/* For the engine, with mu_queue held: true if the message is done or late, and claims it for tti_message_end.
 * `unclaimed_p`: nobody waits for it. */
bool tti_message_over(tt_work *w, int64_t now_ns, bool *unclaimed_p);
/* Completes a message that tti_message_over claimed and that is in no list any more. */
void tti_message_end(tt_work *w);
/* Something was hung on its end, so that nobody need wait for it. */
void tti_message_hurry(tt_work *w);
/* Waits for it on this thread, completing it; TIMEOUT when `deadline_ns` passes first. */
tt_status tti_message_wait(tt_work *w, int64_t deadline_ns);

/* pthread_cond_timedwait on CLOCK_MONOTONIC; false when the deadline passed. */
bool tti_cond_wait_until(pthread_cond_t *cv, pthread_mutex_t *mu, int64_t deadline_ns);
void tti_cond_init(pthread_cond_t *cv);

#endif
