/* SPDX-License-Identifier: Apache-2.0 */
/* Random fills: the CPU's numbers, bit for bit (ops/cpu/random_draw.h). One program per type numbers are drawn in:
 * float32 and float64 for floating numbers, int64 for integers; they are stored as any type. */
#define VMATH_EXACT
#include "ops/accel/vmath.cl"
#include "ops/cpu/random_draw.h"
#include "ops/accel/walk.cl"
#include "ops/accel/store.cl"

#undef BLOCK
#ifdef CPU_DEVICE
#define BLOCK 256
#else
#define BLOCK 4
#endif
#ifdef IS_F32
#define WORDS 1 /* per number */
#else
#define WORDS 2
#endif

enum { UNIFORM, NORMAL, BERNOULLI, INTEGER }; /* tti_random_kind */

/* As in random.c. */
typedef struct draw_t {
    u64 n, seed, offset;
    u64 a, b;       /* bits of C: start and width, or mean and deviation */
    u64 top, cap;   /* bits of C: the greatest numbers of a uniform draw before and after rounding to 16 bits */
    u64 below;      /* a Bernoulli draw is 1 when its 32 or 53 bits are less */
    i64 lo;
    u64 range;
    i32 kind, dtype;
} draw_t;

#if defined(IS_F32)
#define BITS(u) U2F((u32)(u))
#define UNIT(i) tti_draw_unit(w[i])
#define DRAWN(i) ((u64)w[i])
#define NORMALS(i, c, s) tti_draw_normal(w[2 * (i)], w[2 * (i) + 1], c, s)
#elif defined(IS_F64)
#define BITS(u) U2D(u)
#define UNIT(i) tti_draw_unit_wide(w[2 * (i)], w[2 * (i) + 1])
#define DRAWN(i) ((((u64)w[2 * (i)] << 32) | w[2 * (i) + 1]) >> 11)
#define NORMALS(i, c, s) tti_draw_normal_wide(UNIT(2 * (i)), UNIT(2 * (i) + 1), c, s)
#endif

FN void make_words(u32 *w, u64 seed, u64 counter)
{
    for (int i = 0; i < BLOCK * WORDS / 4; i++) {
        philox4 r = philox(seed, counter + (u64)i, 0);

        w[4 * i] = r.w0;
        w[4 * i + 1] = r.w1;
        w[4 * i + 2] = r.w2;
        w[4 * i + 3] = r.w3;
    }
}

FN void make_numbers(C *x, const u32 *w, const draw_t *d)
{
#ifdef IS_I64
    for (int i = 0; i < BLOCK; i++) {
        u64 u = ((u64)w[2 * i] << 32) | w[2 * i + 1];

        x[i] = (i64)((u64)d->lo + MULHI64(u, d->range));
    }
#else
    C a = BITS(d->a), b = BITS(d->b), top = BITS(d->top), cap = BITS(d->cap);

    if (d->kind == NORMAL) {
        for (int i = 0; i < BLOCK / 2; i++) {
            C c, s;

            NORMALS(i, &c, &s);
            x[2 * i] = a + b * c;
            x[2 * i + 1] = a + b * s;
        }
    } else if (d->kind == BERNOULLI) {
        for (int i = 0; i < BLOCK; i++)
            x[i] = DRAWN(i) < d->below ? (C)1 : (C)0;
    } else {
        for (int i = 0; i < BLOCK; i++) {
            C u = a + b * UNIT(i);

            u = u > top && top >= a ? top : u;
            x[i] = u > cap ? cap : u;
        }
    }
#endif
}

KERNEL void draw(MEM(char, out), draw_t d)
{
    OPEN(char, out);
    C x[BLOCK];
    u32 w[BLOCK * WORDS];
    u64 n_blocks = (d.n + BLOCK - 1) / BLOCK;

    FOR_EACH(block, n_blocks) {
        u64 e = block * BLOCK;
        int n = d.n - e < BLOCK ? (int)(d.n - e) : BLOCK;

        make_words(w, d.seed, d.offset + block * (BLOCK * WORDS / 4));
        make_numbers(x, w, &d);
        store_row(x, out, d.dtype, (i64)e, 1, n);
    }
}
