/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of one plane, compiled per instruction set. */
#include <math.h>
#include <string.h>

#include "ops/cpu/nn_kernels.h"

static inline int64_t tti_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The results out .. out + n that find column k of their window inside the input, and which input
 * the first of them meets; the others follow at the stride. */
typedef struct tti_run {
    int64_t out, in, n;
} tti_run;

static inline tti_run tti_tap(int64_t k, int64_t pad, int64_t stride, int64_t size, int64_t n_out)
{
    int64_t lack = pad - k;
    int64_t first = lack > 0 ? (lack + stride - 1) / stride : 0;
    int64_t room = size - 1 + lack;
    int64_t last = room < 0 ? -1 : tti_least(room / stride, n_out - 1);

    if (last < first)
        return (tti_run){ 0, 0, 0 };
    return (tti_run){ first, first * stride - lack, last - first + 1 };
}

/* The runs of all columns of a window: found once, used for every row. */
typedef struct tti_taps {
    tti_run *runs;
    int64_t n, step;
} tti_taps;

static inline tti_taps tti_taps_of(const tti_pool *p, void *room)
{
    tti_taps t = { room, p->kernel[1], p->stride[1] };

    for (int64_t k = 0; k < t.n; k++)
        t.runs[k] = tti_tap(k * p->dilation[1], p->pad[1], t.step, p->w, p->ow);
    return t;
}

/* The first of start, start + step, ... that is not negative. */
static inline int64_t tti_first_inside(int64_t start, int64_t step)
{
    return start >= 0 ? start : start + (-start + step - 1) / step * step;
}

/* The input rows of a row of windows, and how many rows count. */
typedef struct tti_band {
    int64_t begin, end, rows;
} tti_band;

static inline tti_band tti_band_of(const tti_pool *p, int64_t i)
{
    int64_t top = i * p->stride[0] - p->pad[0];
    int64_t bottom = tti_least(top + p->kernel[0], p->h + p->pad[0]);
    tti_band b = { top < 0 ? 0 : top, tti_least(bottom, p->h), bottom - top };

    if (p->exclude_pad)
        b.rows = b.end - b.begin;
    return b;
}

typedef struct tti_span {
    int64_t begin, end;
} tti_span;

/* Window i of n over `size` elements. */
static inline tti_span tti_span_of(int64_t i, int64_t n, int64_t size)
{
    return (tti_span){ i * size / n, ((i + 1) * size + n - 1) / n };
}

#define LOWEST (-(T)INFINITY)
#define NOT_A_NUMBER(v) ((v) != (v))

#define T float
#define N(name) name##_f32
#include "ops/cpu/nn_pool.inc"
#include "ops/cpu/nn_pool_float.inc"
#undef T
#undef N

#define T double
#define N(name) name##_f64
#include "ops/cpu/nn_pool.inc"
#include "ops/cpu/nn_pool_float.inc"
#undef T
#undef N
#undef LOWEST
#undef NOT_A_NUMBER

#define T int64_t
#define N(name) name##_i64
#define LOWEST INT64_MIN
#define NOT_A_NUMBER(v) (false)
#include "ops/cpu/nn_pool.inc"

const tti_pool_table TTI_ISA_NAME(tti_pool_table) = {
    .max = { max_f32, max_f64, max_i64 },
    .avg = { avg_f32, avg_f64, avg_i64 },
    .avg_grad = { avg_grad_f32, avg_grad_f64 },
    .adaptive_max = { adaptive_max_f32, adaptive_max_f64 },
    .adaptive_avg = { adaptive_avg_f32, adaptive_avg_f64 },
    .adaptive_avg_grad = { adaptive_avg_grad_f32, adaptive_avg_grad_f64 },
};
