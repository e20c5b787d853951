/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer steps, as in ops/cpu/optim_loops.inc. A group does rows: stretches of a dense parameter, or the rows that
 * a sparse gradient names. Numbers are read into private blocks, computed there (16-bit floats in float32) and
 * stored, as in walk.cl. One kernel does every rule for one element type. */
#include "ops/accel/vmath.cl"

#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT ON
#endif
#ifdef CPU_DEVICE
#define BLOCK 256
#define LANE 0
#else
#define BLOCK 1
#define LANE LID
#endif

enum { SGD, ADAM, ADAGRAD, RMSPROP, SCALE, CLAMP, UNSCALE }; /* as in optim.c, like all of this */
enum { DECAY = 1, HAS_1 = 2, HAS_2 = 4, HAS_3 = 8, FIRST = 16, NESTEROV = 32, NEAR_OLD = 64, IN_ORDER = 128 };

typedef struct step_t {
    u64 n, rows, width; /* elements of the gradient; rows of at most `width` */
    i32 rule, flags;
    i64 sparse_dims; /* 0: the parameter is dense */
    i64 dims[8];     /* that the indices go by */
    u64 c[10];       /* numbers, as bits of A */
} step_t;

#if defined(IS_F64)
#define NUMBER(u) U2D(u)
#else
#define NUMBER(u) U2F((u32)(u))
#endif
#if defined(IS_F16)
#define READ(p, i) tti_f16_to_f32((p)[i])
#define WRITE(p, i, x) ((p)[i] = tti_f32_to_f16(x))
#elif defined(IS_BF16)
#define READ(p, i) tti_bf16_to_f32((p)[i])
#define WRITE(p, i, x) ((p)[i] = tti_f32_to_bf16(x))
#else
#define READ(p, i) ((p)[i])
#define WRITE(p, i, x) ((p)[i] = (x))
#endif

FN void read_block(A *x, GLOBAL const T *p, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = READ(p, i);
}

FN void write_block(GLOBAL T *p, const A *x, int n)
{
    for (int i = 0; i < n; i++)
        WRITE(p, i, x[i]);
}

/* ---- the rules: p the parameter, g the gradient, s, t, u the state ------------------------------------- */

#define EACH for (int i = 0; i < BLOCK; i++)
#define GRADIENT(x) (decays ? sign * g[i] + decay * (x) : sign * g[i])

FN void sgd(const A *c, int flags, A *p, const A *g, A *s)
{
    A sign = c[0], decay = c[1], momentum = c[2], ahead = c[3], share = c[4], rate = c[5];
    int decays = (flags & DECAY) != 0, nesterov = (flags & NESTEROV) != 0;

    if ((flags & HAS_1) == 0)
        EACH p[i] += rate * GRADIENT(p[i]);
    else
        EACH {
            A d = GRADIENT(p[i]);
            A b = (flags & FIRST) != 0 ? d : s[i] * momentum + share * d;

            s[i] = b;
            p[i] += rate * (nesterov ? d + ahead * b : b);
        }
}

FN void adam(const A *c, int flags, A *p, const A *g, A *s, A *t, A *u)
{
    A sign = c[0], decay = c[1], shrink = c[2], w1 = c[3], keep1 = c[4], beta2 = c[5], w2 = c[6];
    A root_scale = c[7], eps = c[8], rate = c[9];
    int decays = (flags & DECAY) != 0, near_old = (flags & NEAR_OLD) != 0;

    EACH {
        A x = p[i] * shrink, d = GRADIENT(x);
        A v = t[i] * beta2 + w2 * d * d;
        A m = near_old ? s[i] + w1 * (d - s[i]) : d - (d - s[i]) * keep1;
        A top = (flags & HAS_3) != 0 && u[i] > v ? u[i] : v;

        s[i] = m;
        t[i] = v;
        u[i] = top;
        p[i] = x + rate * m / (sqrt(top) / root_scale + eps);
    }
}

FN void adagrad(const A *c, int flags, A *p, const A *g, A *s)
{
    A sign = c[0], decay = c[1], eps = c[2], rate = c[3];
    int decays = (flags & DECAY) != 0;

    EACH {
        A d = GRADIENT(p[i]);

        s[i] += d * d;
        p[i] += rate * d / (sqrt(s[i]) + eps);
    }
}

