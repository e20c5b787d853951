/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that copy, convert and fill, and the passage of 16-bit floats through float32. */
#include <string.h>

#include "ops/cpu/pointwise.h"
#include "ops/cpu/vmath.h"

typedef struct pair32 {
    float re, im;
} pair32;
typedef struct pair64 {
    double re, im;
} pair64;

/* ---- between types --------------------------------------------------------------------------- */

#define JOIN_NAME(a, b) convert_##a##_to_##b
#define LOOP_NAME(a, b) JOIN_NAME(a, b)

#define S float
#define S_NAME f32
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S double
#define S_NAME f64
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S int8_t
#define S_NAME i8
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S uint8_t
#define S_NAME u8
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S int16_t
#define S_NAME i16
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S int32_t
#define S_NAME i32
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S int64_t
#define S_NAME i64
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S uint8_t
#define S_NAME b8
#define RE(x) (x)
#define IM(x) 0
#include "ops/cpu/pointwise_copy_from.inc"

#define S pair32
#define S_NAME c64
#define RE(x) (x).re
#define IM(x) (x).im
#include "ops/cpu/pointwise_copy_from.inc"

#define S pair64
#define S_NAME c128
#define RE(x) (x).re
#define IM(x) (x).im
#include "ops/cpu/pointwise_copy_from.inc"

/* ---- 16-bit floats ---------------------------------------------------------------------------- */

static void widen(tt_dtype d, int64_t n, float *dst, const char *src, int64_t stride)
{
    if (stride == 2 && d == TT_BF16)
        tti_bf16_to_f32_n(dst, (const tti_bf16bits *)(const void *)src, (size_t)n);
    else if (stride == 2)
        tti_f16_to_f32_n(dst, (const tti_f16bits *)(const void *)src, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) {
            uint16_t h = *(const uint16_t *)(const void *)(src + i * stride);

            dst[i] = d == TT_BF16 ? tti_bf16_to_f32(h) : tti_f16_to_f32(h);
        }
}

static void narrow(tt_dtype d, int64_t n, char *dst, int64_t stride, const float *src)
{
    if (stride == 2 && d == TT_BF16)
        tti_f32_to_bf16_n((tti_bf16bits *)(void *)dst, src, (size_t)n);
    else if (stride == 2)
        tti_f32_to_f16_n((tti_f16bits *)(void *)dst, src, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++)
            *(uint16_t *)(void *)(dst + i * stride) =
                d == TT_BF16 ? tti_f32_to_bf16(src[i]) : tti_f32_to_f16(src[i]);
}

static bool is_half(uint8_t d)
{
    return d == TT_F16 || d == TT_BF16;
}

/* Blocks small enough for the first cache, in buffers on the stack. */
#define BLOCK 512

static void half_loop(const tti_work *w, int64_t n, char *const *ptrs, const int64_t *strides)
{
    float buffer[TTI_MAX_OPERANDS][BLOCK];
    char *at[TTI_MAX_OPERANDS];
    int64_t s[TTI_MAX_OPERANDS];

    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;

        for (int k = 0; k < w->n_operands; k++) {
            at[k] = ptrs[k] + i * strides[k];
            s[k] = strides[k];
            if (!is_half(w->dtypes[k]))
                continue;
            if (k > 0)
                widen((tt_dtype)w->dtypes[k], s[k] == 0 ? 1 : m, buffer[k], at[k], s[k]);
            s[k] = s[k] == 0 && k > 0 ? 0 : (int64_t)sizeof(float);
            at[k] = (char *)buffer[k];
        }
        w->loop(m, at, s, w->p);
        if (is_half(w->dtypes[0]))
            narrow((tt_dtype)w->dtypes[0], m, ptrs[0] + i * strides[0], strides[0], buffer[0]);
    }
}

/* ---- the same type: by element size ----------------------------------------------------------- */

typedef struct wide16 {
    uint64_t a, b;
} wide16;

#define E uint8_t
#define E_NAME(name) name##_1
#include "ops/cpu/pointwise_move.inc"
#define E uint16_t
#define E_NAME(name) name##_2
#include "ops/cpu/pointwise_move.inc"
#define E uint32_t
#define E_NAME(name) name##_4
#include "ops/cpu/pointwise_move.inc"
#define E uint64_t
#define E_NAME(name) name##_8
#include "ops/cpu/pointwise_move.inc"
#define E wide16
#define E_NAME(name) name##_16
#include "ops/cpu/pointwise_move.inc"

