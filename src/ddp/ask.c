/* SPDX-License-Identifier: Apache-2.0 */
/* What a tt_ddp tells of itself. */
#include "ddp/ddp.h"

tt_module *tt_ddp_module(const tt_ddp *d)
{
    return d != NULL ? d->module : NULL;
}

tt_pg *tt_ddp_group(const tt_ddp *d)
{
    return d != NULL ? d->pg : NULL;
}

int tt_ddp_n_params(const tt_ddp *d)
{
    return d != NULL ? d->n_params : 0;
}

static bool has(const tt_ddp *d, int i)
{
    return d != NULL && i >= 0 && i < d->n_params;
}

tt_tensor *tt_ddp_param(const tt_ddp *d, int i)
{
    return has(d, i) ? d->params[i].t : NULL;
}

const char *tt_ddp_param_name(const tt_ddp *d, int i)
{
    return has(d, i) ? d->params[i].name : NULL;
}

int tt_ddp_n_users(const tt_ddp *d, int i)
{
    return has(d, i) && d->have_used ? ((const int32_t *)tti_data(d->reduced))[i] : -1;
}

int tt_ddp_n_buckets(const tt_ddp *d)
{
    return d != NULL ? d->n_buckets : 0;
}

bool tt_ddp_has_rebuilt(const tt_ddp *d)
{
    return d != NULL && d->rebuilt;
}

bool tt_ddp_is_static(const tt_ddp *d)
{
    return d != NULL && d->iteration > 0 && !d->changed;
}
