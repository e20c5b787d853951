/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: flat tensors in the group's memory, and for every parameter a view of one of them. */
#include <stdint.h>
#include <string.h>

#include "ddp/ddp.h"
#include "tensor/shape.h"
#include "tutti/ops.h"

#define ALIGN_BYTES 64 /* where the parameters begin */

/* Buckets in the making: they replace the old ones when all is well. */
typedef struct layout {
    tt_ddp *d;
    tti_ddp_bucket *buckets;
    int n_buckets;
    tt_tensor **views; /* of each parameter */
    int *bucket_of;    /* of each parameter */
} layout;

static void free_buckets(tti_ddp_bucket *bs, int n)
{
    for (int i = 0; bs != NULL && i < n; i++) {
        tti_ddp_hook_forget(&bs[i]);
        tt_tensor_free(bs[i].flat);
        tt_tensor_free(bs[i].wire);
        tt_tensor_free(bs[i].sparse);
        tt_work_free(bs[i].work);
        tti_mfree(bs[i].params);
    }
    tti_mfree(bs);
}

/* Another tt_ddp may have taken the parameter over. */
void tti_ddp_home(tti_ddp_param *p, bool open)
{
    if (open && p->ddp->views && p->view != NULL && p->hook != NULL)
        tti_set_grad_home(p->t, p->view, p->hook);
    else if (!open && p->view != NULL && tti_grad_home(p->t) == p->view)
        tti_set_grad_home(p->t, NULL, NULL);
}

void tti_ddp_homes(tt_ddp *d, bool open)
{
    for (int i = 0; i < d->n_params; i++)
        tti_ddp_home(&d->params[i], open);
}

void tti_ddp_free_buckets(tt_ddp *d)
{
    tti_ddp_homes(d, false);
    free_buckets(d->buckets, d->n_buckets);
    d->buckets = NULL;
    d->n_buckets = 0;
    for (int i = 0; i < d->n_params; i++) {
        tt_tensor_free(d->params[i].view);
        d->params[i].view = NULL;
    }
}

bool tti_ddp_is_view(const tti_ddp_param *p, const tt_tensor *grad)
{
    return grad != NULL && p->view != NULL &&
           (grad == p->view || (grad->storage == p->view->storage &&
                                grad->offset == p->view->offset && tti_is_contiguous(grad)));
}

/* Whether the view still lies in its bucket's memory; what is on a device is not looked at. */
static bool lies_in(const tt_tensor *view, const tt_tensor *flat)
{
    const char *at = view->storage->data, *from = flat->storage->data;

    return flat->device.kind != TT_DEVICE_CPU || view->numel == 0 ||
           (at >= from && at < from + flat->storage->bytes);
}

tt_status tti_ddp_check_views(const tt_ddp *d)
{
    for (int i = 0; i < d->n_params; i++) {
        const tti_ddp_param *p = &d->params[i];
        const tt_tensor *flat = d->buckets[p->bucket].flat;

        if (flat == NULL || p->view == NULL ||
            (tt_likely(p->t->dtype == flat->dtype) && tt_device_equal(p->t->device, flat->device) &&
             tt_likely(lies_in(p->view, flat))))
            continue;
        return TT_FAIL(TT_ERR_INVALID,
                       "ddp: parameter \"%s\" (%d) was converted after the module was wrapped: "
                       "convert it first, then call tt_ddp_new",
                       p->name, i);
    }
    return TT_OK;
}

/* ---- making them ---------------------------------------------------------------------------- */

/* A part of the bucket in like's shape, contiguous. It has a storage of its own, whose references tell whether somebody
 * keeps the gradient, and whose version does not change with that of its neighbours. */
static tt_tensor *view_of(const tt_tensor *flat, const tt_tensor *like, int64_t offset)
{
    size_t esize = tti_esize(like), at = (size_t)(flat->offset + offset) * esize;
    tt_storage *part = tti_storage_part(flat->storage, at, (size_t)like->numel * esize);
    tt_tensor *t = tti_over_like(like, part);

    if (t != NULL && !tti_is_contiguous(t)) {
        int64_t strides[TT_MAX_DIMS];

        tti_strides_contiguous(like->dims, like->n_dims, strides);
        t = tti_view_raw(t, like->dims, strides, like->n_dims, 0);
    }
    return tt_tensor_retain(t);
}

