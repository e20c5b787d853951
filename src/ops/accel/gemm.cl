/* SPDX-License-Identifier: Apache-2.0 */
/* c = alpha * a @ b + beta * c + bias for any strides and any type. A group makes tiles of c, one after the other:
 * panels of a and b come into shared memory, converted to the type in which products are summed, and each item
 * keeps a small tile of sums in registers. A group of one item (on CPUs) keeps the sums of the whole tile in
 * memory of its own instead, and goes through them in small tiles that the compiler turns into vectors. */

#if defined(IS_COMPLEX)
#define ACC complex_t
#define SCALE R
#elif defined(IS_I64)
#define ACC u64
#define SCALE i64
#elif defined(IS_INT) || defined(IS_BOOL)
#define ACC u32 /* the low bits are right however far the sum goes */
#define SCALE i64
#else
#define ACC A
#define SCALE A
#endif

#if defined(IS_C128)
#define BK 8
#else
#define BK 16
#endif
#if WG == 1
/* Panels of one item are its own: shared memory may be small. */
#define PANEL_OF(type) type
#define TOGETHER
#define MI 4 /* rows and columns of a small tile */
#define NI 16
#define BM 64
#define BN 64
#undef BK
#define BK 64
/* CPUs have no other dialect than OpenCL's, so its vectors may be used for them. */
#if defined(IS_F64)
#define VEC double16
#elif defined(IS_REAL)
#define VEC float16
#endif
#define LDV(p) vload16(0, (p))
#define STV(p, v) vstore16((v), 0, (p))
#ifdef FP_FAST_FMAF
#define MADV(x, v, s) fma((VEC)(x), (v), (s))
#else
#define MADV(x, v, s) ((x) * (v) + (s))
#endif
#else
#define PANEL_OF(type) LPTR type
#define TOGETHER BARRIER
#define MI 4
#define NI 4
#if WG >= 256
#define TX 16
#else
#define TX 8
#endif
#define TY (WG / TX)
#define BM (TY * MI)
#define BN (TX * NI)
#endif

/* As in gemm.c. Strides are in elements. k goes on by `outer` after every k_in. */
typedef struct gemm_args {
    u64 m, n, k, k_in;
    i64 ai, ak, a_outer;
    i64 bk, bj, b_outer;
    u64 batch, batch_in; /* matrix i of the batch is at (i / batch_in) * step0 + (i % batch_in) * step1 */
    i64 a_step0, a_step1, b_step0, b_step1;
    i64 bias_i, bias_j, bias_step1;
} gemm_args;

FN ACC acc_zero(void)
{
#ifdef IS_COMPLEX
    ACC z;

    z.re = 0;
    z.im = 0;
    return z;
#else
    return 0;
#endif
}

FN ACC acc_mac(ACC s, ACC x, ACC y)
{
#if defined(IS_COMPLEX)
    s.re += x.re * y.re - x.im * y.im;
    s.im += x.re * y.im + x.im * y.re;
    return s;
#elif defined(IS_REAL) && defined(FP_FAST_FMAF)
    return fma(x, y, s);
#else
    return s + x * y;
#endif
}

FN ACC acc_scaled(ACC s, SCALE f)
{
#ifdef IS_COMPLEX
    s.re *= f;
    s.im *= f;
    return s;
#else
    return s * (ACC)f;
#endif
}

FN ACC acc_plus(ACC x, ACC y)
{
#ifdef IS_COMPLEX
    x.re += y.re;
    x.im += y.im;
    return x;
#else
    return x + y;
#endif
}

/* Where each k of the panel is in a row of a and a column of b. */
FN void find_steps(PANEL_OF(i64) *ka, PANEL_OF(i64) *kb, u64 k0, gemm_args g)
{
    FOR_LANES(l, BK)
    {
        u64 k = k0 + l < g.k ? k0 + l : 0;

        ka[l] = (i64)(k / g.k_in) * g.a_outer + (i64)(k % g.k_in) * g.ak;
        kb[l] = (i64)(k / g.k_in) * g.b_outer + (i64)(k % g.k_in) * g.bk;
    }
}

/* A panel [BK][SIZE]: element (l, i) from x[i * step + ks[l]], zero outside. Neighbours read neighbours,
 * whichever way the matrix lies. */
#if WG == 1
FN void load_panel(ACC *panel, u64 width, GLOBAL const T *x, i64 step, const i64 *ks, u64 size, u64 ks_left)
{
    for (u64 l = 0; l < BK; l++, panel += width) {
        GLOBAL const T *from = x + ks[l];
        u64 n = l < ks_left ? size : 0;

        if (step == 1)
            for (u64 i = 0; i < n; i++)
                panel[i] = LD(from, i);
        else
            for (u64 i = 0; i < n; i++)
                panel[i] = LD(from, (i64)i * step);
        for (u64 i = n; i < width; i++)
            panel[i] = acc_zero();
    }
}
#define LOAD_PANEL(panel, SIZE, x, step, ks, by_k, size, ks_left) \
    load_panel(panel, SIZE, x, step, ks, size, ks_left);
#else
#define LOAD_PANEL(panel, SIZE, x, step, ks, by_k, size, ks_left)           \
    FOR_LANES(e, BK *SIZE)                                                    \
    {                                                                       \
        u64 l = (by_k) ? e % BK : e / SIZE, i = (by_k) ? e / BK : e % SIZE; \
        ACC v = acc_zero();                                                 \
                                                                            \
        if (i < (size) && l < (ks_left))                                    \
            v = LD(x, (i64)i * (step) + (ks)[l]);                           \
        (panel)[l * SIZE + i] = v;                                          \
    }
