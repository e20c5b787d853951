/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, a few queries (or keys) per group against tiles of keys (or queries). Nothing of the size queries x keys
 * is kept: forward has a running maximum and sum per row, backward makes the weights again from the log-sum-exp. */

#define FEW 4   /* rows of a group */
#define MANY 64 /* of a tile */

/* Strides are in elements: of batch, head and row; of the mask also of the key. */
typedef struct attn {
    i64 batch, heads, len_q, len_k, dim_qk, dim_v;
    i64 q[3], k[3], v[3], out[3], mask[4];
    i64 dout[3], dq[3], dk[3], dv[3];
    u64 seed, offset;
    u32 below, causal; /* words below `below` are dropped */
} attn;

#define PLACE(strides, head, row) \
    ((head) / p.heads * (strides)[0] + (head) % p.heads * (strides)[1] + (row) * (strides)[2])
#define LEAST(a, b) ((a) < (b) ? (a) : (b))

/* What the weight of (head, query, key) is multiplied with. The numbers belong to the place. */
FN A keep_of(attn p, i64 head, i64 query, i64 key, A keep)
{
    u64 line = (u64)(head * p.len_q + query);
    philox4 r;
    u32 w;

    if (p.below == 0)
        return keep;
    r = philox(p.seed, p.offset + line * (u64)((p.len_k + 3) / 4) + (u64)key / 4, 0);
    w = key % 4 == 0 ? r.w0 : key % 4 == 1 ? r.w1 : key % 4 == 2 ? r.w2 : r.w3;
    return w >= p.below ? keep : (A)0;
}

FN A masked(A s, GLOBAL const T *mask, attn p, i64 head, i64 query, i64 key)
{
    if (p.causal && key > query)
        return -INFINITY;
    return mask == 0 ? s : s + mask[PLACE(p.mask, head, query) + key * p.mask[3]];
}

/* m rows of `to`, `step` apart, are 0. */
FN void clear_rows(GLOBAL T *to, i64 step, i64 m, i64 width)
{
    ROW_EACH(c, width)
        for (i64 i = 0; i < m; i++)
            to[i * step + (i64)c] = 0;
}

