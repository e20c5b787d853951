/* SPDX-License-Identifier: Apache-2.0 */
/* Backward: find what the roots reach, count for each node how many gradients will come, then run
 * nodes as they become ready, the latest operator first. Runs on the calling thread; each node's
 * temporaries end with it. */
#include "autograd/engine.h"

#include <stdio.h>

#include "autograd/accumulate.h"
#include "autograd/streams.h"
#include "ops/observe.h"
#include "ops/op.h"

static _Thread_local tti_run *current_run;

/* ---- finding out what there is to do ------------------------------------------------------- */

static tt_status visit(tti_run *r, tti_node *node, tt_tensor *leaf, uint32_t *task_p)
{
    bool made;

    return tti_run_task(r, node, leaf, task_p, &made);
}

/* Tasks are appended as they are found, so going through the list once visits every node. */
static tt_status discover(tti_run *r)
{
    for (size_t at = 0; at < r->n_tasks; at++) {
        tti_node *n = r->tasks[at].node;

        for (int i = 0; n != NULL && i < n->n_in; i++) {
            const tti_edge *e = &n->edges[i];
            uint32_t task;

            if (e->node == NULL && e->leaf == NULL)
                continue;
            TT_TRY(visit(r, e->node, e->leaf, &task));
            r->tasks[task].deps++;
        }
    }
    return TT_OK;
}

static const void *key_of_tensor(const tt_tensor *t)
{
    return t->grad_fn != NULL ? (const void *)t->grad_fn : (const void *)t;
}

static bool leads_to_needed(const tti_run *r, const tti_task *t)
{
    const tti_node *n = t->node;

    for (int i = 0; n != NULL && i < n->n_in; i++) {
        const tti_edge *e = &n->edges[i];

        if (e->node == NULL && e->leaf == NULL)
            continue;
        if (r->tasks[tti_run_find(r,
                                  e->node != NULL ? (const void *)e->node : (const void *)e->leaf)]
                .needed)
            return true;
    }
    return false;
}

/* An order in which each task comes after all that feed it. */
static tt_status topological(tti_run *r, uint32_t *order)
{
    uint32_t *deps = tti_malloc(r->n_tasks * sizeof *deps);
    size_t n = 0;

    if (deps == NULL)
        return TT_ERR_NOMEM;
    for (size_t i = 0; i < r->n_tasks; i++) {
        deps[i] = r->tasks[i].deps;
        if (deps[i] == 0)
            order[n++] = (uint32_t)i;
    }
    for (size_t at = 0; at < n; at++) {
        const tti_node *node = r->tasks[order[at]].node;

        for (int i = 0; node != NULL && i < node->n_in; i++) {
            const tti_edge *e = &node->edges[i];
            const void *key = e->node != NULL ? (const void *)e->node : (const void *)e->leaf;
            uint32_t task;

            if (key == NULL)
                continue;
            task = tti_run_find(r, key);
            if (--deps[task] == 0)
                order[n++] = task;
        }
    }
    tti_mfree(deps);
    return TT_OK;
}

/* With chosen inputs only the nodes on a path to one of them run. */
static tt_status mark_needed(tti_run *r, const tti_walk *w)
{
    uint32_t *order;
    tt_status st;

    if (w->inputs == NULL) {
        for (size_t i = 0; i < r->n_tasks; i++)
            r->tasks[i].needed = r->tasks[i].passes = true;
        return TT_OK;
    }
    for (int i = 0; i < w->n_inputs; i++) {
        uint32_t task = tti_run_find(r, key_of_tensor(w->inputs[i]));

        if (task != UINT32_MAX)
            r->tasks[task].needed = true;
    }
    order = tti_malloc(r->n_tasks * sizeof *order);
    if (order == NULL)
        return TT_ERR_NOMEM;
    st = topological(r, order);
    for (size_t i = r->n_tasks; st == TT_OK && i-- > 0;) {
        tti_task *t = &r->tasks[order[i]];

        t->passes = leads_to_needed(r, t);
        t->needed = t->needed || t->passes;
    }
    tti_mfree(order);
    return st;
}

/* ---- moving gradients ---------------------------------------------------------------------- */

