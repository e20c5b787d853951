/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions on the CPU: which implementation takes which type and sizes. Half types go through
 * float32, integers through int64, which wraps as they do. */
#include "ops/cpu/nn_conv.h"
#include "ops/op.h"

/* The type that t is computed in. */
static tt_dtype inner_type(const tt_tensor *t)
{
    if (t->dtype == TT_F16 || t->dtype == TT_BF16)
        return TT_F32;
    return tt_dtype_is_integral((tt_dtype)t->dtype) ? TT_I64 : (tt_dtype)t->dtype;
}

static bool is_narrow(const tt_tensor *t)
{
    return inner_type(t) != (tt_dtype)t->dtype;
}

static tt_tensor *wide(const tt_tensor *t)
{
    return tti_cast((tt_tensor *)t, inner_type(t));
}

static tt_tensor *wide_like(const tt_tensor *t)
{
    return tti_empty(t->dims, t->n_dims, inner_type(t), t->device);
}

tt_status tti_conv_run(const tti_conv_job *j)
{
    bool done = false;

    if (j->dtype == TT_F32) {
        if (tti_conv_small_takes(&j->g))
            return tti_conv_small(j);
        TT_TRY(tti_conv_dnnl(j, &done));
    }
    return done ? TT_OK : tti_conv_plain(j);
}

tti_conv_job tti_conv_job_of(tti_conv_kind kind, const tt_tensor *x, const tt_tensor *w,
                             const tt_tensor *y, const tt_tensor *b, const tti_conv *g)
{
    return (tti_conv_job){ .g = *g,
                           .kind = kind,
                           .dtype = x->dtype,
                           .x = tti_data(x),
                           .w = tti_data(w),
                           .y = tti_data(y),
                           .b = b != NULL ? tti_data(b) : NULL };
}

static tt_status run(tti_conv_job j)
{
    return tti_conv_run(&j);
}

tt_status tti_cpu_conv(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                       const tti_conv *g)
{
    tt_tensor *wx, *ww, *wy, *wb = NULL;

    if (!is_narrow(x))
        return run(tti_conv_job_of(TTI_CONV_FORWARD, x, w, y, b, g));
    wx = wide(x);
    ww = wide(w);
    wy = wide_like(y);
    if (b != NULL)
        wb = wide(b);
    if (wx == NULL || ww == NULL || wy == NULL || (b != NULL && wb == NULL))
        return tt_last_status();
    TT_TRY(tti_cpu_conv(wy, wx, ww, wb, g));
    return tti_copy(y, wy);
}

tt_status tti_cpu_conv_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                  const tti_conv *g)
{
    tt_tensor *wdy, *ww, *wdx;

    if (!is_narrow(dx))
        return run(tti_conv_job_of(TTI_CONV_GRAD_INPUT, dx, w, dy, NULL, g));
    wdy = wide(dy);
    ww = wide(w);
    wdx = wide_like(dx);
    if (wdy == NULL || ww == NULL || wdx == NULL)
        return tt_last_status();
    TT_TRY(tti_cpu_conv_grad_input(wdx, wdy, ww, g));
    return tti_copy(dx, wdx);
}

tt_status tti_cpu_conv_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                   const tti_conv *g)
{
    tt_tensor *wdy, *wx, *wdw;

    if (!is_narrow(dw))
        return run(tti_conv_job_of(TTI_CONV_GRAD_WEIGHT, x, dw, dy, NULL, g));
    wdy = wide(dy);
    wx = wide(x);
    wdw = wide_like(dw);
    if (wdy == NULL || wx == NULL || wdw == NULL)
        return tt_last_status();
    TT_TRY(tti_cpu_conv_grad_weight(wdw, wdy, wx, g));
    return tti_copy(dw, wdw);
}
