/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: one fold (FOLD_x) of one element type. A fold maps each element and joins the values. `cell` is what
 * lanes compute in, `wide` what they are gathered in: sums stay accurate because a lane adds few elements before
 * its value moves on. Elements of one result are cut into segments by size alone, whose partial results are
 * joined in order: the same bits every run. Needs loops.cl; exponentials and powers also vmath.cl. */

#ifdef HAS_FP64
typedef f64 real_t;
#define REAL_OF(bits, single) U2D(bits)
#else
typedef f32 real_t;
#define REAL_OF(bits, single) (single)
#endif

#define BLOCK 2048     /* elements of a row between moves to `wide` */
#define COLUMN_BLOCK 64 /* the same for rows of columns */

/* The larger of two where NaN wins, and the smaller. */
#define LARGER(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define SMALLER(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))

#if defined(FOLD_ALL) || defined(FOLD_ANY)
typedef i32 cell;
typedef i32 wide;
#ifdef IS_COMPLEX
#define MAP(v, p, e) (((v).re != 0) | ((v).im != 0))
#else
#define MAP(v, p, e) ((v) != 0)
#endif
#ifdef FOLD_ALL
#define JOIN(a, b) ((a) & (b))
#define INIT 1
#else
#define JOIN(a, b) ((a) | (b))
#define INIT 0
#endif
typedef u8 result;
#define PUT(out, at, v) ((out)[at] = (u8)(v))

#elif defined(IS_INT) || defined(IS_BOOL)
typedef T result;
#define PUT(out, at, v) ((out)[at] = (T)(v))
#define MAP(v, p, e) (v)
#if defined(FOLD_SUM)
typedef u64 cell;
typedef u64 wide;
#define JOIN(a, b) ((a) + (b))
#define INIT 0
#elif defined(FOLD_PROD)
typedef u64 cell;
typedef u64 wide;
#define JOIN(a, b) ((a) * (b))
#define INIT 1
#else
typedef T cell;
typedef T wide;
#if defined(IS_U8) || defined(IS_BOOL)
#define LOWEST 0
#define HIGHEST 255
#else
#define LOWEST ((T)((u64)1 << (sizeof(T) * 8 - 1)))
#define HIGHEST ((T)(((u64)1 << (sizeof(T) * 8 - 1)) - 1))
#endif
#ifdef FOLD_MAX
#define JOIN(a, b) ((b) > (a) ? (b) : (a))
#define INIT LOWEST
#else
#define JOIN(a, b) ((b) < (a) ? (b) : (a))
#define INIT HIGHEST
#endif
#endif

#elif defined(IS_COMPLEX) && (defined(FOLD_SUM) || defined(FOLD_PROD))
typedef struct pair_t {
    real_t re, im;
} pair_t;
typedef pair_t cell;
typedef pair_t wide;
typedef T result;
#define IS_PAIR

FN pair_t pair(real_t re, real_t im)
{
    pair_t z;

    z.re = re;
    z.im = im;
    return z;
}

FN pair_t join_pairs(pair_t a, pair_t b)
{
#ifdef FOLD_SUM
    return pair(a.re + b.re, a.im + b.im);
#else
    return pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
#endif
}

FN void put_pair(GLOBAL T *out, i64 at, pair_t v)
{
    out[at].re = (R)v.re;
    out[at].im = (R)v.im;
}
#define MAP(v, p, e) pair((v).re, (v).im)
#define JOIN(a, b) join_pairs(a, b)
#ifdef FOLD_SUM
#define INIT pair(0, 0)
#else
#define INIT pair(1, 0)
#endif
#define PUT(out, at, v) put_pair(out, at, v)