/* Add `g` (borrowed) to a slot. */
static tt_status add_to_slot(tti_run *r, size_t slot, tt_tensor *g)
{
    if (r->grads[slot] == NULL) {
        r->grads[slot] = tt_tensor_retain(g);
        return TT_OK;
    }
    r->grads[slot] = tti_grad_sum(r->grads[slot], g, r->create_graph);
    return r->grads[slot] != NULL ? TT_OK : tt_last_status();
}

static tt_status fit_and_add(tti_run *r, const tti_edge *e, size_t slot, tt_tensor *g)
{
    tti_out_meta leaf_meta;
    tti_out_meta *meta = &leaf_meta;

    if (e->node != NULL)
        meta = &e->node->outs[e->out_nr];
    else
        tti_meta_of_tensor(e->leaf, &leaf_meta);
    g = tti_grad_fit(g, meta, e->node != NULL ? e->node->op->name : "a leaf");
    return g != NULL ? add_to_slot(r, slot, g) : tt_last_status();
}

/* The same on the stream of whoever waits for it. */
static tt_status deliver(tti_run *r, const tti_edge *e, size_t slot, tt_tensor *g)
{
    tt_stream *stream = NULL;
    tt_status st = TT_OK;

    if (tt_unlikely(g->device.kind != TT_DEVICE_CPU))
        TT_TRY(tti_streams_hand_over(&r->streams, e->node, g, &stream));
    if (tt_likely(stream == NULL))
        return fit_and_add(r, e, slot, g);
    TT_STREAM_SCOPE(stream)
    st = fit_and_add(r, e, slot, g);
    return st;
}

static tt_status arrive(tti_run *r, const tti_edge *e, tt_tensor *g)
{
    uint32_t task =
        tti_run_find(r, e->node != NULL ? (const void *)e->node : (const void *)e->leaf);
    tti_task *t = &r->tasks[task];

    if (g != NULL && t->needed)
        TT_TRY(deliver(r, e, t->first_grad + e->out_nr, g));
    if (--t->deps == 0 && t->needed)
        return tti_run_push(r, task);
    return TT_OK;
}

/* A node whose gradients are all undefined passes that on: those waiting for it stop waiting. */
static tt_status send_all(tti_run *r, const tti_node *n, tt_tensor *const *grad_in)
{
    for (int i = 0; i < n->n_in; i++)
        if (tti_needs(n, i))
            TT_TRY(arrive(r, &n->edges[i], grad_in != NULL ? grad_in[i] : NULL));
    return TT_OK;
}

/* ---- running one task ------------------------------------------------------------------------ */

/* What a hook stored in place of a gradient has to be one, too. */
static tt_status check_stored(const tt_tensor *old, const tt_tensor *g)
{
    if (g == NULL)
        return TT_FAIL(TT_ERR_INVALID, "hook: expected a gradient %s, got NULL", TTI_SHAPE_OF(old));
    if (tti_same_shape(old, g) && old->dtype == g->dtype && tt_device_equal(old->device, g->device))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "hook: expected a gradient %s %s, got %s %s",
                   tt_dtype_name((tt_dtype)old->dtype), TTI_SHAPE_OF(old),
                   tt_dtype_name((tt_dtype)g->dtype), TTI_SHAPE_OF(g));
}

static tt_status run_hooks(tt_hook *list, uint32_t out_nr, tt_tensor **slot)
{
    tt_status st = TT_OK;

    for (tt_hook *h = list; h != NULL && st == TT_OK; h = h->next) {
        tt_tensor *g = *slot;

        if (h->out_nr != out_nr || atomic_load(&h->dead))
            continue;
        st = h->fn.grad(h->ctx, &g);
        if (st == TT_OK && g != *slot)
            st = check_stored(*slot, g);
        if (st == TT_OK && g != *slot) {
            tt_tensor_retain(g);
            tt_tensor_free(*slot);
            *slot = g;
        }
    }
    return st;
}

static void capture(const tti_walk *w, const tti_task *t, tt_tensor *const *grads)
{
    for (int i = 0; w->captured != NULL && i < w->n_inputs; i++) {
        const tt_tensor *in = w->inputs[i];
        uint32_t nr = in->grad_fn != NULL ? in->out_nr : 0;
        bool mine = t->node != NULL ? in->grad_fn == t->node : in->grad_fn == NULL && in == t->leaf;

        if (mine && w->captured[i] == NULL)
            w->captured[i] = tt_tensor_retain(grads[nr]);
    }
}

