/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of normalisations, made of operators so that they have derivatives too. */
#include "ops/norm.h"

static tt_tensor *mean_over(const tti_norm_parts *p, tt_tensor *t)
{
    return tt_mean_dims(t, p->dims, p->n_dims, true);
}

tt_status tti_norm_grad_parts(const tti_norm_parts *p, tt_tensor *g, tt_tensor **dx_p,
                              tt_tensor **dw_p)
{
    bool given = p->rstd != NULL;
    tt_tensor *centred, *rstd, *hat, *gw, *inner;

    if (given)
        centred = p->mean != NULL ? tt_sub(p->x, p->mean) : p->x;
    else
        centred = p->rms ? p->x : tt_sub(p->x, mean_over(p, p->x));
    rstd = given ? p->rstd : tt_rsqrt(tt_add_scalar(mean_over(p, tt_square(centred)), p->eps));
    hat = tt_mul(centred, rstd);
    if (dw_p != NULL)
        TT_TRY(tti_give(dw_p, tt_mul(g, hat)));
    if (dx_p == NULL)
        return TT_OK;
    gw = p->w != NULL ? tt_mul(g, p->w) : g;
    if (given)
        return tti_give(dx_p, tt_mul(gw, rstd));
    inner = tt_mul(hat, mean_over(p, tt_mul(gw, hat)));
    if (!p->rms)
        inner = tt_add(inner, mean_over(p, gw));
    return tti_give(dx_p, tt_mul(rstd, tt_sub(gw, inner)));
}
