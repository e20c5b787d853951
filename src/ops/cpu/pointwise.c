/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of pointwise kernels. Each entry finds the loop of the operator and type, runs it at
 * once when operands are dense and few, and leaves the rest to the walk. */
#include "ops/cpu/pointwise.h"

#include <string.h>

#include "ops/cpu/vmath_half.h"

/* ---- the loops of this machine --------------------------------------------------------------- */

/* clang-format off */
#define TYPE_ROWS(isa)                                                                             \
    {                                                                                              \
        [TT_F32] = &tti_loops_f32_##isa, [TT_F64] = &tti_loops_f64_##isa,                          \
        [TT_F16] = &tti_loops_f32_##isa, [TT_BF16] = &tti_loops_f32_##isa,                         \
        [TT_I8] = &tti_loops_i8_##isa, [TT_U8] = &tti_loops_u8_##isa,                              \
        [TT_I16] = &tti_loops_i16_##isa, [TT_I32] = &tti_loops_i32_##isa,                          \
        [TT_I64] = &tti_loops_i64_##isa, [TT_BOOL] = &tti_loops_bool_##isa,                        \
        [TT_C64] = &tti_loops_c64_##isa, [TT_C128] = &tti_loops_c128_##isa,                        \
    }
/* clang-format on */

TTI_ISA_DECLARE(const tti_loops, tti_loops_f32);
TTI_ISA_DECLARE(const tti_loops, tti_loops_f64);
TTI_ISA_DECLARE(const tti_loops, tti_loops_i8);
TTI_ISA_DECLARE(const tti_loops, tti_loops_u8);
TTI_ISA_DECLARE(const tti_loops, tti_loops_i16);
TTI_ISA_DECLARE(const tti_loops, tti_loops_i32);
TTI_ISA_DECLARE(const tti_loops, tti_loops_i64);
TTI_ISA_DECLARE(const tti_loops, tti_loops_bool);
TTI_ISA_DECLARE(const tti_loops, tti_loops_c64);
TTI_ISA_DECLARE(const tti_loops, tti_loops_c128);
TTI_ISA_DECLARE(const tti_copy_loops, tti_copy_table);

typedef const tti_loops *type_row[TT_N_DTYPES];

static const type_row rows_base = TYPE_ROWS(base);
#if TTI_HAVE_ISA_AVX512
static const type_row rows_avx2 = TYPE_ROWS(avx2);
static const type_row rows_avx512 = TYPE_ROWS(avx512);
#endif

const tti_loops *tti_loops_of(tt_dtype compute)
{
    return (*TTI_ISA_PICK(rows))[compute];
}

const tti_copy_loops *tti_copy_loops_now(void)
{
    return TTI_ISA_PICK(tti_copy_table);
}

/* ---- entries ----------------------------------------------------------------------------------- */

static bool is_half(const tt_tensor *t)
{
    return t->dtype == TT_F16 || t->dtype == TT_BF16;
}

/* Four parameters for the loops, whatever the operator has. */
static const double *params(double *q, const double *p, int n)
{
    for (int i = 0; i < n && p != NULL; i++)
        q[i] = p[i];
    return q;
}

/* True when every operand is dense in the result's order, or one value: then `strides` are set. */
static bool dense(const tt_tensor *const *ts, int n, int64_t *strides)
{
    int64_t numel = ts[0]->numel;

    if (!tti_is_contiguous(ts[0]))
        return false;
    strides[0] = (int64_t)tti_esize(ts[0]);
    for (int i = 1; i < n; i++) {
        if (ts[i]->numel == numel && tti_is_contiguous(ts[i]))
            strides[i] = (int64_t)tti_esize(ts[i]);
        else if (ts[i]->numel == 1)
            strides[i] = 0;
        else
            return false;
    }
    return true;
}

/* True when `t` repeats as the last dimensions of the result, row by row. */
static bool is_row(const tt_tensor *out, const tt_tensor *t)
{
    int skip = out->n_dims - t->n_dims;

    if (!tti_is_contiguous(t) || skip < 1)
        return false;
    for (int i = 0; i < t->n_dims; i++)
        if (t->dims[i] != out->dims[i + skip])
            return false;
    return t->numel >= 16;
}

