/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise loops of bool: one byte, 0 or 1. Sums are or, products are and. */
#include "ops/cpu/pointwise.h"

#define T uint8_t
#define Q double
#define OUT uint8_t
#define PARAM(v) (v)
#define TABLE tti_loops_bool
#include "ops/cpu/pointwise_map.inc"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static inline T op_same(T x, const Q *q)
{
    return x;
}
static inline uint8_t op_logical_not(T x, const Q *q)
{
    return x == 0;
}
static inline uint8_t op_never(T x, const Q *q)
{
    return 0;
}
static inline uint8_t op_always(T x, const Q *q)
{
    return 1;
}
static inline uint8_t op_eq_s(T x, const Q *q)
{
    return (double)x == q[0];
}
static inline uint8_t op_ne_s(T x, const Q *q)
{
    return (double)x != q[0];
}
static inline uint8_t op_lt_s(T x, const Q *q)
{
    return (double)x < q[0];
}
static inline uint8_t op_le_s(T x, const Q *q)
{
    return (double)x <= q[0];
}
static inline uint8_t op_gt_s(T x, const Q *q)
{
    return (double)x > q[0];
}
static inline uint8_t op_ge_s(T x, const Q *q)
{
    return (double)x >= q[0];
}
static inline T op_or(T a, T b, const Q *q)
{
    return a | b;
}
static inline T op_and(T a, T b, const Q *q)
{
    return a & b;
}
static inline T op_xor(T a, T b, const Q *q)
{
    return a ^ b;
}
static inline uint8_t op_eq(T a, T b, const Q *q)
{
    return a == b;
}
static inline uint8_t op_lt(T a, T b, const Q *q)
{
    return a < b;
}
static inline uint8_t op_le(T a, T b, const Q *q)
{
    return a <= b;
}
static inline uint8_t op_gt(T a, T b, const Q *q)
{
    return a > b;
}
static inline uint8_t op_ge(T a, T b, const Q *q)
{
    return a >= b;
}
static inline T op_or_scaled(T a, T b, const Q *q)
{
    return a | (b & (q[0] != 0));
}
static inline T op_clamp_t(T x, T lo, T hi, const Q *q)
{
    return (x | lo) & hi;
}

/* clang-format off */
#define UNARY(X) X(ABS, same)
#define UNARY_OUT(X)                                                                              \
    X(LOGICAL_NOT, logical_not) X(ISNAN, never) X(ISFINITE, always) X(EQ_S, eq_s) X(NE_S, ne_s)   \
    X(LT_S, lt_s) X(LE_S, le_s) X(GT_S, gt_s) X(GE_S, ge_s)
#define BINARY(X)                                                                                 \
    X(ADD, or) X(MUL, and) X(ADD_SCALED, or_scaled) X(NE, xor) X(EQ, eq) X(LT, lt) X(LE, le)      \
    X(GT, gt) X(GE, ge)
#define BINARY_PLAIN(X)
#define BINARY_OUT(X)
#define TERNARY(X) X(CLAMP_T, clamp_t)
/* Operators that are another one on bool. */
#define MORE_UNARY                                                            \
    [TTI_SIGN] = loop_same, [TTI_SQUARE] = loop_same, [TTI_RELU] = loop_same, \
    [TTI_CONJ] = loop_same, [TTI_BITNOT] = loop_logical_not, [TTI_ISINF] = loop_never,
#define MORE_BINARY                                                               \
    [TTI_MAXIMUM] = loop_or, [TTI_MINIMUM] = loop_and, [TTI_BITAND] = loop_and,   \
    [TTI_BITOR] = loop_or, [TTI_BITXOR] = loop_xor, [TTI_LOGICAL_AND] = loop_and, \
    [TTI_LOGICAL_OR] = loop_or, [TTI_LOGICAL_XOR] = loop_xor,
#define ARANGE(p, i) ((p)[0] + (p)[1] * ((p)[2] + (double)(i)) != 0)
/* clang-format on */
#include "ops/cpu/pointwise_table.inc"
