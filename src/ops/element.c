/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements in host memory. */
#include "ops/element.h"

#include "ops/cpu/vmath_half.h"
#include "tutti/sparse.h"

#define LOAD(type) ((const type *)p)[i]

static tti_element whole(int64_t n)
{
    return (tti_element){ .re = (double)n, .whole = n };
}

static tti_element real(double re, double im)
{
    return (tti_element){ .re = re, .im = im };
}

tti_element tti_element_at(const tt_tensor *t, int64_t i)
{
    const void *p = tti_data(t);

    switch ((tt_dtype)t->dtype) {
    case TT_F32:
        return real(LOAD(float), 0);
    case TT_F64:
        return real(LOAD(double), 0);
    case TT_F16:
        return real(tti_f16_to_f32(LOAD(tti_f16bits)), 0);
    case TT_BF16:
        return real(tti_bf16_to_f32(LOAD(tti_bf16bits)), 0);
    case TT_I8:
        return whole(LOAD(int8_t));
    case TT_U8:
        return whole(LOAD(uint8_t));
    case TT_I16:
        return whole(LOAD(int16_t));
    case TT_I32:
        return whole(LOAD(int32_t));
    case TT_I64:
        return whole(LOAD(int64_t));
    case TT_BOOL:
        return whole(LOAD(uint8_t) != 0);
    case TT_C64:
        return real(((const float *)p)[2 * i], ((const float *)p)[2 * i + 1]);
    case TT_C128:
        return real(((const double *)p)[2 * i], ((const double *)p)[2 * i + 1]);
    }
    return real(0, 0);
}

tt_tensor *tti_host_copy(const tt_tensor *t)
{
    tt_tensor *host;

    if (t->storage == NULL) {
        TT_NO_GRAD
        {
            t = tt_to_dense((tt_tensor *)(uintptr_t)t);
        }
        if (t == NULL)
            return NULL;
    }
    if (t->device.kind == TT_DEVICE_CPU && tti_is_contiguous(t))
        return (tt_tensor *)(uintptr_t)t;
    host = tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, TT_CPU);
    return tti_copy(host, t) == TT_OK ? host : NULL;
}
