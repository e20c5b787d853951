/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/refcount.h"
#include "base/small.h"
#include "pg/call.h"
#include "pg/pack.h"
#include "tensor/tensor.h"

#define SITE __builtin_return_address(0)

/* A message as given by the user, checked. */
typedef struct message {
    tt_pg *pg;
    tt_tensor *t;
    bool send;
    int peer; /* rank of the group; -1: anyone */
    int tag;
    int timeout_ms;
    bool async;
    const void *site;

    const char *op;
    uint64_t seq; /* 0: not numbered yet, so there is no ticket either */
    tti_stage stage;
    tti_p2p *p2p;
    uint64_t ticket;
    tti_prof_mark *mark;
} message;

static tt_status check(tt_pg *pg, tt_tensor *t, int peer, int tag, bool send,
                       const tt_coll_options *opt, message *m)
{
    const char *op = send ? "send" : "recv";

    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(t, op, "the tensor"));
    if (tag < 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a tag of 0 or more, got %d", op, tag);
    if (opt != NULL && opt->timeout_ms < 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a time-out of 0 ms or more, got %d", op,
                       opt->timeout_ms);
    bool any = !send && peer == TT_ANY_SOURCE;
    if (!any && (peer = tti_pg_root(pg, peer, opt, op, send ? "destination" : "source")) < 0)
        return TT_ERR_INVALID;
    *m = (message){ .pg = pg,
                    .t = t,
                    .send = send,
                    .peer = peer,
                    .tag = tag,
                    .timeout_ms =
                        opt != NULL && opt->timeout_ms > 0 ? opt->timeout_ms : tt_pg_timeout(pg),
                    .op = any ? "recvAnySource" : op };
    return TT_OK;
}

static void record(message *m, bool alone)
{
    tt_tensor *t = m->t;
    uint64_t bytes = (uint64_t)t->numel * tti_esize(t);
    tti_record rec = { .op = m->op,
                       .seq = m->seq,
                       .p2p = true,
                       .async = m->async,
                       .peer = m->peer,
                       .dtype = (tt_dtype)t->dtype,
                       .in_bytes = m->send ? bytes : 0,
                       .out_bytes = m->send ? 0 : bytes,
                       .n_dims = t->n_dims,
                       .site = m->site };
    memcpy(rec.dims, t->dims, sizeof rec.dims);
    m->ticket = alone ? tti_recorder_begun_alone(m->pg->recorder, &rec)
                      : tti_recorder_begun(m->pg->recorder, &rec);
}

static void number(message *m)
{
    tt_pg *pg = m->pg;
    bool alone = tti_alone_enter(&pg->alone, TTI_ALONE_NUMBERS);

    if (alone) {
        m->seq = 1 + atomic_load_explicit(&pg->p2p_seq, memory_order_relaxed);
        atomic_store_explicit(&pg->p2p_seq, m->seq, memory_order_relaxed);
    } else {
        tti_alone_end(&pg->alone);
        m->seq = 1 + atomic_fetch_add_explicit(&pg->p2p_seq, 1, memory_order_relaxed);
    }
    record(m, alone);
    if (alone)
        tti_alone_leave(&pg->alone);
}

static __attribute__((noinline)) void profile(message *m)
{
    char name[64];
    tt_shape shape = tti_prof_shape(m->t);

    snprintf(name, sizeof name, "%s:%s", m->pg->ops->name, m->op);
    m->mark = tti_prof_op_begin(&(tt_prof_event){ .name = name,
                                                  .async = true,
                                                  .count = 1,
                                                  .shapes = &shape,
                                                  .n_shapes = 1,
                                                  .rank = m->pg->rank,
                                                  .ranks = m->pg->global_ranks,
                                                  .n_ranks = m->pg->n_ranks,
                                                  .seq = m->seq,
                                                  .group = m->pg->name,
                                                  .group_desc = m->pg->desc,
                                                  .group_size = m->pg->size,
                                                  .dtype = (tt_dtype)m->t->dtype,
                                                  .in_numel = m->t->numel,
                                                  .out_numel = m->t->numel,
                                                  .peer = m->peer });
}

static tti_p2p_args args_of(const message *m)
{
    return (tti_p2p_args){ .send = m->send,
                           .data = m->stage.data,
                           .bytes = (size_t)m->t->numel * tti_esize(m->t),
                           .peer = m->peer,
                           .tag = m->tag,
                           .seq = m->seq };
}

