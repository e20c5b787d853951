/* SPDX-License-Identifier: Apache-2.0 */
/* Which reductions there are, and the plain version of each. */
#include "coll/reduce.h"

#include <assert.h>

#include "base/half.h"

const char *tti_reduce_name(tt_reduce_op op)
{
    static const char *const names[TTI_N_REDUCE_OPS] = { "sum", "avg",  "product",
                                                         "min", "max",  "band",
                                                         "bor", "bxor", "premul_sum" };

    return (unsigned)op < TTI_N_REDUCE_OPS ? names[op] : "unknown";
}

static tt_dtype real_of(tt_dtype d)
{
    return d == TT_C64 ? TT_F32 : d == TT_C128 ? TT_F64 : d;
}

size_t tti_fold_count(tt_dtype dtype, size_t bytes)
{
    return bytes / tt_dtype_size(real_of(dtype));
}

tti_reduce_fn tti_reduce_pick(tt_dtype dtype, tt_reduce_op op)
{
    bool complex = dtype == TT_C64 || dtype == TT_C128;

    if ((unsigned)op >= TTI_N_REDUCE_OPS || (unsigned)dtype >= TT_N_DTYPES)
        return NULL;
    if (complex && op != TT_REDUCE_SUM && op != TT_REDUCE_AVG && op != TT_REDUCE_PREMUL_SUM)
        return NULL;
    return TTI_ISA_PICK(tti_reduce_table)->fn[real_of(dtype)][op];
}

/* ---- plain ------------------------------------------------------------------------------- */

static double load_real(tt_dtype d, const void *p, size_t i)
{
    switch (d) {
    case TT_F64:
        return ((const double *)p)[i];
    case TT_F16:
        return tti_f16_to_f32(((const uint16_t *)p)[i]);
    case TT_BF16:
        return tti_bf16_to_f32(((const uint16_t *)p)[i]);
    default:
        return ((const float *)p)[i];
    }
}

static void store_real(tt_dtype d, void *p, size_t i, double x)
{
    switch (d) {
    case TT_F64:
        ((double *)p)[i] = x;
        break;
    case TT_F16:
        ((uint16_t *)p)[i] = tti_f32_to_f16((float)x);
        break;
    case TT_BF16:
        ((uint16_t *)p)[i] = tti_f32_to_bf16((float)x);
        break;
    default:
        ((float *)p)[i] = (float)x;
    }
}

/* Single precision unless the type is double: every step rounds as the type says. */
static double round_to(tt_dtype d, double x)
{
    return d == TT_F64 ? x : (double)(float)x;
}

static double real_step(tt_reduce_op op, double a, double x)
{
    switch (op) {
    case TT_REDUCE_PRODUCT:
        return a * x;
    case TT_REDUCE_MIN:
        return x < a || x != x ? x : a;
    case TT_REDUCE_MAX:
        return x > a || x != x ? x : a;
    default:
        return a + x;
    }
}

static void plain_real(tt_dtype d, tt_reduce_op op, void *out, const void *const *ins, int k,
                       size_t i, const double *factors)
{
    double a = 0;

    for (int r = 0; r < k; r++) {
        double x = load_real(d, ins[r], i);

        if (op == TT_REDUCE_PREMUL_SUM)
            x = round_to(d, x * round_to(d, factors[r]));
        a = r == 0 ? x : round_to(d, real_step(op, a, x));
    }
    if (op == TT_REDUCE_AVG)
        a = round_to(d, a / k);
    store_real(d, out, i, a);
}

static int64_t load_int(tt_dtype d, const void *p, size_t i)
{
    switch (d) {
    case TT_I8:
        return ((const int8_t *)p)[i];
    case TT_U8:
        return ((const uint8_t *)p)[i];
    case TT_I16:
        return ((const int16_t *)p)[i];
    case TT_I32:
        return ((const int32_t *)p)[i];
    case TT_BOOL:
        return ((const uint8_t *)p)[i] != 0;
    default:
        return ((const int64_t *)p)[i];
    }
}

static void store_int(tt_dtype d, void *p, size_t i, int64_t x)
{
    switch (d) {
    case TT_I8:
        ((int8_t *)p)[i] = (int8_t)x;
        break;
    case TT_U8:
        ((uint8_t *)p)[i] = (uint8_t)x;
        break;
    case TT_I16:
        ((int16_t *)p)[i] = (int16_t)x;
        break;
    case TT_I32:
        ((int32_t *)p)[i] = (int32_t)x;
        break;
    case TT_BOOL:
        ((uint8_t *)p)[i] = x != 0;
        break;
    default:
        ((int64_t *)p)[i] = x;
    }
}

static int64_t int_step(tt_reduce_op op, int64_t a, int64_t x)
{
    switch (op) {
    case TT_REDUCE_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)x);
    case TT_REDUCE_MIN:
        return x < a ? x : a;
    case TT_REDUCE_MAX:
        return x > a ? x : a;
    case TT_REDUCE_BAND:
        return a & x;
    case TT_REDUCE_BOR:
        return a | x;
    case TT_REDUCE_BXOR:
        return a ^ x;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)x);
    }
}

static void plain_int(tt_dtype d, tt_reduce_op op, void *out, const void *const *ins, int k,
                      size_t i)
{
    int64_t a = load_int(d, ins[0], i);

    for (int r = 1; r < k; r++)
        a = int_step(op, a, load_int(d, ins[r], i));
    store_int(d, out, i, op == TT_REDUCE_AVG ? a / k : a);
}

void tti_reduce_plain(tt_dtype dtype, tt_reduce_op op, void *out, const void *const *ins, int k,
                      size_t count, const double *factors)
{
    tt_dtype d = real_of(dtype);

    assert(k >= 1);
    for (size_t i = 0; i < count; i++)
        if (d == TT_F32 || d == TT_F64 || d == TT_F16 || d == TT_BF16)
            plain_real(d, op, out, ins, k, i, factors);
        else
            plain_int(d, op, out, ins, k, i);
}
