/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of neural networks share: exponentials that compilers can vectorise, and folds of rows by a
 * group. S is the type of statistics, W that of long sums (float64 where the device has it).
 *
 * A row belongs to one group. ROW_SUM and ROW_MAX leave their result in every item of the group; `shared` must be
 * an array GROUP_MEMORY of the kernel. They contain barriers: all items of a group must come by. */

#ifndef CPU_DEVICE /* checkers of kernels stumble over it, and it is vector code on CPUs that needs it */
#undef RESTRICT
#define RESTRICT
#endif

#ifdef IS_F64
typedef f64 S;
#else
typedef f32 S;
#endif
#ifdef HAS_FP64
typedef f64 W;
#else
typedef f32 W;
#endif

#ifdef IS_F64
#define EXP(x) exp(x)
#define LOG(x) log(x)
#define NUM(x) x
FN f64 sigmoid(f64 x)
{
    f64 e = exp(-fabs(x));

    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

FN f64 softplus(f64 x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}
#else
#define EXP(x) vexp(x)
#define LOG(x) log(x)
#define NUM(x) x##f
#define VROUND 12582912.0f /* adding it rounds to an integer, in the low bits */
#define VLOG2E 1.44269504f
#define VLN2_HI 0.693145752f /* few bits: products with exponents are exact */
#define VLN2_LO 1.42860677e-6f

/* 2^n for -126 <= n <= 127. */
FN f32 vpow2i(u32 n)
{
    return U2F((n + 127u) << 23);
}

/* e^x as the CPU's kernels have it: straight-line, so that loops over it become vector code. */
FN f32 vexp(f32 x)
{
    f32 limit = copysign(104.0f, x);
    f32 c = fabs(x) > 104.0f ? limit : x;
    f32 z = c * VLOG2E + VROUND;
    f32 n = z - VROUND;
    f32 r = (c - n * VLN2_HI) - n * VLN2_LO;
    f32 q = 0.001382202f;
    u32 e = F2U(z) - F2U(VROUND);
    u32 half_e = (u32)((i32)e >> 1);

    q = q * r + 0.008368851f;
    q = q * r + 0.041668255f;
    q = q * r + 0.1666652f;
    q = q * r + 0.49999994f;
    q = q * r + 1.0f;
    q = q * r + 1.0f;
    return q * vpow2i(half_e) * vpow2i(e - half_e);
}

/* log(2^k (1 + f)) for sqrt(1/2) <= 1 + f < sqrt(2). */
FN f32 vlog_join(f32 k, f32 f)
{
    f32 f2 = f * f;
    f32 q = 0.06914684f;
    f32 y;

    q = q * f2 + (0.11872699f - 0.11788801f * f);
    q = q * f2 + (0.14218716f - 0.12384484f * f);
    q = q * f2 + (0.20002224f - 0.16669247f * f);
    q = q * f2 + (0.3333331f - 0.24999987f * f);
    y = q * f * f2 + k * VLN2_LO;
    y = y - 0.5f * f2;
    return (f + y) + k * VLN2_HI;
}

FN f32 sigmoid(f32 x)
{
    f32 e = vexp(-fabs(x));

    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e) with e = e^-|x| <= 1 */
FN f32 softplus(f32 x)
{
    f32 e = vexp(-fabs(x));
    int upper = e > 0.41421356f;
    f32 k = upper ? 1.0f : 0.0f;
    f32 f = upper ? 0.5f * e - 0.5f : e;

    return (x > 0.0f ? x : 0.0f) + vlog_join(k, f);
}
#endif

/* Statistics that may be float32 or float64, whatever the elements are: `wide` says which. */
#ifdef HAS_FP64
#define GET_REAL(p, i, wide) ((wide) ? (W)((GLOBAL const f64 *)(p))[i] : (W)((GLOBAL const f32 *)(p))[i])
#define PUT_REAL(p, i, x, wide)                    \
    do {                                           \
        if (wide)                                  \
            ((GLOBAL f64 *)(p))[i] = (x);          \
        else                                       \
            ((GLOBAL f32 *)(p))[i] = (f32)(x);     \
    } while (0)
#else
#define GET_REAL(p, i, wide) ((GLOBAL const f32 *)(p))[i]
#define PUT_REAL(p, i, x, wide) (((GLOBAL f32 *)(p))[i] = (x))
#endif

#define LANES (128 / (int)sizeof(A))
#define GROUP_MEMORY SHARED A shared[WG]
#define GROUP_MEMORY_WIDE SHARED W shared_wide[WG]

/* Columns of a matrix in tiles: TILE of them belong to a group, COLS to an item, from column FIRST_COL of the tile: WIDTH
 * of them are there. */
#if WG == 1
#define COLS 64
#define TILE 64
#define FIRST_COL 0
#define WIDTH(first, n) ((n) - (first) < COLS ? (n) - (first) : (u64)COLS)
#else
#define COLS 1
#define TILE WG
#define FIRST_COL LID
#define WIDTH(first, n) ((u64)((first) < (n)))
#endif
#define TILES(n) (((n) + TILE - 1) / TILE)

#if WG == 1
#define ROW_EACH(i, n) for (u64 i = 0; i < (u64)(n); i++)
/* Lanes side by side, then their halves onto each other: the order of the CPU's kernels. */
#define ROW_FOLD(TYPE, memory, result, start, i, from, n, term, JOIN) \
    do {                                                              \
        TYPE lane_[LANES];                                            \
        u64 at_ = (from), n_ = (n);                                   \
                                                                      \
        for (int j_ = 0; j_ < LANES; j_++)                            \
            lane_[j_] = (start);                                      \
        for (; at_ + LANES <= n_; at_ += LANES)                       \
            for (int j_ = 0; j_ < LANES; j_++) {                      \
                u64 i = at_ + (u64)j_;                                \
                TYPE t_ = (term);                                     \
                                                                      \
                lane_[j_] = JOIN(lane_[j_], t_);                      \
            }                                                         \
        for (int j_ = 0; j_ < (int)(n_ - at_); j_++) {                \
            u64 i = at_ + (u64)j_;                                    \
            TYPE t_ = (term);                                         \
                                                                      \
            lane_[j_] = JOIN(lane_[j_], t_);                          \
        }                                                             \
        for (int h_ = LANES / 2; h_ > 0; h_ /= 2)                     \
            for (int j_ = 0; j_ < h_; j_++)                           \
                lane_[j_] = JOIN(lane_[j_], lane_[j_ + h_]);          \
        (result) = lane_[0];                                          \
    } while (0)
#else
#define ROW_EACH(i, n) for (u64 i = LID; i < (u64)(n); i += WG)
#define ROW_FOLD(TYPE, memory, result, start, i, from, n, term, JOIN) \
    do {                                                              \
        TYPE fold_ = (start);                                         \
                                                                      \
        for (u64 i = (from) + LID; i < (u64)(n); i += WG) {           \
            TYPE t_ = (term);                                         \
                                                                      \
            fold_ = JOIN(fold_, t_);                                  \
        }                                                             \
        (memory)[LID] = fold_;                                        \
        BARRIER;                                                      \
        fold_ = (memory)[0];                                          \
        for (u32 j_ = 1; j_ < WG; j_++)                               \
            fold_ = JOIN(fold_, (memory)[j_]);                        \
        (result) = fold_;                                             \
        BARRIER;                                                      \
    } while (0)
#endif

#define JOIN_SUM(a, b) ((a) + (b))
#define JOIN_MAX(a, b) ((b) > (a) ? (b) : (a))
#define ROW_SUM(result, i, n, term) ROW_FOLD(A, shared, result, 0, i, 0, n, term, JOIN_SUM)
#define ROW_MAX(result, i, n, term) ROW_FOLD(A, shared, result, -INFINITY, i, 0, n, term, JOIN_MAX)
/* Long rows: pieces of a fixed size, added up in W. */
#define PIECE 4096
#define ROW_SUM_LONG(result, i, n, term)                                                           \
    do {                                                                                           \
        W total_ = 0;                                                                              \
                                                                                                   \
        for (u64 piece_ = 0; piece_ < (u64)(n); piece_ += PIECE) {                                 \
            u64 end_ = piece_ + PIECE < (u64)(n) ? piece_ + PIECE : (u64)(n);                      \
            A part_;                                                                               \
                                                                                                   \
            ROW_FOLD(A, shared, part_, 0, i, piece_, end_, term, JOIN_SUM);                        \
            total_ += (W)part_;                                                                    \
        }                                                                                          \
        (result) = total_;                                                                         \
    } while (0)