/* Begins it, and does it at once if it can be: *done_p. */
static tt_status begin(message *m, bool patient, bool *done_p)
{
    TT_TRY(tti_stage_open(&m->stage, m->t, m->send, false));
    TT_TRY(tti_stage_wait(&m->stage)); /* a receive may write at once */
    number(m);
    if (tti_prof_on())
        profile(m);
    tti_p2p_args args = args_of(m);
    *done_p = m->pg->ops->p2p == NULL || m->pg->ops->p2p->now(m->pg->backend, &args, patient);
    return TT_OK;
}

/* Starts what was begun and could not be done at once. */
static tt_status start(message *m)
{
    tti_p2p_args args = args_of(m);

    return m->pg->ops->p2p->start(m->pg->backend, &args, &m->p2p);
}

/* Gives the operation up; a failure keeps its words. */
static void drop(message *m, tt_status st)
{
    tti_error_copy cause;

    if (st != TT_OK)
        tti_error_save(&cause);
    m->pg->ops->p2p->free(m->p2p);
    if (st != TT_OK)
        tti_error_restore(&cause);
}

/* After the end of a message, however it went: everything but its tensor is given up. */
static tt_status finish(message *m, tt_status st, int *source_p)
{
    tt_pg *pg = m->pg;
    int source = m->peer;

    if (m->p2p != NULL && st == TT_OK)
        st = pg->ops->p2p->result(m->p2p, &source);
    if (m->seq != 0 && tti_alone_owns(&pg->alone))
        tti_recorder_ended_owner(pg->recorder, m->ticket, st);
    else if (m->seq != 0)
        tti_recorder_ended(pg->recorder, m->ticket, st);
    if (st == TT_OK && !m->send)
        st = tti_stage_back(&m->stage, m->t);
    if (st == TT_ERR_TIMEOUT || st == TT_ERR_PEER)
        tti_recorder_dump(pg->recorder, tt_status_name(st), tti_last_error());
    if (m->p2p != NULL)
        drop(m, st);
    if (m->mark != NULL)
        tti_prof_op_end(m->mark, st != TT_OK);
    tti_stage_close(&m->stage);
    *source_p = m->send ? -1 : source;
    return st;
}

static tt_status run(message *m, int *source_p)
{
    int source;
    bool done = false;
    tt_status st = begin(m, true, &done);

    if (st == TT_OK && !done)
        st = start(m);
    if (st == TT_OK && !done && !m->pg->ops->p2p->done(m->p2p))
        st = m->pg->ops->p2p->wait(m->p2p, tti_deadline(m->timeout_ms));
    st = finish(m, st, &source);
    if (st == TT_OK && source_p != NULL)
        *source_p = source;
    return st;
}

/* ---- asynchronous --------------------------------------------------------------------------- */

/* A work of a message has the message itself where collectives have their call. */
static message *message_of(tt_work *w)
{
    return (message *)w->call;
}

/* The end of a message but for its work. */
static tt_status wind_up(tt_work *w, tt_status st)
{
    message *m = message_of(w);
    int source;

    st = finish(m, st, &source);
    w->source = source;
    w->call = NULL;
    if (m->send) /* the work keeps what is received */
        tt_tensor_free(m->t);
    tti_small_free(m, sizeof *m);
    return st;
}

/* Owns the message until release, or until it is completed. */
static bool claim(tt_work *w)
{
    if (atomic_exchange_explicit(&w->claimed, true, memory_order_acquire))
        return false;
    if (!atomic_load_explicit(&w->done, memory_order_acquire))
        return true;
    atomic_store_explicit(&w->claimed, false, memory_order_release);
    return false;
}

static void release(tt_work *w)
{
    atomic_store_explicit(&w->claimed, false, memory_order_release);
}

/* Completes a message that this thread has claimed. It leaves the engine's list after the last use of the group, which
 * is freed when the list is empty. */
static void complete(tt_work *w, tt_status st)
{
    tt_pg *pg = w->pg;

    st = wind_up(w, st);
    bool watched = tti_engine_unwatch(pg, w);
    tti_work_complete(w, st);
    release(w);
    if (watched)
        tt_work_free(w);
}

static tt_status deadline_passed(const message *m)
{
    char peer[24] = "any rank";

    if (m->peer >= 0)
        snprintf(peer, sizeof peer, "rank %d", m->pg->global_ranks[m->peer]);
    return TT_FAIL(TT_ERR_TIMEOUT, "group %s: %s #%llu %s %s with tag %d: not done after %d ms",
                   m->pg->name, m->op, (unsigned long long)m->seq, m->send ? "to" : "from", peer,
                   m->tag, m->timeout_ms);
}

