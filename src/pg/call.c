/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: from tensors to spans, recorded and profiled, run here or queued. */
#include "base/error.h"
#include "pg/call.h"

#include <string.h>

#include "tensor/tensor.h"
#include "tutti/ops.h"

/* ---- building ------------------------------------------------------------------------------ */

tti_call *tti_call_open(tti_call *stack, tt_pg *pg, const char *op, const tt_coll_options *opt,
                        tt_work **work_p, const void *site)
{
    if (opt != NULL && opt->timeout_ms < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected a time-out of 0 ms or more, got %d", op,
                            opt->timeout_ms);
    bool collected = tti_collecting(pg);
    if (collected && work_p != NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "%s: inside a coalescing scope calls have no work of their own", op);
    bool heap = work_p != NULL || collected;
    tti_call *c = heap ? tti_malloc(sizeof *c) : stack;
    if (c == NULL)
        return NULL;
    c->pg = pg;
    c->op = op;
    c->site = site;
    c->peer = -1;
    c->async = work_p != NULL;
    c->on_heap = heap;
    c->timeout_ms = opt != NULL && opt->timeout_ms > 0
                        ? opt->timeout_ms
                        : atomic_load_explicit(&pg->timeout_ms, memory_order_relaxed);
    c->mark = NULL;
    c->issued = false;
    c->n_args = c->n_spans = c->n_parts = 0;
    c->cap_args = TTI_SMALL_CALL;
    c->cap_spans = 2 * TTI_SMALL_CALL;
    c->cap_parts = 1;
    c->args = c->small_args;
    c->spans = c->small_spans;
    c->parts = &c->small_part;
    c->fn = NULL;
    c->free_ctx = NULL;
    c->next = NULL;
    return c;
}

/* Room for one more item of a list that begins inside the call and moves to the heap when it grows. */
static tt_status grow(void **items_p, const void *small, int n, int *cap, size_t size)
{
    if (n < *cap)
        return TT_OK;
    size_t bytes = 2 * (size_t)*cap * size;
    void *more = *items_p == small ? tti_malloc(bytes) : tti_realloc(*items_p, bytes);
    if (more == NULL)
        return TT_ERR_NOMEM;
    if (*items_p == small)
        memcpy(more, small, (size_t)n * size);
    *items_p = more;
    *cap *= 2;
    return TT_OK;
}

tti_part *tti_call_part(tti_call *c, tti_coll_kind kind, const tt_coll_options *opt)
{
    if (grow((void **)&c->parts, &c->small_part, c->n_parts, &c->cap_parts, sizeof *c->parts) !=
        TT_OK)
        return NULL;
    tti_part *p = &c->parts[c->n_parts++];
    memset(p, 0, sizeof *p);
    p->c.kind = kind;
    p->first_in = p->first_out = c->n_spans;
    if (opt != NULL) {
        p->c.op = opt->op;
        p->c.factor = opt->factor;
    }
    return p;
}

static tt_status add_arg(tti_call *c, tt_tensor *t, bool in, bool out, bool apart, tti_span *span_p)
{
    TT_TRY(grow((void **)&c->args, c->small_args, c->n_args, &c->cap_args, sizeof *c->args));
    tti_call_tensor *a = &c->args[c->n_args];
    size_t bytes = (size_t)t->numel * tti_esize(t);

    TT_TRY(tti_stage_open(&a->stage, t, in, apart));
    a->t = c->on_heap ? tt_tensor_retain(t) : t;
    a->in = in;
    a->out = out;
    c->n_args++;
    *span_p = (tti_span){ a->stage.data, bytes };
    return TT_OK;
}

tt_status tti_call_arg(tti_call *c, tt_tensor *t, bool in, bool out, tti_span *span_p)
{
    return add_arg(c, t, in, out, false, span_p);
}

/* How many bytes lie between the first element's beginning and the last one's end. */
static size_t extent(const tt_tensor *t)
{
    int64_t last = 0;

    for (int i = 0; i < t->n_dims; i++)
        last += (t->dims[i] - 1) * t->strides[i];
    return t->numel > 0 ? (size_t)(last + 1) * tti_esize(t) : 0;
}

/* Whether both tensors may have an element at the same place. Host memory is compared by address, because tensors that
 * wrap the same memory have storages of their own. */
