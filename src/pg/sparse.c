/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of sparse tensors. Every rank gathers all entries and adds them in the order of ranks, so that all
 * get the same bits. Runs on the engine thread, straight on the backend: it is one operation. */
#include <string.h>

#include "pg/call.h"
#include "tensor/tensor.h"
#include "tutti/autograd.h"
#include "tutti/ops.h"
#include "tutti/stream.h"
#include "tutti/sparse.h"

/* What has to be the same everywhere, and how many entries a rank has. */
typedef struct facts {
    int64_t nnz;
    int64_t dtype, sparse_dims, n_dims;
    int64_t dims[TT_MAX_DIMS];
} facts;

typedef struct sum_call {
    tt_pg *pg;
    tt_tensor *t; /* retained */
    int timeout_ms;
    int64_t deadline_ns;
    uint64_t seq;    /* for messages */
    facts *all;      /* of all ranks */
    tti_span *spans; /* room for all ranks */
} sum_call;

static void sum_call_free(void *ctx)
{
    sum_call *s = ctx;

    tt_tensor_free(s->t);
    tti_mfree(s->all);
    tti_mfree(s->spans);
    tti_mfree(s);
}

/* ---- gathering ------------------------------------------------------------------------------ */

static tt_status gather(sum_call *s, tti_span in, tt_dtype dtype, bool uneven)
{
    tti_coll c = {
        .kind = TTI_COLL_ALL_GATHER,
        .dtype = dtype,
        .uneven = uneven,
        .in = in,
        .outs = s->spans,
        .seq = s->seq,
        .deadline_ns = s->deadline_ns,
    };

    tt_status st = s->pg->ops->run(s->pg->backend, &c);
    if (st == TT_OK)
        return TT_OK;
    tti_error_copy cause;
    tti_error_save(&cause);
    return TT_FAIL(st, "all_reduce of sparse tensors: %s", cause.text);
}

static facts facts_of(const tt_tensor *t)
{
    facts f = {
        .nnz = tt_sparse_nnz(t),
        .dtype = t->dtype,
        .sparse_dims = tt_sparse_dims(t),
        .n_dims = t->n_dims,
    };

    memcpy(f.dims, t->dims, (size_t)t->n_dims * sizeof f.dims[0]);
    return f;
}

static tt_status check_facts(const sum_call *s, const facts *mine)
{
    for (int i = 0; i < s->pg->size; i++)
        if (memcmp(&s->all[i].dtype, &mine->dtype, sizeof *mine - sizeof mine->nnz) != 0)
            return TT_FAIL(TT_ERR_INVALID,
                           "all_reduce: group %s: the sparse tensors of ranks %d and %d differ in "
                           "shape or type",
                           s->pg->name, s->pg->global_rank, s->pg->global_ranks[i]);
    return TT_OK;
}

static tt_status exchange_facts(sum_call *s)
{
    facts mine = facts_of(s->t);

    for (int i = 0; i < s->pg->size; i++)
        s->spans[i] = (tti_span){ &s->all[i], sizeof mine };
    TT_TRY(gather(s, (tti_span){ &mine, sizeof mine }, TT_U8, false));
    return check_facts(s, &mine);
}

/* Everybody's rows, one after the other, in a tensor of the scope. `mine` is [nnz, ...]. */
static tt_tensor *gather_rows(sum_call *s, tt_tensor *mine)
{
    tt_shape shape = tt_tensor_shape(mine);
    tt_tensor *all;
    size_t row = tt_dtype_size(tt_tensor_dtype(mine));
    char *at;

    for (int i = 1; i < shape.n_dims; i++)
        row *= (size_t)shape.dims[i];
    shape.dims[0] = 0;
    for (int i = 0; i < s->pg->size; i++)
        shape.dims[0] += s->all[i].nnz;
    all = tt_empty(shape, tt_tensor_dtype(mine), TT_CPU);
    if (all == NULL)
        return NULL;
    at = tt_tensor_data(all);
    for (int i = 0; i < s->pg->size; i++) {
        s->spans[i] = (tti_span){ at, (size_t)s->all[i].nnz * row };
        at += s->spans[i].bytes;
    }
    return gather(s, (tti_span){ tt_tensor_data(mine), tt_tensor_bytes(mine) },
                  tt_tensor_dtype(mine), true) == TT_OK
               ? all
               : NULL;
}