/* Memory that travels: the group's own, unless the gradients are on a device. */
static tt_tensor *alloc_travelling(const tt_ddp *d, tt_shape shape, tt_dtype dtype,
                                   tt_device device)
{
    return device.kind == TT_DEVICE_CPU ? tt_pg_alloc(d->pg, shape, dtype)
                                        : tt_empty(shape, dtype, device);
}

/* Room for `total` elements of the kind of `like`, beside it. */
static tt_status alloc_bucket(const tt_ddp *d, tti_ddp_bucket *b, int64_t total,
                              const tt_tensor *like)
{
    tt_dtype reduce = d->precision.reduce, dtype = (tt_dtype)like->dtype;
    bool converts = reduce != TT_F32 && reduce != dtype && tt_dtype_is_floating(dtype);
    tt_shape shape = TT_SHAPE(total > 0 ? total : 1);

    b->flat = tt_tensor_retain(converts ? tt_zeros(shape, dtype, like->device)
                                        : alloc_travelling(d, shape, dtype, like->device));
    if (b->flat == NULL || tt_zero_(b->flat) == NULL)
        return tt_last_status();
    if (converts)
        b->wire = tt_tensor_retain(alloc_travelling(d, shape, reduce, like->device));
    return !converts || b->wire != NULL ? TT_OK : tt_last_status();
}

/* Memory for bucket b, and the views of its parameters. */
static tt_status fill_bucket(layout *l, tti_ddp_bucket *b)
{
    const tt_tensor *first = l->d->params[b->params[0]].t;
    int64_t step = ALIGN_BYTES / (int64_t)tti_esize(first);
    int64_t *offsets = tti_malloc((size_t)b->n_params * sizeof *offsets);
    int64_t total = 0;
    tt_status st = offsets != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int i = 0; st == TT_OK && i < b->n_params; i++) {
        const tt_tensor *t = l->d->params[b->params[i]].t;

        offsets[i] = (total + step - 1) / step * step;
        total = offsets[i] + t->numel;
        b->bytes += (size_t)t->numel * tti_esize(t);
    }
    if (st == TT_OK && !l->d->params[b->params[0]].sparse)
        st = alloc_bucket(l->d, b, total, first);
    for (int i = 0; st == TT_OK && b->flat != NULL && i < b->n_params; i++) {
        int p = b->params[i];

        l->views[p] = view_of(b->flat, l->d->params[p].t, offsets[i]);
        if (l->views[p] == NULL)
            st = tt_last_status();
    }
    tti_mfree(offsets);
    return st;
}

/* Put parameters order[0 .. n) into the buckets that `bucket_of` gives them. */
static tt_status fill(layout *l, const int *order)
{
    int n = l->d->n_params;

    for (int i = 0; i < n; i++)
        l->buckets[l->bucket_of[i]].n_params++;
    for (int b = 0; b < l->n_buckets; b++) {
        l->buckets[b].params = tti_malloc((size_t)l->buckets[b].n_params * sizeof(int));
        if (l->buckets[b].params == NULL)
            return TT_ERR_NOMEM;
        l->buckets[b].n_params = 0;
    }
    for (int i = 0; i < n; i++) {
        tti_ddp_bucket *b = &l->buckets[l->bucket_of[order[i]]];

        b->params[b->n_params++] = order[i];
    }
    for (int b = 0; b < l->n_buckets; b++)
        TT_TRY(fill_bucket(l, &l->buckets[b]));
    return TT_OK;
}

/* Gradients that live in the old buckets move to the new ones. */
static tt_status install(layout *l)
{
    tt_ddp *d = l->d;

    for (int i = 0; i < d->n_params; i++) {
        tti_ddp_param *p = &d->params[i];
        tt_tensor *grad = tt_grad_of(p->t);

        if (p->view == NULL || !d->views || !tti_ddp_is_view(p, grad))
            continue;
        if (tt_copy_(l->views[i], grad) == NULL)
            return tt_last_status();
        TT_TRY(tt_set_grad(p->t, l->views[i]));
    }
    tti_ddp_free_buckets(d);
    for (int i = 0; i < d->n_params; i++) {
        d->params[i].view = l->views[i];
        d->params[i].bucket = l->bucket_of[i];
        l->views[i] = NULL;
    }
    d->buckets = l->buckets;
    d->n_buckets = l->n_buckets;
    l->buckets = NULL;
    tti_ddp_homes(d, true);
    return TT_OK;
}

