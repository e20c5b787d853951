/* SPDX-License-Identifier: Apache-2.0 */
/* What is set for a whole tree of modules: training mode, gradients, types, devices. */
#include <string.h>

#include "nn/module.h"
#include "tutti/ops.h"

void tt_module_train(tt_module *m, bool on)
{
    if (m == NULL)
        return;
    m->training = on;
    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++)
        tt_module_train(m->slots[TTI_CHILD].items[i].m, on);
}

void tt_module_eval(tt_module *m)
{
    tt_module_train(m, false);
}

bool tt_module_is_training(const tt_module *m)
{
    return m != NULL && m->training;
}

/* Call fn for every slot with a tensor; tensors under several names come several times. */
typedef tt_status (*slot_fn)(void *ctx, tt_tensor *t);

static tt_status each_tensor(tt_module *m, tti_slot_kind kind, slot_fn fn, void *ctx)
{
    if (m == NULL)
        return tti_null_given("module", "a module");
    for (size_t i = 0; i < m->slots[kind].n; i++)
        if (m->slots[kind].items[i].t != NULL)
            TT_TRY(fn(ctx, m->slots[kind].items[i].t));
    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++)
        TT_TRY(each_tensor(m->slots[TTI_CHILD].items[i].m, kind, fn, ctx));
    return TT_OK;
}

static tt_status require(void *ctx, tt_tensor *t)
{
    return tt_set_requires_grad(t, *(bool *)ctx);
}

tt_status tt_module_set_requires_grad(tt_module *m, bool on)
{
    return each_tensor(m, TTI_PARAM, require, &on);
}

static tt_status drop_grad(void *ctx, tt_tensor *t)
{
    (void)ctx;
    return tt_set_grad(t, NULL);
}

void tt_module_zero_grad(tt_module *m)
{
    (void)each_tensor(m, TTI_PARAM, drop_grad, NULL);
}

static tt_status clear_grad(void *ctx, tt_tensor *t)
{
    tt_tensor *g = tt_grad_of(t);

    (void)ctx;
    if (g == NULL)
        return TT_OK;
    if (g->grad_fn != NULL) { /* made with create_graph: leave that graph alone */
        TT_SCOPE {
            return tt_set_grad(t, tt_zeros_like(g));
        }
    }
    return tt_zero_(g) != NULL ? TT_OK : tt_last_status();
}

tt_status tt_module_zero_grad_keep(tt_module *m)
{
    TT_NO_GRAD
    {
        return each_tensor(m, TTI_PARAM, clear_grad, NULL);
    }
    return TT_OK;
}

/* ---- types and devices ------------------------------------------------------------------- */

typedef struct target {
    bool to_device;
    tt_dtype dtype;
    tt_device device;
} target;

/* Let t have the data of c. It stays the same object with the same place in modules and optimizers. */
static void adopt(tt_tensor *t, const tt_tensor *c)
{
    tt_storage *old = t->storage;

    t->storage = tti_storage_retain(c->storage);
    t->dtype = c->dtype;
    t->device = c->device;
    t->offset = c->offset;
    memcpy(t->strides, c->strides, sizeof t->strides);
    t->flags &= (uint16_t) ~(TTI_CONTIGUOUS | TTI_VIEW);
    t->flags |= c->flags & TTI_CONTIGUOUS;
    tt_tensor_free(t->base);
    t->base = NULL;
    tti_storage_free(old);
}

static tt_status convert_one(const target *to, tt_tensor *t)
{
    bool floating = tt_dtype_is_floating((tt_dtype)t->dtype);

    if (to->to_device ? tt_device_equal(t->device, to->device)
                      : !floating || (tt_dtype)t->dtype == to->dtype)
        return TT_OK;
    if (t->storage == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "module: a sparse tensor cannot be converted in place");
    TT_SCOPE {
        tt_tensor *plain = tt_detach(t);
        tt_tensor *c =
            to->to_device ? tt_to_device(plain, to->device) : tt_to_dtype(plain, to->dtype);

        if (c == NULL)
            return tt_last_status();
        adopt(t, c);
    }
    return TT_OK;
}

tt_status tti_convert_dtype(tt_tensor *t, tt_dtype dtype)
{
    const target to = { .dtype = dtype };

    TT_NO_GRAD
    {
        TT_TRY(convert_one(&to, t));
    }
    return TT_OK;
}

static tt_status convert(void *ctx, tt_tensor *t)
{
    TT_TRY(convert_one(ctx, t));
    return tt_grad_of(t) != NULL ? convert_one(ctx, tt_grad_of(t)) : TT_OK;
}

static tt_status convert_all(tt_module *m, target *to)
{
    TT_NO_GRAD
    {
        TT_TRY(each_tensor(m, TTI_PARAM, convert, to));
        TT_TRY(each_tensor(m, TTI_BUFFER, convert, to));
    }
    return TT_OK;
}

tt_status tt_module_to_dtype(tt_module *m, tt_dtype dtype)
{
    target to = { .dtype = dtype };

    if (!tt_dtype_is_floating(dtype))
        return TT_FAIL(TT_ERR_INVALID, "module to_dtype: expected a floating type, got %s",
                       tt_dtype_name(dtype));
    return convert_all(m, &to);
}

tt_status tt_module_to_device(tt_module *m, tt_device device)
{
    target to = { .to_device = true };

    TT_TRY(tt_device_resolve(device, &to.device));
    return convert_all(m, &to);
}