/* Small results with a row as last operand, such as a bias: no need for the walk. */
static bool rows(tti_loop loop, const tt_tensor *const *ts, const double *q)
{
    const tt_tensor *out = ts[0], *a = ts[1], *b = ts[2];
    char *ptrs[] = { tti_data(out), tti_data(a), tti_data(b) };
    int64_t strides[] = { (int64_t)tti_esize(out), (int64_t)tti_esize(a), (int64_t)tti_esize(b) };

    if (!tti_is_contiguous(out) || !tti_is_contiguous(a) || a->numel != out->numel || is_half(a) ||
        !is_row(out, b))
        return false;
    for (int64_t i = 0; i < out->numel; i += b->numel) {
        loop(b->numel, ptrs, strides, q);
        ptrs[0] += b->numel * strides[0];
        ptrs[1] += b->numel * strides[1];
    }
    return true;
}

static void compute(tti_loop loop, const tt_tensor *const *ts, int n, const double *q,
                    int64_t grain)
{
    int64_t strides[TTI_MAX_OPERANDS];
    tti_work w = { .loop = loop, .p = q, .n_operands = n };

    if (ts[0]->numel < 2 * grain && dense(ts, n, strides)) {
        char *ptrs[TTI_MAX_OPERANDS];
        bool halves = false;

        for (int i = 0; i < n; i++) {
            ptrs[i] = tti_data(ts[i]);
            halves = halves || is_half(ts[i]);
        }
        if (tt_likely(!halves)) {
            loop(ts[0]->numel, ptrs, strides, q);
            return;
        }
    }
    if (n == 3 && ts[0]->numel < 2 * grain && rows(loop, ts, q))
        return;
    for (int i = 0; i < n; i++) {
        w.dtypes[i] = ts[i]->dtype;
        w.halves = w.halves || is_half(ts[i]);
    }
    tti_walk(&w, ts, grain);
}

int tti_unary_params(tti_unary_op op, bool cplx)
{
    switch (op) {
    case TTI_NAN_TO_NUM:
        return 3;
    case TTI_ELU:
    case TTI_SOFTPLUS:
    case TTI_CLAMP:
        return 2;
    case TTI_LEAKY_RELU:
        return 1;
    default:
        return op >= TTI_ADD_S ? (cplx ? 2 : 1) : 0;
    }
}

int64_t tti_unary_grain(tti_unary_op op)
{
    if ((op >= TTI_EXP && op <= TTI_LOG10) || (op >= TTI_SIN && op <= TTI_ERF) ||
        (op >= TTI_GELU && op <= TTI_SOFTPLUS) || op == TTI_POW_S || op == TTI_RPOW_S)
        return TTI_GRAIN_HEAVY;
    return TTI_GRAIN;
}

static tt_status unary(tti_unary_op op, tt_tensor *out, const tt_tensor *x, const double *p)
{
    tti_loop loop = tti_loops_of((tt_dtype)x->dtype)->unary[op];
    const tt_tensor *ts[] = { out, x };
    double q[4] = { 0 };

    if (tt_unlikely(loop == NULL))
        return tti_no_kernel(tti_unary_names[op], x);
    compute(loop, ts, 2,
            params(q, p, tti_unary_params(op, tt_dtype_is_complex((tt_dtype)x->dtype))),
            tti_unary_grain(op));
    return TT_OK;
}

int tti_binary_params(tti_binary_op op, bool cplx)
{
    switch (op) {
    case TTI_ADD_SCALED:
    case TTI_LERP_S:
        return cplx ? 2 : 1;
    case TTI_ELU_GRAD:
    case TTI_SOFTPLUS_GRAD:
    case TTI_CLAMP_GRAD:
        return 2;
    case TTI_LEAKY_RELU_GRAD:
    case TTI_SMOOTH_L1:
        return 1;
    default:
        return 0;
    }
}

int64_t tti_binary_grain(tti_binary_op op)
{
    if ((op >= TTI_FLOOR_DIV && op <= TTI_POW) || op == TTI_ATAN2 ||
        (op >= TTI_GELU_GRAD && op <= TTI_SOFTPLUS_GRAD))
        return TTI_GRAIN_HEAVY;
    return TTI_GRAIN;
}

static tt_status binary(tti_binary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                        const double *p)
{
    tti_loop loop = tti_loops_of((tt_dtype)a->dtype)->binary[op];
    const tt_tensor *ts[] = { out, a, b };
    double q[4] = { 0 };

    if (tt_unlikely(loop == NULL))
        return tti_no_kernel(tti_binary_names[op], a);
    compute(loop, ts, 3,
            params(q, p, tti_binary_params(op, tt_dtype_is_complex((tt_dtype)a->dtype))),
            tti_binary_grain(op));
    return TT_OK;
}

