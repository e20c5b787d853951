/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the layers; see layer.h. */
#include <math.h>

#include "nn/layers/layer.h"

tt_module *tti_layer_done(tt_module *m, tt_status st)
{
    if (st == TT_OK)
        return m;
    tt_module_free(m);
    return NULL;
}

double tti_layer_bound(double n)
{
    return n > 0 ? 1 / sqrt(n) : 0;
}

tt_status tti_layer_uniform(tt_module *m, const char *name, tt_shape shape, double bound)
{
    TT_SCOPE {
        tt_tensor *t = tt_empty(shape, TT_F32, TT_CPU);

        return tt_module_add_param(m, name, tt_init_uniform(t, -bound, bound, NULL));
    }
    return TT_OK;
}

tt_status tti_layer_filled(tt_module *m, const char *name, tt_shape shape, double value)
{
    TT_SCOPE {
        return tt_module_add_param(m, name, tt_full(shape, value, TT_F32, TT_CPU));
    }
    return TT_OK;
}

tt_status tti_layer_check(const char *layer, const char *what, int64_t size, int64_t least)
{
    if (size >= least)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected %s of at least %lld, got %lld", layer, what,
                   (long long)least, (long long)size);
}

tt_tensor *tti_forward_children(tt_module *m, tt_tensor *x, tti_child_fn fn, void *ctx)
{
    tt_tensor *y = tt_tensor_retain(x);

    for (int i = 0; y != NULL && i < tt_module_n_children(m); i++) {
        tt_module *child = tt_module_child_at(m, i);
        tt_tensor *next = NULL;

        TT_SCOPE {
            next = fn != NULL ? fn(ctx, child, y) : tt_module_forward(child, y);
            tt_tensor_retain(next);
        }
        tt_tensor_free(y);
        y = next;
    }
    return tti_scope_add(y);
}

tt_value *tti_tuple_of(tt_tensor *const *ts, int n)
{
    tt_value *v = tt_value_tuple_new();

    for (int i = 0; v != NULL && i < n; i++) {
        tt_value *entry = ts[i] != NULL ? tt_value_tensor_new(ts[i]) : tt_value_null_new();

        if (tt_value_list_give(v, entry) != TT_OK) {
            tt_value_free(v);
            v = NULL;
        }
    }
    return v;
}

tt_tensor *tti_tuple_tensor(const tt_value *v, size_t i)
{
    tt_value *entry = i < tt_value_count(v) ? tt_value_at(v, i) : NULL;

    return tt_value_kind_of(entry) == TT_VALUE_TENSOR ? tt_value_as_tensor(entry) : NULL;
}

tt_status tti_scope_close_keep_all(tt_scope *s, tt_tensor **ts, int n)
{
    tt_status st = TT_OK;

    for (int i = 0; i < n; i++)
        tt_tensor_retain(ts[i]);
    tt_scope_close(s);
    for (int i = 0; i < n; i++) {
        if (ts[i] == NULL)
            continue;
        ts[i] = tti_scope_add(ts[i]);
        if (ts[i] == NULL)
            st = TT_ERR_NOMEM;
    }
    return st;
}
