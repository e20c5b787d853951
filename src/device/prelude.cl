/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of kernels: what OpenCL C 1.2 and CUDA C both have, through these macros.
 *
 * A kernel:
 *
 *     KERNEL void scale(MEM(T, y), MEM(const T, x), float s, u64 n)
 *     {
 *         OPEN(T, y);
 *         OPEN(const T, x);
 *         FOR_EACH(i, n)
 *             y[i] = x[i] * s;
 *     }
 *
 * Rules: helper functions are FN and name the address space of every pointer (GLOBAL or LPTR); SHARED arrays
 * have fixed sizes and stand at the outermost level of a kernel; arguments are fixed-width integers, float,
 * double or structs of those; float16 and bfloat16 are stored as u16 and read with LDH/LDB; no vector
 * literals; no names that are keywords in OpenCL C or C++; no templates: one text is built once per element
 * type, with -DIS_F32 and the like, which give T (as stored), A (in which it is computed: float for 16-bit
 * floats), LD(p, i) and ST(p, i, x) between them; for complex types T, R (its real type) and members re, im.
 * Devices that are CPUs run groups of one work-item (WG is 1) and get contiguous chunks.
 *
 * tests/kernels compiles every text as CUDA, to PTX; none has run on such a device so far. */
#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#ifdef HAS_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

typedef uchar u8;
typedef char i8;
typedef ushort u16;
typedef short i16;
typedef uint u32;
typedef int i32;
typedef ulong u64;
typedef long i64;
typedef float f32;
#ifdef HAS_FP64
typedef double f64;
#endif

#define KERNEL __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
#define FN static inline
#define GLOBAL __global
#define LPTR __local
#define SHARED __local
#define RESTRICT restrict
#define GID get_global_id(0)
#define LID get_local_id(0)
#define GRP get_group_id(0)
#define NGRP get_num_groups(0)
#define GSZ get_global_size(0)
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define MULHI(a, b) ((u32)(((u64)(u32)(a) * (u32)(b)) >> 32)) /* vectorises, unlike mul_hi */
#define MULHI64(a, b) mul_hi((u64)(a), (u64)(b))
#define F2U(x) as_uint(x)
#define U2F(x) as_float(x)
#define D2U(x) as_ulong(x)
#define U2D(x) as_double(x)
#define LDH(p, i) vload_half((i), (const __global half *)(p))
#define STH(p, i, x) vstore_half_rte((x), (i), (__global half *)(p))
#define CAS_U32(p, old, new) atomic_cmpxchg((volatile __global u32 *)(p), (u32)(old), (u32)(new))
#define CAS_U64(p, old, new) atom_cmpxchg((volatile __global u64 *)(p), (u64)(old), (u64)(new))

#elif defined(__CUDACC__) /* for NVRTC; its -fmad=false is FP_CONTRACT OFF */
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;

#define inline __device__ inline /* texts that are shared with the CPU say `static inline` */
#define KERNEL extern "C" __global__ __launch_bounds__(WG)
#define FN static inline
#define GLOBAL
#define LPTR
#define SHARED __shared__
#define RESTRICT __restrict__
#define GID ((u64)blockIdx.x * WG + threadIdx.x)
#define LID ((u64)threadIdx.x)
#define GRP ((u64)blockIdx.x)
#define NGRP ((u64)gridDim.x)
#define GSZ ((u64)gridDim.x * WG)
#define BARRIER __syncthreads()
#define MULHI(a, b) __umulhi((u32)(a), (u32)(b))
#define MULHI64(a, b) __umul64hi((u64)(a), (u64)(b))
#define F2U(x) __float_as_uint(x)
#define U2F(x) __uint_as_float(x)
#define D2U(x) ((u64)__double_as_longlong(x))
#define U2D(x) __longlong_as_double((i64)(x))
#ifndef INFINITY
#define INFINITY U2F(0x7f800000u)
#define NAN U2F(0x7fc00000u)
#endif
#define FP_FAST_FMAF

FN f32 f16_to_f32(u16 h)
{
    f32 x;

    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

FN u16 f32_to_f16(f32 x)
{
    u16 h;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); /* to nearest even */
    return h;
}

#define LDH(p, i) f16_to_f32((p)[i])
#define STH(p, i, x) ((p)[i] = f32_to_f16(x))
#define CAS_U32(p, old, new) atomicCAS((u32 *)(p), (u32)(old), (u32)(new))
#define CAS_U64(p, old, new) atomicCAS((u64 *)(p), (u64)(old), (u64)(new))
#endif

/* A memory argument: a buffer and where in it; or an address where the device computes in the host's memory, which
 * drivers queue in half the time. */
#ifdef HOST_ADDRESSES
#define MEM(T, name) u64 name##_at
#define OPEN(T, name) GLOBAL T *name = (GLOBAL T *)name##_at
#define IS_NULL(name) (name##_at == 0)
#else
#define MEM(T, name) GLOBAL T *name##_base, u64 name##_at
#define OPEN(T, name) GLOBAL T *name = (GLOBAL T *)((GLOBAL const char *)name##_base + name##_at)
#define IS_NULL(name) (name##_base == 0)
#endif