static bool share_memory(const tt_tensor *a, const tt_tensor *b)
{
    const char *first_a = tti_data(a), *first_b = tti_data(b);

    if (a->device.kind != TT_DEVICE_CPU || b->device.kind != TT_DEVICE_CPU)
        return tti_storage_whole(a->storage) == tti_storage_whole(b->storage);
    return first_a < first_b + extent(b) && first_b < first_a + extent(a);
}

tt_status tti_call_arg_in_place(tti_call *c, tt_tensor *t, tti_span *span_p)
{
    bool apart = false;

    for (int i = 0; i < c->n_args && !apart; i++)
        apart = share_memory(c->args[i].t, t);
    return add_arg(c, t, true, true, apart, span_p);
}

static tt_status add_span(tti_call *c, tti_span span)
{
    TT_TRY(grow((void **)&c->spans, c->small_spans, c->n_spans, &c->cap_spans, sizeof *c->spans));
    c->spans[c->n_spans++] = span;
    return TT_OK;
}

static tt_status add_to_list(tti_call *c, tti_span span, bool out)
{
    tti_part *p = &c->parts[c->n_parts - 1];
    int *first = out ? &p->first_out : &p->first_in;
    int *n = out ? &p->n_outs : &p->n_ins;

    if (*n == 0)
        *first = c->n_spans;
    (*n)++;
    return add_span(c, span);
}

tt_status tti_call_list_in(tti_call *c, tt_tensor *t)
{
    tti_span span;
    TT_TRY(tti_call_arg(c, t, true, false, &span));
    return add_to_list(c, span, false);
}

tt_status tti_call_list_out(tti_call *c, tt_tensor *t)
{
    tti_span span;
    TT_TRY(tti_call_arg(c, t, false, true, &span));
    return add_to_list(c, span, true);
}

tt_status tti_call_pieces(tti_call *c, tt_tensor *t, bool out, const size_t *sizes, int n)
{
    tti_span all;
    size_t at = 0;

    TT_TRY(tti_call_arg(c, t, !out, out, &all));
    for (int i = 0; i < n; i++) {
        TT_TRY(add_to_list(c, (tti_span){ (char *)all.data + at, sizes[i] }, out));
        at += sizes[i];
    }
    return TT_OK;
}

/* Ends the records of a call that was issued but never run. */
static __attribute__((noinline)) void end_unrun(tti_call *c)
{
    tt_status st = tt_last_status();

    tti_recorder_ended(c->pg->recorder, c->ticket, st != TT_OK ? st : TT_ERR_ABORTED);
    if (c->mark != NULL)
        tti_prof_op_end(c->mark, true);
}

void tti_call_drop(tti_call *c)
{
    if (__builtin_expect(c->issued, 0))
        end_unrun(c);
    if (c->free_ctx != NULL)
        c->free_ctx(c->ctx);
    for (int i = 0; i < c->n_args; i++) {
        tti_stage_close(&c->args[i].stage);
        if (c->on_heap)
            tt_tensor_free(c->args[i].t);
    }
    if (c->args != c->small_args)
        tti_mfree(c->args);
    if (c->spans != c->small_spans)
        tti_mfree(c->spans);
    if (c->parts != &c->small_part)
        tti_mfree(c->parts);
    if (c->on_heap)
        tti_mfree(c);
}

/* ---- recording ------------------------------------------------------------------------------- */

static void record(tti_call *c, bool alone)
{
    const tti_call_tensor *a = c->n_args > 0 ? &c->args[0] : NULL;
    tti_record rec = {
        .op = c->op,
        .seq = c->seq,
        .async = c->async,
        .peer = c->peer,
        .dtype = a != NULL ? (tt_dtype)a->t->dtype : TT_U8,
        .n_dims = a != NULL ? a->t->n_dims : 0,
        .site = c->site,
    };
    for (int i = 0; i < c->n_args; i++) {
        uint64_t bytes = (uint64_t)c->args[i].t->numel * tti_esize(c->args[i].t);
        rec.in_bytes += c->args[i].in ? bytes : 0;
        rec.out_bytes += c->args[i].out ? bytes : 0;
    }
    for (int i = 0; i < rec.n_dims; i++)
        rec.dims[i] = a->t->dims[i];
    c->ticket = c->on_heap ? tti_recorder_issued(c->pg->recorder, &rec)
                : alone    ? tti_recorder_begun_alone(c->pg->recorder, &rec)
                           : tti_recorder_begun(c->pg->recorder, &rec);
}

