/* SPDX-License-Identifier: Apache-2.0 */
/* How large buckets may be, and which tensors go together. */
#include <math.h>

#include "base/error.h"
#include "ddp/ddp.h"

static tt_status to_bytes(double mb, size_t *bytes_p)
{
    double bytes = mb * (double)TT_DDP_MB;

    if (!(bytes >= 1) || bytes > (double)(SIZE_MAX / 4))
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a bucket cap of at least one byte, got %g MB",
                       mb);
    *bytes_p = (size_t)bytes;
    return TT_OK;
}

tt_status tt_ddp_caps_make(double cap_mb, const double *list_mb, int n_list, tt_ddp_caps *caps_p)
{
    tt_ddp_caps c = { .cap = TT_DDP_BUCKET_MB * TT_DDP_MB, .first = TT_DDP_FIRST_BUCKET_BYTES };

    if (caps_p == NULL || n_list < 0 || (n_list > 0 && list_mb == NULL))
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a list of bucket caps, got NULL");
    if (n_list > TT_DDP_MAX_CAPS)
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected at most %d bucket caps, got %d",
                       TT_DDP_MAX_CAPS, n_list);
    if (n_list == 0 && cap_mb != 0) {
        TT_TRY(to_bytes(cap_mb, &c.cap));
        c.first = c.cap;
    }
    for (int i = 0; i < n_list; i++) {
        TT_TRY(to_bytes(list_mb[i], &c.per_bucket[i]));
        if (i == 0 || c.per_bucket[i] > c.cap)
            c.cap = c.per_bucket[i];
    }
    if (n_list > 0)
        c.first = c.cap;
    c.n_per_bucket = n_list;
    *caps_p = c;
    return TT_OK;
}

double tt_ddp_caps_mb(const tt_ddp_caps *caps)
{
    return (double)caps->cap / (double)TT_DDP_MB;
}

static void add_limit(tt_ddp_limits *l, size_t bytes)
{
    l->bytes[l->n++] = bytes;
}

void tt_ddp_caps_limits(const tt_ddp_caps *caps, bool find_unused, bool static_graph,
                        tt_ddp_limits *initial, tt_ddp_limits *rebuild)
{
    initial->n = rebuild->n = 0;
    for (int i = 0; i < caps->n_per_bucket; i++) {
        add_limit(initial, caps->per_bucket[i]);
        add_limit(rebuild, caps->per_bucket[i]);
    }
    if (caps->n_per_bucket > 0)
        return;
    if (static_graph || !find_unused) {
        add_limit(initial, SIZE_MAX);
        return;
    }
    if (caps->first != caps->cap)
        add_limit(initial, caps->first);
    add_limit(initial, caps->cap);
}

/* ---- assignment ------------------------------------------------------------------------- */

/* The bucket being filled with tensors of one type on one device. */
typedef struct filling {
    uint8_t dtype;
    tt_device device;
    size_t bytes;
    int bucket; /* -1: none open */
    int n_done; /* buckets of this kind that are full */
} filling;

static filling *find_filling(filling *fs, int *n, const tt_tensor *t)
{
    for (int i = 0; i < *n; i++)
        if (fs[i].dtype == t->dtype && tt_device_equal(fs[i].device, t->device))
            return &fs[i];
    fs[*n] = (filling){ .dtype = t->dtype, .device = t->device, .bucket = -1 };
    return &fs[(*n)++];
}

static tt_status check_dense(tt_tensor *const *ts, int n)
{
    for (int i = 0; i < n; i++) {
        if (ts[i] == NULL)
            return tti_null_given("ddp assign", "a tensor");
        if (ts[i]->storage == NULL)
            return TT_FAIL(TT_ERR_UNSUPPORTED,
                           "ddp assign: sparse tensors are not supported in buckets (number %d)",
                           i);
    }
    return TT_OK;
}

tt_status tt_ddp_assign(tt_tensor *const *ts, int n, const tt_ddp_limits *limits, int *bucket_of,
                        int *n_buckets_p)
{
    filling *fs;
    int n_fs = 0, n_buckets = 0;

    if (ts == NULL || n < 1 || limits == NULL || limits->n < 1)
        return TT_FAIL(TT_ERR_INVALID, "ddp assign: expected tensors and limits, got none");
    TT_TRY(check_dense(ts, n));
    fs = tti_calloc((size_t)n, sizeof *fs);
    if (fs == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        filling *f = find_filling(fs, &n_fs, ts[i]);

        if (f->bucket < 0) {
            f->bucket = n_buckets++;
            f->bytes = 0;
        }
        bucket_of[i] = f->bucket;
        f->bytes += (size_t)ts[i]->numel * tti_esize(ts[i]);
        if (f->bytes >= limits->bytes[f->n_done < limits->n ? f->n_done : limits->n - 1]) {
            f->bucket = -1;
            f->n_done++;
        }
    }
    tti_mfree(fs);
    *n_buckets_p = n_buckets;
    return TT_OK;
}