/* FOR_EACH(i, n): every i in [0, n) once over all work-items. On a CPU each item has one contiguous chunk,
 * which compilers turn into vector code; elsewhere neighbours take neighbouring elements. */
#ifdef CPU_DEVICE
#define FOR_EACH(i, n)                                                                \
    for (u64 i##_n = (n), i##_step = (i##_n + GSZ - 1) / GSZ, i##_lo = GID * i##_step, \
             i##_hi = i##_lo + i##_step < i##_n ? i##_lo + i##_step : i##_n, i = i##_lo; \
         i < i##_hi; i++)
#else
#define FOR_EACH(i, n) for (u64 i = GID, i##_n = (n), i##_step = GSZ; i < i##_n; i += i##_step)
#endif

/* FOR_ROWS(r, n): every row by one group; inside, FOR_LANES(j, width) divides a row among the items of the group. */
#ifdef CPU_DEVICE
#define FOR_ROWS(r, n)                                                                  \
    for (u64 r##_n = (n), r##_step = (r##_n + NGRP - 1) / NGRP, r##_lo = GRP * r##_step, \
             r##_hi = r##_lo + r##_step < r##_n ? r##_lo + r##_step : r##_n, r = r##_lo; \
         r < r##_hi; r++)
#define FOR_LANES(j, width) for (u64 j = 0; j < (u64)(width); j++)
#else
#define FOR_ROWS(r, n) for (u64 r = GRP; r < (u64)(n); r += NGRP)
#define FOR_LANES(j, width) for (u64 j = LID; j < (u64)(width); j += WG)
#endif

/* bfloat16: the upper half of a float32, rounded to nearest even. */
FN f32 bf16_to_f32(u16 h)
{
    return U2F((u32)h << 16);
}

FN u16 f32_to_bf16(f32 x)
{
    u32 u = F2U(x);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (u16)((u >> 16) | 0x40u);
    return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

#define LDB(p, i) bf16_to_f32((p)[i])
#define STB(p, i, x) ((p)[i] = f32_to_bf16(x))

/* The first trouble is kept: see device/launch.h. */
FN void trouble_set(GLOBAL i64 *record, i64 op, i64 value, i64 size, i64 position)
{
    if (CAS_U32(record, 0, (u32)op) == 0) {
        record[1] = value;
        record[2] = size;
        record[3] = position;
    }
}
#define TROUBLE(record, op, value, size, position) \
    trouble_set((record), (op), (i64)(value), (i64)(size), (i64)(position))

/* Philox 4x32-10, as in base/philox.h. */
typedef struct philox4 {
    u32 w0, w1, w2, w3;
} philox4;

FN philox4 philox(u64 key, u64 counter_lo, u64 counter_hi)
{
    u32 c0 = (u32)counter_lo, c1 = (u32)(counter_lo >> 32);
    u32 c2 = (u32)counter_hi, c3 = (u32)(counter_hi >> 32);
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    philox4 r;

#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 h0 = MULHI(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        u32 h1 = MULHI(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;

        c0 = h1 ^ c1 ^ k0;
        c2 = h0 ^ c3 ^ k1;
        c1 = l1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    r.w0 = c0;
    r.w1 = c1;
    r.w2 = c2;
    r.w3 = c3;
    return r;
}

/* ---- the element type a text is built for ------------------------------------------------------- */

#if defined(IS_F32)
#define T f32
#define IS_REAL
#elif defined(IS_F64)
#define T f64
#define IS_REAL
#elif defined(IS_F16)
#define T u16
#define A f32
#define LD(p, i) LDH(p, i)
#define ST(p, i, x) STH(p, i, x)
#define IS_REAL
#elif defined(IS_BF16)
#define T u16
#define A f32
#define LD(p, i) LDB(p, i)
#define ST(p, i, x) STB(p, i, x)
#define IS_REAL
#elif defined(IS_I8)
#define T i8
#define IS_INT
#elif defined(IS_U8)
#define T u8
#define IS_INT
#elif defined(IS_I16)
#define T i16
#define IS_INT
#elif defined(IS_I32)
#define T i32
#define IS_INT
#elif defined(IS_I64)
#define T i64
#define IS_INT
#elif defined(IS_BOOL)
#define T u8
#define A u8
#define LD(p, i) ((p)[i])
#define ST(p, i, x) ((p)[i] = (x) != 0)
#elif defined(IS_C64) || defined(IS_C128)
#if defined(IS_C64)
#define R f32
#else
#define R f64
#endif
typedef struct complex_t {
    R re, im;
} complex_t;
#define T complex_t
#define A complex_t
#define LD(p, i) ((p)[i])
#define ST(p, i, x) ((p)[i] = (x))
#define IS_COMPLEX
#endif
#if defined(T) && !defined(A)
#define A T
#define LD(p, i) ((p)[i])
#define ST(p, i, x) ((p)[i] = (T)(x))
#endif
