/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of arguments, in words that name the place in a list. */
#include "base/error.h"
#include "parallel/comm.h"
#include "tensor/debug.h"

tt_status tti_check_accelerator(const char *name, const char *what, int i, tt_device d)
{
    char dev[32];

    if (d.kind != TT_DEVICE_CPU)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected %s %d on an accelerator, got one on %s", name,
                   what, i, tt_device_name(d, dev, sizeof dev));
}

tt_status tti_devices_get(const char *name, const tt_device *devices, int n, tt_device *resolved)
{
    if (devices == NULL || n < 1 || n > TTI_MAX_TARGETS)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a list of 1 to %d devices, got %d", name,
                       TTI_MAX_TARGETS, devices != NULL ? n : 0);
    for (int i = 0; i < n; i++) {
        if (devices[i].kind == TT_DEVICE_CPU)
            return TT_FAIL(TT_ERR_INVALID, "%s: expected device %d to be an accelerator, got cpu",
                           name, i);
        TT_TRY(tt_device_resolve(devices[i], &resolved[i]));
    }
    return TT_OK;
}

tt_status tti_check_tensors(const char *name, tt_tensor *const *ts, int n)
{
    if (ts == NULL || n < 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected at least one tensor, got none", name);
    for (int i = 0; i < n; i++) {
        TT_TRY(tti_check_alive(ts[i], name));
        if (ts[i] == NULL)
            return TTI_NULL("%s: tensor %d is NULL", name, i);
    }
    return TT_OK;
}

static tt_status get_outputs(const char *name, const tt_targets *to, tti_places *p)
{
    if (to->n_outputs < 1 || to->n_outputs > TTI_MAX_TARGETS)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a list of 1 to %d outputs, got %d", name,
                       TTI_MAX_TARGETS, to->n_outputs);
    TT_TRY(tti_check_tensors(name, to->outputs, to->n_outputs));
    p->n = to->n_outputs;
    p->outputs = to->outputs;
    for (int i = 0; i < p->n; i++) {
        p->devices[i] = to->outputs[i]->device;
        TT_TRY(tti_check_accelerator(name, "output", i, p->devices[i]));
        if (to->outputs[i]->storage == NULL)
            return TT_FAIL(TT_ERR_UNSUPPORTED, "%s: output %d is sparse", name, i);
    }
    return TT_OK;
}

tt_status tti_places_get(const char *name, const tt_targets *to, tti_places *p)
{
    if (to == NULL || (to->devices == NULL && to->outputs == NULL))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a list of devices or one of outputs, got none",
                       name);
    if (to->devices != NULL && to->outputs != NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected either a list of devices or one of outputs, got both", name);
    if (to->outputs != NULL)
        return get_outputs(name, to, p);
    p->n = to->n_devices;
    p->outputs = NULL;
    return tti_devices_get(name, to->devices, to->n_devices, p->devices);
}

tt_status tti_check_unrecorded(const char *name, const tt_tensor *t, tt_tensor *const *outputs,
                               int n)
{
    bool wants = tti_wants_grad(t);

    for (int i = 0; i < n; i++)
        wants = wants || tti_wants_grad(outputs[i]);
    if (!wants || tti_grad_mode != TT_GRAD_ON)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: a call with given outputs cannot be recorded: use TT_NO_GRAD, or devices",
                   name);
}

tt_status tti_comm_put(tt_tensor *output, const tt_tensor *t)
{
    TT_TRY(tti_copy(output, t));
    tti_bump_version(output);
    return TT_OK;
}

tt_status tti_close_keep(tt_scope *s, tt_status st, tt_tensor **results, int n)
{
    for (int i = 0; i < n; i++)
        results[i] = st == TT_OK ? tt_tensor_retain(results[i]) : NULL;
    tt_scope_close(s);
    for (int i = 0; i < n; i++) {
        bool there = results[i] != NULL;

        results[i] = tti_scope_add(results[i]);
        if (there && results[i] == NULL)
            st = TT_ERR_NOMEM;
    }
    return st;
}
