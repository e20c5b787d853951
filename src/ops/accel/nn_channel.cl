/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm and group norm. Memory is seen either as planes (each of one channel, `inner` elements) or as rows (an
 * element of every channel side by side). Statistics and sums are made in parts (a plane, or a chunk of rows), and
 * the parts are put together in order. Coefficients are arrays of `k` reals: of a channel, or of a plane. */

#define CHUNK 256 /* rows of a part */
#define SCALE 0
#define MEAN 1
#define SHIFT 2
#define SLOPE 3

/* parts [parts, c, 2]: mean, and sum of squares of what is left. */
KERNEL void stats_planes(MEM(W, parts), MEM(const T, x), u64 planes, u64 inner)
{
    GROUP_MEMORY;
    OPEN(W, parts);
    OPEN(const T, x);

    FOR_ROWS(p, planes)
    {
        GLOBAL const T *row = x + p * inner;
        W sum, squares;
        A mean;

        ROW_SUM_LONG(sum, i, inner, LD(row, i));
        mean = (A)(sum / (W)inner);
        ROW_SUM_LONG(squares, i, inner, (LD(row, i) - mean) * (LD(row, i) - mean));
        if (LID == 0) {
            W rest = sum / (W)inner - (W)mean;

            parts[2 * p] = (W)mean + rest;
            parts[2 * p + 1] = squares - (W)inner * rest * rest;
        }
    }
}

KERNEL void stats_rows(MEM(W, parts), MEM(const T, x), u64 rows, u64 c)
{
    u64 tiles = TILES(c), chunks = (rows + CHUNK - 1) / CHUNK;
    OPEN(W, parts);
    OPEN(const T, x);

    FOR_ROWS(u, tiles * chunks)
    {
        u64 part = u / tiles, first = u % tiles * TILE + FIRST_COL, width = WIDTH(first, c);
        u64 begin = part * CHUNK, end = rows - begin < CHUNK ? rows : begin + CHUNK;
        A mean[COLS], squares[COLS];

        for (u64 j = 0; j < COLS; j++)
            mean[j] = squares[j] = 0;
        for (u64 r = begin; r < end; r++)
            for (u64 j = 0; j < width; j++)
                mean[j] += LD(x, r * c + first + j);
        for (u64 j = 0; j < width; j++)
            mean[j] /= (A)(end - begin);
        for (u64 r = begin; r < end; r++)
            for (u64 j = 0; j < width; j++) {
                A v = LD(x, r * c + first + j) - mean[j];

                squares[j] += v * v;
            }
        for (u64 j = 0; j < width; j++) {
            parts[2 * (part * c + first + j)] = mean[j];
            parts[2 * (part * c + first + j) + 1] = squares[j];
        }
    }
}

/* mean and var of each channel from its parts, which have `size` elements except the last one. */
KERNEL void stats_merge(MEM(u8, mean), MEM(u8, var), MEM(const W, parts), u64 n_parts, u64 c, u64 size, u64 count,
                        u32 wide)
{
    OPEN(u8, mean);
    OPEN(u8, var);
    OPEN(const W, parts);

    FOR_EACH(k, c)
    {
        W all = 0, squares = 0, m;

        for (u64 i = 0; i < n_parts; i++) {
            u64 n = count - i * size < size ? count - i * size : size;

            all += (W)n * parts[2 * (i * c + k)];
        }
        m = all / (W)count;
        for (u64 i = 0; i < n_parts; i++) {
            u64 n = count - i * size < size ? count - i * size : size;
            W d = parts[2 * (i * c + k)] - m;

            squares += parts[2 * (i * c + k) + 1] + (W)n * d * d;
        }
        PUT_REAL(mean, k, m, wide);
        PUT_REAL(var, k, squares / (W)count, wide);
    }
}

/* Statistics of groups: one part each. */
KERNEL void group_stats(MEM(S, mean), MEM(S, rstd), MEM(const W, parts), S eps, u64 n, u64 rows)
{
    OPEN(S, mean);
    OPEN(S, rstd);
    OPEN(const W, parts);

    FOR_EACH(r, rows)
    {
        mean[r] = (S)parts[2 * r];
        rstd[r] = (S)(1 / sqrt((W)(S)(parts[2 * r + 1] / (W)n) + (W)eps));
    }
}

/* ---- y = (x - mean) * scale + shift ------------------------------------------------------------------------ */

/* k coefficients: channel i % c, statistics (i / per) % stats. */
KERNEL void apply_coefs(MEM(S, coefs), MEM(const u8, mean), MEM(const u8, rstd), MEM(const S, w), MEM(const S, b),
                        u64 k, u64 c, u64 per, u64 stats, u32 wide)
{
    OPEN(S, coefs);
    OPEN(const u8, mean);
    OPEN(const u8, rstd);
    OPEN(const S, w);
    OPEN(const S, b);

    FOR_EACH(i, k)
    {
        u64 s = i / per % stats;

        coefs[SCALE * k + i] = (S)(GET_REAL(rstd, s, wide) * (IS_NULL(w) ? (W)1 : (W)w[i % c]));
        coefs[MEAN * k + i] = IS_NULL(mean) ? 0 : (S)GET_REAL(mean, s, wide);
        coefs[SHIFT * k + i] = IS_NULL(b) ? 0 : b[i % c];
    }
}

