/* SPDX-License-Identifier: Apache-2.0 */
/* Where the largest or smallest element of a line is: the first of equals, and the first NaN wins. Long lines
 * are cut into segments, whose winners are compared in order. Needs loops.cl. */

#define BLOCK 1024

typedef struct arg_t {
    loop_t keep;
    i64 n_out, out_stride, out_step; /* innermost kept */
    i64 n, stride;                   /* a line */
    i64 n_results;
    i64 piece, n_segments; /* elements of a segment */
    i64 tiles;             /* of columns, per outer kept index */
    u32 largest, with_values;
} arg_t;

#ifdef IS_REAL
#define IS_NAN(v) ((v) != (v))
#else
#define IS_NAN(v) 0
#endif

FN i32 beats(A v, A than, u32 largest)
{
    return (largest != 0 ? v > than : v < than) | (IS_NAN(v) & !IS_NAN(than));
}

/* Where line o begins. */
FN place_t line_at(arg_t q, u64 o)
{
    u64 k = q.keep.total == 1 ? 0 : o / (u64)q.n_out;
    i64 j = (i64)(o - k * (u64)q.n_out);
    place_t at = loop_at(q.keep, k);

    at.x += j * q.out_stride;
    at.out += j * q.out_step;
    return at;
}

FN void put_result(GLOBAL T *values, GLOBAL i64 *indices, GLOBAL const T *line, arg_t q, i64 out, i64 where)
{
    indices[out] = where;
    if (q.with_values != 0)
        values[out] = line[where * q.stride];
}

/* ---- rows ------------------------------------------------------------------------------------- */

#if WG == 1
#define LANES 16
#define LARGER(a, b) ((((b) > (a)) | IS_NAN(b)) ? (b) : (a))
#define SMALLER(a, b) ((((b) < (a)) | IS_NAN(b)) ? (b) : (a))

/* The extreme of n elements, at least one. */
FN A extreme(GLOBAL const T *x, u32 n, u32 largest)
{
    A lane[LANES];
    u32 i = 0;

    for (i32 j = 0; j < LANES; j++)
        lane[j] = LD(x, 0);
    if (largest != 0) {
        for (; i + LANES <= n; i += LANES)
            for (i32 j = 0; j < LANES; j++)
                lane[j] = LARGER(lane[j], LD(x, i + j));
    } else {
        for (; i + LANES <= n; i += LANES)
            for (i32 j = 0; j < LANES; j++)
                lane[j] = SMALLER(lane[j], LD(x, i + j));
    }
    for (; i < n; i++)
        if (beats(LD(x, i), lane[0], largest))
            lane[0] = LD(x, i);
    for (i32 j = 1; j < LANES; j++)
        if (beats(lane[j], lane[0], largest))
            lane[0] = lane[j];
    return lane[0];
}

/* Where the winner of n elements is: whole blocks are compared first, a better one is searched. */
FN i64 find(GLOBAL const T *x, u64 n, i64 stride, u32 largest)
{
    A best = LD(x, 0);
    u64 at = 0;

    if (stride != 1) {
        for (u64 i = 1; i < n; i++) {
            A v = LD(x, (i64)i * stride);

            if (beats(v, best, largest)) {
                best = v;
                at = i;
            }
        }
        return (i64)at;
    }
    for (u64 i = 0; i < n; i += BLOCK) {
        u32 m = n - i < BLOCK ? (u32)(n - i) : BLOCK;
        A v = extreme(x + i, m, largest);
        u64 to = i;

        if (!beats(v, best, largest))
            continue;
        best = v;
        for (A w = LD(x, to); !((w == v) | (IS_NAN(w) & IS_NAN(v))); w = LD(x, to))
            to++;
        at = to;
    }
    return (i64)at;
}
#endif

