/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy. Rows lie side by side; columns are `inner` elements apart. */

FN void softmax_row(GLOBAL T *RESTRICT y, GLOBAL const T *RESTRICT x, u64 n, u32 is_log, LPTR A *shared)
{
    A top, sum;

    ROW_MAX(top, i, n, LD(x, i));
    if (is_log) {
        ROW_SUM(sum, i, n, EXP(LD(x, i) - top));
        sum = LOG(sum);
        ROW_EACH(i, n)
            ST(y, i, LD(x, i) - top - sum);
        return;
    }
#if defined(IS_F32) || defined(IS_F64) /* keep the exponentials: they lose nothing */
    ROW_SUM(sum, i, n, y[i] = EXP(x[i] - top));
    sum = 1 / sum;
    ROW_EACH(i, n)
        y[i] *= sum;
#else
    ROW_SUM(sum, i, n, EXP(LD(x, i) - top));
    ROW_EACH(i, n)
        ST(y, i, EXP(LD(x, i) - top) / sum);
#endif
}

KERNEL void softmax_rows(MEM(T, y), MEM(const T, x), u64 rows, u64 n, u32 is_log)
{
    GROUP_MEMORY;
    OPEN(T, y);
    OPEN(const T, x);

    FOR_ROWS(r, rows)
        softmax_row(y + r * n, x + r * n, n, is_log, shared);
}

/* A tile of columns of one slice [n, inner] at a time. */
KERNEL void softmax_columns(MEM(T, y), MEM(const T, x), u64 outer, u64 n, u64 inner, u32 is_log)
{
    u64 tiles = (inner + COLS - 1) / COLS;
    OPEN(T, y);
    OPEN(const T, x);

    FOR_EACH(t, outer * tiles)
    {
        u64 first = t % tiles * COLS;
        u64 width = inner - first < COLS ? inner - first : COLS;
        GLOBAL const T *xt = x + t / tiles * n * inner + first;
        GLOBAL T *yt = y + t / tiles * n * inner + first;
        A top[COLS], sum[COLS];

        for (u64 j = 0; j < width; j++) {
            top[j] = LD(xt, j);
            sum[j] = 0;
        }
        for (u64 i = 1; i < n; i++)
            for (u64 j = 0; j < width; j++)
                top[j] = JOIN_MAX(top[j], LD(xt, i * inner + j));
        for (u64 i = 0; i < n; i++)
            for (u64 j = 0; j < width; j++)
                sum[j] += EXP(LD(xt, i * inner + j) - top[j]);
        for (u64 j = 0; j < width; j++)
            sum[j] = is_log ? LOG(sum[j]) : 1 / sum[j];
        for (u64 i = 0; i < n; i++)
            if (is_log)
                for (u64 j = 0; j < width; j++)
                    ST(yt, i * inner + j, LD(xt, i * inner + j) - top[j] - sum[j]);
            else
                for (u64 j = 0; j < width; j++)
                    ST(yt, i * inner + j, EXP(LD(xt, i * inner + j) - top[j]) * sum[j]);
    }
}

FN void softmax_grad_row(GLOBAL T *RESTRICT dx, GLOBAL const T *RESTRICT dy, GLOBAL const T *RESTRICT y, u64 n,
                         u32 is_log, LPTR A *shared)
{
    A sum;

    if (is_log) {
        ROW_SUM(sum, i, n, LD(dy, i));
        ROW_EACH(i, n)
            ST(dx, i, LD(dy, i) - EXP(LD(y, i)) * sum);
        return;
    }
    ROW_SUM(sum, i, n, LD(dy, i) * LD(y, i));
    ROW_EACH(i, n)
        ST(dx, i, (LD(dy, i) - sum) * LD(y, i));
}

KERNEL void softmax_grad_rows(MEM(T, dx), MEM(const T, dy), MEM(const T, y), u64 rows, u64 n, u32 is_log)
{
    GROUP_MEMORY;
    OPEN(T, dx);
    OPEN(const T, dy);
    OPEN(const T, y);

    FOR_ROWS(r, rows)
        softmax_grad_row(dx + r * n, dy + r * n, y + r * n, n, is_log, shared);
}

