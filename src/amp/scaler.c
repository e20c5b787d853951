/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient scaler. The scale is a tensor on the device of what was scaled first, with copies where others
 * are; whether gradients are finite is found out per optimizer and device, in tensors there, so that
 * nothing waits for a device before the step has to know. */
#include "base/error.h"
#include "amp/scaler.h"

#include <math.h>

#include "ops/op.h"

/* ---- lists of one tensor per device -------------------------------------------------------------- */

static void list_clear(tti_scaler_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        tt_tensor_free(l->items[i].t);
    tti_mfree(l->items);
    *l = (tti_scaler_list){ 0 };
}

/* The tensor for this device, made with `value` on first use; borrowed. */
static tt_tensor *list_get(tti_scaler_list *l, tt_device device, double value)
{
    tt_tensor *t = NULL;

    for (size_t i = 0; i < l->n; i++)
        if (tt_device_equal(l->items[i].device, device))
            return l->items[i].t;
    if (tti_vec_reserve((void **)&l->items, &l->cap, l->n + 1, sizeof *l->items) != TT_OK)
        return NULL;
    TT_SCOPE {
        t = tt_full(TT_SHAPE_SCALAR, value, TT_F32, device);
        if (t == NULL)
            return NULL;
        l->items[l->n++] = (tti_scaler_entry){ device, tt_tensor_retain(t) };
    }
    return t;
}

/* ---- life ------------------------------------------------------------------------------------------ */

static double or_else(double value, double otherwise)
{
    return value != 0.0 ? value : otherwise;
}

tt_status tti_scaler_check(double scale, double growth, double backoff, int64_t interval)
{
    if (!(scale > 0) || isinf(scale))
        return TT_FAIL(TT_ERR_INVALID, "grad_scaler: expected a scale > 0, got %g", scale);
    if (!(growth > 1))
        return TT_FAIL(TT_ERR_INVALID, "grad_scaler: expected a growth factor > 1, got %g", growth);
    if (!(backoff > 0 && backoff < 1))
        return TT_FAIL(TT_ERR_INVALID, "grad_scaler: expected a backoff factor in (0, 1), got %g",
                       backoff);
    if (interval < 1)
        return TT_FAIL(TT_ERR_INVALID, "grad_scaler: expected a growth interval >= 1, got %lld",
                       (long long)interval);
    return TT_OK;
}

tt_grad_scaler *tt_grad_scaler_new(const tt_grad_scaler_options *opt)
{
    tt_grad_scaler_options o = opt != NULL ? *opt : (tt_grad_scaler_options){ 0 };
    tt_grad_scaler *s;

    o.scale = or_else(o.scale, 65536);
    o.growth_factor = or_else(o.growth_factor, 2);
    o.backoff_factor = or_else(o.backoff_factor, 0.5);
    o.growth_interval = o.growth_interval != 0 ? o.growth_interval : 2000;
    if (tti_scaler_check(o.scale, o.growth_factor, o.backoff_factor, o.growth_interval) != TT_OK ||
        (s = tti_calloc(1, sizeof *s)) == NULL)
        return NULL;
    s->enabled = !o.disabled;
    s->scale = o.scale;
    s->growth_factor = o.growth_factor;
    s->backoff_factor = o.backoff_factor;
    s->growth_interval = o.growth_interval;
    return s;
}

static void forget_optims(tt_grad_scaler *s)
{
    for (size_t i = 0; i < s->n_optims; i++)
        list_clear(&s->optims[i].found);
    s->n_optims = 0;
}

void tt_grad_scaler_free(tt_grad_scaler *s)
{
    if (s == NULL)
        return;
    forget_optims(s);
    tti_mfree(s->optims);
    list_clear(&s->copies);
    tti_mfree(s);
}

bool tt_grad_scaler_is_enabled(const tt_grad_scaler *s)
{
    return s != NULL && s->enabled;
}

static tt_status null_given(const char *what)
{
    return tti_null_given(what, "a scaler and an optimizer");
}

/* ---- scaling ------------------------------------------------------------------------------------------ */

tt_tensor *tt_grad_scaler_scale(tt_grad_scaler *s, tt_tensor *t)
{
    if (t == NULL || s == NULL)
        return TT_NULL_GIVEN("grad_scaler", "a scaler and a tensor");
    if (!s->enabled)
        return t;
    return tt_mul(t, list_get(&s->copies, t->device, s->scale));
}

static tt_tensor *scale_leaf(void *ctx, tt_tensor *t)
{
    return tt_grad_scaler_scale(ctx, t);
}