KERNEL void arg_rows(MEM(T, values), MEM(i64, indices), MEM(i64, parts), MEM(const T, x), arg_t q)
{
#if WG > 1
    SHARED A best[WG];
    SHARED i64 where[WG];
#endif
    OPEN(T, values);
    OPEN(i64, indices);
    OPEN(i64, parts);
    OPEN(const T, x);

    FOR_ROWS(t, (u64)(q.n_results * q.n_segments))
    {
        u64 o = q.n_segments == 1 ? t : t / (u64)q.n_segments, s = t - o * (u64)q.n_segments;
        place_t at = line_at(q, o);
        i64 first = (i64)s * q.piece, n = q.n - first < q.piece ? q.n - first : q.piece;
        GLOBAL const T *from = x + at.x + first * q.stride;
        i64 found = -1;
#if WG == 1
        found = find(from, (u64)n, q.stride, q.largest);
#else
        A v = LD(from, 0);

        for (i64 i = (i64)LID; i < n; i += WG)
            if (found < 0 || beats(LD(from, i * q.stride), v, q.largest)) {
                v = LD(from, i * q.stride);
                found = i;
            }
        best[LID] = v;
        where[LID] = found;
        BARRIER;
        for (u32 left = WG; left > 1;) {
            u32 half_n = (left + 1) / 2, other = (u32)LID + half_n;

            if (other < left && where[other] >= 0) {
                A a = best[LID], b = best[other];
                i32 same = !beats(a, b, q.largest) && !beats(b, a, q.largest);

                if (beats(b, a, q.largest) || (same && where[other] < where[LID])) {
                    best[LID] = b;
                    where[LID] = where[other];
                }
            }
            BARRIER;
            left = half_n;
        }
        found = where[0];
        BARRIER;
#endif
        if (LID == 0) {
            if (q.n_segments > 1)
                parts[s * (u64)q.n_results + o] = first + found;
            else
                put_result(values, indices, x + at.x, q, at.out, found);
        }
    }
}

/* ---- columns: neighbouring lines are beside each other -------------------------------------------- */

#if WG == 1
#define COLUMNS 64
#else
#define COLUMNS 1
#endif

KERNEL void arg_columns(MEM(T, values), MEM(i64, indices), MEM(i64, parts), MEM(const T, x), arg_t q)
{
    OPEN(T, values);
    OPEN(i64, indices);
    OPEN(i64, parts);
    OPEN(const T, x);
    u64 tasks = (u64)(q.keep.total * q.tiles);

    FOR_ROWS(t, tasks * (u64)q.n_segments)
    {
        A best[COLUMNS];
        i32 where[COLUMNS];
        u64 s = t / tasks, task = t - s * tasks, k = task / (u64)q.tiles;
        u64 c = (task - k * (u64)q.tiles) * (COLUMNS * WG) + LID, o = k * (u64)q.n_out + c;
        i64 left = q.n_out - (i64)c;
        i32 w = left < COLUMNS ? (i32)left : COLUMNS; /* not above 0: none */
        place_t at = loop_at(q.keep, k);
        i64 first = (i64)s * q.piece, os = q.out_stride;
        i32 n = (i32)(q.n - first < q.piece ? q.n - first : q.piece);
        GLOBAL const T *from = x + at.x + (i64)c * os;

        for (i32 j = 0; j < w; j++) {
            best[j] = LD(from, first * q.stride + j * os);
            where[j] = 0;
        }
        for (i32 i = 1; i < n; i++) {
            GLOBAL const T *line = from + (first + i) * q.stride;

            for (i32 j = 0; j < w; j++) {
                A v = LD(line, j * os);
                i32 won = beats(v, best[j], q.largest);

                best[j] = won ? v : best[j];
                where[j] = won ? i : where[j];
            }
        }
        for (i32 j = 0; j < w; j++) {
            if (q.n_segments > 1)
                parts[s * (u64)q.n_results + o + (u64)j] = first + where[j];
            else
                put_result(values, indices, from + j * os, q, at.out + (i64)(c + (u64)j) * q.out_step,
                           where[j]);
        }
    }
}

/* ---- joining the segments --------------------------------------------------------------------------- */

KERNEL void arg_join(MEM(T, values), MEM(i64, indices), MEM(const i64, parts), MEM(const T, x), arg_t q)
{
    OPEN(T, values);
    OPEN(i64, indices);
    OPEN(const i64, parts);
    OPEN(const T, x);

    FOR_EACH(o, (u64)q.n_results)
    {
        place_t at = line_at(q, o);
        GLOBAL const T *line = x + at.x;
        i64 where = parts[o];

        for (u64 s = 1; s < (u64)q.n_segments; s++) {
            i64 other = parts[s * (u64)q.n_results + o];

            if (beats(LD(line, other * q.stride), LD(line, where * q.stride), q.largest))
                where = other;
        }
        put_result(values, indices, line, q, at.out, where);
    }
}
