/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions on the CPU: which implementation takes which type and sizes. Half types go through
 * float32. */
#include "ops/cpu/nn_conv.h"
#include "ops/op.h"

static bool is_half(const tt_tensor *t)
{
    return t->dtype == TT_F16 || t->dtype == TT_BF16;
}

static tt_tensor *wide(const tt_tensor *t)
{
    return tti_cast((tt_tensor *)t, TT_F32);
}

static tt_tensor *wide_like(const tt_tensor *t)
{
    return tti_empty(t->dims, t->n_dims, TT_F32, t->device);
}

static tt_status forward(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                         const tti_conv *g)
{
    bool done = false;

    if (x->dtype == TT_F32) {
        if (tti_conv_small_takes(g))
            return tti_conv_small(y, x, w, b, g);
        TT_TRY(tti_conv_dnnl(y, x, w, b, g, &done));
    }
    return done ? TT_OK : tti_conv_plain(y, x, w, b, g);
}

static tt_status grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                            const tti_conv *g)
{
    bool done = false;

    if (dx->dtype == TT_F32) {
        if (tti_conv_small_takes(g))
            return tti_conv_small_grad_input(dx, dy, w, g);
        TT_TRY(tti_conv_dnnl_grad_input(dx, dy, w, g, &done));
    }
    return done ? TT_OK : tti_conv_plain_grad_input(dx, dy, w, g);
}

static tt_status grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                             const tti_conv *g)
{
    bool done = false;

    if (dw->dtype == TT_F32) {
        if (tti_conv_small_takes(g))
            return tti_conv_small_grad_weight(dw, dy, x, g);
        TT_TRY(tti_conv_dnnl_grad_weight(dw, dy, x, g, &done));
    }
    return done ? TT_OK : tti_conv_plain_grad_weight(dw, dy, x, g);
}

tt_status tti_cpu_conv(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                       const tti_conv *g)
{
    tt_tensor *wx, *ww, *wy, *wb = NULL;

    if (!is_half(x))
        return forward(y, x, w, b, g);
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

    if (!is_half(dx))
        return grad_input(dx, dy, w, g);
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

    if (!is_half(dw))
        return grad_weight(dw, dy, x, g);
    wdy = wide(dy);
    wx = wide(x);
    wdw = wide_like(dw);
    if (wdy == NULL || wx == NULL || wdw == NULL)
        return tt_last_status();
    TT_TRY(tti_cpu_conv_grad_weight(wdw, wdy, wx, g));
    return tti_copy(dw, wdw);
}
