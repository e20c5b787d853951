/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of every operator: checks, observers, and the recording of results. */
#include "base/error.h"
#include "ops/observe.h"
#include "ops/op.h"
#include "tensor/debug.h"

static tt_status mixed_devices(const char *name, const tt_tensor *a, const tt_tensor *b)
{
    char na[32], nb[32];

    return TT_FAIL(TT_ERR_INVALID, "%s: operands are on different devices: %s and %s", name,
                   tt_device_name(a->device, na, sizeof na),
                   tt_device_name(b->device, nb, sizeof nb));
}

/* The slow half of the check of one input. */
static tt_status check_odd(const tti_call *c, const tt_tensor *t)
{
    if (!tti_alive(t, c->op->name))
        return tt_last_status();
    if (t->storage == NULL && (c->op->flags & TTI_OP_SPARSE) == 0)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "%s: expected dense tensors, got a sparse one: use tt_to_dense",
                       c->op->name);
    if ((t->flags & TTI_INFERENCE) != 0 && tti_grad_mode == TT_GRAD_ON && c->wants_grad)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: a tensor made in inference mode cannot be used in a graph: clone it "
                       "first",
                       c->op->name);
    return TT_OK;
}

static tt_status check_inputs(tti_call *c)
{
    const tt_tensor *first = NULL;
    bool wants = false;

    for (int i = 0; i < c->n_in; i++)
        wants = wants || tti_wants_grad(c->in[i]);
    c->wants_grad = wants && tti_grad_mode == TT_GRAD_ON;
    for (int i = 0; i < c->n_in; i++) {
        const tt_tensor *t = c->in[i];

        if (t == NULL) {
            if ((c->optional >> i & 1) != 0)
                continue;
            return TTI_NULL("%s: operand %d is NULL", c->op->name, i);
        }
        if (tt_unlikely(t->storage == NULL || (t->flags & TTI_INFERENCE) != 0))
            TT_TRY(check_odd(c, t));
        if (t->n_dims == 0 && t->device.kind == TT_DEVICE_CPU)
            continue; /* a single host value goes with any device */
        if (first != NULL && !tt_device_equal(first->device, t->device) &&
            (c->op->flags & TTI_OP_SPREAD) == 0)
            return mixed_devices(c->op->name, first, t);
        first = t;
    }
    return TT_OK;
}

bool tti_call_begin(tti_call *c)
{
    if (tt_unlikely(check_inputs(c) != TT_OK))
        return false;
    if (tt_unlikely(tti_observing()) && (c->op->flags & TTI_OP_HIDDEN) == 0) {
        tt_op_event e = { .name = c->op->name, .in = c->in, .n_in = c->n_in };

        c->observed = true;
        return tti_observe_before(&e) == TT_OK;
    }
    return true;
}

static void tell_after(const tti_call *c, tt_tensor *out, tt_status st)
{
    tt_op_event e = {
        .name = c->op->name, .in = c->in, .n_in = c->n_in, .out = out, .status = st, .after = true
    };

    tti_observe_after(&e);
}

static bool differentiable(const tt_tensor *t)
{
    return tt_dtype_is_floating((tt_dtype)t->dtype) || tt_dtype_is_complex((tt_dtype)t->dtype);
}

static tt_status record(const tti_call *c, tt_tensor *const *outs, int n_out)
{
    tti_node *n;
    tt_status st = TT_OK;

    n = tti_node_new(c->op, c->n_in, n_out, c->n_saved, c->attrs_bytes);
    if (n == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < c->n_in; i++)
        tti_node_set_edge(n, i, c->in[i]);
    if (c->attrs_bytes != 0)
        __builtin_memcpy(n->attrs, c->attrs, c->attrs_bytes);
    for (int i = 0; i < n_out; i++)
        if (outs[i] != NULL && differentiable(outs[i]))
            tti_node_set_out(n, i, outs[i]);
    for (int i = 0; i < c->n_saved && st == TT_OK; i++)
        st = tti_node_save(n, i, c->saved[i]);
    tti_node_free(n);
    return st;
}

/* What the debug mode says of results: in-place operators and others that return an operand made nothing. */
static void results_made(const tti_call *c, tt_tensor *const *outs, int n_out)
{
    for (int i = 0; i < n_out; i++) {
        bool operand = false;

        for (int k = 0; k < c->n_in; k++)
            operand = operand || c->in[k] == outs[i];
        if (!operand)
            tti_made_by(outs[i], c->op->name);
    }
}

tt_status tti_call_end_many(tti_call *c, tt_tensor *const *outs, int n_out, tt_status st)
{
    for (int i = 0; i < n_out && st == TT_OK; i++)
        if (outs[i] == NULL && i == 0)
            st = tti_null_given(c->op->name, "memory for its result");
    if (st == TT_OK && c->wants_grad && c->op->backward != NULL)
        st = record(c, outs, n_out);
    if (tt_unlikely(tti_grad_mode == TT_GRAD_INFERENCE))
        for (int i = 0; i < n_out; i++)
            if (outs[i] != NULL)
                outs[i]->flags |= TTI_INFERENCE;
    if (tt_unlikely(tti_debug_tensors()) && st == TT_OK)
        results_made(c, outs, n_out);
    if (tt_unlikely(c->observed))
        tell_after(c, st == TT_OK ? outs[0] : NULL, st);
    return st;
}

tt_tensor *tti_call_end(tti_call *c, tt_tensor *out, tt_status st)
{
    return tti_call_end_many(c, &out, 1, st) == TT_OK ? out : NULL;
}

/* ---- in place ---------------------------------------------------------------------------- */

/* Whether a change of `t` shows in another tensor whose history could not tell of it. */
static bool is_shared_view(const tt_tensor *t)
{
    if (t->base != NULL)
        return true;
    return (t->flags & TTI_VIEW) != 0 && t->grad_fn == NULL && t->storage != NULL &&
           atomic_load_explicit(&t->storage->refs, memory_order_relaxed) > 1;
}

bool tti_call_begin_inplace(tti_call *c)
{
    tt_tensor *self;

    if (!tti_call_begin(c))
        return false;
    self = c->in[0];
    if ((self->flags & TTI_INFERENCE) != 0 && tti_grad_mode != TT_GRAD_INFERENCE && c->wants_grad)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: a tensor made in inference mode cannot be changed "
                       "while recording",
                       c->op->name),
               false;
    if (!c->wants_grad)
        return true;
    if (tti_wants_grad(self) && self->grad_fn == NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: a leaf that requires a gradient cannot be changed in place while "
                       "recording: use TT_NO_GRAD",
                       c->op->name),
               false;
    if (is_shared_view(self))
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "%s: a view cannot be changed in place while recording: change the tensor "
                       "it views, or use the form that makes a new tensor",
                       c->op->name),
               false;
    return true;
}

tt_tensor *tti_call_end_inplace(tti_call *c, tt_status st)
{
    tt_tensor *self = c->in[0];

    tti_bump_version(self);
    self->flags &= (uint16_t)~TTI_NUMBER;
    return tti_call_end(c, self, st);
}

tt_status tti_no_kernel(const char *name, const tt_tensor *t)
{
    char dev[32];

    return TT_FAIL(TT_ERR_UNSUPPORTED, "%s: no %s kernel on %s", name,
                   tt_dtype_name((tt_dtype)t->dtype), tt_device_name(t->device, dev, sizeof dev));
}