/* keep: 1 / (1 - p), or 1 with below 0. */
KERNEL void attention(MEM(T, out), MEM(T, lse), MEM(const T, q), MEM(const T, k), MEM(const T, v), MEM(const T, mask),
                      attn p, A scale, A keep)
{
    SHARED A tile[FEW * MANY];
    SHARED A most[FEW], sum[FEW], shift[FEW], shrink[FEW];
    i64 blocks = (p.len_q + FEW - 1) / FEW;
    OPEN(T, out);
    OPEN(T, lse);
    OPEN(const T, q);
    OPEN(const T, k);
    OPEN(const T, v);
    OPEN(const T, mask);

    FOR_ROWS(u, p.batch * p.heads * blocks)
    {
        i64 head = (i64)u / blocks, q0 = (i64)u % blocks * FEW, m = LEAST(FEW, p.len_q - q0);
        i64 keys = p.causal ? LEAST(q0 + m, p.len_k) : p.len_k;

        ROW_EACH(i, m)
        {
            most[i] = -INFINITY;
            sum[i] = 0;
        }
        clear_rows(out + PLACE(p.out, head, q0), p.out[2], m, p.dim_v);
        for (i64 k0 = 0; k0 < keys; k0 += MANY) {
            i64 n = LEAST(MANY, keys - k0);

            ROW_EACH(j, n)
            {
                i64 kj = PLACE(p.k, head, k0 + (i64)j);

                for (i64 i = 0; i < m; i++) {
                    i64 qi = PLACE(p.q, head, q0 + i);
                    A dot = 0;

                    for (i64 e = 0; e < p.dim_qk; e++)
                        dot += q[qi + e] * k[kj + e];
                    tile[i * MANY + (i64)j] =
                        masked(dot * scale, IS_NULL(mask) ? 0 : mask, p, head, q0 + i, k0 + (i64)j);
                }
            }
            BARRIER;
            ROW_EACH(i, m)
            {
                A top = most[i];

                for (i64 j = 0; j < n; j++)
                    top = JOIN_MAX(top, tile[i * MANY + j]);
                shift[i] = top == -INFINITY ? (A)0 : top; /* nothing visible so far */
                shrink[i] = EXP(most[i] - shift[i]);
                most[i] = top;
            }
            BARRIER;
            ROW_EACH(t, m * n)
            {
                i64 i = (i64)t / n, at = i * MANY + (i64)t % n;

                tile[at] = EXP(tile[at] - shift[i]);
            }
            BARRIER;
            ROW_EACH(i, m)
            {
                A all = 0;

                for (i64 j = 0; j < n; j++)
                    all += tile[i * MANY + j];
                sum[i] = sum[i] * shrink[i] + all;
            }
            BARRIER;
            if (p.below != 0) {
                ROW_EACH(t, m * n)
                    tile[(i64)t / n * MANY + (i64)t % n] *=
                        keep_of(p, head, q0 + (i64)t / n, k0 + (i64)t % n, keep);
                BARRIER;
            }
            ROW_EACH(c, p.dim_v)
                for (i64 i = 0; i < m; i++) {
                    i64 at = PLACE(p.out, head, q0 + i) + (i64)c;
                    A acc = out[at] * shrink[i];

                    for (i64 j = 0; j < n; j++)
                        acc += tile[i * MANY + j] * v[PLACE(p.v, head, k0 + j) + (i64)c];
                    out[at] = acc;
                }
            BARRIER;
        }
        BARRIER;
        ROW_EACH(c, p.dim_v)
            for (i64 i = 0; i < m; i++)
                out[PLACE(p.out, head, q0 + i) + (i64)c] *= sum[i] == 0 ? (A)0 : 1 / sum[i];
        ROW_EACH(i, m)
            lse[head * p.len_q + q0 + (i64)i] = sum[i] == 0 ? (A)INFINITY : most[i] + LOG(sum[i]);
        BARRIER;
    }
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* delta [batch, heads, len_q] = the sum of out * dout */
KERNEL void attention_delta(MEM(A, delta), MEM(const T, out), MEM(const T, dout), attn p)
{
    GROUP_MEMORY;
    OPEN(A, delta);
    OPEN(const T, out);
    OPEN(const T, dout);

    FOR_ROWS(r, p.batch * p.heads * p.len_q)
    {
        i64 head = (i64)r / p.len_q, row = (i64)r % p.len_q;
        i64 y = PLACE(p.out, head, row), dy = PLACE(p.dout, head, row);
        A dot;

        ROW_SUM(dot, c, p.dim_v, out[y + (i64)c] * dout[dy + (i64)c]);
        if (LID == 0)
            delta[r] = dot;
    }
}

/* The weight of (query, key) and the slope of its score. */
typedef struct pair {
    A weight, slope;
} pair;

FN pair pair_of(GLOBAL const T *q, GLOBAL const T *k, GLOBAL const T *v, GLOBAL const T *dout, GLOBAL const T *mask,
                attn p, i64 head, i64 query, i64 key, A scale, A keep, A lse, A delta)
{
    i64 qi = PLACE(p.q, head, query), kj = PLACE(p.k, head, key);
    i64 di = PLACE(p.dout, head, query), vj = PLACE(p.v, head, key);
    A s = 0, d = 0, w, f;
    pair r;

    for (i64 e = 0; e < p.dim_qk; e++)
        s += q[qi + e] * k[kj + e];
    for (i64 e = 0; e < p.dim_v; e++)
        d += dout[di + e] * v[vj + e];
    w = EXP(masked(s * scale, mask, p, head, query, key) - lse);
    f = keep_of(p, head, query, key, keep);
    r.weight = w * f;
    r.slope = w * (d * f - delta);
    return r;
}

/* Row i of m of `to` += factor times the sum of tile[i][j] * row j of n of `from`. */
FN void add_product(GLOBAL T *to, i64 to_step, i64 m, LPTR const A *tile, GLOBAL const T *from, i64 from_step, i64 n,
                    i64 width, A factor)
{
    ROW_EACH(c, width)
        for (i64 i = 0; i < m; i++) {
            A acc = 0;

            for (i64 j = 0; j < n; j++)
                acc += tile[i * MANY + j] * from[j * from_step + (i64)c];
            to[i * to_step + (i64)c] += acc * factor;
        }
}

/* What both of the next see. */
#define SEEN                                                                                                     \
    MEM(const T, q), MEM(const T, k), MEM(const T, v), MEM(const T, dout), MEM(const T, mask), MEM(const T, lse), \
        MEM(const A, delta), attn p, A scale, A keep
#define OPEN_SEEN        \
    OPEN(const T, q);    \
    OPEN(const T, k);    \
    OPEN(const T, v);    \
    OPEN(const T, dout); \
    OPEN(const T, mask); \
    OPEN(const T, lse);  \
    OPEN(const A, delta)
#define PAIR(query, key)                                                                                            \
    pair_of(q, k, v, dout, IS_NULL(mask) ? 0 : mask, p, head, (query), (key), scale, keep, lse[head * p.len_q + (query)], \
            delta[head * p.len_q + (query)])

KERNEL void attention_dq(MEM(T, dq), SEEN)
{
    SHARED A slopes[FEW * MANY];
    i64 blocks = (p.len_q + FEW - 1) / FEW;
    OPEN(T, dq);
    OPEN_SEEN;

    FOR_ROWS(u, p.batch * p.heads * blocks)
    {
        i64 head = (i64)u / blocks, q0 = (i64)u % blocks * FEW, m = LEAST(FEW, p.len_q - q0);
        i64 keys = p.causal ? LEAST(q0 + m, p.len_k) : p.len_k;

        clear_rows(dq + PLACE(p.dq, head, q0), p.dq[2], m, p.dim_qk);
        for (i64 k0 = 0; k0 < keys; k0 += MANY) {
            i64 n = LEAST(MANY, keys - k0);

            ROW_EACH(t, m * n)
            {
                i64 i = (i64)t / n, j = (i64)t % n;

                slopes[i * MANY + j] = PAIR(q0 + i, k0 + j).slope;
            }
            BARRIER;
            add_product(dq + PLACE(p.dq, head, q0), p.dq[2], m, slopes, k + PLACE(p.k, head, k0), p.k[2], n, p.dim_qk,
                        scale);
            BARRIER;
        }
    }
}

/* dk and dv; either may be NULL. */
KERNEL void attention_dkv(MEM(T, dk), MEM(T, dv), SEEN)
{
    SHARED A weights[FEW * MANY];
    SHARED A slopes[FEW * MANY];
    i64 blocks = (p.len_k + FEW - 1) / FEW;
    OPEN(T, dk);
    OPEN(T, dv);
    OPEN_SEEN;

    FOR_ROWS(u, p.batch * p.heads * blocks)
    {
        i64 head = (i64)u / blocks, k0 = (i64)u % blocks * FEW, m = LEAST(FEW, p.len_k - k0);
        i64 first = p.causal ? k0 / MANY * MANY : 0;

        if (!IS_NULL(dk))
            clear_rows(dk + PLACE(p.dk, head, k0), p.dk[2], m, p.dim_qk);
        if (!IS_NULL(dv))
            clear_rows(dv + PLACE(p.dv, head, k0), p.dv[2], m, p.dim_v);
        for (i64 q0 = first; q0 < p.len_q; q0 += MANY) {
            i64 n = LEAST(MANY, p.len_q - q0);

            ROW_EACH(t, m * n)
            {
                i64 i = (i64)t / n, j = (i64)t % n;
                pair r = PAIR(q0 + j, k0 + i);

                weights[i * MANY + j] = r.weight;
                slopes[i * MANY + j] = r.slope;
            }
            BARRIER;
            if (!IS_NULL(dv))
                add_product(dv + PLACE(p.dv, head, k0), p.dv[2], m, weights, dout + PLACE(p.dout, head, q0), p.dout[2],
                            n, p.dim_v, 1);
            if (!IS_NULL(dk))
                add_product(dk + PLACE(p.dk, head, k0), p.dk[2], m, slopes, q + PLACE(p.q, head, q0), p.q[2], n,
                            p.dim_qk, scale);
            BARRIER;
        }
    }
}