KERNEL void softmax_grad_columns(MEM(T, dx), MEM(const T, dy), MEM(const T, y), u64 outer, u64 n, u64 inner,
                                 u32 is_log)
{
    u64 tiles = (inner + COLS - 1) / COLS;
    OPEN(T, dx);
    OPEN(const T, dy);
    OPEN(const T, y);

    FOR_EACH(t, outer * tiles)
    {
        u64 first = t % tiles * COLS;
        u64 width = inner - first < COLS ? inner - first : COLS;
        u64 at = t / tiles * n * inner + first;
        A sum[COLS];

        for (u64 j = 0; j < width; j++)
            sum[j] = 0;
        for (u64 i = 0; i < n; i++)
            for (u64 j = 0; j < width; j++) {
                A g = LD(dy, at + i * inner + j);

                sum[j] += is_log ? g : g * LD(y, at + i * inner + j);
            }
        for (u64 i = 0; i < n; i++)
            for (u64 j = 0; j < width; j++) {
                u64 k = at + i * inner + j;
                A g = LD(dy, k), r = LD(y, k);

                ST(dx, k, is_log ? g - EXP(r) * sum[j] : (g - sum[j]) * r);
            }
    }
}

/* ---- cross-entropy ------------------------------------------------------------------------------------- */

KERNEL void cross_entropy(MEM(S, losses), MEM(S, lse), MEM(const T, x), MEM(const i64, target), MEM(const S, weight),
                          u64 rows, u64 n, u32 op, MEM(i64, trouble))
{
    GROUP_MEMORY;
    OPEN(S, losses);
    OPEN(S, lse);
    OPEN(const T, x);
    OPEN(const i64, target);
    OPEN(const S, weight);
    OPEN(i64, trouble);

    FOR_ROWS(r, rows)
    {
        GLOBAL const T *row = x + r * n;
        i64 t = target[r];
        A top, sum;

        ROW_MAX(top, i, n, LD(row, i));
        ROW_SUM(sum, i, n, EXP(LD(row, i) - top));
        if (LID == 0) {
            sum = LOG(sum);
            lse[r] = top + sum;
            if (t >= (i64)n)
                TROUBLE(trouble, op, t, n, r);
            if (t < 0 || t >= (i64)n)
                losses[r] = 0;
            else
                losses[r] = (IS_NULL(weight) ? 1 : weight[t]) * ((top - LD(row, t)) + sum);
        }
    }
}

FN void entropy_grad_row(GLOBAL T *RESTRICT dx, GLOBAL const T *RESTRICT x, u64 n, u64 t, A lse, A scale)
{
    ROW_EACH(i, n)
        ST(dx, i, (EXP(LD(x, i) - lse) - (i == t ? (A)1 : (A)0)) * scale);
}

KERNEL void cross_entropy_grad(MEM(T, dx), MEM(const T, x), MEM(const S, lse), MEM(const i64, target),
                               MEM(const S, weight), MEM(const S, scale), u64 step, S factor, u64 rows, u64 n)
{
    OPEN(T, dx);
    OPEN(const T, x);
    OPEN(const S, lse);
    OPEN(const i64, target);
    OPEN(const S, weight);
    OPEN(const S, scale);

    FOR_ROWS(r, rows)
    {
        i64 t = target[r];

        if (t < 0 || t >= (i64)n) {
            ROW_EACH(i, n)
                ST(dx, r * n + i, (A)0);
        } else {
            S s = factor * scale[r * step] * (IS_NULL(weight) ? 1 : weight[t]);

            entropy_grad_row(dx + r * n, x + r * n, n, (u64)t, lse[r], s);
        }
    }
}

/* Targets as kernels want them: -1 where ignored (or wrong, after saying so); and the weight of each. */
KERNEL void classes(MEM(i64, marked), MEM(S, weights), MEM(const i64, target), MEM(const S, weight), u64 rows, u64 n,
                    i64 ignore, u32 op, MEM(i64, trouble))
{
    OPEN(i64, marked);
    OPEN(S, weights);
    OPEN(const i64, target);
    OPEN(const S, weight);
    OPEN(i64, trouble);

    FOR_EACH(r, rows)
    {
        i64 t = target[r];
        u32 good = t >= 0 && t < (i64)n;

        if (t != ignore && !good)
            TROUBLE(trouble, op, t, n, r);
        good = good && t != ignore;
        marked[r] = good ? t : -1;
        weights[r] = !good ? 0 : IS_NULL(weight) ? 1 : weight[t];
    }
}
