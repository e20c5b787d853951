/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of sizes and strides. */
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

int64_t tti_numel(const int64_t *dims, int n_dims)
{
    int64_t n = 1;
    bool zero = false;

    for (int i = 0; i < n_dims; i++) {
        if (dims[i] < 0)
            return -1;
        if (dims[i] == 0)
            zero = true;
        else if (__builtin_mul_overflow(n, dims[i], &n))
            return -1;
    }
    return zero ? 0 : n;
}

void tti_strides_contiguous(const int64_t *dims, int n_dims, int64_t *strides)
{
    int64_t step = 1;

    for (int i = n_dims - 1; i >= 0; i--) {
        strides[i] = step;
        step *= dims[i] > 1 ? dims[i] : 1;
    }
}

void tti_strides_format(const int64_t *dims, int n_dims, tt_memory_format f, int64_t *strides)
{
    int64_t step = 1;
    bool last = (f == TT_FORMAT_CHANNELS_LAST && n_dims == 4) ||
                (f == TT_FORMAT_CHANNELS_LAST_3D && n_dims == 5);

    if (!last) {
        tti_strides_contiguous(dims, n_dims, strides);
        return;
    }
    strides[1] = step;
    step *= dims[1] > 1 ? dims[1] : 1;
    for (int i = n_dims - 1; i >= 2; i--) {
        strides[i] = step;
        step *= dims[i] > 1 ? dims[i] : 1;
    }
    strides[0] = step;
}

tt_status tti_wrap_dim(const char *name, int *dim, int n_dims)
{
    int range = n_dims > 0 ? n_dims : 1;

    if (*dim < -range || *dim >= range)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a dimension from %d to %d, got %d", name,
                       -range, range - 1, *dim);
    if (*dim < 0)
        *dim += range;
    return TT_OK;
}

tt_status tti_broadcast(const char *name, const int64_t *a, int na, const int64_t *b, int nb,
                        int64_t *out, int *n_out)
{
    int n = na > nb ? na : nb;

    for (int i = 0; i < n; i++) {
        int64_t da = i - (n - na) >= 0 ? a[i - (n - na)] : 1;
        int64_t db = i - (n - nb) >= 0 ? b[i - (n - nb)] : 1;

        if (da != db && da != 1 && db != 1) {
            char ta[TTI_SHAPE_TEXT], tb[TTI_SHAPE_TEXT];

            return TT_FAIL(TT_ERR_INVALID,
                           "%s: shapes %s and %s do not broadcast: dimension %d has %lld and %lld",
                           name, tti_shape_text(a, na, ta, sizeof ta),
                           tti_shape_text(b, nb, tb, sizeof tb), i, (long long)da, (long long)db);
        }
        out[i] = da == 1 ? db : da;
    }
    *n_out = n;
    return TT_OK;
}

void tti_broadcast_strides(const int64_t *dims, const int64_t *strides, int n, int n_out,
                           const int64_t *out_dims, int64_t *out_strides)
{
    for (int i = 0; i < n_out; i++) {
        int j = i - (n_out - n);

        out_strides[i] = j >= 0 && (dims[j] != 1 || out_dims[i] == 1) ? strides[j] : 0;
    }
}

/* Walk the old dimensions in runs that are contiguous with one another; each run must be cut into
 * whole new dimensions. */
bool tti_view_strides(const int64_t *dims, const int64_t *strides, int n, const int64_t *new_dims,
                      int new_n, int64_t *new_strides)
{
    int64_t total = tti_numel(dims, n);
    int view = new_n - 1;
    int64_t base, run = 1, cut = 1;

    if (total == 0 || n == 0) {
        tti_strides_contiguous(new_dims, new_n, new_strides);
        return true;
    }
    base = strides[n - 1];
    for (int i = n - 1; i >= 0; i--) {
        run *= dims[i];
        if (i > 0 && (dims[i - 1] == 1 || strides[i - 1] == run * base))
            continue;
        while (view >= 0 && (cut < run || new_dims[view] == 1)) {
            new_strides[view] = cut * base;
            cut *= new_dims[view];
            view--;
        }
        if (cut != run)
            return false;
        if (i > 0) {
            base = strides[i - 1];
            run = 1;
            cut = 1;
        }
    }
    return view == -1;
}

char *tti_shape_text(const int64_t *dims, int n_dims, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int i = 0; i < n_dims && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)dims[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

int64_t tt_shape_numel(tt_shape s)
{
    return s.n_dims < 0 || s.n_dims > TT_MAX_DIMS ? -1 : tti_numel(s.dims, s.n_dims);
}

bool tt_shape_equal(tt_shape a, tt_shape b)
{
    return a.n_dims == b.n_dims && a.n_dims >= 0 && a.n_dims <= TT_MAX_DIMS &&
           memcmp(a.dims, b.dims, (size_t)a.n_dims * sizeof a.dims[0]) == 0;
}
