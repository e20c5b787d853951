/* SPDX-License-Identifier: Apache-2.0 */
/* One tensor to many devices, and the sum of many on one. Both are made of moves and additions, so that gradients
 * follow by themselves: those of the copies are moved back and added up, and that of the sum is copied. */
#include "parallel/comm.h"

static tt_status into_outputs(tt_tensor *t, const tti_places *p, tt_tensor **results)
{
    TT_TRY(tti_check_unrecorded("broadcast", t, p->outputs, p->n));
    for (int i = 0; i < p->n; i++)
        if (!tti_same_shape(t, p->outputs[i]))
            return TT_FAIL(TT_ERR_INVALID, "broadcast: expected output %d of shape %s, got %s", i,
                           TTI_SHAPE_OF(t), TTI_SHAPE_OF(p->outputs[i]));
    if (t->storage == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "broadcast: a sparse tensor cannot go into outputs");
    for (int i = 0; i < p->n; i++) {
        if (p->outputs[i] != t)
            TT_TRY(tti_comm_put(p->outputs[i], t));
        results[i] = p->outputs[i];
    }
    return TT_OK;
}

tt_status tt_comm_broadcast(tt_tensor *t, const tt_targets *to, tt_tensor **results)
{
    tti_places p;

    TT_TRY(tti_check_tensors("broadcast", &t, 1));
    TT_TRY(tti_places_get("broadcast", to, &p));
    if (p.outputs != NULL)
        return into_outputs(t, &p, results);
    for (int i = 0; i < p.n; i++)
        TT_TRY(tti_give(&results[i], tt_to_device(t, p.devices[i])));
    return TT_OK;
}

/* ---- the sum ----------------------------------------------------------------------------------- */

static tt_status check_terms(tt_tensor *const *ts, int n)
{
    TT_TRY(tti_check_tensors("reduce_add", ts, n));
    for (int i = 0; i < n; i++) {
        TT_TRY(tti_check_accelerator("reduce_add", "tensor", i, ts[i]->device));
        if (!tti_same_shape(ts[0], ts[i]) || ts[0]->dtype != ts[i]->dtype ||
            (ts[0]->storage == NULL) != (ts[i]->storage == NULL))
            return TT_FAIL(TT_ERR_INVALID,
                           "reduce_add: expected tensor %d like the first, %s%s %s, got %s%s %s", i,
                           ts[0]->storage == NULL ? "sparse " : "",
                           tt_dtype_name((tt_dtype)ts[0]->dtype), TTI_SHAPE_OF(ts[0]),
                           ts[i]->storage == NULL ? "sparse " : "",
                           tt_dtype_name((tt_dtype)ts[i]->dtype), TTI_SHAPE_OF(ts[i]));
    }
    return TT_OK;
}

static tt_tensor *sum_of(tt_tensor *const *ts, int n, tt_device to)
{
    tt_tensor *sum = tt_to_device(ts[0], to);

    if (n == 1)
        return sum == ts[0] ? tt_clone(sum) : sum;
    sum = tt_add(sum, tt_to_device(ts[1], to));
    for (int i = 2; i < n && sum != NULL; i++)
        sum = tt_add_(sum, tt_to_device(ts[i], to));
    return sum;
}

tt_tensor *tt_comm_reduce_add(tt_tensor *const *ts, int n, const tt_device *device)
{
    tt_device to;
    tt_scope scope;

    if (check_terms(ts, n) != TT_OK)
        return NULL;
    to = ts[0]->device;
    if (device != NULL && tt_device_resolve(*device, &to) != TT_OK)
        return NULL;
    scope = tt_scope_open();
    return tt_scope_close_keep(&scope, sum_of(ts, n, to));
}
