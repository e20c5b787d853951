/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of pairs of elements, summed in pieces of a fixed size; and dropout. */

#define ABS(v) ((v) < 0 ? -(v) : (v))
#define LEAST(v, most) ((v) < (most) ? (v) : (most))
#define CLAMP(v, most) ((v) > (most) ? (most) : (v) < -(most) ? -(most) : (v))

#define LOSS_MSE(a, b) (((a) - (b)) * ((a) - (b)))
#define LOSS_L1(a, b) ABS((a) - (b))
/* Quadratic up to beta: with m = min(|d|, beta) it is m (|d| - m / 2) / beta. */
#define LOSS_SMOOTH(a, b) \
    (LEAST(ABS((a) - (b)), beta) * (ABS((a) - (b)) - LEAST(ABS((a) - (b)), beta) / 2) / beta)
#define LOSS_BCE(a, b) ((1 - (b)) * (a) + softplus(-(a)))

#define SLOPE_MSE(a, b) (2 * ((a) - (b)))
#define SLOPE_L1(a, b) ((A)((a) > (b)) - (A)((a) < (b)))
#define SLOPE_SMOOTH(a, b) (CLAMP((a) - (b), beta) / beta)
#define SLOPE_BCE(a, b) (sigmoid(a) - (b))

#define SUM_OF(LOSS) ROW_FOLD(A, shared, sum, 0, i, first, end, LOSS(LD(a, i), LD(b, i)), JOIN_SUM)

/* sums[piece] = the losses of a piece of elements */
KERNEL void pair_loss(MEM(A, sums), MEM(const T, a), MEM(const T, b), u32 kind, A beta, u64 n)
{
    GROUP_MEMORY;
    OPEN(A, sums);
    OPEN(const T, a);
    OPEN(const T, b);

    FOR_ROWS(p, (n + PIECE - 1) / PIECE)
    {
        u64 first = p * PIECE, end = n - first < PIECE ? n : first + PIECE;
        A sum = 0;

        switch (kind) {
        case 0:
            SUM_OF(LOSS_MSE);
            break;
        case 1:
            SUM_OF(LOSS_L1);
            break;
        case 2:
            SUM_OF(LOSS_SMOOTH);
            break;
        default:
            SUM_OF(LOSS_BCE);
        }
        if (LID == 0)
            sums[p] = sum;
    }
}

/* One group. */
KERNEL void pair_loss_total(MEM(T, out), MEM(const A, sums), A factor, u64 n)
{
    GROUP_MEMORY_WIDE;
    W total;
    OPEN(T, out);
    OPEN(const A, sums);

    ROW_FOLD(W, shared_wide, total, 0, i, 0, n, (W)sums[i], JOIN_SUM);
    if (LID == 0)
        ST(out, 0, (A)(total * (W)factor));
}

#define SLOPES_OF(SLOPE)                                  \
    FOR_EACH(i, n)                                        \
        ST(da, i, scale * SLOPE(LD(a, i), LD(b, i)))

KERNEL void pair_loss_grad(MEM(T, da), MEM(const T, grad), MEM(const T, a), MEM(const T, b), u32 kind, A factor,
                           A beta, u64 n)
{
    A scale;
    OPEN(T, da);
    OPEN(const T, grad);
    OPEN(const T, a);
    OPEN(const T, b);

    scale = LD(grad, 0) * factor;
    switch (kind) {
    case 0:
        SLOPES_OF(SLOPE_MSE);
        break;
    case 1:
        SLOPES_OF(SLOPE_L1);
        break;
    case 2:
        SLOPES_OF(SLOPE_SMOOTH);
        break;
    default:
        SLOPES_OF(SLOPE_BCE);
    }
}
