/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that convert or change the order of elements, fills, and ranges. One program is one type of numbers C in
 * which the source is read; the result is of any type. Elements that only move are read and
 * written as integers of their size. */
#include "ops/accel/vmath.cl"
#ifdef IS_COMPLEX
#include "ops/accel/complex.cl"
#endif
#include "ops/accel/walk.cl"
#include "ops/accel/store.cl"

enum { MODE_COPY, MODE_FILL, MODE_RANGE }; /* walk_t.op */

/* The elements from e on of a fill (element size up to 8, or two halves of 16 bytes) or a range. */
FN void produce(C *x, const walk_t *w, u64 e)
{
#if defined(IS_I64)
    if (w->op == MODE_FILL)
        for (int i = 0; i < BLOCK; i++)
            x[i] = (i64)w->q[(e + (u64)i) & w->q[2]];
    else
        for (int i = 0; i < BLOCK; i++)
            x[i] = (i64)(w->q[0] + w->q[1] * (e + (u64)i));
#elif defined(IS_F64)
    f64 start = U2D(w->q[0]), step = U2D(w->q[1]);

    for (int i = 0; i < BLOCK; i++)
        x[i] = fma(step, (f64)(e + (u64)i), start);
#elif defined(IS_F32)
    f32 start = U2F((u32)w->q[0]), step = U2F((u32)w->q[1]);

    for (int i = 0; i < BLOCK; i++)
        x[i] = start + step * (f32)(e + (u64)i);
#endif
}

KERNEL void copy(MEM(char, out), MEM(const char, from), walk_t w)
{
    OPEN(char, out);
    OPEN(const char, from);
    C x[BLOCK];
    u64 n_blocks = (w.n + BLOCK - 1) / BLOCK;

    FOR_EACH(block, n_blocks) {
        u64 e = block * BLOCK;
        int n = w.n - e < BLOCK ? (int)(w.n - e) : BLOCK;

        if (w.op == MODE_COPY)
            walk_read(x, from, &w, 1, e, n);
        else
            produce(x, &w, e);
        WALK_WRITE(x, out, &w, e, n, store_row);
    }
}
