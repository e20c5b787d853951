/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets: the interface, rows of tensors in memory, and subsets. */
#include <string.h>

#include "base/error.h"
#include "data/data.h"
#include "ops/op.h"
#include "tensor/debug.h"

tt_dataset *tt_dataset_new(const tt_dataset_ops *ops, void *ctx, int n_fields)
{
    tt_dataset *ds;

    if (ops == NULL || ops->length == NULL || ops->get == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "dataset: expected a table with length and get");
    if (n_fields < 1 || n_fields > TT_MAX_FIELDS)
        return TT_FAIL_NULL(TT_ERR_INVALID, "dataset: expected 1 to %d fields, got %d",
                            TT_MAX_FIELDS, n_fields);
    ds = tti_calloc(1, sizeof *ds);
    if (ds == NULL)
        return NULL;
    atomic_init(&ds->refs, 1);
    ds->ops = ops;
    ds->ctx = ctx;
    ds->n_fields = n_fields;
    return ds;
}

tt_dataset *tti_dataset_retain(tt_dataset *ds)
{
    atomic_fetch_add_explicit(&ds->refs, 1, memory_order_relaxed);
    return ds;
}

void tt_dataset_free(tt_dataset *ds)
{
    if (ds == NULL || atomic_fetch_sub_explicit(&ds->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (ds->ops->free != NULL)
        ds->ops->free(ds->ctx);
    tti_mfree(ds);
}

int64_t tt_dataset_length(const tt_dataset *ds)
{
    if (ds == NULL) {
        (void)tti_null_given("dataset_length", "a dataset");
        return -1;
    }
    return ds->ops->length(ds->ctx);
}

int tt_dataset_n_fields(const tt_dataset *ds)
{
    return ds != NULL ? ds->n_fields : 0;
}

tt_status tt_dataset_get(tt_dataset *ds, tt_sample_at at, tt_tensor **fields)
{
    int64_t n = tt_dataset_length(ds);

    if (n < 0)
        return tt_last_status();
    if (at.index < 0 || at.index >= n)
        return TT_FAIL(TT_ERR_INVALID, "dataset_get: expected an index below %lld, got %lld",
                       (long long)n, (long long)at.index);
    memset(fields, 0, (size_t)ds->n_fields * sizeof *fields);
    TT_TRY(ds->ops->get(ds->ctx, at, fields));
    for (int f = 0; f < ds->n_fields; f++)
        if (fields[f] == NULL)
            return TTI_NULL("dataset %s: field %d of sample %lld is missing", ds->ops->name, f,
                            (long long)at.index);
    return TT_OK;
}

/* ---- rows of tensors ---------------------------------------------------------------------------- */

typedef struct rows {
    tt_tensor *fields[TT_MAX_FIELDS]; /* contiguous */
    int n_fields;
    int64_t n;
} rows;

static int64_t rows_length(void *ctx)
{
    return ((rows *)ctx)->n;
}

static tt_tensor *row_of(const tt_tensor *t, int64_t i)
{
    return tti_view_raw(t, t->dims + 1, t->strides + 1, t->n_dims - 1,
                        t->offset + i * t->strides[0]);
}

static tt_status rows_get(void *ctx, tt_sample_at at, tt_tensor **fields)
{
    rows *r = ctx;

    for (int f = 0; f < r->n_fields; f++) {
        fields[f] = row_of(r->fields[f], at.index);
        if (fields[f] == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static void gather_host(const tt_tensor *src, const tt_sample_at *at, int64_t n, tt_tensor *dst)
{
    size_t bytes = (size_t)(src->n_dims > 0 ? src->numel / src->dims[0] : 1) * tti_esize(src);
    const char *from = tti_data(src);
    char *to = tti_data(dst);

    if (bytes == sizeof(int64_t)) {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + (size_t)i * 8, from + (size_t)at[i].index * 8, 8);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * bytes, from + (size_t)at[i].index * bytes, bytes);
}

/* One copy of the indices, one kernel. */
static tt_status gather_device(const tt_tensor *src, const tt_sample_at *at, int64_t n,
                               tt_tensor *dst)
{
    tt_tensor *index = tti_empty(&n, 1, TT_I64, TT_CPU);
    int64_t *to = index != NULL ? tti_data(index) : NULL;

    for (int64_t i = 0; index != NULL && i < n; i++)
        to[i] = at[i].index;
    return tti_index_select(dst, src, 0, tt_to_device(index, src->device));
}

static tt_status rows_get_batch(void *ctx, const tt_sample_at *at, int64_t n, tt_tensor **fields)
{
    rows *r = ctx;

    for (int f = 0; f < r->n_fields; f++) {
        const tt_tensor *src = r->fields[f];
        int64_t dims[TT_MAX_DIMS];

        memcpy(dims, src->dims, sizeof dims);
        dims[0] = n;
        fields[f] = tti_empty(dims, src->n_dims, (tt_dtype)src->dtype, src->device);
        if (fields[f] == NULL)
            return tt_last_status();
        if (src->device.kind == TT_DEVICE_CPU)
            gather_host(src, at, n, fields[f]);
        else
            TT_TRY(gather_device(src, at, n, fields[f]));
    }
    return TT_OK;
}

static void rows_free(void *ctx)
{
    rows *r = ctx;

    for (int f = 0; f < r->n_fields; f++)
        tt_tensor_free(r->fields[f]);
    tti_mfree(r);
}

static const tt_dataset_ops rows_ops = {
    .name = "tensors",
    .length = rows_length,
    .get = rows_get,
    .get_batch = rows_get_batch,
    .free = rows_free,
};

static tt_status rows_add(rows *r, tt_tensor *t, int f)
{
    TT_TRY(tti_check_alive(t, "tensor_dataset"));
    if (t == NULL)
        return TTI_NULL("tensor_dataset: field %d is NULL", f);
    if (t->n_dims == 0 || t->storage == NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "tensor_dataset: expected dense fields with a first dimension, field %d "
                       "has none",
                       f);
    if (f > 0 && t->dims[0] != r->n)
        return TT_FAIL(TT_ERR_INVALID,
                       "tensor_dataset: expected %lld rows in each field, field %d has %lld",
                       (long long)r->n, f, (long long)t->dims[0]);
    r->n = t->dims[0];
    TT_SCOPE {
        tt_tensor *compact = tti_contiguous(t);

        if (compact == NULL)
            return tt_last_status();
        r->fields[f] = tt_tensor_retain(compact);
        r->n_fields = f + 1;
    }
    return TT_OK;
}

tt_dataset *tt_tensor_dataset_new(tt_tensor *const *fields, int n)
{
    tt_dataset *ds;
    rows *r;

    if (fields == NULL || n < 1 || n > TT_MAX_FIELDS)
        return TT_FAIL_NULL(TT_ERR_INVALID, "tensor_dataset: expected 1 to %d fields, got %d",
                            TT_MAX_FIELDS, n);
    r = tti_calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    for (int f = 0; f < n; f++) {
        if (rows_add(r, fields[f], f) != TT_OK) {
            rows_free(r);
            return NULL;
        }
    }
    ds = tt_dataset_new(&rows_ops, r, n);
    if (ds == NULL)
        rows_free(r);
    return ds;
}

/* ---- subsets -------------------------------------------------------------------------------------- */

typedef struct subset {
    tt_dataset *of;
    int64_t n;
    int64_t indices[];
} subset;

static int64_t subset_length(void *ctx)
{
    return ((subset *)ctx)->n;
}

static tt_status subset_get(void *ctx, tt_sample_at at, tt_tensor **fields)
{
    subset *s = ctx;

    at.index = s->indices[at.index];
    return tt_dataset_get(s->of, at, fields);
}

static void subset_free(void *ctx)
{
    subset *s = ctx;

    tt_dataset_free(s->of);
    tti_mfree(s);
}

static tt_status subset_get_batch(void *ctx, const tt_sample_at *at, int64_t n, tt_tensor **fields)
{
    subset *s = ctx;
    tt_sample_at *there = tti_malloc((size_t)n * sizeof *there);
    tt_status st;

    if (there == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        there[i] = at[i];
        there[i].index = s->indices[at[i].index];
    }
    st = s->of->ops->get_batch(s->of->ctx, there, n, fields);
    tti_mfree(there);
    return st;
}

static const tt_dataset_ops subset_ops = {
    .name = "subset",
    .length = subset_length,
    .get = subset_get,
    .free = subset_free,
};

static const tt_dataset_ops subset_batch_ops = {
    .name = "subset",
    .length = subset_length,
    .get = subset_get,
    .get_batch = subset_get_batch,
    .free = subset_free,
};

tt_dataset *tt_subset_dataset_new(tt_dataset *of, const int64_t *indices, int64_t n)
{
    int64_t limit = tt_dataset_length(of);
    tt_dataset *ds;
    subset *s;

    if (limit < 0)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        if (indices[i] < 0 || indices[i] >= limit)
            return TT_FAIL_NULL(TT_ERR_INVALID,
                                "subset_dataset: expected indices below %lld, number %lld is %lld",
                                (long long)limit, (long long)i, (long long)indices[i]);
    s = n >= 0 ? tti_malloc(sizeof *s + (size_t)n * sizeof *s->indices) : NULL;
    if (s == NULL)
        return NULL;
    ds = tt_dataset_new(of->ops->get_batch != NULL ? &subset_batch_ops : &subset_ops, s,
                        of->n_fields);
    if (ds == NULL) {
        tti_mfree(s);
        return NULL;
    }
    s->of = tti_dataset_retain(of);
    s->n = n;
    if (n > 0)
        memcpy(s->indices, indices, (size_t)n * sizeof *indices);
    return ds;
}