/* Dense gradients by size; after them sparse ones, each for itself. */
static tt_status assign(layout *l, const int *order, const tt_ddp_limits *limits, bool reversed)
{
    int n = l->d->n_params, n_dense = 0, k = 0;
    tt_tensor **ts = tti_malloc((size_t)n * sizeof *ts);
    int *nr = tti_malloc((size_t)n * sizeof *nr);
    tt_status st = ts != NULL && nr != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int i = 0; st == TT_OK && i < n; i++)
        if (!l->d->params[order[i]].sparse)
            ts[n_dense++] = l->d->params[order[i]].t;
    if (st == TT_OK && n_dense > 0)
        st = tt_ddp_assign(ts, n_dense, limits, nr, &l->n_buckets);
    n_dense = l->n_buckets;
    for (int i = 0; st == TT_OK && i < n; i++) {
        int *bucket = &l->bucket_of[order[i]];

        if (l->d->params[order[i]].sparse)
            *bucket = l->n_buckets++;
        else
            *bucket = reversed ? n_dense - 1 - nr[k++] : nr[k++];
    }
    tti_mfree(ts);
    tti_mfree(nr);
    return st;
}

static tt_status build(tt_ddp *d, const int *order, const tt_ddp_limits *limits, bool reversed)
{
    size_t n = (size_t)d->n_params;
    layout l = { .d = d };
    tt_scope scope = tt_scope_open();
    tt_status st = TT_ERR_NOMEM;

    l.views = tti_calloc(n, sizeof *l.views);
    l.bucket_of = tti_calloc(n, sizeof *l.bucket_of);
    if (l.views != NULL && l.bucket_of != NULL)
        st = assign(&l, order, limits, reversed);
    if (st == TT_OK) {
        l.buckets = tti_calloc((size_t)l.n_buckets, sizeof *l.buckets);
        st = l.buckets != NULL ? fill(&l, order) : TT_ERR_NOMEM;
    }
    TT_NO_GRAD
    if (st == TT_OK)
        st = install(&l);
    for (size_t i = 0; l.views != NULL && i < n; i++)
        tt_tensor_free(l.views[i]);
    free_buckets(l.buckets, l.n_buckets);
    tti_mfree(l.views);
    tti_mfree(l.bucket_of);
    tt_scope_close(&scope);
    return st;
}

/* ---- when ------------------------------------------------------------------------------------ */

tt_status tti_ddp_build(tt_ddp *d)
{
    tt_ddp_limits initial, rebuild;

    tt_ddp_caps_limits(&d->caps, d->find_unused, d->static_graph, &initial, &rebuild);
    for (int i = 0; i < d->n_params; i++)
        d->order[i] = i;
    /* Gradients come in about the opposite order of parameters. */
    return build(d, d->order, &initial, true);
}

static tt_status check_order(const int *order, int n, int root)
{
    bool *seen = tti_calloc((size_t)n, sizeof *seen);
    tt_status st = seen != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int i = 0; st == TT_OK && i < n; i++) {
        if (order[i] < 0 || order[i] >= n || seen[order[i]])
            st = TT_FAIL(TT_ERR_PEER, "ddp: rank %d sent an order of gradients that is none", root);
        else
            seen[order[i]] = true;
    }
    tti_mfree(seen);
    return st;
}

static tt_status agree_on_order(tt_ddp *d)
{
    tt_tensor *t = tt_from_data(d->first_order, TT_SHAPE(d->n_params), TT_I32);

    if (t == NULL)
        return tt_last_status();
    TT_TRY(tt_pg_broadcast(d->pg, t, tti_ddp_root(d), NULL, NULL));
    memcpy(d->first_order, tti_data(t), (size_t)d->n_params * sizeof(int32_t));
    return check_order(d->first_order, d->n_params, tti_ddp_root(d));
}

tt_status tti_ddp_rebuild(tt_ddp *d)
{
    tt_ddp_limits initial, limits;
    tt_status st = TT_OK;

    static_assert(sizeof(int) == sizeof(int32_t), "orders are sent as int32");
    TT_SCOPE {
        st = agree_on_order(d);
    }
    TT_TRY(st);
    tt_ddp_caps_limits(&d->caps, d->find_unused, d->static_graph, &initial, &limits);
    if (limits.n == 0) {
        if (d->caps.first != d->caps.cap)
            limits.bytes[limits.n++] = d->caps.first;
        limits.bytes[limits.n++] = d->caps.cap;
    }
    TT_TRY(build(d, d->first_order, &limits, false));
    d->rebuilt = true;
    return TT_OK;
}
