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

typedef struct scan_t {
    loop_t lines;
    i64 n, x_stride, out_stride; /* of a line */
    i64 chunk, chunks;
} scan_t;

KERNEL void scan_totals(MEM(wide, totals), MEM(const T, x), scan_t q, u32 product)
{
    OPEN(wide, totals);
    OPEN(const T, x);
    u64 lines = (u64)q.lines.total;

    FOR_EACH(t, lines * (u64)q.chunks)
    {
        u64 c = t / lines, first = c * (u64)q.chunk;
        u64 m = (u64)q.n - first < (u64)q.chunk ? (u64)q.n - first : (u64)q.chunk;
        GLOBAL const T *from = x + loop_at(q.lines, t - c * lines).x + (i64)first * q.x_stride;
        wide w = NEUTRAL;

        if (product != 0)
            for (u64 i = 0; i < m; i++)
                w = TIMES(w, WIDE(LD(from, (i64)i * q.x_stride)));
        else
            for (u64 i = 0; i < m; i++)
                w = PLUS(w, WIDE(LD(from, (i64)i * q.x_stride)));
        totals[t] = w;
    }
}

/* Totals become what is before each chunk. */
KERNEL void scan_before(MEM(wide, totals), scan_t q, u32 product)
{
    OPEN(wide, totals);
    u64 lines = (u64)q.lines.total;

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

KERNEL void scan_write(MEM(T, out), MEM(const T, x), MEM(const wide, totals), scan_t q, u32 product)
{
    OPEN(T, out);
    OPEN(const T, x);
    OPEN(const wide, totals);
    u64 lines = (u64)q.lines.total;

    FOR_EACH(t, lines * (u64)q.chunks)
    {
        u64 c = t / lines, first = c * (u64)q.chunk;
        u64 m = (u64)q.n - first < (u64)q.chunk ? (u64)q.n - first : (u64)q.chunk;
        place_t at = loop_at(q.lines, t - c * lines);
        GLOBAL const T *from = x + at.x + (i64)first * q.x_stride;
        i64 to = at.out + (i64)first * q.out_stride;
        wide w = NEUTRAL;

        if (q.chunks > 1)
            w = totals[t];
        for (u64 i = 0; i < m; i++) {
            wide v = WIDE(LD(from, (i64)i * q.x_stride));

            w = product != 0 ? TIMES(w, v) : PLUS(w, v);
            PUT(out, to + (i64)i * q.out_stride, w);
        }
    }
}
