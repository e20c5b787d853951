/* SPDX-License-Identifier: Apache-2.0 */
/* Element by element kernels. One program is one number of operands (ARITY) for one compute type; its kernel does
 * every operator of that kind, on the functions the CPU's loops are made of. */
#include "ops/accel/vmath.cl"
#ifdef IS_COMPLEX
#include "ops/accel/complex.cl"
#endif
#include "ops/accel/walk.cl"
#include "ops/kernels_pointwise_ops.h"

#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT ON
#endif
#define L(name) name
#if defined(IS_F32)
#define M(name) tti_v##name##f
#define Q f32
#define PARAM(u) U2F((u32)(u))
#include "ops/cpu/pointwise_real_one.inc"
#include "ops/cpu/pointwise_real_two.inc"
#elif defined(IS_F64)
#define M(name) tti_v##name##d
#define Q f64
#define PARAM(u) U2D(u)
#include "ops/cpu/pointwise_real_one.inc"
#include "ops/cpu/pointwise_real_two.inc"
#elif defined(IS_I64)
#define U u64
#define T_MIN ((i64)0x8000000000000000ul)
#define Q i64
#define PARAM(u) ((i64)(u))
#include "ops/cpu/pointwise_int_one.inc"
#include "ops/cpu/pointwise_int_two.inc"
#else
#define Q R
#ifdef IS_C64
#define PARAM(u) U2F((u32)(u))
#else
#define PARAM(u) U2D(u)
#endif
#define FUSED(a, b, c) ((a) * (b) + (c))
#include "ops/cpu/pointwise_complex_ops.inc"

static inline T op_abs(T x, const Q *q)
{
    return make(hypot(x.re, x.im), 0);
}
#endif

#ifdef IS_COMPLEX
#define TRUTH(x) make((R)(x), 0)
#define IS_TRUE(x) ((x).re != 0)
#else
#define TRUTH(x) ((C)(x))
#define IS_TRUE(x) ((x) != 0)
#endif

/* One loop per operator, on blocks. */
#define EACH(name, result)              \
    case TTI_##name:                    \
        MATH_LOOP                       \
        for (int i = 0; i < BLOCK; i++) \
            o[i] = result;              \
        break;
#define EACH1(name, f) EACH(name, op_##f(a[i], q))
#define EACH1_OUT(name, f) EACH(name, TRUTH(op_##f(a[i], q)))
#define EACH2(name, f) EACH(name, op_##f(a[i], b[i], q))
#define EACH2_OUT(name, f) EACH(name, TRUTH(op_##f(a[i], b[i], q)))
#define EACH3(name, f) EACH(name, op_##f(a[i], b[i], c[i], q))

/* Frequent operators on CPUs also have a loop for dense operands that needs no blocks. */
#if defined(CPU_DEVICE) && defined(IS_REAL)
#define HAS_DENSE
#ifdef IS_F32
#define DENSE_TYPE DT_F32
#else
#define DENSE_TYPE DT_F64
#endif
#define DENSE(name, result) \
    case TTI_##name:        \
        DENSE_LOOP          \
        FOR_EACH(i, n)      \
            o[i] = result;  \
        return 1;
#define DENSE1(name, f) DENSE(name, op_##f(a[i], q))
#define DENSE2(name, f) DENSE(name, op_##f(a[i], b[i], q))
#endif

#if ARITY == 1
#define OPERANDS MEM(const char, a)
#define OPEN_ALL       \
    OPEN(const char, a); \
    GLOBAL const char *from[1] = { a }
#define COMPUTE compute(w.op, x[0], x[1], q)

FN void compute(int op, C *o, const C *a, const Q *q)
{
    switch (op) {
        UNARY(EACH1)
        UNARY_OUT(EACH1_OUT)
#ifdef IS_COMPLEX
        EACH1(ABS, abs)
#endif
    }
}

#ifdef HAS_DENSE
#define COMPUTE_DENSE compute_dense(w.op, (GLOBAL C *)out, (GLOBAL const C *)a, q, w.n)
FN int compute_dense(int op, GLOBAL C *o, GLOBAL const C *a, const Q *q, u64 n)
{
    switch (op) {
        DENSE1(RELU, relu)
        DENSE1(ADD_S, add_s)
        DENSE1(MUL_S, mul_s)
        DENSE1(EXP, exp)
        DENSE1(TANH, tanh)
        DENSE1(SIGMOID, sigmoid)
        DENSE1(GELU, gelu)
    }
    return 0;
}
#endif

#elif ARITY == 2
#define OPERANDS MEM(const char, a), MEM(const char, b)
#define OPEN_ALL       \
    OPEN(const char, a); \
    OPEN(const char, b); \
    GLOBAL const char *from[2] = { a, b }
#define COMPUTE compute(w.op, x[0], x[1], x[2], q)

FN void compute(int op, C *o, const C *a, const C *b, const Q *q)
{
    switch (op) {
        BINARY(EACH2)
        BINARY_PLAIN(EACH2)
        BINARY_OUT(EACH2_OUT)
    }
}

#ifdef HAS_DENSE
#define COMPUTE_DENSE compute_dense(w.op, (GLOBAL C *)out, (GLOBAL const C *)a, (GLOBAL const C *)b, q, w.n)
FN int compute_dense(int op, GLOBAL C *o, GLOBAL const C *a, GLOBAL const C *b, const Q *q, u64 n)
{
    switch (op) {
        BINARY(DENSE2)
    }
    return 0;
}
#endif

#else
#define OPERANDS MEM(const char, a), MEM(const char, b), MEM(const char, c)
#define OPEN_ALL       \
    OPEN(const char, a); \
    OPEN(const char, b); \
    OPEN(const char, c); \
    GLOBAL const char *from[3] = { a, b, c }
#define COMPUTE compute(w.op, x[0], x[1], x[2], x[3], q)

FN void compute(int op, C *o, const C *a, const C *b, const C *c, const Q *q)
{
    switch (op) {
        TERNARY(EACH3)
        EACH(WHERE, IS_TRUE(a[i]) ? b[i] : c[i])
    }
}
#endif

#ifdef COMPUTE_DENSE
FN int is_dense(const walk_t *w)
{
    int dense = w->n_dims == 1;

    for (int k = 0; k <= ARITY; k++)
        dense &= w->strides[k][0] == 1 && w->dtypes[k] == DENSE_TYPE;
    return dense;
}
#endif

KERNEL void pointwise(MEM(char, out), OPERANDS, walk_t w)
{
    OPEN(char, out);
    OPEN_ALL;
    C x[ARITY + 1][BLOCK];
    Q q[4];
    u64 n_blocks = (w.n + BLOCK - 1) / BLOCK;

    for (int k = 0; k < 4; k++)
        q[k] = PARAM(w.q[k]);
#ifdef COMPUTE_DENSE
    if (is_dense(&w) && COMPUTE_DENSE)
        return;
#endif
    FOR_EACH(block, n_blocks) {
        u64 e = block * BLOCK;
        int n = w.n - e < BLOCK ? (int)(w.n - e) : BLOCK;

        SLOW_LOOP
        for (int k = 0; k < ARITY; k++)
            walk_read(x[k + 1], from[k], &w, k + 1, e, n);
        COMPUTE;
        WALK_WRITE(x[0], out, &w, e, n, write_row);
    }
}
