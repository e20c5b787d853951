/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: names, sizes, and which type holds the values of two. */
#include "tensor/tensor.h"

static const char *const names[TT_N_DTYPES] = {
    [TT_F32] = "float32", [TT_F64] = "float64", [TT_F16] = "float16",   [TT_BF16] = "bfloat16",
    [TT_I8] = "int8",     [TT_U8] = "uint8",    [TT_I16] = "int16",     [TT_I32] = "int32",
    [TT_I64] = "int64",   [TT_BOOL] = "bool",   [TT_C64] = "complex64", [TT_C128] = "complex128",
};

const uint8_t tti_dtype_sizes[TT_N_DTYPES] = {
    [TT_F32] = 4, [TT_F64] = 8, [TT_F16] = 2, [TT_BF16] = 2, [TT_I8] = 1,  [TT_U8] = 1,
    [TT_I16] = 2, [TT_I32] = 4, [TT_I64] = 8, [TT_BOOL] = 1, [TT_C64] = 8, [TT_C128] = 16,
};

static bool valid(tt_dtype d)
{
    return (unsigned)d < TT_N_DTYPES;
}

const char *tt_dtype_name(tt_dtype d)
{
    return valid(d) ? names[d] : "unknown";
}

size_t tt_dtype_size(tt_dtype d)
{
    return valid(d) ? tti_dtype_sizes[d] : 0;
}

bool tt_dtype_is_floating(tt_dtype d)
{
    return d == TT_F32 || d == TT_F64 || d == TT_F16 || d == TT_BF16;
}

bool tt_dtype_is_complex(tt_dtype d)
{
    return d == TT_C64 || d == TT_C128;
}

bool tt_dtype_is_integral(tt_dtype d)
{
    return d >= TT_I8 && d <= TT_I64;
}

/* Signed integers in order of width; uint8 joins at int16. */
static tt_dtype promote_integers(tt_dtype a, tt_dtype b)
{
    if (a == b)
        return a;
    if (a == TT_U8 || b == TT_U8) {
        tt_dtype other = a == TT_U8 ? b : a;

        return other == TT_I8 ? TT_I16 : other;
    }
    return a > b ? a : b;
}

static tt_dtype promote_floats(tt_dtype a, tt_dtype b)
{
    if (a == b)
        return a;
    if (a == TT_F64 || b == TT_F64)
        return TT_F64;
    return TT_F32; /* float32 with a half type, or the two half types */
}

tt_dtype tt_promote_types(tt_dtype a, tt_dtype b)
{
    bool fa = tt_dtype_is_floating(a), fb = tt_dtype_is_floating(b);

    if (a == b)
        return a;
    if (tt_dtype_is_complex(a) || tt_dtype_is_complex(b))
        return a == TT_C128 || b == TT_C128 || a == TT_F64 || b == TT_F64 ? TT_C128 : TT_C64;
    if (fa && fb)
        return promote_floats(a, b);
    if (fa || fb)
        return fa ? a : b;
    if (a == TT_BOOL || b == TT_BOOL)
        return a == TT_BOOL ? b : a;
    return promote_integers(a, b);
}