#else /* real accumulators */
#ifdef IS_COMPLEX
typedef real_t cell;
typedef R result;
#define PUT(out, at, v) ((out)[at] = (R)(v))
#define ABS(v) hypot((cell)(v).re, (cell)(v).im)
#define POW(v, e) pow(v, e)
#define SQUARE(v) ((cell)(v).re * (v).re + (cell)(v).im * (v).im)
#define COUNT(v) ((((v).re != 0) | ((v).im != 0)) ? (cell)1 : (cell)0)
#else
typedef A cell;
typedef T result;
#define PUT(out, at, v) ST(out, at, (A)(v))
#define ABS(v) fabs(v)
#ifdef IS_F64
#define POW(v, e) tti_vpowd(v, e)
#define EXP(v) tti_vexpd(v)
#else
#define POW(v, e) tti_vpowf(v, e)
#define EXP(v) tti_vexpf(v)
#endif
#define SQUARE(v) ((v) * (v))
#define COUNT(v) ((v) != 0 ? (cell)1 : (cell)0)
#endif
typedef real_t wide;
#define JOIN(a, b) ((a) + (b))
#define INIT 0
#if defined(FOLD_SUM)
#define MAP(v, p, e) (v)
#elif defined(FOLD_SUM_ABS)
#define MAP(v, p, e) ABS(v)
#elif defined(FOLD_SUM_SQ)
#define MAP(v, p, e) SQUARE(v)
#elif defined(FOLD_COUNT)
#define MAP(v, p, e) COUNT(v)
#elif defined(FOLD_POW)
#define MAP(v, p, e) POW(ABS(v), (cell)(e))
#elif defined(FOLD_SQ_DEV)
#define MAP(v, p, e) (((v) - (p)) * ((v) - (p)))
#elif defined(FOLD_EXP)
#define MAP(v, p, e) EXP((v) - (p))
#else
#undef JOIN
#undef INIT
#if defined(FOLD_PROD)
#define MAP(v, p, e) (v)
#define JOIN(a, b) ((a) * (b))
#define INIT 1
#elif defined(FOLD_MAX)
#define MAP(v, p, e) (v)
#define JOIN(a, b) LARGER(a, b)
#define INIT (-INFINITY)
#elif defined(FOLD_MIN)
#define MAP(v, p, e) (v)
#define JOIN(a, b) SMALLER(a, b)
#define INIT INFINITY
#elif defined(FOLD_MAX_ABS)
#define MAP(v, p, e) ABS(v)
#define JOIN(a, b) LARGER(a, b)
#define INIT 0
#elif defined(FOLD_MIN_ABS)
#define MAP(v, p, e) ABS(v)
#define JOIN(a, b) SMALLER(a, b)
#define INIT INFINITY
#endif
#endif
#define IS_WIDE_REAL
#endif

/* What is done: tti_accel_reduction in reduce.h. */
typedef struct plan_t {
    loop_t keep, red;
    i64 n_out, out_stride, out_step; /* innermost kept */
    i64 n, stride;                   /* innermost reduced */
    i64 n_results;
    i64 piece, pieces, rows, n_segments; /* a segment: a piece of n, or so many rows of n */
    i64 tiles;                           /* of columns, per outer kept index */
    i64 count;                           /* elements per result */
    u64 p_bits;                          /* the parameter, as the bits of a double */
    f32 p;                               /* and as a float */
    u32 finish;                          /* FINISH_x */
    u32 raw;                             /* leave accumulators in `parts` */
    u32 param;                           /* PARAM_x: what there is in `param`; rows find it themselves when 0 */
} plan_t;

#define FINISH_MEAN 1
#define FINISH_ROOT 2
#define FINISH_ROOT_P 3
#define FINISH_VAR 4
#define FINISH_LOG 5
#define PARAM_SUM 1 /* sums: the parameter is the mean */
#define PARAM_MAX 2 /* largest values: the parameter is that, or 0 when it is infinite */

#ifdef IS_WIDE_REAL
FN wide param_of(wide v, u32 kind, i64 count)
{
    if (kind == PARAM_SUM)
        return v / (wide)count;
    return isinf(v) ? (wide)0 : v;
}

FN wide finished(wide v, wide param, plan_t q)
{
    wide n = (wide)q.count, p = REAL_OF(q.p_bits, q.p);

    if (q.finish == FINISH_MEAN)
        return v / n;
    if (q.finish == FINISH_ROOT)
        return sqrt(v);
    if (q.finish == FINISH_ROOT_P)
        return pow(v, (wide)1 / p);
    if (q.finish == FINISH_VAR)
        return q.count == 0 ? (wide)NAN : v / (n - p > 0 ? n - p : (wide)0);
    if (q.finish == FINISH_LOG)
        return log(v) + param;
    return v;
}
#endif