/* The time of a message counts from the first look at the clock, at most a few milliseconds after it was started: most
 * messages are over before. For whoever has claimed it. */
static int64_t deadline_of(tt_work *w, int64_t now_ns)
{
    if (w->deadline_ns == 0)
        w->deadline_ns = now_ns + (int64_t)message_of(w)->timeout_ms * 1000000;
    return w->deadline_ns;
}

bool tti_message_over(tt_work *w, int64_t now_ns, bool *unclaimed_p)
{
    *unclaimed_p = claim(w);
    if (!*unclaimed_p)
        return false;
    message *m = message_of(w);
    if (m->pg->ops->p2p->done(m->p2p) || now_ns > deadline_of(w, now_ns))
        return true;
    release(w);
    return false;
}

void tti_message_end(tt_work *w)
{
    message *m = message_of(w);

    complete(w, m->pg->ops->p2p->done(m->p2p) ? TT_OK : deadline_passed(m));
}

bool tti_message_poll(tt_work *w)
{
    bool unclaimed;

    if (!claim(w))
        return atomic_load_explicit(&w->done, memory_order_acquire);
    message_of(w)->pg->ops->p2p->progress(message_of(w)->pg->backend);
    release(w);
    if (!tti_message_over(w, tti_now_ns(), &unclaimed))
        return atomic_load_explicit(&w->done, memory_order_acquire);
    tti_message_end(w);
    return true;
}

void tti_message_hurry(tt_work *w)
{
    if (!claim(w)) /* somebody waits for it, or ends it */
        return;
    tti_engine_hurry(w->pg, w);
    release(w);
}

/* The engine claims a message only for a few instructions, another thread that waits for it for long. */
static bool claim_soon(tt_work *w)
{
    for (int i = 0; i < 64; i++) {
        if (claim(w))
            return true;
        if (atomic_load_explicit(&w->done, memory_order_acquire))
            return false;
        sched_yield();
    }
    return false;
}

tt_status tti_message_wait(tt_work *w, int64_t deadline_ns)
{
    while (!claim_soon(w)) { /* another thread waits for it: until that one is through */
        pthread_mutex_lock(&w->mu_done);
        bool done = atomic_load_explicit(&w->done, memory_order_relaxed);
        int64_t soon = tti_deadline(10);
        if (!done)
            tti_cond_wait_until(&w->cv_done, &w->mu_done, soon < deadline_ns ? soon : deadline_ns);
        pthread_mutex_unlock(&w->mu_done);
        if (done)
            return TT_OK;
        if (tti_now_ns() >= deadline_ns)
            return TT_ERR_TIMEOUT;
    }
    message *m = message_of(w);
    if (m->pg->ops->p2p->look(m->p2p)) {
        complete(w, TT_OK);
        return TT_OK;
    }
    int64_t late = deadline_of(w, tti_now_ns());
    tt_status st = m->pg->ops->p2p->wait(m->p2p, deadline_ns < late ? deadline_ns : late);
    bool undone = st == TT_ERR_TIMEOUT && !m->pg->ops->p2p->done(m->p2p);
    if (undone && tti_now_ns() < w->deadline_ns) {
        release(w);
        return TT_ERR_TIMEOUT;
    }
    complete(w, undone ? deadline_passed(m) : TT_OK);
    return TT_OK;
}

/* Starts what is not done at once, and lets the engine look after it. A failure is in its work. */
static void launch_slow(message *m, message *kept, tt_work *w)
{
    tt_status st = start(m);

    *kept = *m;
    if (kept->send)
        tt_tensor_retain(kept->t);
    w->call = (tti_call *)kept;
    w->p2p = m->p2p;
    bool done = st != TT_OK || m->pg->ops->p2p->done(m->p2p);
    if (!done) /* without its engine nobody would end it: then it ends here, and the work says why */
        done = (st = tti_engine_watch(m->pg, w)) != TT_OK;
    if (done)
        tti_work_complete(w, wind_up(w, st));
}

