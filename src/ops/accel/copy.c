/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, fills and ranges. Dense copies of one type are the driver's; the rest is one kernel per type of numbers
 * the source is read as. Elements that keep their type move as integers of their size. */
#include "ops/accel/copy.h"

#include <string.h>

#include "ops/accel/walk.h"
#include "ops/cpu/pointwise.h"

extern const char tti_source_copy[];
static const tti_program program = { "copy", { tti_source_copy } };

enum { MODE_COPY, MODE_FILL, MODE_RANGE }; /* as in copy.cl */

static tt_status launch(tti_accel_walk *w, tti_compute c, const tt_tensor *dst,
                        const tt_tensor *src)
{
    static tti_kernel_slot slots[TTI_N_COMPUTE];
    static const char *const options[TTI_N_COMPUTE] = { "-DIS_F32", "-DIS_F64", "-DIS_I64",
                                                        "-DIS_C64", "-DIS_C128" };
    tt_device d = dst->device;
    tti_kernel *k = tti_kernel_get(&slots[c], d, &program, options[c], "copy");
    tti_arg args[] = { TTI_MEM(tti_data(dst)), TTI_MEM(src != NULL ? tti_data(src) : NULL),
                       TTI_VAL(*w) };

    if (tt_unlikely(k == NULL))
        return tt_last_status();
    return tti_launch(d, k, tti_accel_walk_grid(d, w->n, TTI_GRAIN), args, 3);
}

/* An integer type of the size of the elements: nothing looks at what they mean. 16 bytes are two elements. */
static void as_integers(tti_accel_walk *w, size_t size, int n)
{
    int32_t type = size == 1 ? TT_I8 : size == 2 ? TT_I16 : size == 4 ? TT_I32 : TT_I64;

    for (int i = 0; i < n; i++)
        w->dtypes[i] = type;
    if (size != 16)
        return;
    w->n *= 2;
    for (int d = w->n_dims; d > 0; d--) {
        w->dims[d] = w->dims[d - 1];
        for (int i = 0; i < n; i++)
            w->strides[i][d] = 2 * w->strides[i][d - 1];
    }
    w->n_dims++;
    w->dims[0] = 2;
    for (int i = 0; i < n; i++)
        w->strides[i][0] = 1;
}

static bool is_dense(const tti_accel_walk *w, int n)
{
    for (int i = 0; i < n; i++)
        if (w->strides[i][0] != 1)
            return false;
    return w->n_dims == 1;
}

tt_status tti_accel_copy(tt_tensor *dst, const tt_tensor *src)
{
    const tt_tensor *ts[] = { dst, src };
    tti_accel_walk w;

    if (dst->numel == 0)
        return TT_OK;
    tti_accel_walk_set(&w, ts, 2);
    w.op = MODE_COPY;
    if (dst->dtype != src->dtype) {
        TT_TRY(tti_accel_check_type("copy", src));
        TT_TRY(tti_accel_check_type("copy", dst));
        return launch(&w, tti_compute_of((tt_dtype)src->dtype), dst, src);
    }
    if (is_dense(&w, 2)) {
        if (tti_data(dst) == tti_data(src))
            return TT_OK;
        return tti_driver_of(dst->device)
            ->copy(dst->device.index, tti_data(dst), tti_data(src), tt_tensor_bytes(dst));
    }
    as_integers(&w, tti_esize(dst), 2);
    return launch(&w, TTI_IN_I64, dst, src);
}

tt_status tti_accel_fill(tt_tensor *x, double re, double im)
{
    const tt_tensor *ts[] = { x };
    uint64_t bytes[2] = { 0, 0 };
    tti_accel_walk w;

    if (x->numel == 0)
        return TT_OK;
    tti_element_bytes((tt_dtype)x->dtype, re, im, bytes);
    tti_accel_walk_set(&w, ts, 1);
    as_integers(&w, tti_esize(x), 1);
    w.op = MODE_FILL;
    memcpy(w.q, bytes, sizeof bytes);
    w.q[2] = tti_esize(x) == 16;
    return launch(&w, TTI_IN_I64, x, NULL);
}

tt_status tti_accel_arange(tt_tensor *x, double start, double step)
{
    const tt_tensor *ts[] = { x };
    bool integer = x->dtype >= TT_I8 && x->dtype <= TT_I64;
    tti_compute c = integer ? TTI_IN_I64 : tti_device_has_fp64(x->device) ? TTI_IN_F64 : TTI_IN_F32;
    tti_accel_walk w;

    if (x->numel == 0)
        return TT_OK;
    TT_TRY(tti_accel_check_type("arange", x));
    tti_accel_walk_set(&w, ts, 1);
    w.op = MODE_RANGE;
    w.q[0] = tti_compute_bits(c, start);
    w.q[1] = tti_compute_bits(c, step);
    return launch(&w, c, x, NULL);
}