tt_value *tt_grad_scaler_scale_value(tt_grad_scaler *s, const tt_value *v)
{
    return tt_value_map_tensors(v, scale_leaf, s);
}

/* ---- unscaling ---------------------------------------------------------------------------------------- */

static tti_scaled_optim *find(const tt_grad_scaler *s, const tt_optim *o)
{
    for (size_t i = 0; s != NULL && i < s->n_optims; i++)
        if (s->optims[i].optim == o)
            return &s->optims[i];
    return NULL;
}

static tti_scaled_optim *find_or_add(tt_grad_scaler *s, const tt_optim *o)
{
    tti_scaled_optim *e = find(s, o);

    if (e != NULL)
        return e;
    if (tti_vec_reserve((void **)&s->optims, &s->cap_optims, s->n_optims + 1, sizeof *s->optims) !=
        TT_OK)
        return NULL;
    e = &s->optims[s->n_optims++];
    *e = (tti_scaled_optim){ .optim = o };
    return e;
}

/* Elements without gaps, in any order. */
static bool fills_memory(const tt_tensor *t)
{
    int64_t last = 0;

    if (tti_is_contiguous(t))
        return true;
    for (int i = 0; i < t->n_dims; i++)
        last += (t->dims[i] - 1) * t->strides[i];
    return last == t->numel - 1;
}

static tt_status unscale_one(const tt_grad_scaler *s, tti_scaler_list *found, tt_tensor *grad)
{
    tt_tensor *t = grad->sparse != NULL ? grad->sparse->values : grad, *flag, *dense;

    if (t->dtype == TT_F16)
        return TT_FAIL(TT_ERR_INVALID,
                       "grad_scaler: expected float32 gradients, got float16: keep parameters in "
                       "float32 and use TT_AUTOCAST for the forward");
    flag = list_get(found, t->device, 0);
    if (flag == NULL)
        return tt_last_status();
    dense = fills_memory(t) ? t : tti_contiguous(t);
    TT_TRY(tti_made(dense));
    TT_TRY(TTI_RUN("grad_scaler", t, optim, unscale, dense, 1 / s->scale, flag));
    if (dense != t)
        TT_TRY(tti_copy(t, dense));
    tti_bump_version(t);
    return TT_OK;
}

static tt_status unscale(tt_grad_scaler *s, tt_optim *o, tti_scaled_optim *e)
{
    TT_SCOPE {
        for (int g = 0; g < tt_optim_n_groups(o); g++)
            for (int i = 0; i < tt_optim_n_params(o, g); i++) {
                tt_tensor *grad = tt_grad_of(tt_optim_param(o, g, i));

                if (grad != NULL)
                    TT_TRY(unscale_one(s, &e->found, grad));
            }
    }
    if (e->found.n == 0)
        return TT_FAIL(
            TT_ERR_INVALID,
            "grad_scaler: expected an optimizer with gradients, got none: run a backward "
            "of the scaled loss first");
    e->stage = TTI_SCALER_UNSCALED;
    return TT_OK;
}

tt_status tt_grad_scaler_unscale(tt_grad_scaler *s, tt_optim *o)
{
    tti_scaled_optim *e;

    if (s == NULL || o == NULL)
        return null_given("grad_scaler_unscale");
    if (!s->enabled)
        return TT_OK;
    e = find_or_add(s, o);
    if (e == NULL)
        return TT_ERR_NOMEM;
    if (e->stage != TTI_SCALER_READY)
        return TT_FAIL(TT_ERR_INVALID, "grad_scaler_unscale: expected one call per update, this "
                                       "optimizer was unscaled or stepped since the last");
    return unscale(s, o, e);
}

tt_status tti_scaler_note(tt_grad_scaler *s, const tt_optim *o, bool bad)
{
    tti_scaled_optim *e = find_or_add(s, o);
    tt_tensor *flag = e != NULL ? list_get(&e->found, TT_CPU, 0) : NULL;

    if (flag == NULL)
        return tt_last_status();
    if (bad)
        TT_TRY(tti_fill(flag, 1));
    if (e->stage == TTI_SCALER_READY)
        e->stage = TTI_SCALER_UNSCALED;
    return TT_OK;
}

/* ---- steps -------------------------------------------------------------------------------------------- */

static bool any_found(const tti_scaled_optim *e)
{
    bool any = false;

    for (size_t i = 0; i < e->found.n; i++)
        any = any || tt_item(e->found.items[i].t) != 0;
    return any;
}