/* clang-format off */
const tti_copy_loops TTI_ISA_NAME(tti_copy_table) = {
    .copies = {
        [TT_F32] = {
            [TT_F32] = move_4,
            [TT_F64] = convert_f32_to_f64,
            [TT_I8] = convert_f32_to_i8,
            [TT_U8] = convert_f32_to_u8,
            [TT_I16] = convert_f32_to_i16,
            [TT_I32] = convert_f32_to_i32,
            [TT_I64] = convert_f32_to_i64,
            [TT_BOOL] = convert_f32_to_b8,
            [TT_C64] = convert_f32_to_c64,
            [TT_C128] = convert_f32_to_c128,
        },
        [TT_F64] = {
            [TT_F32] = convert_f64_to_f32,
            [TT_F64] = move_8,
            [TT_I8] = convert_f64_to_i8,
            [TT_U8] = convert_f64_to_u8,
            [TT_I16] = convert_f64_to_i16,
            [TT_I32] = convert_f64_to_i32,
            [TT_I64] = convert_f64_to_i64,
            [TT_BOOL] = convert_f64_to_b8,
            [TT_C64] = convert_f64_to_c64,
            [TT_C128] = convert_f64_to_c128,
        },
        [TT_I8] = {
            [TT_F32] = convert_i8_to_f32,
            [TT_F64] = convert_i8_to_f64,
            [TT_I8] = move_1,
            [TT_U8] = convert_i8_to_u8,
            [TT_I16] = convert_i8_to_i16,
            [TT_I32] = convert_i8_to_i32,
            [TT_I64] = convert_i8_to_i64,
            [TT_BOOL] = convert_i8_to_b8,
            [TT_C64] = convert_i8_to_c64,
            [TT_C128] = convert_i8_to_c128,
        },
        [TT_U8] = {
            [TT_F32] = convert_u8_to_f32,
            [TT_F64] = convert_u8_to_f64,
            [TT_I8] = convert_u8_to_i8,
            [TT_U8] = move_1,
            [TT_I16] = convert_u8_to_i16,
            [TT_I32] = convert_u8_to_i32,
            [TT_I64] = convert_u8_to_i64,
            [TT_BOOL] = convert_u8_to_b8,
            [TT_C64] = convert_u8_to_c64,
            [TT_C128] = convert_u8_to_c128,
        },
        [TT_I16] = {
            [TT_F32] = convert_i16_to_f32,
            [TT_F64] = convert_i16_to_f64,
            [TT_I8] = convert_i16_to_i8,
            [TT_U8] = convert_i16_to_u8,
            [TT_I16] = move_2,
            [TT_I32] = convert_i16_to_i32,
            [TT_I64] = convert_i16_to_i64,
            [TT_BOOL] = convert_i16_to_b8,
            [TT_C64] = convert_i16_to_c64,
            [TT_C128] = convert_i16_to_c128,
        },
        [TT_I32] = {
            [TT_F32] = convert_i32_to_f32,
            [TT_F64] = convert_i32_to_f64,
            [TT_I8] = convert_i32_to_i8,
            [TT_U8] = convert_i32_to_u8,
            [TT_I16] = convert_i32_to_i16,
            [TT_I32] = move_4,
            [TT_I64] = convert_i32_to_i64,
            [TT_BOOL] = convert_i32_to_b8,
            [TT_C64] = convert_i32_to_c64,
            [TT_C128] = convert_i32_to_c128,
        },
        [TT_I64] = {
            [TT_F32] = convert_i64_to_f32,
            [TT_F64] = convert_i64_to_f64,
            [TT_I8] = convert_i64_to_i8,
            [TT_U8] = convert_i64_to_u8,
            [TT_I16] = convert_i64_to_i16,
            [TT_I32] = convert_i64_to_i32,
            [TT_I64] = move_8,
            [TT_BOOL] = convert_i64_to_b8,
            [TT_C64] = convert_i64_to_c64,
            [TT_C128] = convert_i64_to_c128,
        },
        [TT_BOOL] = {
            [TT_F32] = convert_b8_to_f32,
            [TT_F64] = convert_b8_to_f64,
            [TT_I8] = convert_b8_to_i8,
            [TT_U8] = convert_b8_to_u8,
            [TT_I16] = convert_b8_to_i16,
            [TT_I32] = convert_b8_to_i32,
            [TT_I64] = convert_b8_to_i64,
            [TT_BOOL] = move_1,
            [TT_C64] = convert_b8_to_c64,
            [TT_C128] = convert_b8_to_c128,
        },
        [TT_C64] = {
            [TT_F32] = convert_c64_to_f32,
            [TT_F64] = convert_c64_to_f64,
            [TT_I8] = convert_c64_to_i8,
            [TT_U8] = convert_c64_to_u8,
            [TT_I16] = convert_c64_to_i16,
            [TT_I32] = convert_c64_to_i32,
            [TT_I64] = convert_c64_to_i64,
            [TT_BOOL] = convert_c64_to_b8,
            [TT_C64] = move_8,
            [TT_C128] = convert_c64_to_c128,
        },
        [TT_C128] = {
            [TT_F32] = convert_c128_to_f32,
            [TT_F64] = convert_c128_to_f64,
            [TT_I8] = convert_c128_to_i8,
            [TT_U8] = convert_c128_to_u8,
            [TT_I16] = convert_c128_to_i16,
            [TT_I32] = convert_c128_to_i32,
            [TT_I64] = convert_c128_to_i64,
            [TT_BOOL] = convert_c128_to_b8,
            [TT_C64] = convert_c128_to_c64,
            [TT_C128] = move_16,
        },
        [TT_F16] = { [TT_F16] = move_2 },
        [TT_BF16] = { [TT_BF16] = move_2 },
    },
    .half = half_loop,
    .fill = { [1] = fill_1, [2] = fill_2, [4] = fill_4, [8] = fill_8, [16] = fill_16 },
    .transpose = { [1] = transpose_1, [2] = transpose_2, [4] = transpose_4, [8] = transpose_8 },
};
/* clang-format on */
