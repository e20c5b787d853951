/* SPDX-License-Identifier: Apache-2.0 */
/* A tt_ddp as a module, so that it can stand inside of others. */
#include "base/error.h"
#include "ddp/ddp.h"

typedef struct wrapper {
    tt_ddp *ddp; /* NULL: it is gone, or this is a copy */
    bool copy;
} wrapper;

static tt_tensor *wrapper_forward(tt_module *m, tt_tensor *x);
static tt_value *wrapper_call(tt_module *m, const tt_value *in);
static tt_status wrapper_copy(tt_module *dst, const tt_module *src);

static const tt_module_class wrapper_class = { .name = "DistributedDataParallel",
                                               .data_size = sizeof(wrapper),
                                               .forward = wrapper_forward,
                                               .call = wrapper_call,
                                               .copy = wrapper_copy };

static tt_status gone(void)
{
    return TT_FAIL(TT_ERR_INVALID, "ddp: the tt_ddp of this module has been freed");
}

static tt_tensor *wrapper_forward(tt_module *m, tt_tensor *x)
{
    const wrapper *w = tt_module_data(m, &wrapper_class);

    if (w->ddp != NULL)
        return tt_ddp_forward(w->ddp, x);
    if (w->copy)
        return tt_module_forward(tt_module_child_at(m, 0), x);
    gone();
    return NULL;
}

static tt_value *wrapper_call(tt_module *m, const tt_value *in)
{
    const wrapper *w = tt_module_data(m, &wrapper_class);
    tt_value *v = (tt_value *)(uintptr_t)in;

    if (w->ddp != NULL)
        return tt_ddp_call(w->ddp, v);
    if (w->copy)
        return tt_module_call(tt_module_child_at(m, 0), v);
    gone();
    return NULL;
}

static tt_status wrapper_copy(tt_module *dst, const tt_module *src)
{
    (void)src;
    *(wrapper *)tt_module_data(dst, &wrapper_class) = (wrapper){ .copy = true };
    return TT_OK;
}

tt_module *tt_ddp_as_module(tt_ddp *d)
{
    tt_module *m;

    if (d == NULL)
        return TT_NULL_GIVEN("ddp", "a tt_ddp");
    if (d->wrapper != NULL)
        return d->wrapper;
    m = tt_module_new(&wrapper_class);
    if (m == NULL)
        return NULL;
    if (tt_module_add_child(m, "module", d->module) != TT_OK) {
        tt_module_free(m);
        return NULL;
    }
    ((wrapper *)tt_module_data(m, &wrapper_class))->ddp = d;
    d->wrapper = m;
    return m;
}

void tti_ddp_unwrap(tt_ddp *d)
{
    if (d->wrapper == NULL)
        return;
    ((wrapper *)tt_module_data(d->wrapper, &wrapper_class))->ddp = NULL;
    tt_module_free(d->wrapper);
    d->wrapper = NULL;
}
