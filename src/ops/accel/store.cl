/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers C stored as any type. Those beyond the range of an integer become what an x86 makes of them: the least
 * int32 or int64, of which smaller integers keep the last bits. */

#if defined(IS_COMPLEX)
#define RE(x) ((x).re)
#define IM(x) ((x).im)
#define NONZERO(x) ((x).re != 0 || (x).im != 0)
#else
#define RE(x) (x)
#define IM(x) 0
#define NONZERO(x) ((x) != 0)
#endif
#if defined(IS_I64)
#define TO_I32(x) ((i32)(x))
#define TO_I64(x) (x)
#else
#define TO_I32(x) \
    (RE(x) > -2147483649.0f && RE(x) < 2147483648.0f ? (i32)RE(x) : (i32)0x80000000u)
#define TO_I64(x)                                                    \
    (RE(x) >= -9223372036854775808.0f && RE(x) < 9223372036854775808.0f \
         ? (i64)RE(x)                                                \
         : (i64)0x8000000000000000ul)
#endif

typedef struct pair32 {
    f32 re, im;
} pair32;
#ifdef HAS_FP64
typedef struct pair64 {
    f64 re, im;
} pair64;
#endif

#define TO_F32(p, i, x) ((p)[i] = (f32)RE(x))
#define TO_F64(p, i, x) ((p)[i] = (f64)RE(x))
#define TO_F16(p, i, x) ((p)[i] = tti_f32_to_f16((f32)RE(x)))
#define TO_BF16(p, i, x) ((p)[i] = tti_f32_to_bf16((f32)RE(x)))
#define PUT_INT8(p, i, x) ((p)[i] = (i8)TO_I32(x))
#define PUT_UINT8(p, i, x) ((p)[i] = (u8)TO_I32(x))
#define PUT_INT16(p, i, x) ((p)[i] = (i16)TO_I32(x))
#define PUT_INT32(p, i, x) ((p)[i] = TO_I32(x))
#define PUT_INT64(p, i, x) ((p)[i] = TO_I64(x))
#define PUT_NONZERO(p, i, x) ((p)[i] = NONZERO(x))
#define TO_C64(p, i, x) (((p)[i].re = (f32)RE(x)), ((p)[i].im = (f32)IM(x)))
#define TO_C128(p, i, x) (((p)[i].re = (f64)RE(x)), ((p)[i].im = (f64)IM(x)))

FN void store_row(const C *x, GLOBAL char *p, int dtype, i64 place, i64 stride, int n)
{
    switch (dtype) {
    case DT_F32: WRITE_ROW(f32, TO_F32);
    case DT_F16: WRITE_ROW(u16, TO_F16);
    case DT_BF16: WRITE_ROW(u16, TO_BF16);
    case DT_I8: WRITE_ROW(i8, PUT_INT8);
    case DT_U8: WRITE_ROW(u8, PUT_UINT8);
    case DT_I16: WRITE_ROW(i16, PUT_INT16);
    case DT_I32: WRITE_ROW(i32, PUT_INT32);
    case DT_I64: WRITE_ROW(i64, PUT_INT64);
    case DT_BOOL: WRITE_ROW(u8, PUT_NONZERO);
    case DT_C64: WRITE_ROW(pair32, TO_C64);
#ifdef HAS_FP64
    case DT_F64: WRITE_ROW(f64, TO_F64);
    case DT_C128: WRITE_ROW(pair64, TO_C128);
#endif
    }
}