/* An accumulator becomes the result at its place. */
FN void put_result(GLOBAL result *out, i64 at, wide v, real_t param, plan_t q)
{
#ifdef IS_PAIR
    if (q.finish == FINISH_MEAN) {
        v.re /= (real_t)q.count;
        v.im /= (real_t)q.count;
    }
#elif defined(IS_WIDE_REAL)
    v = finished(v, param, q);
#endif
    PUT(out, at, v);
}

#ifdef IS_WIDE_REAL
#define PARAM(o) (q.param != 0 ? param_of(param[o], q.param, q.count) : (real_t)0)
#define CELL(v) ((cell)(v))
#else
#define PARAM(o) ((real_t)0)
#define CELL(v) INIT
#endif

/* Segment s of a result: rows [row, end), of each of which elements [first, first + n). */
typedef struct segment_t {
    u64 row, end, first, n;
} segment_t;

FN segment_t segment_of(plan_t q, u64 s)
{
    segment_t g;
    u64 total = (u64)q.red.total;

    g.first = 0;
    g.n = (u64)q.n;
    if (q.pieces > 1) {
        g.row = s / (u64)q.pieces;
        g.first = (s - g.row * (u64)q.pieces) * (u64)q.piece;
        g.n = g.n - g.first < (u64)q.piece ? g.n - g.first : (u64)q.piece;
    } else {
        g.row = s * (u64)q.rows;
    }
    g.end = g.row + (u64)q.rows < total ? g.row + (u64)q.rows : total;
    return g;
}

/* ---- rows: a group folds the elements of one result ----------------------------------------- */

#if WG == 1
#if defined(FOLD_EXP) || defined(FOLD_POW)
#define LANES 64 /* compilers leave such a loop as it is, and turn it into vector code */
#else
#define LANES (64 / sizeof(cell) > 16 ? 16 : 128 / (i32)sizeof(cell))
#endif

/* name_block: at most BLOCK elements beside each other. name: a row. */
#define ROW_FOLD(name, MAP, JOIN, INIT)                                              \
    FN cell name##_block(GLOBAL const T *x, u32 n, cell p, real_t e)                 \
    {                                                                                \
        cell lane[LANES];                                                            \
        u32 i = 0;                                                                   \
                                                                                     \
        for (i32 j = 0; j < LANES; j++)                                              \
            lane[j] = INIT;                                                          \
        for (; i + LANES <= n; i += LANES) {                                         \
            for (i32 j = 0; j < LANES; j++)                                          \
                lane[j] = JOIN(lane[j], MAP(LD(x, i + j), p, e));                    \
        }                                                                            \
        for (i32 j = 0; i < n; i++, j++)                                             \
            lane[j] = JOIN(lane[j], MAP(LD(x, i), p, e));                            \
        for (i32 half_n = LANES / 2; half_n > 0; half_n /= 2)                        \
            for (i32 j = 0; j < half_n; j++)                                         \
                lane[j] = JOIN(lane[j], lane[j + half_n]);                           \
        return lane[0];                                                              \
    }                                                                                \
                                                                                     \
    FN wide name(GLOBAL const T *x, u64 n, i64 stride, cell p, real_t e)             \
    {                                                                                \
        wide acc = INIT;                                                             \
                                                                                     \
        if (stride == 1 && n >= 8) {                                                 \
            for (u64 i = 0; i < n; i += BLOCK) {                                     \
                cell part = name##_block(x + i, n - i < BLOCK ? (u32)(n - i) : BLOCK, p, e); \
                                                                                     \
                acc = JOIN(acc, part);                                               \
            }                                                                        \
            return acc;                                                              \
        }                                                                            \
        for (u64 i = 0; i < n;) {                                                    \
            cell part = INIT;                                                        \
                                                                                     \
            for (u32 j = 0; j < COLUMN_BLOCK && i < n; j++, i++)                     \
                part = JOIN(part, MAP(LD(x, (i64)i * stride), p, e));                \
            acc = JOIN(acc, part);                                                   \
        }                                                                            \
        return acc;                                                                  \
    }
