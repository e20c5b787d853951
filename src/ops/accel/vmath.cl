/* SPDX-License-Identifier: Apache-2.0 */
/* The mathematics of the CPU's kernels (ops/cpu/vmath.h: tti_vexpf, tti_vgeluf, tti_vtanhd ...) in the dialect
 * of kernels. Products and sums may become one operation here, as they may on the CPU, unless VMATH_EXACT. */
#define TTI_KERNEL_TEXT
#define uint8_t u8
#define uint16_t u16
#define int32_t i32
#define uint32_t u32
#define int64_t i64
#define uint64_t u64
#define tti_vbits(x) F2U(x)
#define tti_vfloat(u) U2F(u)
#define tti_vbitsd(x) D2U(x)
#define tti_vdouble(u) U2D(u)
#define fabsf fabs
#define copysignf copysign
#define truncf trunc
#define sqrtf sqrt
#ifndef HAS_FP64
#define TTI_VMATH_NO_DOUBLE
#endif

#if defined(__OPENCL_VERSION__) && !defined(VMATH_EXACT)
#pragma OPENCL FP_CONTRACT ON
#endif
#include "ops/cpu/vmath.h"
#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#endif

/* Straight-line code, which vectorises, with the CPU's bits for NaN. */
#define READ_F16(p, i) tti_f16_to_f32((p)[i])
#define WRITE_F16(p, i, x) ((p)[i] = tti_f32_to_f16(x))