static tt_status ternary(tti_ternary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                         const tt_tensor *c, const double *p)
{
    tti_loop loop = tti_loops_of((tt_dtype)b->dtype)->ternary[op];
    const tt_tensor *ts[] = { out, a, b, c };
    double q[4] = { 0 };

    if (tt_unlikely(loop == NULL))
        return tti_no_kernel(tti_ternary_names[op], b);
    compute(loop, ts, 4, params(q, p, 1), TTI_GRAIN);
    return TT_OK;
}

static uint8_t through(const tt_tensor *t)
{
    return is_half(t) ? TT_F32 : t->dtype;
}

static tt_status copy(tt_tensor *dst, const tt_tensor *src)
{
    const tti_copy_loops *loops = tti_copy_loops_now();
    const tt_tensor *ts[] = { dst, src };
    tti_work w = { .n_operands = 2, .dtypes = { dst->dtype, src->dtype } };

    if (dst->dtype == src->dtype) {
        w.loop = loops->copies[src->dtype][dst->dtype];
        if (dst->numel == src->numel && dst->numel < 2 * TTI_GRAIN && tti_is_contiguous(dst) &&
            tti_is_contiguous(src)) {
            if (dst->numel != 0)
                memmove(tti_data(dst), tti_data(src), tt_tensor_bytes(dst));
            return TT_OK;
        }
        tti_walk_copy(&w, dst, src);
        return TT_OK;
    }
    w.loop = loops->copies[through(src)][through(dst)];
    w.halves = is_half(src) || is_half(dst);
    tti_walk(&w, ts, TTI_GRAIN);
    return TT_OK;
}

void tti_element_bytes(tt_dtype d, double re, double im, void *bytes)
{
    double value[2] = { re, im };
    char *ptrs[] = { bytes, (char *)value };
    int64_t strides[] = { (int64_t)tt_dtype_size(d), 16 };
    float f = (float)re;
    uint16_t h;

    if (d == TT_F16 || d == TT_BF16) {
        h = d == TT_F16 ? tti_f32_to_f16(f) : tti_f32_to_bf16(f);
        memcpy(bytes, &h, sizeof h);
        return;
    }
    tti_copy_loops_now()->copies[TT_C128][d](1, ptrs, strides, NULL);
}

static tt_status fill(tt_tensor *x, double re, double im)
{
    double bytes[2] = { 0 };
    static const double zero[2];
    const tt_tensor *ts[] = { x };
    tti_work w = { .n_operands = 1, .p = bytes };

    tti_element_bytes((tt_dtype)x->dtype, re, im, bytes);
    if (memcmp(bytes, zero, sizeof zero) == 0 && tti_is_contiguous(x) && x->numel < 2 * TTI_GRAIN) {
        if (x->numel != 0)
            memset(tti_data(x), 0, tt_tensor_bytes(x));
        return TT_OK;
    }
    w.loop = tti_copy_loops_now()->fill[tti_esize(x)];
    tti_walk(&w, ts, TTI_GRAIN);
    return TT_OK;
}

static tt_status arange(tt_tensor *x, double start, double step)
{
    double p[4] = { start, step, 0, 0 };
    tti_work w = { .loop = tti_loops_of((tt_dtype)x->dtype)->arange, .p = p, .n_operands = 1 };

    w.dtypes[0] = x->dtype;
    if (x->numel == 0)
        return TT_OK;
    if (!is_half(x)) {
        w.loop(x->numel, (char *[]){ tti_data(x) }, (int64_t[]){ (int64_t)tti_esize(x) }, p);
        return TT_OK;
    }
    for (int64_t i = 0; i < x->numel; i += 256) { /* the converting loop knows no positions */
        p[2] = (double)i;
        tti_copy_loops_now()->half(&w, x->numel - i < 256 ? x->numel - i : 256,
                                   (char *[]){ (char *)tti_data(x) + 2 * i }, (int64_t[]){ 2 });
    }
    return TT_OK;
}

const tti_pointwise_kernels tti_pointwise_cpu = {
    .unary = unary,
    .binary = binary,
    .ternary = ternary,
    .copy = copy,
    .fill = fill,
    .arange = arange,
};