#endif

/* bias: NULL or where the one of this element is. */
FN void store_one(GLOBAL T *c, u64 at, ACC s, SCALE alpha, SCALE beta, GLOBAL const T *bias)
{
    ACC v;

    s = acc_scaled(s, alpha);
    if (bias != 0) {
        v = LD(bias, 0);
        s = acc_plus(s, v);
    }
    if (beta != 0) {
        v = LD(c, at);
        s = acc_plus(s, acc_scaled(v, beta));
    }
    ST(c, at, s);
}

#if WG == 1
/* sums += panel of a @ panel of b, over the rows and columns that are there. */
FN void multiply(ACC *sums, const ACC *pa, const ACC *pb, u64 rows, u64 cols, u64 ks)
{
    for (u64 i0 = 0; i0 < rows; i0 += MI)
        for (u64 j0 = 0; j0 < cols; j0 += NI) {
#ifdef VEC
            ACC *at = sums + i0 * BN + j0;
            VEC s0 = LDV(at), s1 = LDV(at + BN), s2 = LDV(at + 2 * BN), s3 = LDV(at + 3 * BN);

            for (u64 l = 0; l < ks; l++) {
                VEC v = LDV(pb + l * BN + j0);
                const ACC *x = pa + l * BM + i0;

                s0 = MADV(x[0], v, s0);
                s1 = MADV(x[1], v, s1);
                s2 = MADV(x[2], v, s2);
                s3 = MADV(x[3], v, s3);
            }
            STV(at, s0);
            STV(at + BN, s1);
            STV(at + 2 * BN, s2);
            STV(at + 3 * BN, s3);
#else
            for (u64 l = 0; l < ks; l++)
                for (int i = 0; i < MI; i++)
                    for (int j = 0; j < NI; j++) {
                        u64 e = (i0 + i) * BN + j0 + j;

                        sums[e] = acc_mac(sums[e], pa[l * BM + i0 + i], pb[l * BN + j0 + j]);
                    }
#endif
        }
}
#endif

KERNEL void gemm(MEM(T, c), MEM(const T, a), MEM(const T, b), MEM(const T, bias), gemm_args g, SCALE alpha,
                 SCALE beta)
{
#if WG == 1
    ACC pa[BK * BM], pb[BK * BN], sums[BM * BN];
    i64 ka[BK], kb[BK];
#else
    SHARED ACC pa[BK * BM];
    SHARED ACC pb[BK * BN];
    SHARED i64 ka[BK];
    SHARED i64 kb[BK];
#endif
    OPEN(T, c);
    OPEN(const T, a);
    OPEN(const T, b);
    OPEN(const T, bias);
    u64 down = (g.m + BM - 1) / BM, across = (g.n + BN - 1) / BN;

    FOR_ROWS(t, down * across * g.batch)
    {
        u64 of = t / (down * across), tile = t % (down * across);
        u64 i0 = tile / across * BM, j0 = tile % across * BN;
        u64 rows = g.m - i0 < BM ? g.m - i0 : BM, cols = g.n - j0 < BN ? g.n - j0 : BN;
        i64 outer = of / g.batch_in, inner = of % g.batch_in;
        GLOBAL const T *tile_a = a + (outer * g.a_step0 + inner * g.a_step1 + (i64)i0 * g.ai);
        GLOBAL const T *tile_b = b + (outer * g.b_step0 + inner * g.b_step1 + (i64)j0 * g.bj);
        u64 at_c = (of * g.m + i0) * g.n + j0;
        GLOBAL const T *own = bias + inner * g.bias_step1 + (i64)i0 * g.bias_i +
                              (i64)j0 * g.bias_j;
#if WG == 1
        for (int i = 0; i < BM * BN; i++)
            sums[i] = acc_zero();
#else
        u64 y = LID / TX, x = LID % TX;
        ACC s[MI][NI];

        for (int i = 0; i < MI; i++)
            for (int j = 0; j < NI; j++)
                s[i][j] = acc_zero();
#endif

        for (u64 k0 = 0; k0 < g.k; k0 += BK) {
            u64 ks = g.k - k0 < BK ? g.k - k0 : BK;

            TOGETHER;
            find_steps(ka, kb, k0, g);
            TOGETHER;
            LOAD_PANEL(pa, BM, tile_a, g.ai, ka, g.ak == 1, rows, ks)
            LOAD_PANEL(pb, BN, tile_b, g.bj, kb, g.bk == 1, cols, ks)
            TOGETHER;
#if WG == 1
            multiply(sums, pa, pb, rows, cols, ks);
#else
            for (u64 l = 0; l < ks; l++)
                for (int i = 0; i < MI; i++)
                    for (int j = 0; j < NI; j++)
                        s[i][j] = acc_mac(s[i][j], pa[l * BM + y + TY * i], pb[l * BN + x + TX * j]);
#endif
        }
#if WG == 1
        for (u64 i = 0; i < rows; i++)
            for (u64 j = 0; j < cols; j++)
                store_one(c, at_c + i * g.n + j, sums[i * BN + j], alpha, beta,
                          IS_NULL(bias) ? 0 : own + i * g.bias_i + j * g.bias_j);
#else
        for (int i = 0; i < MI; i++)
            for (int j = 0; j < NI; j++) {
                u64 row = y + TY * i, col = x + TX * j;

                if (row < rows && col < cols)
                    store_one(c, at_c + row * g.n + col, s[i][j], alpha, beta,
                              IS_NULL(bias) ? 0 : own + row * g.bias_i + col * g.bias_j);
            }
#endif
    }
}
