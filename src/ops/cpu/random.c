/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of random kernels: chunks of numbers, shared among threads, converted to the type
 * of the tensor. A chunk's numbers depend on its position only. */
#include "ops/cpu/random.h"

#include "ops/cpu/parallel.h"
#include "ops/cpu/pointwise.h"
#include "ops/cpu/vmath_half.h"

TTI_ISA_DECLARE(const tti_random_loops, tti_random_table);

tt_dtype tti_drawn_type(tti_random_kind kind, tt_dtype dtype)
{
    if (kind == TTI_RANDOM_INT)
        return TT_I64;
    return dtype == TT_F64 || dtype == TT_C128 ? TT_F64 : TT_F32;
}

uint64_t tti_random_blocks(tti_random_kind kind, tt_dtype dtype, int64_t n)
{
    uint64_t parts = (uint64_t)n * (tt_dtype_is_complex(dtype) ? 2 : 1);

    return tti_drawn_type(kind, dtype) == TT_F32 ? (parts + 3) / 4 : (parts + 1) / 2;
}

static void draw_chunk(const tti_random_draw *d, tt_dtype type, int64_t first, int64_t n, void *out)
{
    const tti_random_loops *loops = TTI_ISA_PICK(tti_random_table);

    if (type == TT_I64)
        loops->i64(d, first, n, out);
    else if (type == TT_F64)
        loops->f64(d, first, n, out);
    else
        loops->f32(d, first, n, out);
}

float tti_half_below(tt_dtype d, float hi)
{
    uint16_t h = d == TT_F16 ? tti_f32_to_f16(hi) : tti_f32_to_bf16(hi);
    float v = d == TT_F16 ? tti_f16_to_f32(h) : tti_bf16_to_f32(h);

    if (v < hi)
        return v;
    h = (uint16_t)(v == 0 ? 0x8001 : v > 0 ? h - 1 : h + 1);
    return d == TT_F16 ? tti_f16_to_f32(h) : tti_bf16_to_f32(h);
}

/* Draws into a buffer and converts from there. */
static void draw_converted(const tti_random_draw *d, tt_dtype type, int64_t first, int64_t n,
                           tt_dtype to, char *out)
{
    int64_t buffer[TTI_RANDOM_CHUNK];
    bool half = to == TT_F16 || to == TT_BF16;
    const tti_copy_loops *loops = tti_copy_loops_now();
    tti_work w = { .loop = loops->copies[type][half ? TT_F32 : to],
                   .n_operands = 2,
                   .halves = half,
                   .dtypes = { (uint8_t)to, (uint8_t)type } };
    char *ptrs[] = { out, (char *)buffer };
    int64_t strides[] = { (int64_t)tt_dtype_size(to), (int64_t)tt_dtype_size(type) };

    draw_chunk(d, type, first, n, buffer);
    if (half && d->kind == TTI_RANDOM_UNIFORM && d->a < d->b) { /* not even by rounding */
        float top = tti_half_below(to, (float)d->b), *u = (float *)(void *)buffer;

        for (int64_t i = 0; i < n; i++)
            u[i] = u[i] > top ? top : u[i];
    }
    if (half)
        loops->half(&w, n, ptrs, strides);
    else
        w.loop(n, ptrs, strides, NULL);
}

static tt_status fill(tt_tensor *x, const tti_random_draw *draw)
{
    tt_dtype to = (tt_dtype)x->dtype, type = tti_drawn_type(draw->kind, to);
    int64_t n = x->numel, chunks, size;
    char *data = tti_data(x);

    if (tt_dtype_is_complex(to)) { /* real and imaginary parts, one after the other */
        to = to == TT_C64 ? TT_F32 : TT_F64;
        n *= 2;
    }
    size = (int64_t)tt_dtype_size(to);
    chunks = (n + TTI_RANDOM_CHUNK - 1) / TTI_RANDOM_CHUNK;
    TTI_PARALLEL_FOR(tti_threads_for(n, 4 * TTI_RANDOM_CHUNK), i, chunks, 1, {
        int64_t first = i * TTI_RANDOM_CHUNK;
        int64_t count = n - first < TTI_RANDOM_CHUNK ? n - first : TTI_RANDOM_CHUNK;

        if (to == type)
            draw_chunk(draw, type, first, count, data + first * size);
        else
            draw_converted(draw, type, first, count, to, data + first * size);
    });
    return TT_OK;
}

const tti_random_kernels tti_random_cpu = { .fill = fill };
