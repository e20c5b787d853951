/* SPDX-License-Identifier: Apache-2.0 */
/* The public ways to start a backward. */
#include "base/error.h"
#include "autograd/engine.h"
#include "ops/op.h"
#include "tensor/debug.h"

static tt_status check_root(const tt_tensor *t)
{
    TT_TRY(tti_check_alive(t, "backward"));
    if (t == NULL)
        return tti_null_given("backward", "a tensor");
    if (!tti_wants_grad(t))
        return TT_FAIL(TT_ERR_INVALID,
                       "backward: the tensor does not require a gradient and has no history");
    return TT_OK;
}

/* The gradient of a root: as given, or 1 for a single element. */
static tt_tensor *root_grad(tt_tensor *t, tt_tensor *given)
{
    tt_tensor *one;

    if (tti_check_alive(given, "backward") != TT_OK)
        return NULL;
    if (given != NULL) {
        if (!tti_same_shape(t, given))
            return TT_FAIL_NULL(TT_ERR_INVALID, "backward: expected a gradient of shape %s, got %s",
                                TTI_SHAPE_OF(t), TTI_SHAPE_OF(given));
        return given;
    }
    if (t->numel != 1)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "backward: a gradient can be left out only for one element; the tensor "
                            "has shape %s",
                            TTI_SHAPE_OF(t));
    one = tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, t->device);
    return one != NULL && tti_fill(one, 1.0) == TT_OK ? one : NULL;
}

static tt_status run(tti_walk *w, tt_tensor *const *given)
{
    tt_tensor *small[4];
    tt_tensor **grads = small;
    tt_scope scope = tt_scope_open();
    bool autocasting = tti_autocasting; /* forward only: backward takes the types that it saved */
    tti_autocast_modes modes;
    tt_status st = TT_OK;

    if (tt_unlikely(autocasting)) {
        modes = tti_autocast_get();
        tti_autocast_set(&(tti_autocast_modes){ 0 });
    }
    if (w->n_roots > 4 && (grads = tti_calloc((size_t)w->n_roots, sizeof *grads)) == NULL)
        st = TT_ERR_NOMEM;
    for (int i = 0; st == TT_OK && i < w->n_roots; i++) {
        st = check_root(w->roots[i]);
        if (st == TT_OK)
            st = tti_give(&grads[i], root_grad(w->roots[i], given != NULL ? given[i] : NULL));
    }
    w->root_grads = grads;
    if (st == TT_OK)
        st = tti_engine_walk(w);
    if (grads != small)
        tti_mfree(grads);
    tt_scope_close(&scope);
    if (tt_unlikely(autocasting))
        tti_autocast_set(&modes);
    if (st == TT_OK)
        tti_error_passed();
    return st;
}

tt_status tt_backward_many(tt_tensor *const *ts, tt_tensor *const *gradients, int n,
                           const tt_backward_options *opt)
{
    tt_backward_options o = opt != NULL ? *opt : (tt_backward_options){ 0 };
    tti_walk w = { .roots = ts,
                   .n_roots = n,
                   .inputs = o.inputs,
                   .n_inputs = o.n_inputs,
                   .retain_graph = o.retain_graph,
                   .create_graph = o.create_graph };

    if (ts == NULL || n < 1)
        return TT_FAIL(TT_ERR_INVALID, "backward: expected at least one tensor");
    return run(&w, gradients);
}

tt_status tt_backward_with(tt_tensor *t, const tt_backward_options *opt)
{
    tt_tensor *g = opt != NULL ? opt->gradient : NULL;

    return tt_backward_many(&t, g != NULL ? &g : NULL, 1, opt);
}

tt_status tt_backward(tt_tensor *t)
{
    return tt_backward_with(t, NULL);
}

tt_status tt_grad(tt_tensor *const *outputs, int n_out, tt_tensor *const *inputs, int n_in,
                  const tt_grad_options *opt, tt_tensor **grads)
{
    tt_grad_options o = opt != NULL ? *opt : (tt_grad_options){ 0 };
    tti_walk w = { .roots = outputs,
                   .n_roots = n_out,
                   .inputs = inputs,
                   .n_inputs = n_in,
                   .captured = grads,
                   .retain_graph = o.retain_graph,
                   .create_graph = o.create_graph };
    tt_status st = TT_OK;

    if (outputs == NULL || n_out < 1 || inputs == NULL || n_in < 1)
        return TT_FAIL(TT_ERR_INVALID, "grad: expected at least one output and one input");
    for (int i = 0; i < n_in; i++) {
        grads[i] = NULL;
        if (inputs[i] == NULL)
            return TTI_NULL("grad: input %d is NULL", i);
        TT_TRY(tti_check_alive(inputs[i], "grad"));
        if (!tti_wants_grad(inputs[i]))
            return TT_FAIL(TT_ERR_INVALID, "grad: input %d does not require a gradient", i);
    }
    st = run(&w, o.grad_outputs);
    for (int i = 0; i < n_in; i++) {
        if (st == TT_OK && grads[i] == NULL && !o.allow_unused)
            st = TT_FAIL(TT_ERR_INVALID,
                         "grad: input %d was not used to compute the outputs: pass allow_unused if "
                         "that is meant",
                         i);
        grads[i] = tti_scope_add(grads[i]);
    }
    if (st != TT_OK)
        for (int i = 0; i < n_in; i++)
            grads[i] = NULL;
    return st;
}
