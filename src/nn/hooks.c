/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of modules. Those of backward stand on two nodes around one call of the module: gradients of
 * the outputs arrive at the one behind it, gradients of the inputs at the one before it. */
#include "nn/module.h"

bool tti_any_hook(const tt_hook *list)
{
    for (; list != NULL; list = list->next)
        if (!atomic_load(&list->dead))
            return true;
    return false;
}

static tt_hook *add(tt_module *m, tt_hook **list, void (*fn)(void), void *ctx)
{
    tt_hook *h;

    if (m->running == 0)
        tti_hooks_purge(list);
    h = tti_hook_new(list);
    if (h == NULL)
        return NULL;
    h->fn.other = fn;
    h->ctx = ctx;
    return h;
}

static bool given(const tt_module *m, bool fn)
{
    if (m == NULL || !fn)
        tti_null_given("module hook", "a module and a function");
    return m != NULL && fn;
}

tt_hook *tt_module_add_forward_pre_hook(tt_module *m, tt_forward_pre_hook_fn fn, void *ctx)
{
    return given(m, fn != NULL) ? add(m, &m->pre_hooks, (void (*)(void))fn, ctx) : NULL;
}

tt_hook *tt_module_add_forward_hook(tt_module *m, tt_forward_hook_fn fn, void *ctx)
{
    return given(m, fn != NULL) ? add(m, &m->hooks, (void (*)(void))fn, ctx) : NULL;
}

tt_hook *tt_module_add_backward_hook(tt_module *m, tt_backward_hook_fn fn, void *ctx)
{
    return given(m, fn != NULL) ? add(m, &m->back_hooks, (void (*)(void))fn, ctx) : NULL;
}

tt_hook *tt_module_add_backward_pre_hook(tt_module *m, tt_backward_pre_hook_fn fn, void *ctx)
{
    return given(m, fn != NULL) ? add(m, &m->back_pre_hooks, (void (*)(void))fn, ctx) : NULL;
}

/* ---- one call, seen from backward ---------------------------------------------------------- */

struct tti_back_record {
    atomic_int refs; /* the call's and each node's */
    tt_module *m;
    int n_in, n_out;
    bool has_input_node;
    tt_tensor **grad_out; /* owned; from the outputs' node until the inputs' node has run */
};

tti_back_record *tti_back_record_new(tt_module *m)
{
    tti_back_record *r = tti_calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    atomic_init(&r->refs, 1);
    r->m = tt_module_retain(m);
    return r;
}

static void forget_grads(tti_back_record *r)
{
    for (int i = 0; r->grad_out != NULL && i < r->n_out; i++) {
        tt_tensor_free(r->grad_out[i]);
        r->grad_out[i] = NULL;
    }
}

void tti_back_record_free(tti_back_record *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    forget_grads(r);
    tti_mfree(r->grad_out);
    tt_module_free(r->m);
    tti_mfree(r);
}

static tt_status run_back_hooks(tti_back_record *r, tt_tensor **grad_in)
{
    tt_module *m = r->m;
    tt_status st = TT_OK;

    m->running++;
    for (tt_hook *h = m->back_hooks; st == TT_OK && h != NULL; h = h->next)
        if (!atomic_load(&h->dead))
            st = ((tt_backward_hook_fn)h->fn.other)(h->ctx, m, grad_in, r->n_in, r->grad_out,
                                                    r->n_out);
    m->running--;
    return st;
}

static tt_status run_back_pre_hooks(tti_back_record *r, tt_tensor **grad_out)
{
    tt_module *m = r->m;
    tt_status st = TT_OK;

    m->running++;
    for (tt_hook *h = m->back_pre_hooks; st == TT_OK && h != NULL; h = h->next)
        if (!atomic_load(&h->dead))
            st = ((tt_backward_pre_hook_fn)h->fn.other)(h->ctx, m, grad_out, r->n_out);
    m->running--;
    return st;
}

static tti_back_record *record_of(const tti_node *n)
{
    return *(tti_back_record *const *)n->attrs;
}

static void free_attrs(void *attrs)
{
    tti_back_record_free(*(tti_back_record **)attrs);
}

/* The gradients of the outputs are known. */
static tt_status output_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    tti_back_record *r = record_of(n);
    tt_tensor **none;
    tt_status st;

    for (int i = 0; i < n->n_in; i++)
        grad_in[i] = grad_out[i];
    TT_TRY(run_back_pre_hooks(r, grad_in));
    forget_grads(r);
    for (int i = 0; i < n->n_in; i++)
        r->grad_out[i] = tt_tensor_retain(grad_in[i]);
    if (r->has_input_node)
        return TT_OK;
    none = tti_calloc((size_t)r->n_in + 1, sizeof *none);
    if (none == NULL)
        return TT_ERR_NOMEM;
    st = run_back_hooks(r, none);
    tti_mfree(none);
    forget_grads(r);
    return st;
}

/* The gradients of the inputs are known. */
static tt_status input_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    tti_back_record *r = record_of(n);
    tt_status st;

    for (int i = 0; i < n->n_in; i++)
        grad_in[i] = grad_out[i];
    st = run_back_hooks(r, grad_in);
    forget_grads(r);
    return st;
}

static const tti_op op_output = { "module_output", output_backward, TTI_OP_HIDDEN };
static const tti_op op_input = { "module_input", input_backward, TTI_OP_HIDDEN };

/* ---- putting the nodes in ------------------------------------------------------------------ */

typedef struct wrapping {
    tti_node *n;
    int i;
    bool any; /* a tensor wants a gradient */
} wrapping;

static tt_status look(void *ctx, tt_tensor *t)
{
    wrapping *w = ctx;

    w->i++;
    w->any = w->any || tti_wants_grad(t);
    return TT_OK;
}

static tt_tensor *through_node(void *ctx, tt_tensor *t)
{
    wrapping *w = ctx;
    int i = w->i++;
    tt_tensor *alias;

    if (!tti_wants_grad(t))
        return t;
    alias = tti_alias(t);
    if (alias == NULL)
        return NULL;
    tti_node_set_edge(w->n, i, t);
    tti_node_set_out(w->n, i, alias);
    return alias;
}

static tt_status wrap(tti_back_record *r, const tti_op *op, tt_value **v_p, wrapping *w)
{
    tt_value *out;
    int n = w->i;

    w->i = 0;
    w->n = tti_node_new(op, n, n, 0, sizeof r);
    if (w->n == NULL)
        return TT_ERR_NOMEM;
    *(tti_back_record **)w->n->attrs = r;
    w->n->attrs_free = free_attrs;
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    out = tt_value_map_tensors(*v_p, through_node, w);
    tti_node_free(w->n);
    if (out == NULL)
        return tt_last_status();
    tt_value_free(*v_p);
    *v_p = out;
    return TT_OK;
}

tt_status tti_back_wrap_input(tti_back_record *r, tt_value **v_p)
{
    wrapping w = { 0 };

    TT_TRY(tt_value_each_tensor(*v_p, look, &w));
    r->n_in = w.i;
    r->has_input_node = w.any;
    return w.any ? wrap(r, &op_input, v_p, &w) : TT_OK;
}

tt_status tti_back_wrap_output(tti_back_record *r, tt_value **v_p)
{
    wrapping w = { 0 };

    TT_TRY(tt_value_each_tensor(*v_p, look, &w));
    r->n_out = w.i;
    if (!w.any)
        return TT_OK;
    r->grad_out = tti_calloc((size_t)w.i, sizeof(tt_tensor *));
    if (r->grad_out == NULL)
        return TT_ERR_NOMEM;
    return wrap(r, &op_output, v_p, &w);
}