#else
/* name: this item's share of a row. */
#define ROW_FOLD(name, MAP, JOIN, INIT)                                              \
    FN wide name(GLOBAL const T *x, u64 n, i64 stride, cell p, real_t e)             \
    {                                                                                \
        wide acc = INIT;                                                             \
                                                                                     \
        for (u64 i = LID; i < n;) {                                                  \
            cell part = INIT;                                                        \
                                                                                     \
            for (u32 j = 0; j < COLUMN_BLOCK && i < n; j++, i += WG)                 \
                part = JOIN(part, MAP(LD(x, (i64)i * stride), p, e));                \
            acc = JOIN(acc, part);                                                   \
        }                                                                            \
        return acc;                                                                  \
    }
#endif

ROW_FOLD(fold_row, MAP, JOIN, INIT)

/* The accumulators of a group become one, in a fixed order. */
#if WG > 1
#define GATHER(acc, JOIN)                                                            \
    tree[LID] = acc;                                                                 \
    BARRIER;                                                                         \
    for (u32 left = WG; left > 1;) {                                                 \
        u32 half_n = (left + 1) / 2;                                                 \
                                                                                     \
        if (LID + half_n < left)                                                     \
            tree[LID] = JOIN(tree[LID], tree[LID + half_n]);                         \
        BARRIER;                                                                     \
        left = half_n;                                                               \
    }                                                                                \
    acc = tree[0];                                                                   \
    BARRIER;
#else
#define GATHER(acc, JOIN)
#endif

/* Folds that need sums or largest values first find them in the same row, while it is near. */
#if defined(FOLD_SQ_DEV)
#define FIRST_PARAM PARAM_SUM
#define FIRST_JOIN(a, b) ((a) + (b))
#define FIRST_INIT 0
#elif defined(FOLD_EXP)
#define FIRST_PARAM PARAM_MAX
#define FIRST_JOIN(a, b) LARGER(a, b)
#define FIRST_INIT (-INFINITY)
#endif
#ifdef FIRST_JOIN
#define PLAIN(v, p, e) (v)
ROW_FOLD(first_row, PLAIN, FIRST_JOIN, FIRST_INIT)
#endif

#define FOR_SEGMENT(FOLD, JOIN, acc)                                                                       \
    for (u64 row = g.row; row < g.end; row++) {                                                            \
        i64 from = at.x + j * q.out_stride + loop_at(q.red, row).x + (i64)g.first * q.stride;              \
        wide part = FOLD(x + from, g.n, q.stride, p, e);                                                   \
                                                                                                           \
        acc = JOIN(acc, part);                                                                             \
    }

KERNEL void reduce_rows(MEM(result, out), MEM(wide, parts), MEM(const wide, param), MEM(const T, x), plan_t q)
{
#if WG > 1
    SHARED wide tree[WG];
#endif
    OPEN(result, out);
    OPEN(wide, parts);
    OPEN(const wide, param);
    OPEN(const T, x);
    real_t e = REAL_OF(q.p_bits, q.p);

    FOR_ROWS(t, (u64)(q.n_results * q.n_segments))
    {
        u64 o = q.n_segments == 1 ? t : t / (u64)q.n_segments;
        u64 s = t - o * (u64)q.n_segments, k = q.keep.total == 1 ? 0 : o / (u64)q.n_out;
        i64 j = (i64)(o - k * (u64)q.n_out);
        place_t at = loop_at(q.keep, k);
        segment_t g = segment_of(q, s);
        real_t first = PARAM(o);
        cell p = CELL(first);
        wide acc = INIT;

#ifdef FIRST_JOIN
        if (q.param == 0) {
            first = FIRST_INIT;
            FOR_SEGMENT(first_row, FIRST_JOIN, first)
            GATHER(first, FIRST_JOIN)
            first = param_of(first, FIRST_PARAM, q.count);
            p = (cell)first;
        }
#endif
        FOR_SEGMENT(fold_row, JOIN, acc)
        GATHER(acc, JOIN)
        if (LID == 0) {
            if (q.raw != 0 || q.n_segments > 1)
                parts[s * (u64)q.n_results + o] = acc;
            else
                put_result(out, at.out + j * q.out_step, acc, first, q);
        }
    }
}

/* ---- columns: an item folds whole results, of which neighbours are beside each other ---------- */

#if WG == 1
#define COLUMNS 512
#else
#define COLUMNS 1
#endif

