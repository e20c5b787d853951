/* SPDX-License-Identifier: Apache-2.0 */
/* The table of folds for one instruction set: each fold of each type from reduce_fold.inc. */
#include "ops/cpu/reduce_fold.h"

#include <complex.h>
#undef I /* complex.h */

#include "ops/cpu/vmath.h"

#define BLOCK 2048      /* elements of a row between moves to the accumulator */
#define COLUMN_BLOCK 64 /* the same for rows of columns */
#define GATHER 1024     /* elements brought together at a time */
#define WIDE_ROWS 16    /* rows of 16-bit elements widened at a time */

/* The larger of two where NaN wins, and the smaller. */
#define FOLD_LARGER(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define FOLD_SMALLER(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))

#define FOLD_TYPE f32
#define T float
#define REAL float
#define LOAD(v) (v)
#define ABS fabsf
#define EXP tti_vexpf
#define POW tti_vpowf
#include "ops/cpu/reduce_fold_float.inc"

#define FOLD_TYPE f64
#define T double
#define REAL double
#define LOAD(v) (v)
#define ABS fabs
#define EXP tti_vexpd
#define POW tti_vpowd
#include "ops/cpu/reduce_fold_float.inc"

#define FOLD_TYPE i8
#define T int8_t
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#include "ops/cpu/reduce_fold_int.inc"

#define FOLD_TYPE u8
#define T uint8_t
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "ops/cpu/reduce_fold_int.inc"

#define FOLD_TYPE i16
#define T int16_t
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#include "ops/cpu/reduce_fold_int.inc"

#define FOLD_TYPE i32
#define T int32_t
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "ops/cpu/reduce_fold_int.inc"

#define FOLD_TYPE i64
#define T int64_t
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "ops/cpu/reduce_fold_int.inc"

/* Sums and products of int64 wrap around, which only unsigned arithmetic may. */
#define FOLD_TYPE i64
#define T uint64_t
#define C uint64_t
#define ACC uint64_t
#define FOLD_NAME sum
#define MAP(v, p, e) (v)
#define JOIN(a, b) ((a) + (b))
#define INIT 0
#include "ops/cpu/reduce_fold.inc"
#define FOLD_NAME prod
#define MAP(v, p, e) (v)
#define JOIN(a, b) ((a) * (b))
#define INIT 1
#include "ops/cpu/reduce_fold.inc"
#undef FOLD_TYPE
#undef T
#undef C
#undef ACC

#define FOLD_TYPE c64
#define T float complex
#include "ops/cpu/reduce_fold_complex.inc"

#define FOLD_TYPE c128
#define T double complex
#include "ops/cpu/reduce_fold_complex.inc"

#define FLOATS(name) [TT_F32] = fold_##name##_f32, [TT_F64] = fold_##name##_f64
#define INTS(name)                                                                        \
    [TT_I8] = fold_##name##_i8, [TT_U8] = fold_##name##_u8, [TT_I16] = fold_##name##_i16, \
    [TT_I32] = fold_##name##_i32, [TT_I64] = fold_##name##_i64, [TT_BOOL] = fold_##name##_u8
#define COMPLEX(name) [TT_C64] = fold_##name##_c64, [TT_C128] = fold_##name##_c128

const tti_fold_table TTI_ISA_NAME(tti_folds) = {
    [TTI_FOLD_SUM] = { FLOATS(sum), COMPLEX(sum), [TT_I64] = fold_sum_i64 },
    [TTI_FOLD_SUM_ABS] = { FLOATS(sum_abs), COMPLEX(sum_abs) },
    [TTI_FOLD_SUM_SQ] = { FLOATS(sum_sq), COMPLEX(sum_sq) },
    [TTI_FOLD_COUNT] = { FLOATS(count), COMPLEX(count) },
    [TTI_FOLD_POW] = { FLOATS(pow), COMPLEX(pow) },
    [TTI_FOLD_SQ_DEV] = { FLOATS(sq_dev) },
    [TTI_FOLD_EXP] = { FLOATS(exp) },
    [TTI_FOLD_PROD] = { FLOATS(prod), COMPLEX(prod), [TT_I64] = fold_prod_i64 },
    [TTI_FOLD_MAX] = { FLOATS(max), INTS(max) },
    [TTI_FOLD_MIN] = { FLOATS(min), INTS(min) },
    [TTI_FOLD_MAX_ABS] = { FLOATS(max_abs), COMPLEX(max_abs) },
    [TTI_FOLD_MIN_ABS] = { FLOATS(min_abs), COMPLEX(min_abs) },
    [TTI_FOLD_ALL] = { FLOATS(all), INTS(all), COMPLEX(all) },
    [TTI_FOLD_ANY] = { FLOATS(any), INTS(any), COMPLEX(any) },
};

/* ---- 16-bit types: brought together as float32, then folded as such ----------------------- */

static void widen(float *to, const uint16_t *from, int64_t n, int64_t stride, bool bf16)
{
    uint16_t near[GATHER];

    if (stride != 1) {
        for (int64_t i = 0; i < n; i++)
            near[i] = from[i * stride];
        from = near;
    }
    if (bf16)
        tti_bf16_to_f32_n(to, from, (size_t)n);
    else
        tti_f16_to_f32_n(to, from, (size_t)n);
}

void TTI_ISA_NAME(tti_fold_half)(const tti_fold_args *a, tti_fold_fn fn, bool bf16)
{
    float wide[WIDE_ROWS * GATHER];
    const uint16_t *x = a->x;
    tti_fold_args b = *a;
    bool columns = a->stride != 1 && a->out_stride == 1 && a->n_out > 1;

    b.x = wide;
    for (int64_t i = 0; columns && i < a->n; i += WIDE_ROWS) {
        b.n = a->n - i < WIDE_ROWS ? a->n - i : WIDE_ROWS;
        b.stride = GATHER;
        for (int64_t r = 0; r < b.n; r++)
            widen(wide + r * GATHER, x + (i + r) * a->stride, a->n_out, 1, bf16);
        fn(&b);
    }
    if (columns)
        return;
    b.n_out = b.stride = 1;
    for (int64_t o = 0; o < a->n_out; o++) {
        b.acc = (double *)a->acc + o; /* every accumulator of a real type has this size */
        b.param = a->param != NULL ? a->param + o : NULL;
        for (int64_t i = 0; i < a->n; i += GATHER) {
            b.n = a->n - i < GATHER ? a->n - i : GATHER;
            widen(wide, x + o * a->out_stride + i * a->stride, b.n, a->stride, bf16);
            fn(&b);
        }
    }
}
