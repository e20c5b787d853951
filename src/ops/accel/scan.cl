/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative sums and products along lines of a tensor. Long lines are cut into chunks: their totals are
 * found first, then what is before each, then the results. Needs loops.cl. */

#ifdef HAS_FP64
typedef f64 real_t;
#else
typedef f32 real_t;
#endif

#ifdef IS_COMPLEX
typedef struct pair_t {
    real_t re, im;
} wide;

FN wide wide_of(T v)
{
    wide w;

    w.re = v.re;
    w.im = v.im;
    return w;
}

FN wide plus(wide a, wide b)
{
    a.re += b.re;
    a.im += b.im;
    return a;
}

FN wide times(wide a, wide b)
{
    wide w;

    w.re = a.re * b.re - a.im * b.im;
    w.im = a.re * b.im + a.im * b.re;
    return w;
}

FN wide neutral(u32 product)
{
    wide w;

    w.re = product != 0 ? 1 : 0;
    w.im = 0;
    return w;
}

FN void put(GLOBAL T *out, i64 at, wide w)
{
    out[at].re = (R)w.re;
    out[at].im = (R)w.im;
}
#define WIDE(v) wide_of(v)
#define PLUS(a, b) plus(a, b)
#define TIMES(a, b) times(a, b)
#define PUT(out, at, w) put(out, at, w)
#define NEUTRAL neutral(product)
#else
#ifdef IS_REAL
typedef real_t wide;
#define PUT(out, at, w) ST(out, at, (A)(w))
#else
typedef u64 wide;
#define PUT(out, at, w) ((out)[at] = (T)(w))
#endif
#define WIDE(v) ((wide)(v))
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define NEUTRAL (product != 0 ? (wide)1 : (wide)0)
#endif

/* Lines lie beside each other where they can: `width` of them are done at a time. */
typedef struct scan_t {
    loop_t keep;
    i64 n_lines, x_step, out_step; /* innermost of the other dimensions */
    i64 n, x_stride, out_stride;   /* of a line */
    i64 chunk, chunks;
    i64 width, tiles; /* lines of a tile, and tiles of n_lines */
} scan_t;

#if WG == 1
#define COLUMNS 64
#else
#define COLUMNS 1
#endif

/* A tile of lines, of which a chunk is done. */
typedef struct tile_t {
    i64 x, out;    /* the first element of the chunk in both */
    u64 totals, m; /* where its totals are; elements */
    i32 w;         /* lines of this work-item */
} tile_t;

FN tile_t tile_of(scan_t q, u64 t)
{
    tile_t a;
    u64 tasks = (u64)(q.keep.total * q.tiles), c = t / tasks, task = t - c * tasks;
    u64 k = task / (u64)q.tiles, line = (task - k * (u64)q.tiles) * (u64)q.width + LID;
    u64 first = c * (u64)q.chunk;
    i64 left = q.n_lines - (i64)line; /* not above 0: none */
    place_t at = loop_at(q.keep, k);

    a.x = at.x + (i64)line * q.x_step + (i64)first * q.x_stride;
    a.out = at.out + (i64)line * q.out_step + (i64)first * q.out_stride;
    a.totals = (c * (u64)q.keep.total + k) * (u64)q.n_lines + line;
    a.m = (u64)q.n - first < (u64)q.chunk ? (u64)q.n - first : (u64)q.chunk;
#if WG == 1
    a.w = (i32)(left < q.width ? left : q.width);
#else
    a.w = left > 0;
#endif
    return a;
}

KERNEL void scan_totals(MEM(wide, totals), MEM(const T, x), scan_t q, u32 product)
{
    OPEN(wide, totals);
    OPEN(const T, x);

    FOR_ROWS(t, (u64)(q.keep.total * q.tiles * q.chunks))
    {
        tile_t a = tile_of(q, t);

        for (i32 j = 0; j < a.w; j++) {
            GLOBAL const T *from = x + a.x + j * q.x_step;
            wide w = NEUTRAL;

            if (product != 0)
                for (u64 i = 0; i < a.m; i++)
                    w = TIMES(w, WIDE(LD(from, (i64)i * q.x_stride)));
            else
                for (u64 i = 0; i < a.m; i++)
                    w = PLUS(w, WIDE(LD(from, (i64)i * q.x_stride)));
            totals[a.totals + (u64)j] = w;
        }
    }
}

/* Totals become what is before each chunk. */
KERNEL void scan_before(MEM(wide, totals), scan_t q, u32 product)
{
    OPEN(wide, totals);
    u64 lines = (u64)(q.keep.total * q.n_lines);

    FOR_EACH(line, lines)
    {
        wide w = NEUTRAL;

        for (u64 c = 0; c < (u64)q.chunks; c++) {
            wide v = totals[c * lines + line];

            totals[c * lines + line] = w;
            w = product != 0 ? TIMES(w, v) : PLUS(w, v);
        }
    }
}

#define SCAN(OP)                                                        \
    for (u64 i = 0; i < a.m; i++) {                                     \
        w = OP(w, WIDE(LD(from, (i64)i * q.x_stride)));                 \
        PUT(out, a.out + (i64)i * q.out_stride, w);                     \
    }
#define SCAN_TILE(OP)                                                   \
    for (u64 i = 0; i < a.m; i++) {                                     \
        GLOBAL const T *row = from + (i64)i * q.x_stride;               \
        i64 to = a.out + (i64)i * q.out_stride;                         \
                                                                        \
        for (i32 j = 0; j < a.w; j++) {                                 \
            state[j] = OP(state[j], WIDE(LD(row, j)));                  \
            PUT(out, to + j, state[j]);                                 \
        }                                                               \
    }

/* Tiles of more than one line have lines beside each other in both tensors. */
KERNEL void scan_write(MEM(T, out), MEM(const T, x), MEM(const wide, totals), scan_t q, u32 product)
{
    OPEN(T, out);
    OPEN(const T, x);
    OPEN(const wide, totals);

    FOR_ROWS(t, (u64)(q.keep.total * q.tiles * q.chunks))
    {
        tile_t a = tile_of(q, t);
        GLOBAL const T *from = x + a.x;

        if (a.w == 1) {
            wide w = NEUTRAL;

            if (q.chunks > 1)
                w = totals[a.totals];
            if (product != 0) {
                SCAN(TIMES)
            } else {
                SCAN(PLUS)
            }
        }
#if COLUMNS > 1
        else {
            wide state[COLUMNS];

            for (i32 j = 0; j < a.w; j++)
                state[j] = NEUTRAL;
            for (i32 j = 0; q.chunks > 1 && j < a.w; j++)
                state[j] = totals[a.totals + (u64)j];
            if (product != 0) {
                SCAN_TILE(TIMES)
            } else {
                SCAN_TILE(PLUS)
            }
        }
#endif
    }
}