static bool is_input(const tti_walk *w, const tt_tensor *leaf)
{
    for (int i = 0; i < w->n_inputs; i++)
        if (w->inputs[i] == leaf)
            return true;
    return w->inputs == NULL;
}

static tt_status run_leaf(tti_run *r, const tti_walk *w, const tti_task *t)
{
    tt_tensor *leaf = t->leaf;
    tti_grad_meta *m = leaf->meta;
    tt_tensor *g = r->grads[t->first_grad];
    tt_status st;

    r->grads[t->first_grad] = NULL;
    if (g == NULL)
        return TT_OK;
    st = m != NULL && m->hooks != NULL ? run_hooks(m->hooks, 0, &g) : TT_OK;
    if (st == TT_OK && w->captured != NULL) {
        capture(w, t, &g);
    } else if (st == TT_OK && is_input(w, leaf)) {
        if (m != NULL && m->pre_hooks != NULL)
            st = run_hooks(m->pre_hooks, 0, &g);
        if (st == TT_OK)
            return tti_accumulate(leaf, g, r->create_graph); /* takes g */
    }
    tt_tensor_free(g);
    return st;
}

static tt_status call_backward(tti_run *r, tti_node *n, tt_tensor *const *grad_out)
{
    tt_tensor *small[8] = { NULL };
    tt_tensor **grad_in = small;
    tt_status st;
    char name[80];
    tt_op_event e = { .name = name, .in = grad_out, .n_in = n->n_out };

    if (n->n_in > 8 && (grad_in = tti_calloc(n->n_in, sizeof *grad_in)) == NULL)
        return TT_ERR_NOMEM;
    st = TT_OK;
    if (tt_unlikely(tti_observing())) {
        snprintf(name, sizeof name, "%s.backward", n->op->name);
        st = tti_observe_before(&e);
    }
    if (st == TT_OK)
        st = n->op->backward(n, grad_out, grad_in);
    if (tt_unlikely(tti_observing())) {
        e.after = true;
        e.status = st;
        e.out = grad_in[0];
        snprintf(name, sizeof name, "%s.backward", n->op->name);
        tti_observe_after(&e);
    }
    if (st == TT_OK)
        st = send_all(r, n, grad_in);
    if (grad_in != small)
        tti_mfree(grad_in);
    return st;
}

static tt_status prepare_grads(tti_run *r, const tti_walk *w, const tti_task *t, bool *any_p)
{
    tti_node *n = t->node;
    tt_tensor **grads = &r->grads[t->first_grad];

    *any_p = false;
    for (int i = 0; i < n->n_out; i++) {
        if (grads[i] == NULL)
            continue;
        *any_p = true;
        if (n->hooks != NULL)
            TT_TRY(run_hooks(n->hooks, (uint32_t)i, &grads[i]));
    }
    for (int i = 0; i < 2; i++)
        if (n->retain[i] != NULL && grads[n->retain[i]->out_nr] != NULL)
            TT_TRY(tt_set_grad(n->retain[i], grads[n->retain[i]->out_nr]));
    capture(w, t, grads);
    for (int i = 0; tt_unlikely(r->streams.entered != NULL) && i < n->n_out; i++)
        if (grads[i] != NULL)
            TT_TRY(tti_streams_keep(&r->streams, grads[i])); /* somebody may have it now */
    return TT_OK;
}

/* The gradients of the results, which become the scope's, go to backward. */
static tt_status pass(tti_run *r, const tti_task *t, bool any)
{
    tti_node *n = t->node;
    tt_tensor *small[8];
    tt_tensor **grad_out = small;
    tt_status st = TT_OK;

    if (n->n_out > 8 && (grad_out = tti_calloc(n->n_out, sizeof *grad_out)) == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n->n_out; i++) {
        grad_out[i] = tti_scope_add(r->grads[t->first_grad + (size_t)i]);
        r->grads[t->first_grad + (size_t)i] = NULL;
    }
    if (t->passes)
        st = any ? call_backward(r, n, grad_out) : send_all(r, n, NULL);
    if (grad_out != small)
        tti_mfree(grad_out);
    return st;
}

static tt_status run_node(tti_run *r, const tti_walk *w, uint32_t task)
{
    tti_task t = r->tasks[task]; /* a copy: the list may move */
    tt_scope scope = tt_scope_open();
    tt_status st;
    bool any;

    st = tti_streams_enter(&r->streams, t.node);
    if (st == TT_OK)
        st = prepare_grads(r, w, &t, &any);
    if (st == TT_OK)
        st = pass(r, &t, any);
    if (!r->retain_graph && st == TT_OK && t.passes)
        tti_node_release(t.node);
    tt_scope_close(&scope);
    tti_streams_leave(&r->streams);
    return st;
}

