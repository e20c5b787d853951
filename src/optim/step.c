/* SPDX-License-Identifier: Apache-2.0 */
/* One step: for each parameter with a gradient, bring both into the layout that update functions
 * expect (nothing to do, almost always), update, count. No memory is asked for once state exists. */
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"
#include "ops/op.h"
#include "optim/optim.h"
#include "tutti/sparse.h"

/* Since the last step the parameter has gone to another device: its state follows. */
static tt_tensor *moved_state(tt_optim_slot *slot, int i)
{
    tt_tensor *old = slot->state[i];

    TT_SCOPE {
        tt_tensor *t = tt_to_device(old, slot->param->device);

        if (t == NULL)
            return NULL;
        slot->state[i] = tt_tensor_retain(t);
    }
    tt_tensor_free(old);
    return slot->state[i];
}

tt_tensor *tt_optim_slot_state(tt_optim_slot *slot, int i, double value)
{
    if (tt_unlikely(slot == NULL))
        return TT_NULL_GIVEN("optim_slot_state", "a slot");
    if (tt_likely(slot->state[i] != NULL))
        return tt_likely(tt_device_equal(slot->state[i]->device, slot->param->device))
                   ? slot->state[i]
                   : moved_state(slot, i);
    TT_SCOPE {
        tt_tensor *t = tti_empty_like(slot->param, (tt_dtype)slot->param->dtype), *parts = t;

        if (t != NULL && tt_dtype_is_complex((tt_dtype)t->dtype))
            parts = tt_view_as_real(t); /* optimizers see a complex number as two real ones */
        if (parts == NULL || tti_fill(parts, value) != TT_OK)
            return NULL;
        slot->state[i] = tt_tensor_retain(t);
    }
    return slot->state[i];
}

static bool same_strides(const tt_tensor *a, const tt_tensor *b)
{
    return memcmp(a->strides, b->strides, (size_t)a->n_dims * sizeof *a->strides) == 0;
}

/* True when the elements fill a block of memory: then a new tensor like it gets its strides. */
static bool is_dense(const tt_tensor *t)
{
    int64_t last = 0;

    for (int i = 0; i < t->n_dims; i++)
        last += (t->dims[i] - 1) * t->strides[i];
    if (last != t->numel - 1)
        return false;
    for (int i = 0; i < t->n_dims; i++)
        if (t->strides[i] <= 0 && t->dims[i] != 1)
            return false;
    return true;
}

static tt_status run_update(const tt_optim *o, tt_optim_slot *slot, const double *numbers)
{
    tt_status st;

    slot->step++;
    st = o->ops->update(slot, numbers);
    if (tt_unlikely(st != TT_OK))
        slot->step--;
    slot->grad = NULL;
    return st;
}

/* A parameter that is a strided piece of something larger: update a compact copy, copy it back. */
static tt_status update_strided(const tt_optim *o, tt_optim_slot *slot, tt_tensor *grad,
                                const double *numbers)
{
    tt_tensor *p = slot->param, *compact = tti_contiguous(p);
    tt_status st;

    slot->grad = tti_contiguous(grad);
    if (compact == NULL || slot->grad == NULL)
        return tt_last_status();
    slot->param = compact;
    st = run_update(o, slot, numbers);
    slot->param = p;
    return st == TT_OK ? tti_copy(p, compact) : st;
}

static tt_status update_relaid(const tt_optim *o, tt_optim_slot *slot, tt_tensor *grad,
                               const double *numbers)
{
    tt_tensor *p = slot->param, *like;

    if (!is_dense(p))
        return update_strided(o, slot, grad, numbers);
    slot->grad = grad;
    if (!same_strides(p, grad)) {
        like = tti_empty_like(p, (tt_dtype)p->dtype);
        if (like == NULL || tti_copy(like, grad) != TT_OK)
            return tt_last_status();
        slot->grad = like;
    }
    return run_update(o, slot, numbers);
}

static tt_status update_sparse(const tt_optim *o, tt_optim_slot *slot, tt_tensor *grad,
                               const double *numbers)
{
    if (!o->ops->sparse)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "%s: expected dense gradients, got a sparse one; sgd without momentum, "
                       "adagrad and sparse_adam take them",
                       o->ops->name);
    if (!tti_is_contiguous(slot->param))
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "%s: expected a contiguous parameter for a sparse gradient", o->ops->name);
    slot->grad = o->ops->coalesced ? tt_sparse_coalesce(grad) : grad;
    return slot->grad != NULL ? run_update(o, slot, numbers) : tt_last_status();
}

static tt_status update_slot(const tt_optim *o, tt_optim_slot *slot, const double *numbers)
{
    tt_tensor *p = slot->param;
    tt_tensor *grad = p->meta != NULL ? p->meta->grad : NULL;
    tt_status st;

    if (grad == NULL)
        return TT_OK;
    if (grad->sparse != NULL) {
        st = update_sparse(o, slot, grad, numbers);
    } else {
        if (tt_likely(tti_is_contiguous(p) && tti_is_contiguous(grad))) {
            slot->grad = grad;
            st = run_update(o, slot, numbers);
        } else {
            st = update_relaid(o, slot, grad, numbers);
        }
    }
    if (tt_likely(st == TT_OK))
        tti_bump_version(p);
    return st;
}

tt_status tt_optim_step(tt_optim *o)
{
    tt_grad_mode before;
    tt_scope scope;
    tt_status st = TT_OK;

    if (o == NULL)
        return tti_null_given("optim_step", "an optimizer");
    before = tt_grad_mode_set(TT_GRAD_OFF);
    scope = tt_scope_open();
    for (size_t g = 0; g < o->n_groups && st == TT_OK; g++) {
        tti_optim_group *group = &o->groups[g];

        for (int i = 0; i < group->n_slots && st == TT_OK; i++)
            st = update_slot(o, &group->slots[i], group->numbers);
    }
    tt_scope_close(&scope);
    tt_grad_mode_set(before);
    if (st == TT_OK)
        tti_error_passed();
    return st;
}

tt_status tti_optim_step_one(tt_optim *o, int group, int i)
{
    tti_optim_group *g = &o->groups[group];
    tt_status st = TT_OK;

    TT_SCOPE
        TT_NO_GRAD
        {
            st = update_slot(o, &g->slots[i], g->numbers);
        }
    return st;
}

tt_status tti_optim_zero_grad(tt_tensor *p, bool to_zero)
{
    tt_tensor *grad = p->meta != NULL ? p->meta->grad : NULL;

    if (grad == NULL)
        return TT_OK;
    if (!to_zero || grad->sparse != NULL || grad->grad_fn != NULL)
        return tt_set_grad(p, NULL);
    TT_TRY(tti_fill(grad, 0));
    tti_bump_version(grad);
    return TT_OK;
}

tt_status tt_optim_zero_grad(tt_optim *o, bool to_zero)
{
    if (o == NULL)
        return tti_null_given("optim_zero_grad", "an optimizer");
    for (size_t g = 0; g < o->n_groups; g++)
        for (int i = 0; i < o->groups[g].n_slots; i++)
            TT_TRY(tti_optim_zero_grad(o->groups[g].slots[i].param, to_zero));
    return TT_OK;
}
