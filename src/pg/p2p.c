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
    uint64_t seq;
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

static void record(message *m)
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
    tti_alone_end(&m->pg->alone);
    m->ticket = tti_recorder_begun(m->pg->recorder, &rec);
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

static tt_status start(message *m)
{
    tt_tensor *t = m->t;
    size_t bytes = (size_t)t->numel * tti_esize(t);

    TT_TRY(tti_stage_open(&m->stage, t, m->send, false));
    TT_TRY(tti_stage_wait(&m->stage)); /* a receive may write at once */
    m->seq = 1 + atomic_fetch_add_explicit(&m->pg->p2p_seq, 1, memory_order_relaxed);
    record(m);
    if (tti_prof_on())
        profile(m);
    if (m->pg->ops->p2p == NULL)
        return TT_OK;
    return m->pg->ops->p2p->start(m->pg->backend,
                                  &(tti_p2p_args){ .send = m->send,
                                                   .data = m->stage.data,
                                                   .bytes = bytes,
                                                   .peer = m->peer,
                                                   .tag = m->tag,
                                                   .seq = m->seq },
                                  &m->p2p);
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
    tt_status st = start(m);

    if (st == TT_OK && m->p2p != NULL && !m->pg->ops->p2p->done(m->p2p))
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

bool tti_message_over(tt_work *w, int64_t now_ns, bool *unclaimed_p)
{
    *unclaimed_p = claim(w);
    if (!*unclaimed_p)
        return false;
    message *m = message_of(w);
    if (m->pg->ops->p2p->done(m->p2p) || now_ns > w->deadline_ns)
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
    int64_t until = deadline_ns < w->deadline_ns ? deadline_ns : w->deadline_ns;
    tt_status st = m->pg->ops->p2p->wait(m->p2p, until);
    bool undone = st == TT_ERR_TIMEOUT && !m->pg->ops->p2p->done(m->p2p);
    if (undone && tti_now_ns() < w->deadline_ns) {
        release(w);
        return TT_ERR_TIMEOUT;
    }
    complete(w, undone ? deadline_passed(m) : TT_OK);
    return TT_OK;
}

/* Starts it with a handle. */
static tt_status launch(message *m, tt_work **work_p)
{
    tt_work *w = tti_work_new(m->pg, m->op, 0);
    message *kept = tti_small_alloc(sizeof *kept);
    tt_status st = w != NULL && kept != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK && !m->send)
        st = tti_work_keep(w, &m->t, 1);
    if (st != TT_OK) {
        if (kept != NULL)
            tti_small_free(kept, sizeof *kept);
        tt_work_free(w);
        return st;
    }
    st = start(m);
    *kept = *m;
    tt_tensor_retain(kept->t);
    w->message = true;
    w->seq = m->seq;
    w->call = (tti_call *)kept;
    w->p2p = m->p2p;
    w->deadline_ns = tti_deadline(m->timeout_ms);
    bool done = st != TT_OK || m->p2p == NULL || m->pg->ops->p2p->done(m->p2p);
    if (!done) /* without its engine nobody would end it: then it ends here, and the work says why */
        done = (st = tti_engine_watch(m->pg, w)) != TT_OK;
    if (done)
        tti_work_complete(w, wind_up(w, st));
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

static tt_status check_batch(const tt_p2p_op *ops, int n, const tt_coll_options *opt)
{
    message m;

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
                         opt, &m));
    }
    return TT_OK;
}

tt_status tt_p2p_batch(const tt_p2p_op *ops, int n, const tt_coll_options *opt, tt_work **works)
{
    if (works == NULL)
        return TT_FAIL(TT_ERR_INVALID, "p2p batch: no room for the works");
    TT_TRY(check_batch(ops, n, opt));
    for (int i = 0; i < n; i++) {
        const tt_p2p_op *o = &ops[i];
        tt_status st = o->kind == TT_P2P_SEND
                           ? tt_pg_send(o->pg, o->t, o->peer, o->tag, opt, &works[i])
                           : tt_pg_recv(o->pg, o->t, o->peer, o->tag, opt, NULL, &works[i]);
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