FN void rmsprop(const A *c, int flags, A *p, const A *g, A *s, A *t, A *u)
{
    A sign = c[0], decay = c[1], alpha = c[2], share = c[3], eps = c[4], rate = c[5], momentum = c[6];
    int decays = (flags & DECAY) != 0, near_old = (flags & NEAR_OLD) != 0;
    int centered = (flags & HAS_3) != 0, heavy = (flags & HAS_2) != 0;

    EACH {
        A d = GRADIENT(p[i]), square = s[i] * alpha + share * d * d, along, mean;

        s[i] = square;
        mean = near_old ? u[i] + share * (d - u[i]) : d - (d - u[i]) * alpha;
        u[i] = mean;
        square = centered ? square - mean * mean : square;
        along = d / (sqrt(square) + eps);
        along = heavy ? t[i] * momentum + along : along;
        t[i] = along;
        p[i] += rate * along;
    }
}

FN void compute(const step_t *a, const A *c, A x[5][BLOCK])
{
    switch (a->rule) {
    case SGD:
        sgd(c, a->flags, x[0], x[1], x[2]);
        break;
    case ADAM:
        adam(c, a->flags, x[0], x[1], x[2], x[3], x[4]);
        break;
    case ADAGRAD:
        adagrad(c, a->flags, x[0], x[1], x[2]);
        break;
    case RMSPROP:
        rmsprop(c, a->flags, x[0], x[1], x[2], x[3], x[4]);
        break;
    case CLAMP: /* NaN stays */
        EACH {
            A low = x[0][i] < c[0] ? c[0] : x[0][i];

            x[0][i] = low > c[1] ? c[1] : low;
        }
        break;
    default:
        EACH x[0][i] *= c[0];
        break;
    }
}

/* Infinity and NaN give NaN. */
FN int not_finite(const A *x, int n)
{
    int bad = 0;

    for (int i = 0; i < n; i++)
        bad |= !(x[i] - x[i] == 0);
    return bad;
}

/* The row that entry k of a sparse gradient names. */
FN u64 row_of(const step_t *a, GLOBAL const i64 *indices, u64 k)
{
    i64 row = 0;

    for (int d = 0; d < (int)a->sparse_dims; d++)
        row = row * a->dims[d] + indices[(u64)d * a->rows + k];
    return (u64)row;
}

/* found: of UNSCALE; everyone who found one writes the same. */
KERNEL void optimize(MEM(T, p), MEM(const T, g), MEM(T, s), MEM(T, t), MEM(T, u), MEM(const i64, indices),
                 MEM(f32, found), step_t a)
{
    OPEN(T, p);
    OPEN(const T, g);
    OPEN(T, s);
    OPEN(T, t);
    OPEN(T, u);
    OPEN(const i64, indices);
    OPEN(f32, found);
    A c[10], x[5][BLOCK];

    for (int i = 0; i < 10; i++)
        c[i] = NUMBER(a.c[i]);
    FOR_ROWS(row, a.rows) {
        u64 from = row * a.width, to = (a.sparse_dims > 0 ? row_of(&a, indices, row) : row) * a.width;
        u64 length = a.n - from < a.width ? a.n - from : a.width;

        for (u64 j = LANE * BLOCK; j < length; j += WG * BLOCK) {
            int n = length - j < BLOCK ? (int)(length - j) : BLOCK;

            read_block(x[0], p + to + j, n);
            if (a.rule <= RMSPROP)
                read_block(x[1], g + from + j, n);
            if ((a.flags & HAS_1) != 0)
                read_block(x[2], s + to + j, n);
            if ((a.flags & HAS_2) != 0)
                read_block(x[3], t + to + j, n);
            if ((a.flags & HAS_3) != 0)
                read_block(x[4], u + to + j, n);
            if (a.rule == UNSCALE && not_finite(x[0], n) != 0)
                found[0] = 1;
            compute(&a, c, x);
            write_block(p + to + j, x[0], n);
            if ((a.flags & HAS_1) != 0)
                write_block(s + to + j, x[2], n);
            if ((a.flags & HAS_2) != 0)
                write_block(t + to + j, x[3], n);
            if ((a.flags & HAS_3) != 0)
                write_block(u + to + j, x[4], n);
        }
#ifndef CPU_DEVICE
        if ((a.flags & IN_ORDER) != 0) /* the next row may be the same one */
            BARRIER;
#endif
    }
}
