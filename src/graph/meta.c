/* SPDX-License-Identifier: Apache-2.0 */
/* What autograd hangs on a tensor: its gradient, whether it wants one, hooks, and the grad mode. */
#include "base/error.h"
#include "graph/graph.h"
#include "tensor/shape.h"
#include "tensor/debug.h"

tti_grad_meta *tti_meta(tt_tensor *t)
{
    if (t->meta == NULL)
        t->meta = tti_calloc(1, sizeof *t->meta);
    return t->meta;
}

static void forget_retained(tt_tensor *t)
{
    tti_node *n = t->grad_fn;

    for (int i = 0; i < 2; i++)
        if (n->retain[i] == t)
            n->retain[i] = NULL;
}

void tti_graph_drop(tt_tensor *t)
{
    if (t->grad_fn != NULL) {
        forget_retained(t);
        tti_node_free(t->grad_fn);
        t->grad_fn = NULL;
    }
    if (t->meta == NULL)
        return;
    tt_tensor_free(t->meta->grad);
    tti_hooks_free(&t->meta->hooks);
    tti_hooks_free(&t->meta->pre_hooks);
    tti_hooks_free(&t->meta->post_hooks);
    tti_mfree(t->meta);
    t->meta = NULL;
}

tt_tensor *tti_alias(tt_tensor *t)
{
    tt_tensor *a;

    if (t->storage == NULL) {
        a = tti_bare(t->dims, t->n_dims, (tt_dtype)t->dtype, t->device);
        if (a == NULL)
            return NULL;
        a->sparse = tti_calloc(1, sizeof *a->sparse);
        if (a->sparse == NULL)
            return NULL;
        a->sparse->indices = tt_tensor_retain(t->sparse->indices);
        a->sparse->values = tt_tensor_retain(t->sparse->values);
        a->sparse->sparse_dims = t->sparse->sparse_dims;
        a->flags |= t->flags & TTI_COALESCED;
        return a;
    }
    a = tti_view_raw(t, t->dims, t->strides, t->n_dims, t->offset);
    if (a != NULL)
        a->flags = (uint16_t)(t->flags & ~(TTI_REQUIRES_GRAD | TTI_NUMBER | TTI_HOME));
    return a;
}

tt_tensor *tt_detach(tt_tensor *t)
{
    if (tti_check_alive(t, "detach") != TT_OK)
        return NULL;
    return t != NULL ? tti_alias(t) : TT_NULL_GIVEN("detach", "a tensor");
}

/* ---- leaves ------------------------------------------------------------------------------ */

tt_status tt_set_requires_grad(tt_tensor *t, bool on)
{
    TT_TRY(tti_check_alive(t, "requires_grad"));
    if (t == NULL)
        return tti_null_given("requires_grad", "a tensor");
    if (t->grad_fn != NULL)
        return on ? TT_OK
                  : TT_FAIL(TT_ERR_INVALID,
                            "requires_grad: can only be switched off on leaves; "
                            "this tensor is a result of \"%s\": use tt_detach",
                            t->grad_fn->op->name);
    if (on && !tt_dtype_is_floating((tt_dtype)t->dtype) && !tt_dtype_is_complex((tt_dtype)t->dtype))
        return TT_FAIL(TT_ERR_INVALID,
                       "requires_grad: expected a floating or complex tensor, got %s",
                       tt_dtype_name((tt_dtype)t->dtype));
    if (on && (t->flags & TTI_INFERENCE) != 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "requires_grad: the tensor was made in inference mode: clone it first");
    if (on)
        t->flags |= TTI_REQUIRES_GRAD;
    else
        t->flags &= (uint16_t)~TTI_REQUIRES_GRAD;
    return TT_OK;
}

tt_tensor *tt_require_grad(tt_tensor *t)
{
    return tt_set_requires_grad(t, true) == TT_OK ? t : NULL;
}

bool tt_requires_grad(const tt_tensor *t)
{
    return tti_alive(t, "requires_grad") && tti_wants_grad(t);
}

bool tt_is_leaf(const tt_tensor *t)
{
    return tti_alive(t, "is_leaf") && t->grad_fn == NULL;
}

const char *tt_grad_fn_name(const tt_tensor *t)
{
    return tti_alive(t, "grad_fn_name") && t->grad_fn != NULL ? t->grad_fn->op->name : NULL;
}

tt_tensor *tt_grad_of(const tt_tensor *t)
{
    return tti_alive(t, "grad_of") && t->meta != NULL ? t->meta->grad : NULL;
}

tt_status tt_set_grad(tt_tensor *t, tt_tensor *grad)
{
    tti_grad_meta *m;
    tt_tensor *old;

    TT_TRY(tti_check_alive(t, "set_grad"));
    TT_TRY(tti_check_alive(grad, "set_grad"));
    if (t == NULL)
        return tti_null_given("set_grad", "a tensor");
    if (grad == NULL && t->meta == NULL)
        return TT_OK;
    if (grad != NULL && (!tti_same_shape(t, grad) || t->dtype != grad->dtype ||
                         !tt_device_equal(t->device, grad->device)))
        return TT_FAIL(TT_ERR_INVALID, "set_grad: expected %s %s on the tensor's device, got %s %s",
                       tt_dtype_name((tt_dtype)t->dtype), TTI_SHAPE_OF(t),
                       tt_dtype_name((tt_dtype)grad->dtype), TTI_SHAPE_OF(grad));
    m = tti_meta(t);
    if (m == NULL)
        return TT_ERR_NOMEM;
    old = m->grad;
    m->grad = tt_tensor_retain(grad);
    tt_tensor_free(old);
    return TT_OK;
}

tt_status tt_retain_grad(tt_tensor *t)
{
    TT_TRY(tti_check_alive(t, "retain_grad"));
    if (t == NULL)
        return tti_null_given("retain_grad", "a tensor");
    if (!tti_wants_grad(t))
        return TT_FAIL(TT_ERR_INVALID, "retain_grad: the tensor does not require a gradient");
    if (t->grad_fn == NULL)
        return TT_OK;
    if (tti_meta(t) == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < 2; i++) {
        tt_tensor **slot = &t->grad_fn->retain[i];

        if (*slot == t)
            return TT_OK;
        if (*slot == NULL) {
            *slot = t;
            return TT_OK;
        }
    }
    return TT_FAIL(TT_ERR_UNSUPPORTED,
                   "retain_grad: at most two results of one \"%s\" can keep their gradient",
                   t->grad_fn->op->name);
}

/* ---- modes ------------------------------------------------------------------------------- */

tt_grad_mode tt_grad_mode_get(void)
{
    return tti_grad_mode;
}

tt_grad_mode tt_grad_mode_set(tt_grad_mode mode)
{
    tt_grad_mode before = tti_grad_mode;

    tti_grad_mode = mode;
    return before;
}

tt_grad_guard tt_grad_guard_open(tt_grad_mode mode)
{
    return (tt_grad_guard){ .before = tt_grad_mode_set(mode) };
}

void tt_grad_guard_close(tt_grad_guard *g)
{
    if (g != NULL)
        tti_grad_mode = g->before;
}
