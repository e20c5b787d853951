/* SPDX-License-Identifier: Apache-2.0 */
/* One flat tensor per group and type, in the group's memory: each rank's parameters side by side, so that one
 * all_gather brings everybody up to date. Parameters live in it if they can. */
#include "base/mem.h"
#include "tutti/autograd.h"
#include "tutti/ops.h"
#include "zero/zero.h"

#define ALIGN_BYTES 64 /* where parameters and parts begin */

/* ---- making -------------------------------------------------------------------------------- */

static int64_t rounded(int64_t numel, tt_dtype dtype)
{
    int64_t step = ALIGN_BYTES / tti_dtype_sizes[dtype];

    return (numel + step - 1) / step * step;
}

/* The elements of rank r's part, which is never empty. */
static int64_t part_numel(const tti_zero_group *g, tt_dtype dtype, int r)
{
    int64_t n = 0;

    for (int i = 0; i < g->n; i++)
        if (g->params[i].t->dtype == dtype && g->params[i].owner == r)
            n += rounded(g->params[i].t->numel, dtype);
    return n > 0 ? n : rounded(1, dtype);
}

static tt_tensor *view_at(const tt_tensor *flat, const tt_tensor *like, int64_t offset)
{
    int64_t strides[TT_MAX_DIMS], step = 1;

    for (int i = like->n_dims; i-- > 0;) {
        strides[i] = step;
        step *= like->dims[i];
    }
    return tt_tensor_retain(tti_view_raw(flat, like->dims, strides, like->n_dims, offset));
}

static tt_tensor *part_at(const tt_tensor *flat, int64_t offset, int64_t numel)
{
    const int64_t one = 1;

    return tt_tensor_retain(tti_view_raw(flat, &numel, &one, 1, offset));
}

static tt_status place_params(tti_zero_group *g, const tt_tensor *flat, int r, int64_t offset)
{
    for (int i = 0; i < g->n; i++) {
        tti_zero_param *p = &g->params[i];

        if (p->t->dtype != flat->dtype || p->owner != r)
            continue;
        p->view = view_at(flat, p->t, offset);
        if (p->view == NULL || tt_copy_(p->view, tt_detach(p->t)) == NULL)
            return tt_last_status();
        offset += rounded(p->t->numel, (tt_dtype)flat->dtype);
    }
    return TT_OK;
}

static tt_status make_bucket(const tt_zero *z, tti_zero_group *g, tt_dtype dtype)
{
    tti_zero_bucket *b = &g->buckets[dtype];
    tt_device device = g->params[0].t->device; /* that of all */
    int64_t total = 0, offset = 0;

    for (int r = 0; r < z->size; r++)
        total += part_numel(g, dtype, r);
    b->parts = tti_calloc((size_t)z->size, sizeof *b->parts);
    if (b->parts == NULL)
        return TT_ERR_NOMEM;
    b->flat =
        tt_tensor_retain(device.kind == TT_DEVICE_CPU ? tt_pg_alloc(z->pg, TT_SHAPE(total), dtype)
                                                      : tt_empty(TT_SHAPE(total), dtype, device));
    if (b->flat == NULL || tt_zero_(b->flat) == NULL)
        return tt_last_status();
    for (int r = 0; r < z->size; r++) {
        int64_t n = part_numel(g, dtype, r);

        b->parts[r] = part_at(b->flat, offset, n);
        if (b->parts[r] == NULL)
            return tt_last_status();
        TT_TRY(place_params(g, b->flat, r, offset));
        offset += n;
    }
    return TT_OK;
}

/* The parameter's memory becomes its view, which holds the same values, if nobody else uses it. */
static void move_in(tti_zero_param *p)
{
    tt_storage *old = p->t->storage;

    if (!tti_is_contiguous(p->t) || (p->t->flags & TTI_VIEW) != 0 ||
        atomic_load_explicit(&old->refs, memory_order_acquire) != 1)
        return;
    p->t->storage = tti_storage_retain(p->view->storage);
    p->t->offset = p->view->offset;
    p->inside = true;
    tti_storage_free(old);
}

static tt_status make_buckets(tt_zero *z, tti_zero_group *g)
{
    for (int i = 0; i < g->n; i++) {
        tt_dtype dtype = (tt_dtype)g->params[i].t->dtype;

        if (g->buckets[dtype].flat == NULL)
            TT_TRY(make_bucket(z, g, dtype));
    }
    return TT_OK;
}

tt_status tti_zero_buckets(tt_zero *z, tti_zero_group *g)
{
    tt_status st = TT_OK;

    TT_SCOPE
        TT_NO_GRAD
        {
            st = make_buckets(z, g);
        }
    return st;
}

void tti_zero_move_in(const tt_zero *z, tti_zero_group *g)
{
    for (int i = 0; !z->copy_params && i < g->n; i++)
        move_in(&g->params[i]);
}

/* ---- exchanging ----------------------------------------------------------------------------- */

/* Parameters that live elsewhere: this rank's into the buckets, or the others' out of them. */
static tt_status copy_outside(const tt_zero *z, tti_zero_group *g, bool own)
{
    for (int i = 0; i < g->n; i++) {
        tti_zero_param *p = &g->params[i];

        if (p->inside || (p->owner == z->rank) != own)
            continue;
        if (tt_copy_(own ? p->view : p->t, own ? p->t : p->view) == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static tt_status start(const tt_zero *z, tti_zero_group *g)
{
    TT_TRY(copy_outside(z, g, true));
    for (int k = 0; k < TT_N_DTYPES; k++) {
        tti_zero_bucket *b = &g->buckets[k];

        if (b->flat != NULL)
            TT_TRY(tt_pg_all_gather(z->pg, b->parts[z->rank], b->parts, z->size, NULL, &b->work));
    }
    return TT_OK;
}

static tt_status wait_for(tti_zero_bucket *b)
{
    tt_status st = b->work != NULL ? tt_work_wait(b->work, 0) : TT_OK;

    tt_work_free(b->work);
    b->work = NULL;
    if (b->flat != NULL)
        tti_bump_version(b->flat);
    return st;
}

/* Waits for all, whatever happens: memory is written until then. */
static tt_status finish(const tt_zero *z, tti_zero_group *g)
{
    tt_status st = TT_OK;

    for (int k = 0; k < TT_N_DTYPES; k++) {
        tt_status one = wait_for(&g->buckets[k]);

        st = st == TT_OK ? one : st;
    }
    return st == TT_OK ? copy_outside(z, g, false) : st;
}

static tt_status exchange(tt_zero *z)
{
    tt_status st = TT_OK;

    for (size_t i = 0; st == TT_OK && i < z->n_groups; i++)
        st = start(z, &z->groups[i]);
    for (size_t i = 0; i < z->n_groups; i++) {
        tt_status one = finish(z, &z->groups[i]);

        st = st == TT_OK ? one : st;
    }
    return st;
}

tt_status tti_zero_exchange(tt_zero *z)
{
    tt_status st = TT_OK;

    if (z->size == 1)
        return TT_OK;
    TT_SCOPE
        TT_NO_GRAD
        {
            st = exchange(z);
        }
    return st;
}