KERNEL void reduce_columns(MEM(result, out), MEM(wide, parts), MEM(const wide, param), MEM(const T, x),
                           plan_t q)
{
    OPEN(result, out);
    OPEN(wide, parts);
    OPEN(const wide, param);
    OPEN(const T, x);
    real_t e = REAL_OF(q.p_bits, q.p);
    u64 tasks = (u64)(q.keep.total * q.tiles);
    i64 s = q.stride, os = q.out_stride;

    FOR_ROWS(t, tasks * (u64)q.n_segments)
    {
        cell p[COLUMNS], part[COLUMNS];
        wide acc[COLUMNS];
        u64 segment = t / tasks, task = t - segment * tasks, k = task / (u64)q.tiles;
        u64 c = (task - k * (u64)q.tiles) * (COLUMNS * WG) + LID, o = k * (u64)q.n_out + c;
        i64 left = q.n_out - (i64)c;
        i32 w = left < COLUMNS ? (i32)left : COLUMNS; /* not above 0: none */
        place_t at = loop_at(q.keep, k);
        segment_t g = segment_of(q, segment);

        for (i32 j = 0; j < w; j++) {
            p[j] = CELL(PARAM(o + (u64)j));
            acc[j] = INIT;
        }
        for (u64 row = g.row; row < g.end; row++) {
            GLOBAL const T *from = x + at.x + (i64)c * os + loop_at(q.red, row).x + (i64)g.first * s;

            for (u64 first = 0; first < g.n; first += COLUMN_BLOCK) {
                u64 end = g.n - first < COLUMN_BLOCK ? g.n : first + COLUMN_BLOCK, r = first;

                for (i32 j = 0; j < w; j++)
                    part[j] = INIT;
                for (; r + 4 <= end; r += 4) {
                    GLOBAL const T *x0 = from + (i64)r * s, *x1 = x0 + s, *x2 = x1 + s, *x3 = x2 + s;

                    if (os == 1) {
                        for (i32 j = 0; j < w; j++) {
                            cell ab = JOIN(MAP(LD(x0, j), p[j], e), MAP(LD(x1, j), p[j], e));
                            cell cd = JOIN(MAP(LD(x2, j), p[j], e), MAP(LD(x3, j), p[j], e));

                            ab = JOIN(ab, cd);
                            part[j] = JOIN(part[j], ab);
                        }
                    } else {
                        for (i32 j = 0; j < w; j++) {
                            cell ab = JOIN(MAP(LD(x0, j * os), p[j], e), MAP(LD(x1, j * os), p[j], e));
                            cell cd = JOIN(MAP(LD(x2, j * os), p[j], e), MAP(LD(x3, j * os), p[j], e));

                            ab = JOIN(ab, cd);
                            part[j] = JOIN(part[j], ab);
                        }
                    }
                }
                for (; r < end; r++)
                    for (i32 j = 0; j < w; j++)
                        part[j] = JOIN(part[j], MAP(LD(from, (i64)r * s + j * os), p[j], e));
                for (i32 j = 0; j < w; j++)
                    acc[j] = JOIN(acc[j], part[j]);
            }
        }
        for (i32 j = 0; j < w; j++) {
            if (q.raw != 0 || q.n_segments > 1)
                parts[segment * (u64)q.n_results + o + (u64)j] = acc[j];
            else
                put_result(out, at.out + (i64)(c + (u64)j) * q.out_step, acc[j], PARAM(o + (u64)j), q);
        }
    }
}

/* ---- joining the segments ------------------------------------------------------------------------ */

/* In order; to `whole` when accumulators are wanted. */
KERNEL void reduce_join(MEM(result, out), MEM(const wide, parts), MEM(const wide, param), MEM(wide, whole),
                        plan_t q)
{
    OPEN(result, out);
    OPEN(const wide, parts);
    OPEN(const wide, param);
    OPEN(wide, whole);

    FOR_EACH(o, (u64)q.n_results)
    {
        u64 k = q.keep.total == 1 ? 0 : o / (u64)q.n_out;
        wide acc = INIT;

        for (u64 s = 0; s < (u64)q.n_segments; s++) {
            wide part = parts[s * (u64)q.n_results + o];

            acc = JOIN(acc, part);
        }
        if (q.raw != 0)
            whole[o] = acc;
        else
            put_result(out, loop_at(q.keep, k).out + (i64)(o - k * (u64)q.n_out) * q.out_step, acc, PARAM(o),
                       q);
    }
}