FN void apply_plane(GLOBAL T *RESTRICT y, GLOBAL const T *RESTRICT x, u64 n, A scale, A mean, A shift)
{
    ROW_EACH(i, n)
        ST(y, i, (LD(x, i) - mean) * scale + shift);
}

FN void apply_row(GLOBAL T *RESTRICT y, GLOBAL const T *RESTRICT x, u64 n, GLOBAL const S *RESTRICT coefs)
{
    ROW_EACH(i, n)
        ST(y, i, (LD(x, i) - coefs[MEAN * n + i]) * coefs[SCALE * n + i] + coefs[SHIFT * n + i]);
}

/* rows: k is n */
KERNEL void apply(MEM(T, y), MEM(const T, x), MEM(const S, coefs), u64 runs, u64 n, u64 k, u32 rows)
{
    OPEN(T, y);
    OPEN(const T, x);
    OPEN(const S, coefs);

    if (rows)
        FOR_ROWS(r, runs)
            apply_row(y + r * n, x + r * n, n, coefs);
    else
        FOR_ROWS(p, runs)
            apply_plane(y + p * n, x + p * n, n, coefs[SCALE * k + p % k], coefs[MEAN * k + p % k],
                        coefs[SHIFT * k + p % k]);
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

/* parts [parts, c, 2]: sums of dy, and of dy * (x - mean). */
KERNEL void sums_planes(MEM(W, parts), MEM(const T, dy), MEM(const T, x), MEM(const u8, mean), u64 planes, u64 inner,
                        u64 per, u64 stats, u32 wide)
{
    GROUP_MEMORY;
    OPEN(W, parts);
    OPEN(const T, dy);
    OPEN(const T, x);
    OPEN(const u8, mean);

    FOR_ROWS(p, planes)
    {
        GLOBAL const T *gr = dy + p * inner, *xr = x + p * inner;
        A m = IS_NULL(mean) ? 0 : (A)GET_REAL(mean, p / per % stats, wide);
        W sum, along;

        ROW_SUM_LONG(sum, i, inner, LD(gr, i));
        ROW_SUM_LONG(along, i, inner, LD(gr, i) * (LD(xr, i) - m));
        if (LID == 0) {
            parts[2 * p] = sum;
            parts[2 * p + 1] = along;
        }
    }
}

KERNEL void sums_rows(MEM(W, parts), MEM(const T, dy), MEM(const T, x), MEM(const u8, mean), u64 rows, u64 c, u32 wide)
{
    u64 tiles = TILES(c), chunks = (rows + CHUNK - 1) / CHUNK;
    OPEN(W, parts);
    OPEN(const T, dy);
    OPEN(const T, x);
    OPEN(const u8, mean);

    FOR_ROWS(u, tiles * chunks)
    {
        u64 part = u / tiles, first = u % tiles * TILE + FIRST_COL, width = WIDTH(first, c);
        u64 begin = part * CHUNK, end = rows - begin < CHUNK ? rows : begin + CHUNK;
        A m[COLS], sum[COLS], along[COLS];

        for (u64 j = 0; j < COLS; j++)
            sum[j] = along[j] = 0;
        for (u64 j = 0; j < width; j++)
            m[j] = IS_NULL(mean) ? 0 : (A)GET_REAL(mean, first + j, wide);
        for (u64 r = begin; r < end; r++)
            for (u64 j = 0; j < width; j++) {
                A g = LD(dy, r * c + first + j);

                sum[j] += g;
                along[j] += g * (LD(x, r * c + first + j) - m[j]);
            }
        for (u64 j = 0; j < width; j++) {
            parts[2 * (part * c + first + j)] = sum[j];
            parts[2 * (part * c + first + j) + 1] = along[j];
        }
    }
}

/* totals [c, 2] = the parts of each channel added up; along times rstd. dw and db, which may be NULL, get them
 * too. per and stats say which rstd goes with a part, as above. */
KERNEL void sums_merge(MEM(W, totals), MEM(u8, dw), MEM(u8, db), MEM(const W, parts), MEM(const u8, rstd), u64 n_parts,
                       u64 c, u64 per, u64 stats, u32 wide_rstd, u32 wide)
{
    OPEN(W, totals);
    OPEN(u8, dw);
    OPEN(u8, db);
    OPEN(const W, parts);
    OPEN(const u8, rstd);

    FOR_EACH(k, c)
    {
        W sum = 0, along = 0;

        if (per == 1 && stats == c) { /* one rstd for all parts of the channel */
            for (u64 i = 0; i < n_parts; i++) {
                sum += parts[2 * (i * c + k)];
                along += parts[2 * (i * c + k) + 1];
            }
            along *= GET_REAL(rstd, k, wide_rstd);
        } else {
            for (u64 i = 0; i < n_parts; i++) {
                sum += parts[2 * (i * c + k)];
                along += parts[2 * (i * c + k) + 1] * GET_REAL(rstd, (i * c + k) / per % stats, wide_rstd);
            }
        }
        totals[2 * k] = sum;
        totals[2 * k + 1] = along;
        if (!IS_NULL(dw))
            PUT_REAL(dw, k, along, wide);
        if (!IS_NULL(db))
            PUT_REAL(db, k, sum, wide);
    }
}

/* From sums of dy and of dy * (x - mean) * rstd over `count` elements of each channel: in totals [c, 2], or else in
 * dw and db. */
KERNEL void grad_coefs(MEM(S, coefs), MEM(const W, totals), MEM(const u8, dw), MEM(const u8, db), MEM(const u8, mean),
                       MEM(const u8, rstd), MEM(const S, w), W count, u64 c, u32 wide_stats, u32 wide)
{
    OPEN(S, coefs);
    OPEN(const W, totals);
    OPEN(const u8, dw);
    OPEN(const u8, db);
    OPEN(const u8, mean);
    OPEN(const u8, rstd);
    OPEN(const S, w);

    FOR_EACH(k, c)
    {
        W sum = IS_NULL(totals) ? GET_REAL(db, k, wide) : totals[2 * k];
        W along = IS_NULL(totals) ? GET_REAL(dw, k, wide) : totals[2 * k + 1];
        W r = GET_REAL(rstd, k, wide_stats);
        W scale = r * (IS_NULL(w) ? (W)1 : (W)w[k]);

        coefs[SCALE * c + k] = (S)scale;
        coefs[MEAN * c + k] = IS_NULL(mean) ? 0 : (S)GET_REAL(mean, k, wide_stats);
        coefs[SHIFT * c + k] = (S)(-scale * sum / count);
        coefs[SLOPE * c + k] = (S)(-scale * r * along / count);
    }
}

/* The same for groups of `per` planes, from the parts of planes: coefficients for every plane. */
KERNEL void group_coefs(MEM(S, coefs), MEM(const W, parts), MEM(const S, mean), MEM(const S, rstd), MEM(const S, w),
                        u64 rows, u64 per, u64 c, u64 inner)
{
    u64 k = rows * per;
    OPEN(S, coefs);
    OPEN(const W, parts);
    OPEN(const S, mean);
    OPEN(const S, rstd);
    OPEN(const S, w);

    FOR_EACH(row, rows)
    {
        W all = 0, along = 0, r = rstd[row], count = (W)(per * inner);

        for (u64 p = row * per; p < (row + 1) * per; p++) {
            W f = IS_NULL(w) ? (W)1 : (W)w[p % c];

            all += f * parts[2 * p];
            along += f * parts[2 * p + 1];
        }
        for (u64 p = row * per; p < (row + 1) * per; p++) {
            coefs[SCALE * k + p] = (S)(r * (IS_NULL(w) ? (W)1 : (W)w[p % c]));
            coefs[MEAN * k + p] = mean[row];
            coefs[SHIFT * k + p] = (S)(-r * all / count);
            coefs[SLOPE * k + p] = (S)(-r * r * r * along / count);
        }
    }
}

FN void dx_plane(GLOBAL T *RESTRICT dx, GLOBAL const T *RESTRICT dy, GLOBAL const T *RESTRICT x, u64 n,
                 GLOBAL const S *coefs, u64 k, u64 at)
{
    A scale = coefs[SCALE * k + at], mean = coefs[MEAN * k + at];
    A shift = coefs[SHIFT * k + at], slope = coefs[SLOPE * k + at];

    ROW_EACH(i, n)
        ST(dx, i, LD(dy, i) * scale + (LD(x, i) - mean) * slope + shift);
}

FN void dx_row(GLOBAL T *RESTRICT dx, GLOBAL const T *RESTRICT dy, GLOBAL const T *RESTRICT x, u64 n,
               GLOBAL const S *RESTRICT coefs)
{
    ROW_EACH(i, n)
        ST(dx, i, LD(dy, i) * coefs[SCALE * n + i] + (LD(x, i) - coefs[MEAN * n + i]) * coefs[SLOPE * n + i] +
                      coefs[SHIFT * n + i]);
}

KERNEL void input_grad(MEM(T, dx), MEM(const T, dy), MEM(const T, x), MEM(const S, coefs), u64 runs, u64 n, u64 k,
                       u32 rows)
{
    OPEN(T, dx);
    OPEN(const T, dy);
    OPEN(const T, x);
    OPEN(const S, coefs);

    if (rows)
        FOR_ROWS(r, runs)
            dx_row(dx + r * n, dy + r * n, x + r * n, n, coefs);
    else
        FOR_ROWS(p, runs)
            dx_plane(dx + p * n, dy + p * n, x + p * n, n, coefs, k, p % k);
}
