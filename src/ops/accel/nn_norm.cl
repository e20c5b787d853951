/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm of rows [rows, n]. Gradients of weights are added up in chunks of rows, and the chunks in order. */

FN void layer_norm_row(GLOBAL T *RESTRICT y, GLOBAL const T *RESTRICT x, GLOBAL const T *w, GLOBAL const T *b, u64 n,
                       A mean, A rstd)
{
    if (w != 0 && b != 0)
        ROW_EACH(i, n)
            ST(y, i, (LD(x, i) - mean) * rstd * LD(w, i) + LD(b, i));
    else if (w != 0)
        ROW_EACH(i, n)
            ST(y, i, (LD(x, i) - mean) * rstd * LD(w, i));
    else if (b != 0)
        ROW_EACH(i, n)
            ST(y, i, (LD(x, i) - mean) * rstd + LD(b, i));
    else
        ROW_EACH(i, n)
            ST(y, i, (LD(x, i) - mean) * rstd);
}

/* means NULL: root mean square */
KERNEL void layer_norm(MEM(T, y), MEM(S, means), MEM(S, rstds), MEM(const T, x), MEM(const T, w), MEM(const T, b),
                       A eps, u64 rows, u64 n)
{
    GROUP_MEMORY;
    OPEN(T, y);
    OPEN(S, means);
    OPEN(S, rstds);
    OPEN(const T, x);
    OPEN(const T, w);
    OPEN(const T, b);

    FOR_ROWS(r, rows)
    {
        GLOBAL const T *row = x + r * n;
        A mean = 0, var, rstd;

        if (!IS_NULL(means)) {
            ROW_SUM(mean, i, n, LD(row, i));
            mean /= (A)n;
        }
        ROW_SUM(var, i, n, (LD(row, i) - mean) * (LD(row, i) - mean));
        rstd = (A)(1 / sqrt((W)(var / (A)n) + (W)eps));
        if (LID == 0) {
            rstds[r] = rstd;
            if (!IS_NULL(means))
                means[r] = mean;
        }
        layer_norm_row(y + r * n, row, IS_NULL(w) ? 0 : w, IS_NULL(b) ? 0 : b, n, mean, rstd);
    }
}

#define SLOPE(i) (LD(dy, i) * LD(w, i))

FN void layer_norm_dx_row(GLOBAL T *RESTRICT dx, GLOBAL const T *RESTRICT dy, GLOBAL const T *RESTRICT x,
                          GLOBAL const T *RESTRICT w, u64 n, A mean, A rstd, u32 rms, LPTR A *shared)
{
    A all = 0, along;

    if (w != 0) {
        if (!rms)
            ROW_SUM(all, i, n, SLOPE(i));
        ROW_SUM(along, i, n, SLOPE(i) * (LD(x, i) - mean));
    } else {
        if (!rms)
            ROW_SUM(all, i, n, LD(dy, i));
        ROW_SUM(along, i, n, LD(dy, i) * (LD(x, i) - mean));
    }
    all /= (A)n;
    along = along / (A)n * rstd * rstd;
    if (w != 0)
        ROW_EACH(i, n)
            ST(dx, i, rstd * (SLOPE(i) - all - (LD(x, i) - mean) * along));
    else
        ROW_EACH(i, n)
            ST(dx, i, rstd * (LD(dy, i) - all - (LD(x, i) - mean) * along));
}

KERNEL void layer_norm_dx(MEM(T, dx), MEM(const T, dy), MEM(const T, x), MEM(const T, w), MEM(const S, means),
                          MEM(const S, rstds), u64 rows, u64 n)
{
    GROUP_MEMORY;
    OPEN(T, dx);
    OPEN(const T, dy);
    OPEN(const T, x);
    OPEN(const T, w);
    OPEN(const S, means);
    OPEN(const S, rstds);

    FOR_ROWS(r, rows)
    {
        A mean = IS_NULL(means) ? 0 : means[r];

        layer_norm_dx_row(dx + r * n, dy + r * n, x + r * n, IS_NULL(w) ? 0 : w, n, mean, rstds[r], IS_NULL(means),
                          shared);
    }
}

/* sums [chunks, 2, n]: what each chunk of rows adds to the gradients of weight and bias. */
KERNEL void layer_norm_weights(MEM(A, sums), MEM(const T, dy), MEM(const T, x), MEM(const S, means),
                               MEM(const S, rstds), u64 rows, u64 n, u64 chunk)
{
    u64 tiles = TILES(n), chunks = (rows + chunk - 1) / chunk;
    OPEN(A, sums);
    OPEN(const T, dy);
    OPEN(const T, x);
    OPEN(const S, means);
    OPEN(const S, rstds);

    FOR_ROWS(u, tiles * chunks)
    {
        u64 c = u / tiles, first = u % tiles * TILE + FIRST_COL, width = WIDTH(first, n);
        u64 end = (c + 1) * chunk < rows ? (c + 1) * chunk : rows;
        A dw[COLS], db[COLS];

        for (u64 j = 0; j < COLS; j++)
            dw[j] = db[j] = 0;
        for (u64 r = c * chunk; r < end; r++) {
            A mean = IS_NULL(means) ? 0 : means[r], rstd = rstds[r];
            GLOBAL const T *gr = dy + r * n + first, *xr = x + r * n + first;

            for (u64 j = 0; j < width; j++) {
                dw[j] += LD(gr, j) * (LD(xr, j) - mean) * rstd;
                db[j] += LD(gr, j);
            }
        }
        for (u64 j = 0; j < width; j++) {
            sums[c * 2 * n + first + j] = dw[j];
            sums[(c * 2 + 1) * n + first + j] = db[j];
        }
    }
}

/* dw and db from those sums; either may be NULL. */
KERNEL void layer_norm_total(MEM(T, dw), MEM(T, db), MEM(const A, sums), u64 chunks, u64 n)
{
    OPEN(T, dw);
    OPEN(T, db);
    OPEN(const A, sums);

    FOR_EACH(i, n)
    {
        W w = 0, b = 0;

        for (u64 c = 0; c < chunks; c++) {
            w += (W)sums[c * 2 * n + i];
            b += (W)sums[(c * 2 + 1) * n + i];
        }
        if (!IS_NULL(dw))
            ST(dw, i, (A)w);
        if (!IS_NULL(db))
            ST(db, i, (A)b);
    }
}
