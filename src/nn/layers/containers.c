/* SPDX-License-Identifier: Apache-2.0 */
/* Sequential, ModuleList and Identity. */
#include <stdio.h>

#include "base/error.h"
#include "nn/layers/layer.h"

static tt_tensor *sequential_forward(tt_module *m, tt_tensor *x)
{
    return tti_forward_children(m, x, NULL, NULL);
}

static const tt_module_class sequential_class = { .name = "Sequential",
                                                  .forward = sequential_forward };
static const tt_module_class list_class = { .name = "ModuleList" };

tt_module *tt_sequential_new(void)
{
    return tt_module_new(&sequential_class);
}

tt_module *tt_module_list_new(void)
{
    return tt_module_new(&list_class);
}

tt_status tt_module_append(tt_module *m, tt_module *child)
{
    char name[16];

    snprintf(name, sizeof name, "%d", tt_module_n_children(m));
    return tt_module_give_child(m, name, child);
}

tt_module *tt_sequential_of(tt_module *const *modules, int n)
{
    if (n > 0 && modules == NULL)
        return TT_NULL_GIVEN("sequential_of", "an array of modules");
    tt_module *m = tt_sequential_new();
    tt_status st = m != NULL ? TT_OK : tt_last_status();

    for (int i = 0; i < n; i++) {
        if (st == TT_OK)
            st = tt_module_append(m, modules[i]);
        else
            tt_module_free(modules[i]);
    }
    return tti_layer_done(m, st);
}

static tt_tensor *identity_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return x;
}

static const tt_module_class identity_class = { .name = "Identity", .forward = identity_forward };

tt_module *tt_identity_new(void)
{
    return tt_module_new(&identity_class);
}
