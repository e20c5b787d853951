/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of extremes and cumulative sums and products on the CPU: loops along lines. */
#include "ops/cpu/reduce_line.h"

#include <complex.h>
#include <string.h>

#include "ops/cpu/parallel.h"
#include "ops/cpu/reduce_run.h"
#include "ops/cpu/vmath.h"

static uint64_t float_key(float v)
{
    uint32_t u = tti_vbits(v + 0.0f); /* -0 and 0 are the same */

    if (v != v)
        return UINT32_MAX;
    return (u >> 31) != 0 ? (uint32_t)~u : u | 0x80000000u;
}

static uint64_t double_key(double v)
{
    double plain = v + 0.0;
    uint64_t u;

    memcpy(&u, &plain, sizeof u);
    if (v != v)
        return UINT64_MAX;
    return (u >> 63) != 0 ? ~u : u | 1ull << 63;
}

#define INT_KEY(v) ((uint64_t)(int64_t)(v) ^ 1ull << 63)

#define LINE(name) name##_f32
#define T float
#define LOAD(v) (v)
#define WIDE double
#define STORE(w) ((float)(w))
#define KEY(v) float_key(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_f64
#define T double
#define LOAD(v) (v)
#define WIDE double
#define STORE(w) (w)
#define KEY(v) double_key(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_f16
#define T uint16_t
#define LOAD(v) tti_f16_to_f32(v)
#define WIDE double
#define STORE(w) tti_f32_to_f16((float)(w))
#define KEY(v) float_key(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_bf16
#define T uint16_t
#define LOAD(v) tti_bf16_to_f32(v)
#define WIDE double
#define STORE(w) tti_f32_to_bf16((float)(w))
#define KEY(v) float_key(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_i8
#define T int8_t
#define LOAD(v) (v)
#define WIDE uint64_t
#define STORE(w) ((int8_t)(w))
#define KEY(v) INT_KEY(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_u8
#define T uint8_t
#define LOAD(v) (v)
#define WIDE uint64_t
#define STORE(w) ((uint8_t)(w))
#define KEY(v) INT_KEY(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_i16
#define T int16_t
#define LOAD(v) (v)
#define WIDE uint64_t
#define STORE(w) ((int16_t)(w))
#define KEY(v) INT_KEY(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_i32
#define T int32_t
#define LOAD(v) (v)
#define WIDE uint64_t
#define STORE(w) ((int32_t)(w))
#define KEY(v) INT_KEY(v)
#include "ops/cpu/reduce_line.inc"

#define LINE(name) name##_i64
#define T int64_t
#define LOAD(v) (v)
#define WIDE uint64_t
#define STORE(w) ((int64_t)(w))
#define KEY(v) INT_KEY(v)
#include "ops/cpu/reduce_line.inc"

static void cumulate_c64(const tti_cumulate_args *a)
{
    double complex w = a->product ? 1 : 0;

    for (int64_t i = 0; i < a->n; i++) {
        double complex v = ((const float complex *)a->x)[i * a->x_stride];

        w = a->product ? w * v : w + v;
        ((float complex *)a->out)[i * a->out_stride] = (float complex)w;
    }
}

static void cumulate_c128(const tti_cumulate_args *a)
{
    double complex w = a->product ? 1 : 0;

    for (int64_t i = 0; i < a->n; i++) {
        double complex v = ((const double complex *)a->x)[i * a->x_stride];

        w = a->product ? w * v : w + v;
        ((double complex *)a->out)[i * a->out_stride] = w;
    }
}

#define LINES(name)                              \
    {                                            \
        arg_##name, cumulate_##name, keys_##name \
    }

const tti_line_fns tti_lines[TT_N_DTYPES] = {
    [TT_F32] = LINES(f32),
    [TT_F64] = LINES(f64),
    [TT_F16] = LINES(f16),
    [TT_BF16] = LINES(bf16),
    [TT_I8] = LINES(i8),
    [TT_U8] = LINES(u8),
    [TT_I16] = LINES(i16),
    [TT_I32] = LINES(i32),
    [TT_I64] = LINES(i64),
    [TT_BOOL] = LINES(u8),
    [TT_C64] = { .cumulate = cumulate_c64 },
    [TT_C128] = { .cumulate = cumulate_c128 },
};

static const char *at(const tt_tensor *t, int64_t offset)
{
    return (const char *)tti_data(t) + offset * (int64_t)tti_esize(t);
}

tt_status tti_arg_reduce_run(bool largest, tt_tensor *values, tt_tensor *indices,
                             const tt_tensor *x, int dim)
{
    const tti_line_fns *fns = &tti_lines[x->dtype];
    int64_t n = dim >= 0 ? x->dims[dim] : x->numel;
    int64_t stride = dim >= 0 ? x->strides[dim] : 1;
    size_t esize = tti_esize(x);
    tti_loop l = { .total = 1 };

    if (fns->arg == NULL)
        return tti_no_kernel("arg_reduce", x);
    if (dim >= 0)
        tti_lines_of(&l, x, indices, dim);
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, 32768), i, l.total, 1, {
        int64_t out;
        const char *line = at(x, tti_loop_at(&l, i, &out));
        int64_t where = fns->arg(line, n, stride, largest);

        ((int64_t *)tti_data(indices))[out] = where;
        if (values != NULL)
            memcpy((char *)tti_data(values) + (size_t)out * esize,
                   line + where * stride * (int64_t)esize, esize);
    });
    return TT_OK;
}

tt_status tti_cumulative_run(bool product, tt_tensor *out, const tt_tensor *x, int dim)
{
    const tti_line_fns *fns = &tti_lines[x->dtype];
    tti_loop l;

    tti_lines_of(&l, x, out, dim);
    TTI_PARALLEL_FOR(tti_threads_for(x->numel, 32768), i, l.total, 1, {
        int64_t to;
        int64_t from = tti_loop_at(&l, i, &to);
        tti_cumulate_args a = { .x = at(x, from),
                                .n = x->n_dims > 0 ? x->dims[dim] : 1,
                                .out_stride = x->n_dims > 0 ? out->strides[dim] : 1,
                                .x_stride = x->n_dims > 0 ? x->strides[dim] : 1,
                                .product = product };

        a.out = (char *)tti_data(out) + to * (int64_t)tti_esize(out);
        fns->cumulate(&a);
    });
    return TT_OK;
}