/* Profiles are rare: this may be slow. */
static __attribute__((noinline)) void profile(tti_call *c)
{
    char name[64];
    tt_shape few[TTI_SMALL_CALL], *shapes = few;
    tt_prof_event e = { .name = name, .async = true, .count = 1, .is_collective = true };

    if (c->n_args > TTI_SMALL_CALL) {
        shapes = tti_malloc((size_t)c->n_args * sizeof *shapes);
        if (shapes == NULL)
            return;
    }
    for (int i = 0; i < c->n_args; i++) {
        const tti_call_tensor *a = &c->args[i];
        if (a->in)
            shapes[e.n_shapes++] = tti_prof_shape(a->t);
        e.in_numel += a->in ? a->t->numel : 0;
        e.out_numel += a->out ? a->t->numel : 0;
    }
    snprintf(name, sizeof name, "%s:%s", c->pg->ops->name, c->op);
    e.shapes = shapes;
    e.rank = c->pg->rank;
    e.ranks = c->pg->global_ranks;
    e.n_ranks = c->pg->n_ranks;
    e.seq = c->seq;
    e.group = c->pg->name;
    e.group_desc = c->pg->desc;
    e.group_size = c->pg->size;
    e.dtype = c->n_args > 0 ? (tt_dtype)c->args[0].t->dtype : TT_U8;
    e.peer = c->peer;
    c->mark = tti_prof_op_begin(&e);
    if (shapes != few)
        tti_mfree(shapes);
}

/* ---- running --------------------------------------------------------------------------------- */

static tt_status wait_devices(tti_call *c)
{
    for (int i = 0; i < c->n_args; i++)
        TT_TRY(tti_stage_wait(&c->args[i].stage));
    return TT_OK;
}

static tt_status write_back(tti_call *c)
{
    for (int i = 0; i < c->n_args; i++)
        if (c->args[i].out)
            TT_TRY(tti_stage_back(&c->args[i].stage, c->args[i].t));
    return TT_OK;
}

static tt_status run_part(tti_call *c, tti_part *p)
{
    p->c.ins = p->n_ins > 0 ? &c->spans[p->first_in] : NULL;
    p->c.outs = p->n_outs > 0 ? &c->spans[p->first_out] : NULL;
    p->c.seq = c->seq;
    p->c.timeout_ms = c->timeout_ms;
    return c->pg->ops->run(c->pg->backend, &p->c);
}

/* The words of a call whose time is over say how long that was. */
static void add_time(const tti_call *c, tt_status st)
{
    if (st == TT_ERR_TIMEOUT)
        tti_error_add(", after %d ms", c->timeout_ms);
}

/* The end of a call, on the records. */
static void end(tti_call *c, tt_status st)
{
    if (st != TT_OK)
        tti_recorder_dump(c->pg->recorder, tt_status_name(st), tti_last_error());
    if (c->mark != NULL) {
        tti_prof_op_end(c->mark, st != TT_OK);
        c->mark = NULL;
    }
    c->issued = false;
}

void tti_run_lock(tt_pg *pg)
{
    tti_alone_end(&pg->alone);
    pthread_mutex_lock(&pg->mu_run);
    tti_alone_wait(&pg->alone);
}

void tti_run_unlock(tt_pg *pg)
{
    pthread_mutex_unlock(&pg->mu_run);
}

/* The function that this thread runs on a group. What it calls there has its number: how many calls others make
 * meanwhile is not the same on all ranks. */
static _Thread_local const tti_call *running;

uint64_t tti_running_seq(const tt_pg *pg)
{
    return running != NULL && running->pg == pg ? running->seq : 0;
}