/* ---- the walk ------------------------------------------------------------------------------ */

static tt_status start_at(tti_run *r, tt_tensor *root, tt_tensor *g)
{
    tti_edge to = { .node = root->grad_fn,
                    .leaf = root->grad_fn == NULL ? root : NULL,
                    .out_nr = root->grad_fn != NULL ? root->out_nr : 0 };
    uint32_t task;

    TT_TRY(visit(r, to.node, to.leaf, &task));
    return deliver(r, &to, r->tasks[task].first_grad + to.out_nr, g);
}

static tt_status start(tti_run *r, const tti_walk *w)
{
    for (int i = 0; i < w->n_roots; i++)
        TT_TRY(start_at(r, w->roots[i], w->root_grads[i]));
    TT_TRY(discover(r));
    TT_TRY(mark_needed(r, w));
    for (uint32_t i = 0; i < r->n_tasks; i++)
        if (r->tasks[i].deps == 0 && r->tasks[i].needed)
            TT_TRY(tti_run_push(r, i));
    return TT_OK;
}

static tt_status loop(tti_run *r, const tti_walk *w)
{
    while (r->n_heap > 0) {
        uint32_t task = tti_run_pop(r);

        if (r->tasks[task].leaf != NULL)
            TT_TRY(run_leaf(r, w, &r->tasks[task]));
        else
            TT_TRY(run_node(r, w, task));
    }
    TT_TRY(tti_streams_rejoin(&r->streams));
    for (; r->n_ended < r->n_end_calls; r->n_ended++) {
        tti_end_call call = r->end_calls[r->n_ended];

        TT_TRY(call.fn(call.ctx));
    }
    return TT_OK;
}

/* Tells those whose end calls have not succeeded. The failure keeps its words, whatever they meet. */
static void give_up(tti_run *r)
{
    tti_error_copy why;

    tti_error_save(&why);
    tti_streams_rejoin(&r->streams);
    for (size_t i = r->n_ended; i < r->n_end_calls; i++)
        if (r->end_calls[i].failed != NULL)
            r->end_calls[i].failed(r->end_calls[i].ctx);
    tti_error_restore(&why);
}

tt_status tti_engine_walk(const tti_walk *w)
{
    tti_run run;
    tt_grad_guard guard;
    bool homes = tti_homes_open;
    tt_status st;

    tti_run_init(&run);
    run.retain_graph = w->retain_graph || w->create_graph;
    run.create_graph = w->create_graph;
    run.outer = current_run;
    current_run = &run;
    guard = tt_grad_guard_open(w->create_graph ? TT_GRAD_ON : TT_GRAD_OFF);
    tti_homes_open = !w->create_graph && w->inputs == NULL;

    st = start(&run, w);
    if (st == TT_OK)
        st = loop(&run, w);
    if (st != TT_OK)
        give_up(&run);

    tti_homes_open = homes;
    tt_grad_guard_close(&guard);
    current_run = run.outer;
    tti_run_fini(&run);
    return st;
}

static tt_status add_end_call(tti_run *r, tti_end_call call)
{
    if (call.fn == NULL)
        return TT_FAIL(TT_ERR_INVALID, "on_backward_end: expected a function, got NULL");
    if (r == NULL)
        return TT_FAIL(TT_ERR_INVALID, "on_backward_end: no backward is running on this thread");
    TT_TRY(tti_vec_reserve((void **)&r->end_calls, &r->cap_end_calls, r->n_end_calls + 1,
                           sizeof *r->end_calls));
    r->end_calls[r->n_end_calls++] = call;
    return TT_OK;
}

tt_status tt_on_backward_end(tt_backward_end_fn fn, void *ctx)
{
    return add_end_call(current_run, (tti_end_call){ .fn = fn, .ctx = ctx });
}

tt_status tti_on_backward_done(tt_backward_end_fn end, void (*failed)(void *ctx), void *ctx)
{
    tti_run *r = current_run;

    while (r != NULL && r->outer != NULL)
        r = r->outer;
    return add_end_call(r, (tti_end_call){ .fn = end, .failed = failed, .ctx = ctx });
}
