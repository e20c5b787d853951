/* SPDX-License-Identifier: Apache-2.0 */
/* Type promotion of operands, and conversions that operators make on the way. */
#include "ops/op.h"

#include <string.h>

static int category(tt_dtype d)
{
    if (tt_dtype_is_complex(d))
        return 3;
    if (tt_dtype_is_floating(d))
        return 2;
    return d == TT_BOOL ? 0 : 1;
}

/* How strongly an operand takes part: 0 a bare number, 1 a 0-d tensor, 2 any other. */
static int rank_of(const tt_tensor *t)
{
    if ((t->flags & TTI_NUMBER) != 0)
        return 0;
    return t->n_dims == 0 ? 1 : 2;
}

/* A number takes the default type of its category, not the one it happens to be stored in. */
static tt_dtype type_of(const tt_tensor *t)
{
    tt_dtype d = (tt_dtype)t->dtype;

    if ((t->flags & TTI_NUMBER) == 0)
        return d;
    if (tt_dtype_is_complex(d))
        return TT_C64;
    return tt_dtype_is_floating(d) ? TT_F32 : d;
}

tt_dtype tti_result_type(const tt_tensor *a, const tt_tensor *b)
{
    tt_dtype da = type_of(a), db = type_of(b);
    int ra, rb, ca, cb;

    if (tt_likely(da == db))
        return da;
    ra = rank_of(a);
    rb = rank_of(b);
    ca = category(da);
    cb = category(db);
    if (ra > rb && ca >= cb)
        return da;
    if (rb > ra && cb >= ca)
        return db;
    /* A weaker operand of a higher category decides the category, the stronger one the width. */
    if (ca == 3 && cb == 2 && ra < rb)
        return db == TT_F64 ? TT_C128 : TT_C64;
    if (cb == 3 && ca == 2 && rb < ra)
        return da == TT_F64 ? TT_C128 : TT_C64;
    return tt_promote_types(da, db);
}

tt_dtype tti_float_type(tt_dtype d)
{
    return tt_dtype_is_floating(d) || tt_dtype_is_complex(d) ? d : TT_F32;
}

tt_tensor *tti_cast(tt_tensor *x, tt_dtype dtype)
{
    tt_tensor *y;

    if (x == NULL || x->dtype == (uint8_t)dtype)
        return x;
    y = tti_empty_like(x, dtype);
    return y != NULL && tti_copy(y, x) == TT_OK ? y : NULL;
}

tt_tensor *tti_contiguous(tt_tensor *x)
{
    tt_tensor *y;

    if (x == NULL || tti_is_contiguous(x))
        return x;
    y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    return y != NULL && tti_copy(y, x) == TT_OK ? y : NULL;
}

tt_tensor *tti_empty_broadcast(const char *name, const tt_tensor *a, const tt_tensor *b,
                               tt_dtype dtype)
{
    int64_t dims[TT_MAX_DIMS];
    int n;
    tt_device device = a->n_dims == 0 && a->device.kind == TT_DEVICE_CPU ? b->device : a->device;

    if (tt_likely(tti_same_shape(a, b)))
        return tti_is_contiguous(a) || !tti_is_contiguous(b) ? tti_empty_like(a, dtype)
                                                             : tti_empty_like(b, dtype);
    if (tti_broadcast(name, a->dims, a->n_dims, b->dims, b->n_dims, dims, &n) != TT_OK)
        return NULL;
    if (n == a->n_dims && memcmp(dims, a->dims, (size_t)n * sizeof *dims) == 0)
        return tti_empty_like(a, dtype);
    if (n == b->n_dims && memcmp(dims, b->dims, (size_t)n * sizeof *dims) == 0)
        return tti_empty_like(b, dtype);
    return tti_empty(dims, n, dtype, device);
}

tt_status tti_check_floating(const char *name, const tt_tensor *x, bool complex_too)
{
    tt_dtype d = (tt_dtype)x->dtype;

    if (tt_dtype_is_floating(d) || (complex_too && tt_dtype_is_complex(d)))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected a floating%s tensor, got %s", name,
                   complex_too ? " or complex" : "", tt_dtype_name(d));
}

tt_status tti_check_number(const char *name, const tt_tensor *x, bool complex_too)
{
    if (!tt_dtype_is_integral((tt_dtype)x->dtype))
        return tti_check_floating(name, x, complex_too);
    return x->device.kind == TT_DEVICE_CPU ? TT_OK : tti_no_kernel(name, x);
}

tt_status tti_check_index(const char *name, const tt_tensor *x)
{
    if (x->dtype == TT_I64 || x->dtype == TT_I32)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected indices of type int64 or int32, got %s", name,
                   tt_dtype_name((tt_dtype)x->dtype));
}