/* ---- adding --------------------------------------------------------------------------------- */

/* The type that sums are made in: float16 and bfloat16 are rounded once, and for bool sum means or. */
static tt_dtype sum_type(tt_dtype d)
{
    return d == TT_F16 || d == TT_BF16 ? TT_F32 : d == TT_BOOL ? TT_I64 : d;
}

/* Puts the entries of `sum`, which is on the host, in place of t's. */
static tt_status replace(tt_tensor *t, tt_tensor *sum)
{
    tt_tensor *indices = tt_to_device(tt_contiguous(tt_sparse_indices(sum)), t->device);
    tt_tensor *values = tt_to_device(
        tt_contiguous(tt_to_dtype(tt_sparse_values(sum), (tt_dtype)t->dtype)), t->device);

    if (indices == NULL || values == NULL)
        return tt_last_status();
    tt_tensor_retain(indices);
    tt_tensor_retain(values);
    tt_tensor_free(t->sparse->indices);
    tt_tensor_free(t->sparse->values);
    t->sparse->indices = indices;
    t->sparse->values = values;
    t->flags |= TTI_COALESCED;
    return TT_OK;
}

static tt_status add_up(sum_call *s)
{
    tt_tensor *t = s->t;
    tt_tensor *places = tt_to_device(tt_detach(t->sparse->indices), TT_CPU);
    tt_tensor *columns = tt_contiguous(tt_transpose(places, 0, 1));
    tt_tensor *rows = tt_contiguous(tt_to_device(tt_detach(t->sparse->values), TT_CPU));
    tt_tensor *indices, *values;

    if (columns == NULL || rows == NULL)
        return tt_last_status();
    indices = gather_rows(s, columns);
    values = indices != NULL ? gather_rows(s, rows) : NULL;
    if (values == NULL)
        return tt_last_status();
    values = tt_to_dtype(values, sum_type((tt_dtype)t->dtype));
    indices = tt_contiguous(tt_transpose(indices, 0, 1));
    TT_TRY(replace(t, tt_sparse_coalesce(
                          tt_sparse_coo_unchecked(indices, values, tt_tensor_shape(t), false))));
    return t->device.kind != TT_DEVICE_CPU ? tt_stream_sync(tt_stream_current(t->device)) : TT_OK;
}

static tt_status run(void *ctx, tt_pg *pg)
{
    sum_call *s = ctx;
    tt_status st;

    s->seq = tti_running_seq(pg);
    s->deadline_ns = tti_deadline(s->timeout_ms);
    tti_run_lock(pg);
    st = exchange_facts(s);
    if (st == TT_OK)
        TT_SCOPE {
            st = add_up(s);
        }
    if (st == TT_ERR_NOMEM) /* the others wait for entries that will not come: tell them */
        pg->ops->abort(pg->backend, "a rank has no memory for a sparse sum");
    tti_run_unlock(pg);
    return st;
}

tt_status tti_pg_sparse_all_reduce(tt_pg *pg, tt_tensor *t, const tt_coll_options *opt,
                                   tt_work **work_p)
{
    sum_call *s;

    TT_TRY(tti_pg_check(pg, "all_reduce"));
    if (opt != NULL && opt->op != TT_REDUCE_SUM)
        return TT_FAIL(TT_ERR_INVALID, "all_reduce: sparse tensors can be summed only, not %s",
                       tt_reduce_op_name(opt->op));
    if (t->device.kind != TT_DEVICE_CPU) /* the sum is made by a thread with another stream */
        TT_TRY(tt_stream_sync(tt_stream_current(t->device)));
    s = tti_calloc(1, sizeof *s);
    if (s == NULL)
        return TT_ERR_NOMEM;
    s->pg = pg;
    s->t = tt_tensor_retain(t);
    s->timeout_ms = opt != NULL && opt->timeout_ms > 0 ? opt->timeout_ms : tt_pg_timeout(pg);
    s->all = tti_calloc((size_t)pg->size, sizeof *s->all);
    s->spans = tti_calloc((size_t)pg->size, sizeof *s->spans);
    if (s->all == NULL || s->spans == NULL) {
        sum_call_free(s);
        return TT_ERR_NOMEM;
    }
    return tti_pg_run_async(pg, "all_reduce", run, s, sum_call_free, work_p);
}
