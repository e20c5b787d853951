/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse gradients stay sparse: each is a bucket of its own, whose indices and values are reduced. */
#include "tutti/sparse.h"

#include "ddp/ddp.h"
#include "nn/module.h"
#include "tutti/ops.h"

/* ---- which ----------------------------------------------------------------------------------------- */

static tt_status mark(void *ctx, const char *name, tt_module *m)
{
    tt_ddp *d = ctx;

    (void)name;
    if (!tti_has_sparse_grad(m))
        return TT_OK;
    for (int i = 0; i < d->n_params; i++)
        if (d->params[i].t == tt_module_param_at(m, 0))
            d->params[i].sparse = true;
    return TT_OK;
}

tt_status tti_ddp_mark_sparse(tt_ddp *d)
{
    return tt_module_each(d->module, mark, d);
}

/* ---- on their way ---------------------------------------------------------------------------------- */

/* Of the shape of t, with nothing in it. */
static tt_tensor *nothing(const tt_tensor *t)
{
    tt_shape rows = { .n_dims = t->n_dims };

    for (int i = 1; i < t->n_dims; i++)
        rows.dims[i] = t->dims[i];
    return tt_sparse_coo_unchecked(tt_zeros(TT_SHAPE(1, 0), TT_I64, t->device),
                                   tt_zeros(rows, (tt_dtype)t->dtype, t->device),
                                   tt_tensor_shape(t), true);
}

tt_status tti_ddp_stage_sparse(tt_ddp *d, tti_ddp_param *p, bool got)
{
    tti_ddp_bucket *b = &d->buckets[p->bucket];
    tt_tensor *grad = tt_grad_of(p->t), *t;

    if (grad == NULL)
        t = nothing(p->t);
    else
        t = grad->storage != NULL ? tt_to_sparse(grad, 1) : got ? grad : tt_clone(grad);
    b->sparse = tt_tensor_retain(t);
    return b->sparse != NULL ? TT_OK : tt_last_status();
}

tt_status tti_ddp_take_sparse(tt_ddp *d, tti_ddp_param *p, bool used)
{
    tti_ddp_bucket *b = &d->buckets[p->bucket];
    tt_tensor *t = b->sparse;
    int by = tt_join_divides_by_active(d->join) ? tt_join_n_active(d->join) : tt_pg_size(d->pg);
    tt_status st = TT_OK;

    b->sparse = NULL;
    if (used && t != NULL && tt_div_scalar_(t, by) == NULL)
        st = tt_last_status();
    if (st == TT_OK && used && t != NULL)
        st = tt_set_grad(p->t, t);
    tt_tensor_free(t);
    return st;
}
