/* SPDX-License-Identifier: Apache-2.0 */
/* Operands as kernels see them: sizes collapsed, strides and places packed into one argument. */
#include "ops/accel/walk.h"

#include <string.h>

#include "tensor/shape.h"

tti_compute tti_compute_of(tt_dtype dtype)
{
    static const uint8_t of[TT_N_DTYPES] = {
        [TT_F32] = TTI_IN_F32,  [TT_F64] = TTI_IN_F64, [TT_F16] = TTI_IN_F32,
        [TT_BF16] = TTI_IN_F32, [TT_I8] = TTI_IN_I64,  [TT_U8] = TTI_IN_I64,
        [TT_I16] = TTI_IN_I64,  [TT_I32] = TTI_IN_I64, [TT_I64] = TTI_IN_I64,
        [TT_BOOL] = TTI_IN_I64, [TT_C64] = TTI_IN_C64, [TT_C128] = TTI_IN_C128,
    };

    return (tti_compute)of[dtype];
}

/* Limits stand for infinities. */
static int64_t whole(double v)
{
    if (v >= 0x1p63)
        return INT64_MAX;
    return v >= -0x1p63 ? (int64_t)v : INT64_MIN;
}

uint64_t tti_compute_bits(tti_compute c, double v)
{
    float f = (float)v;
    uint64_t u = 0;

    if (c == TTI_IN_I64)
        return (uint64_t)whole(v);
    if (c == TTI_IN_F32 || c == TTI_IN_C64)
        memcpy(&u, &f, sizeof f);
    else
        memcpy(&u, &v, sizeof v);
    return u;
}

/* Dense in the result's order, or one value. */
static bool set_dense(tti_accel_walk *w, const tt_tensor *const *ts, int n)
{
    int64_t numel = ts[0]->numel;

    if (!tti_is_contiguous(ts[0]))
        return false;
    for (int i = 0; i < n; i++) {
        if (ts[i]->numel == numel && tti_is_contiguous(ts[i]))
            w->strides[i][0] = 1;
        else if (ts[i]->numel == 1)
            w->strides[i][0] = 0;
        else
            return false;
    }
    w->dims[0] = numel;
    w->n_dims = 1;
    return true;
}

/* Dimension a goes inside dimension b. */
static bool inside(const tti_accel_walk *w, int n, int a, int b)
{
    for (int i = 0; i < n; i++)
        if (w->strides[i][a] != w->strides[i][b])
            return w->strides[i][a] < w->strides[i][b];
    return false;
}

static void swap_dims(tti_accel_walk *w, int n, int a, int b)
{
    int64_t d = w->dims[a];

    w->dims[a] = w->dims[b];
    w->dims[b] = d;
    for (int i = 0; i < n; i++) {
        int64_t s = w->strides[i][a];

        w->strides[i][a] = w->strides[i][b];
        w->strides[i][b] = s;
    }
}

/* The dimension `in` followed by `out` is one long dimension for every operand. */
static bool joins(const tti_accel_walk *w, int n, int in, int out)
{
    for (int i = 0; i < n; i++)
        if (w->strides[i][out] != w->strides[i][in] * w->dims[in])
            return false;
    return true;
}

static void simplify(tti_accel_walk *w, int n)
{
    int kept = 0;

    for (int i = 1; i < w->n_dims; i++) /* few and mostly sorted */
        for (int j = i; j > 0 && inside(w, n, j, j - 1); j--)
            swap_dims(w, n, j, j - 1);
    for (int i = 1; i < w->n_dims; i++) {
        if (joins(w, n, kept, i)) {
            w->dims[kept] *= w->dims[i];
            continue;
        }
        kept++;
        if (kept != i)
            swap_dims(w, n, kept, i);
    }
    w->n_dims = kept + 1;
}

static void set_strided(tti_accel_walk *w, const tt_tensor *const *ts, int n)
{
    const tt_tensor *out = ts[0];
    int64_t wide[TT_MAX_DIMS];
    int kept = 0;

    for (int i = 0; i < n; i++) {
        const tt_tensor *t = ts[i];

        kept = 0;
        tti_broadcast_strides(t->dims, t->strides, t->n_dims, out->n_dims, out->dims, wide);
        for (int d = out->n_dims - 1; d >= 0; d--) {
            if (out->dims[d] == 1)
                continue;
            w->dims[kept] = out->dims[d];
            w->strides[i][kept++] = wide[d];
        }
    }
    w->n_dims = kept;
    if (kept > 0) {
        simplify(w, n);
        return;
    }
    w->n_dims = 1;
    w->dims[0] = 1;
    for (int i = 0; i < n; i++)
        w->strides[i][0] = 1;
}

void tti_accel_walk_set(tti_accel_walk *w, const tt_tensor *const *ts, int n)
{
    w->n = (uint64_t)ts[0]->numel;
    for (int i = 0; i < n; i++)
        w->dtypes[i] = ts[i]->dtype;
    if (!set_dense(w, ts, n))
        set_strided(w, ts, n);
}

tti_grid tti_accel_walk_grid(tt_device d, uint64_t n, uint64_t grain)
{
    (void)grain;
    return tti_grid_elements(d, n);
}