/* Starts it with a handle. */
static tt_status launch(message *m, tt_work **work_p)
{
    tt_work *w = tti_work_new(m->pg, m->op, 0);
    message *kept = NULL;
    bool done = false;
    tt_status st = w != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK && !m->send)
        st = tti_work_keep(w, &m->t, 1);
    if (st != TT_OK) {
        tt_work_free(w);
        return st;
    }
    w->message = true;
    st = begin(m, false, &done);
    w->seq = m->seq;
    if (st != TT_OK || done) {
        tti_work_born_done(w, finish(m, st, &w->source));
    } else if ((kept = tti_small_alloc(sizeof *kept)) != NULL) {
        launch_slow(m, kept, w);
    } else {
        finish(m, TT_ERR_NOMEM, &w->source);
        tt_work_free(w);
        return TT_ERR_NOMEM;
    }
    *work_p = w;
    return TT_OK;
}

tt_status tt_pg_send(tt_pg *pg, tt_tensor *t, int dest, int tag, const tt_coll_options *opt,
                     tt_work **work_p)
{
    message m;

    TTI_MEMBERS_ONLY(pg, "send", work_p);
    TT_TRY(check(pg, t, dest, tag, true, opt, &m));
    m.async = work_p != NULL;
    m.site = SITE;
    return work_p != NULL ? launch(&m, work_p) : run(&m, NULL);
}

tt_status tt_pg_recv(tt_pg *pg, tt_tensor *t, int source, int tag, const tt_coll_options *opt,
                     int *source_p, tt_work **work_p)
{
    message m;

    TTI_MEMBERS_ONLY(pg, "recv", work_p);
    TT_TRY(check(pg, t, source, tag, false, opt, &m));
    m.async = work_p != NULL;
    m.site = SITE;
    return work_p != NULL ? launch(&m, work_p) : run(&m, source_p);
}

/* ---- batches ---------------------------------------------------------------------------------- */

enum { FEW = 8 }; /* of a batch that need not be checked twice */

static tt_status check_batch(const tt_p2p_op *ops, int n, const tt_coll_options *opt, message *few)
{
    message other;

    if (ops == NULL || n < 1)
        return TT_FAIL(TT_ERR_INVALID, "p2p batch: expected a list of at least one operation");
    for (int i = 0; i < n; i++) {
        if (ops[i].kind != TT_P2P_SEND && ops[i].kind != TT_P2P_RECV)
            return TT_FAIL(TT_ERR_INVALID,
                           "p2p batch: entry %d is neither a send nor a receive (kind %d)", i,
                           (int)ops[i].kind);
        if (ops[i].pg == NULL || ops[i].t == NULL)
            return TTI_NULL("p2p batch: expected a group and a tensor in entry %d, got NULL", i);
        if (ops[i].pg != ops[0].pg)
            return TT_FAIL(TT_ERR_INVALID,
                           "p2p batch: all operations must be of one group; entry 0 is of %s, "
                           "entry %d of %s",
                           ops[0].pg->name, i, ops[i].pg->name);
        if (ops[i].pg->rank >= 0)
            TT_TRY(check(ops[i].pg, ops[i].t, ops[i].peer, ops[i].tag, ops[i].kind == TT_P2P_SEND,
                         opt, i < FEW ? &few[i] : &other));
    }
    return TT_OK;
}

static tt_status launch_checked(message *m, const void *site, tt_work **work_p)
{
    m->async = true;
    m->site = site;
    return launch(m, work_p);
}

static tt_status launch_op(const tt_p2p_op *o, const tt_coll_options *opt, tt_work **work_p)
{
    return o->kind == TT_P2P_SEND ? tt_pg_send(o->pg, o->t, o->peer, o->tag, opt, work_p)
                                  : tt_pg_recv(o->pg, o->t, o->peer, o->tag, opt, NULL, work_p);
}

tt_status tt_p2p_batch(const tt_p2p_op *ops, int n, const tt_coll_options *opt, tt_work **works)
{
    message few[FEW];

    if (works == NULL)
        return TT_FAIL(TT_ERR_INVALID, "p2p batch: no room for the works");
    TT_TRY(check_batch(ops, n, opt, few));
    for (int i = 0; i < n; i++) {
        tt_status st = i < FEW && ops[i].pg->rank >= 0 ? launch_checked(&few[i], SITE, &works[i])
                                                       : launch_op(&ops[i], opt, &works[i]);
        if (st != TT_OK) {
            while (i-- > 0) {
                tt_work_free(works[i]); /* those go on by themselves */
                works[i] = NULL;
            }
            return st;
        }
    }
    return TT_OK;
}
