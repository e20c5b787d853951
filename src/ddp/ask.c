/* SPDX-License-Identifier: Apache-2.0 */
/* What a tt_ddp tells of itself. */
#include "base/error.h"
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

/* ---- names ---------------------------------------------------------------------------------------- */

static int index_of(const tt_ddp *d, const tt_tensor *t)
{
    for (int i = 0; i < d->n_params; i++)
        if (d->params[i].t == t)
            return i;
    return -1;
}

static tt_status check_all_there(const tt_ddp *d, tt_tensor *const *ts, int n)
{
    for (int i = 0; i < d->n_params; i++) {
        int k = 0;

        while (k < n && ts[k] != d->params[i].t)
            k++;
        if (k == n)
            return TT_FAIL(TT_ERR_INVALID,
                           "ddp: cannot map parameters to names: \"%s\" (%d) is missing among the "
                           "%d that were given",
                           d->params[i].name, i, n);
    }
    return TT_OK;
}

tt_status tt_ddp_name_params(const tt_ddp *d, tt_tensor *const *ts, int n, const char **names)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    if (n < 0 || (n > 0 && (ts == NULL || names == NULL)))
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a tt_ddp, tensors and room for names");
    for (int i = 0; i < n; i++) {
        int k = index_of(d, ts[i]);

        if (k < 0)
            return TT_FAIL(TT_ERR_INVALID,
                           "ddp: cannot map parameters to names: expected the %d parameters that "
                           "are reduced, got %d, of which number %d is none of the module's",
                           d->n_params, n, i);
        names[i] = d->params[k].name;
    }
    return check_all_there(d, ts, n);
}

tt_status tt_ddp_assign_logged(tt_ddp *d, tt_tensor *const *ts, int n, const tt_ddp_limits *limits,
                               int *bucket_of, int *n_buckets_p)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    return tti_ddp_note_error(d, tt_ddp_assign(ts, n, limits, bucket_of, n_buckets_p));
}