tt_status tti_call_run(tti_call *c)
{
    tt_pg *pg = c->pg;
    tt_status st = TT_OK;
    bool alone;

    if (c->fn != NULL) {
        const tti_call *outer = running; /* a function may run another one */

        tti_recorder_started(pg->recorder, c->ticket);
        running = c;
        st = c->fn(c->ctx, pg);
        running = outer;
        tti_recorder_ended(pg->recorder, c->ticket, st);
        end(c, st);
        return st;
    }
    st = wait_devices(c);
    alone = !c->on_heap && tti_alone_enter(&pg->alone, TTI_ALONE_RUNS);
    if (!alone)
        tti_run_lock(pg);
    if (c->on_heap)
        tti_recorder_started(pg->recorder, c->ticket);
    if (__builtin_expect(st == TT_OK && tti_pg_debug(pg) == TT_DEBUG_DETAIL, 0))
        st = tti_call_verify(c, tti_deadline(c->timeout_ms));
    for (int i = 0; i < c->n_parts && st == TT_OK; i++)
        st = run_part(c, &c->parts[i]);
    if (alone) {
        tti_recorder_ended_owner(pg->recorder, c->ticket, st);
        tti_alone_leave(&pg->alone);
    } else {
        tti_recorder_ended(pg->recorder, c->ticket, st);
        tti_run_unlock(pg);
    }
    if (st == TT_OK)
        st = write_back(c);
    else
        add_time(c, st);
    end(c, st);
    return st;
}

static tt_status queue(tti_call *c, tt_work **work_p)
{
    tt_work *w = tti_work_new(c->pg, c->op, c->seq);
    tt_tensor **outs = tti_malloc(((size_t)c->n_args + 1) * sizeof(tt_tensor *));
    int n = 0;

    for (int i = 0; outs != NULL && i < c->n_args; i++)
        if (c->args[i].out)
            outs[n++] = c->args[i].t;
    tt_status st = w != NULL && outs != NULL ? tti_work_keep(w, outs, n) : TT_ERR_NOMEM;
    tti_mfree(outs);
    if (st == TT_OK) {
        w->call = c;
        st = tti_engine_submit(c->pg, w);
    }
    if (st != TT_OK) {
        tt_work_free(w);
        tti_call_drop(c);
        return st;
    }
    *work_p = w;
    return TT_OK;
}

/* Runs it on the engine thread, after what was queued before, and waits for its end. */
static tt_status wait_turn(tti_call *c)
{
    tt_work *w = tti_work_new(c->pg, c->op, c->seq);
    tt_status st = w != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK) {
        w->call = c;
        st = tti_engine_submit(c->pg, w);
    }
    if (st == TT_OK)
        st = tt_work_wait(w, 0);
    else
        tti_call_drop(c);
    tt_work_free(w);
    return st;
}

/* The one rule for calls whose end the caller waits for. On the engine thread of the group they run at once: the thread would
 * wait for itself. Elsewhere they wait while works are queued, because ranks must run calls in the order of their numbers;
 * functions always run on the engine. */
static tt_status run_and_wait(tti_call *c)
{
    bool queued = atomic_load_explicit(&c->pg->n_pending, memory_order_acquire) != 0;

    if ((queued || c->fn != NULL) && !tti_on_engine(c->pg))
        return wait_turn(c);
    tt_status st = tti_call_run(c);
    tti_call_drop(c);
    if (st == TT_OK)
        tti_error_passed();
    return st;
}

void tti_call_issue(tti_call *c)
{
    tt_pg *pg = c->pg;
    bool alone = !c->on_heap && tti_alone_enter(&pg->alone, TTI_ALONE_NUMBERS);

    if (running != NULL && running->pg == pg) {
        tti_alone_end(&pg->alone);
        c->seq = running->seq;
    } else if (alone) {
        c->seq = 1 + atomic_load_explicit(&pg->seq, memory_order_relaxed);
        atomic_store_explicit(&pg->seq, c->seq, memory_order_relaxed);
    } else {
        tti_alone_end(&pg->alone);
        c->seq = 1 + atomic_fetch_add_explicit(&pg->seq, 1, memory_order_relaxed);
    }
    record(c, alone);
    c->issued = true;
    if (alone)
        tti_alone_leave(&pg->alone);
    if (tti_prof_on())
        profile(c);
}

tt_status tti_call_submit(tti_call *c, tt_work **work_p)
{
    if (c->on_heap && c->fn == NULL && work_p == NULL)
        return tti_collect(c);
    tti_call_issue(c);
    return work_p != NULL ? queue(c, work_p) : run_and_wait(c);
}

tt_status tti_call_finish(tti_call *c, tt_status st, tt_work **work_p)
{
    if (st == TT_OK)
        return tti_call_submit(c, work_p);
    tti_call_drop(c);
    return st;
}
