/* SPDX-License-Identifier: Apache-2.0 */
/* Making tensors with given values. */
#include <math.h>

#include "base/error.h"
#include "ops/op.h"
#include "tensor/debug.h"

static tt_tensor *full(const char *maker, tt_tensor *t, double value)
{
    tti_made_by(t, maker);
    return tti_fill(t, value) == TT_OK ? t : NULL;
}

tt_tensor *tt_zeros(tt_shape shape, tt_dtype dtype, tt_device device)
{
    return full("zeros", tt_empty(shape, dtype, device), 0.0);
}

tt_tensor *tt_ones(tt_shape shape, tt_dtype dtype, tt_device device)
{
    return full("ones", tt_empty(shape, dtype, device), 1.0);
}

tt_tensor *tt_full(tt_shape shape, double value, tt_dtype dtype, tt_device device)
{
    return full("full", tt_empty(shape, dtype, device), value);
}

tt_tensor *tt_zeros_like(const tt_tensor *t)
{
    return full("zeros_like", tt_empty_like(t), 0.0);
}

tt_tensor *tt_ones_like(const tt_tensor *t)
{
    return full("ones_like", tt_empty_like(t), 1.0);
}

tt_tensor *tt_full_like(const tt_tensor *t, double value)
{
    return full("full_like", tt_empty_like(t), value);
}

tt_tensor *tt_new_from(const tt_tensor *like, const double *values, tt_shape shape,
                       const tt_device *device)
{
    tt_tensor *t, *host;

    if (tti_check_alive(like, "new_from") != TT_OK)
        return NULL;
    if (like == NULL || values == NULL)
        return TT_NULL_GIVEN("new_from", "a tensor and values");
    host = tt_from_data(values, shape, TT_F64);
    t = host != NULL
            ? tt_empty(shape, (tt_dtype)like->dtype, device != NULL ? *device : like->device)
            : NULL;
    return tti_copy(t, host) == TT_OK ? t : NULL;
}

tt_tensor *tt_arange(double start, double end, double step, tt_dtype dtype, tt_device device)
{
    double count = ceil((end - start) / step);
    tt_tensor *t;

    if (step == 0 || isnan(count) || isinf(count) || count >= 0x1p62)
        return TT_FAIL_NULL(TT_ERR_INVALID, "arange: no sequence from %g to %g in steps of %g",
                            start, end, step);
    if (count < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "arange: steps of %g lead away from %g to %g", step,
                            start, end);
    t = tt_empty(TT_SHAPE((int64_t)count), dtype, device);
    if (t == NULL || TTI_RUN("arange", t, pointwise, arange, t, start, step) != TT_OK)
        return NULL;
    return t;
}

/* What is left of both ends in this type: a sequence of whole numbers begins and ends with whole ones. */
static tt_status round_ends(double *start, double *end, tt_dtype dtype)
{
    const double values[2] = { *start, *end };
    tt_tensor *t;

    if (dtype == TT_F64 || tt_dtype_is_complex(dtype))
        return TT_OK;
    t = tti_cast(tti_cast(tt_from_data(values, TT_SHAPE(2), TT_F64), dtype), TT_F64);
    TT_TRY(tti_made(t));
    *start = ((double *)tti_data(t))[0];
    *end = ((double *)tti_data(t))[1];
    return TT_OK;
}

/* From both ends, so that the last element is `end` and the middle is symmetric. */
tt_tensor *tt_linspace(double start, double end, int64_t n, tt_dtype dtype, tt_device device)
{
    tt_tensor *t, *y;
    double *data, step;

    if (n < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "linspace: expected a count of 0 or more, got %lld",
                            (long long)n);
    t = tt_empty(TT_SHAPE(n), TT_F64, TT_CPU);
    if (t == NULL || round_ends(&start, &end, dtype) != TT_OK)
        return NULL;
    step = n > 1 ? (end - start) / (double)(n - 1) : 0;
    data = tti_data(t);
    for (int64_t i = 0; i < n; i++)
        data[i] = i < n / 2 || n == 1 ? start + step * (double)i : end - step * (double)(n - 1 - i);
    if (dtype == TT_F64 && tt_device_equal(device, TT_CPU))
        return t;
    y = tt_empty(TT_SHAPE(n), dtype, device);
    return tti_copy(y, t) == TT_OK ? y : NULL;
}

tt_tensor *tt_eye(int64_t n, tt_dtype dtype, tt_device device)
{
    tt_tensor *t = tt_zeros(TT_SHAPE(n, n), dtype, device);
    tt_tensor *diagonal;

    if (t == NULL)
        return NULL;
    diagonal = tti_view_raw(t, &n, (int64_t[]){ n + 1 }, 1, 0);
    return tti_fill(diagonal, 1.0) == TT_OK ? t : NULL;
}

static tt_tensor *number(double value, tt_dtype dtype)
{
    tt_tensor *t = tt_full(TT_SHAPE_SCALAR, value, dtype, TT_CPU);

    if (t != NULL)
        t->flags |= TTI_NUMBER;
    return t;
}

tt_tensor *tt_number(double value)
{
    return number(value, TT_F64);
}

tt_tensor *tt_number_int(int64_t value)
{
    tt_tensor *t = number(0, TT_I64);

    if (t != NULL)
        *(int64_t *)tti_data(t) = value;
    return t;
}

tt_tensor *tt_number_bool(bool value)
{
    return number(value, TT_BOOL);
}