tt_status tt_grad_scaler_step_with(tt_grad_scaler *s, tt_optim *o, tt_grad_scaler_step_fn step,
                                   void *ctx, bool *skipped_p)
{
    tti_scaled_optim *e;
    bool skip;

    if (skipped_p != NULL)
        *skipped_p = false;
    if (s == NULL || o == NULL || step == NULL)
        return null_given("grad_scaler_step");
    if (!s->enabled)
        return step(ctx);
    e = find_or_add(s, o);
    if (e == NULL)
        return TT_ERR_NOMEM;
    if (e->stage == TTI_SCALER_STEPPED)
        return TT_FAIL(TT_ERR_INVALID,
                       "grad_scaler_step: expected one call per update and optimizer");
    if (e->stage == TTI_SCALER_READY)
        TT_TRY(unscale(s, o, e));
    skip = any_found(e);
    if (!skip)
        TT_TRY(step(ctx));
    e->stage = TTI_SCALER_STEPPED;
    if (skipped_p != NULL)
        *skipped_p = skip;
    return TT_OK;
}

static tt_status optim_step(void *ctx)
{
    return tt_optim_step(ctx);
}

tt_status tt_grad_scaler_step(tt_grad_scaler *s, tt_optim *o, bool *skipped_p)
{
    return tt_grad_scaler_step_with(s, o, optim_step, o, skipped_p);
}

tt_status tti_scaler_set_scale(tt_grad_scaler *s, double scale)
{
    s->scale = scale;
    for (size_t i = 0; i < s->copies.n; i++) {
        tt_tensor *fresh;

        TT_SCOPE {
            fresh = tt_tensor_retain(
                tt_full(TT_SHAPE_SCALAR, scale, TT_F32, s->copies.items[i].device));
        }
        if (fresh == NULL)
            return tt_last_status();
        tt_tensor_free(s->copies.items[i].t); /* a graph may still need the old one */
        s->copies.items[i].t = fresh;
    }
    return TT_OK;
}

tt_status tt_grad_scaler_update_to(tt_grad_scaler *s, double scale)
{
    if (s == NULL)
        return null_given("grad_scaler_update");
    if (!s->enabled)
        return TT_OK;
    TT_TRY(tti_scaler_check(scale, s->growth_factor, s->backoff_factor, s->growth_interval));
    forget_optims(s);
    return tti_scaler_set_scale(s, scale);
}

tt_status tt_grad_scaler_update(tt_grad_scaler *s)
{
    double scale;
    bool any = false;

    if (s == NULL)
        return null_given("grad_scaler_update");
    if (!s->enabled)
        return TT_OK;
    if (s->n_optims == 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "grad_scaler_update: expected a step or unscale since the last update");
    scale = s->scale;
    for (size_t i = 0; i < s->n_optims; i++)
        any = any || any_found(&s->optims[i]);
    forget_optims(s);
    if (any) {
        s->tracker = 0;
        scale *= s->backoff_factor;
    } else if (++s->tracker == s->growth_interval) {
        s->tracker = 0;
        if (scale * s->growth_factor <= (double)3.4028234663852886e38f)
            scale *= s->growth_factor;
    }
    return scale != s->scale ? tti_scaler_set_scale(s, scale) : TT_OK;
}

/* ---- asking ------------------------------------------------------------------------------------------- */

double tt_grad_scaler_get_scale(const tt_grad_scaler *s)
{
    return s != NULL && s->enabled ? s->scale : 1;
}

int64_t tt_grad_scaler_growth_tracker(const tt_grad_scaler *s)
{
    return s != NULL ? s->tracker : 0;
}

bool tt_grad_scaler_device(const tt_grad_scaler *s, tt_device *device_p)
{
    if (s == NULL || s->copies.n == 0)
        return false;
    *device_p = s->copies.items[0].device;
    return true;
}

int tt_grad_scaler_n_found(const tt_grad_scaler *s, const tt_optim *o)
{
    const tti_scaled_optim *e = find(s, o);

    return e != NULL ? (int)e->found.n : 0;
}

double tt_grad_scaler_found(const tt_grad_scaler *s, const tt_optim *o, int i, tt_device *device_p)
{
    const tti_scaled_optim *e = find(s, o);

    if (e == NULL || i < 0 || (size_t)i >= e->found.n)
        return NAN;
    if (device_p != NULL)
        *device_p = e->found.items[i].device;
    return tt_item(e->found.items[i].t);
}
