/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables, bags of them, and their gradients. Bag b has the members index[offsets[b] .. offsets[b + 1]); without
 * offsets bag i is index[i] alone. Gradients are added up by one owner per element, member by member. */

#define BAG_SUM 0
#define BAG_MEAN 1
#define BAG_MAX 2

/* out [n, width] = rows of weight [rows, width]; T is any type of the elements' size. */
KERNEL void look_up(MEM(T, out), MEM(const T, weight), MEM(const i64, index), u64 n, u64 width, u64 rows, u32 op,
                    MEM(i64, trouble))
{
    OPEN(T, out);
    OPEN(const T, weight);
    OPEN(const i64, index);
    OPEN(i64, trouble);

    FOR_ROWS(i, n)
    {
        i64 at = index[i];
        u32 good = at >= 0 && at < (i64)rows;
        GLOBAL const T *from = weight + (good ? (u64)at : 0) * width;
        GLOBAL T *to = out + i * width;

        if (!good && LID == 0)
            TROUBLE(trouble, op, at, rows, i);
        if (good)
            ROW_EACH(j, width)
                to[j] = from[j];
        else
            ROW_EACH(j, width)
                to[j] = 0;
    }
}

#if defined(IS_REAL)

/* Members of bag b, or nobody when the offsets make no sense (*bad is set then). */
FN void bag_range(GLOBAL const i64 *offsets, u64 b, u64 n, u64 *begin, u64 *end, u32 *bad)
{
    i64 from = offsets[b], to = offsets[b + 1];

    *bad = from < 0 || to < from || to > (i64)n || (b == 0 && from != 0);
    *begin = *bad ? 0 : (u64)from;
    *end = *bad ? 0 : (u64)to;
}

/* A tile of columns of one bag. */
FN void bag_tile(GLOBAL T *RESTRICT out, GLOBAL i64 *RESTRICT argmax, GLOBAL const T *RESTRICT weight,
                 GLOBAL const i64 *RESTRICT index, GLOBAL const T *RESTRICT sample, u64 begin, u64 end, u64 width,
                 u64 dim, u64 rows, i64 padding, u32 mode, A divisor)
{
    A acc[COLS];
    i64 at[COLS];

    for (u64 j = 0; j < COLS; j++) {
        acc[j] = 0;
        at[j] = -1;
    }
    for (u64 i = begin; i < end; i++) {
        i64 row = index[i];
        GLOBAL const T *from = weight + (u64)row * dim;
        A f = sample != 0 ? LD(sample, i) : (A)1;

        if (row == padding || row < 0 || row >= (i64)rows)
            continue;
        if (mode == BAG_MAX)
            for (u64 j = 0; j < width; j++) {
                A v = LD(from, j);
                u32 more = at[j] < 0 || v > acc[j] || v != v;

                acc[j] = more ? v : acc[j];
                at[j] = more ? row : at[j];
            }
        else
            for (u64 j = 0; j < width; j++)
                acc[j] += f * LD(from, j);
    }
    for (u64 j = 0; j < width; j++)
        ST(out, j, mode == BAG_MEAN ? acc[j] / divisor : acc[j]);
    if (mode == BAG_MAX)
        for (u64 j = 0; j < width; j++)
            argmax[j] = at[j];
}

KERNEL void bags(MEM(T, out), MEM(i64, counts), MEM(i64, argmax), MEM(const T, weight), MEM(const i64, index),
                 MEM(const i64, offsets), MEM(const T, sample), u64 n_bags, u64 n, u64 dim, u64 rows, i64 padding,
                 u32 mode, u32 op, MEM(i64, trouble))
{
    OPEN(T, out);
    OPEN(i64, counts);
    OPEN(i64, argmax);
    OPEN(const T, weight);
    OPEN(const i64, index);
    OPEN(const i64, offsets);
    OPEN(const T, sample);
    OPEN(i64, trouble);

    FOR_ROWS(b, n_bags)
    {
        u64 begin, end, left = 0;
        u32 bad;

        bag_range(offsets, b, n, &begin, &end, &bad);
        if (bad && LID == 0)
            TROUBLE(trouble, op, offsets[b + 1], n, b + 1);
        for (u64 i = begin; i < end; i++) {
            i64 row = index[i];

            left += row == padding;
            if (LID == 0 && (row < 0 || row >= (i64)rows))
                TROUBLE(trouble, op, row, rows, i);
        }
        left = end - begin - left;
        if (LID == 0)
            counts[b] = (i64)left;
        for (u64 first = FIRST_COL; first < dim; first += TILE)
            bag_tile(out + b * dim + first, argmax + b * dim + first, weight + first, index,
                     IS_NULL(sample) ? 0 : sample, begin, end, dim - first < COLS ? dim - first : COLS, dim, rows,
                     padding, mode, left > 0 ? (A)left : (A)1);
    }
}

/* Which bag has member i; -1: none. */
FN i64 owner_of(GLOBAL const i64 *offsets, u64 n_bags, u64 i)
{
    u64 low = 0, high = n_bags; /* the last offset that is <= i is in [low, high) */

    while (low + 1 < high) {
        u64 middle = (low + high) / 2;

        if (offsets[middle] <= (i64)i)
            low = middle;
        else
            high = middle;
    }
    return n_bags > 0 && offsets[low] <= (i64)i && (i64)i < offsets[low + 1] ? (i64)low : -1;
}

/* What member i of bag b counts: its own factor, over the size of the bag for means. */
FN A factor_of(GLOBAL const T *sample, GLOBAL const i64 *counts, u64 b, u64 i)
{
    A f = sample != 0 ? LD(sample, i) : (A)1;

    return counts != 0 && counts[b] > 0 ? f / (A)counts[b] : f;
}

FN void add_row(GLOBAL T *RESTRICT to, GLOBAL const T *RESTRICT from, u64 width, A f)
{
    for (u64 j = 0; j < width; j++)
        to[j] += f * from[j];
}

/* What a unit of the gradients of bags owns: a tile of columns of a range of rows. */
typedef struct part {
    u64 first, width, low, high;
} part;

FN part part_cleared(GLOBAL T *dw, u64 u, u64 rows, u64 dim, u64 ranges)
{
    u64 tiles = TILES(dim);
    part o;

    o.first = u % tiles * TILE + FIRST_COL;
    o.width = WIDTH(o.first, dim);
    o.low = rows * (u / tiles) / ranges;
    o.high = rows * (u / tiles + 1) / ranges;
    for (u64 r = o.low; r < o.high; r++)
        for (u64 j = 0; j < o.width; j++)
            dw[r * dim + o.first + j] = 0;
    return o;
}

/* dw [rows, dim] = the sum of the gradients of each member's bag. A unit goes through all members. counts: NULL unless the mode is mean. */
KERNEL void bag_grad(MEM(T, dw), MEM(const T, dy), MEM(const i64, index), MEM(const i64, offsets),
                     MEM(const i64, counts), MEM(const T, sample), u64 n_bags, u64 n, u64 dim, u64 rows, i64 padding,
                     u64 ranges)
{
    OPEN(T, dw);
    OPEN(const T, dy);
    OPEN(const i64, index);
    OPEN(const i64, offsets);
    OPEN(const i64, counts);
    OPEN(const T, sample);

    FOR_ROWS(u, TILES(dim) * ranges)
    {
        part o = part_cleared(dw, u, rows, dim, ranges);

        for (u64 b = 0; b < n_bags; b++) {
            u64 i = b, end = b + 1;
            u32 bad;

            if (!IS_NULL(offsets))
                bag_range(offsets, b, n, &i, &end, &bad);
            for (; i < end; i++) {
                i64 row = index[i];

                if (row == padding || row < (i64)o.low || row >= (i64)o.high)
                    continue;
                add_row(dw + (u64)row * dim + o.first, dy + b * dim + o.first, o.width,
                        factor_of(IS_NULL(sample) ? 0 : sample, IS_NULL(counts) ? 0 : counts, b, i));
            }
        }
    }
}

/* The same where the maxima came from. */
KERNEL void bag_max_grad(MEM(T, dw), MEM(const T, dy), MEM(const i64, argmax), u64 n_bags, u64 dim, u64 rows,
                         u64 ranges)
{
    OPEN(T, dw);
    OPEN(const T, dy);
    OPEN(const i64, argmax);

    FOR_ROWS(u, TILES(dim) * ranges)
    {
        part o = part_cleared(dw, u, rows, dim, ranges);

        for (u64 b = 0; b < n_bags; b++)
            for (u64 j = 0; j < o.width; j++) {
                u64 at = b * dim + o.first + j;
                i64 row = argmax[at];

                if (row >= (i64)o.low && row < (i64)o.high)
                    dw[(u64)row * dim + o.first + j] += dy[at];
            }
    }
}

/* Row i of out = the gradient that member i sends to its row; 0 for padding and members of no bag. */
KERNEL void bag_rows(MEM(T, out), MEM(const T, dy), MEM(const i64, index), MEM(const i64, offsets),
                     MEM(const i64, counts), MEM(const T, sample), u64 n_bags, u64 n, u64 dim, i64 padding)
{
    OPEN(T, out);
    OPEN(const T, dy);
    OPEN(const i64, index);
    OPEN(const i64, offsets);
    OPEN(const i64, counts);
    OPEN(const T, sample);

    FOR_ROWS(i, n)
    {
        i64 b = owner_of(offsets, n_bags, i);
        GLOBAL const T *from = dy + (b < 0 ? 0 : (u64)b) * dim;
        GLOBAL T *to = out + i * dim;
        A f = 0;

        if (b >= 0 && index[i] != padding)
            f = factor_of(IS_NULL(sample) ? 0 : sample, IS_NULL(counts) ? 0 : counts, (u64)b, i);
        if (b < 0)
            ROW_EACH(j, dim)
                to[j] = 0;
        else
            ROW_EACH(j, dim)
                to[j] = f * from[j];
    }
}

/* The gradient of the factor of member i. */
KERNEL void bag_sample_grad(MEM(T, out), MEM(const T, dy), MEM(const T, weight), MEM(const i64, index),
                            MEM(const i64, offsets), u64 n_bags, u64 n, u64 dim, u64 rows, i64 padding)
{
    GROUP_MEMORY;
    OPEN(T, out);
    OPEN(const T, dy);
    OPEN(const T, weight);
    OPEN(const i64, index);
    OPEN(const i64, offsets);

    FOR_ROWS(i, n)
    {
        i64 b = owner_of(offsets, n_bags, i), row = index[i];
        u32 counts = b >= 0 && row != padding && row >= 0 && row < (i64)rows;
        GLOBAL const T *g = dy + (counts ? (u64)b : 0) * dim, *w = weight + (counts ? (u64)row : 0) * dim;
        A sum;

        ROW_SUM(sum, j, counts ? dim : 0, g[j] * w[j]);
        if (LID == 0)
            out[i] = sum;
    }
}

/* ---- sums by row ------------------------------------------------------------------------------------------- */

#define HEADS 1024 /* members of a part */
#define IS_HEAD(at) ((at) == 0 || index[order[at]] != index[order[(at) - 1]])

/* counts[part] = how many groups begin in each part of the order */
KERNEL void heads_count(MEM(i64, heads), MEM(const i64, index), MEM(const i64, order), u64 n)
{
    OPEN(i64, heads);
    OPEN(const i64, index);
    OPEN(const i64, order);

    FOR_EACH(p, (n + HEADS - 1) / HEADS)
    {
        u64 end = n - p * HEADS < HEADS ? n : (p + 1) * HEADS;
        i64 sum = 0;

        for (u64 at = p * HEADS; at < end; at++)
            sum += IS_HEAD(at);
        heads[p] = sum;
    }
}

/* starts[g] and places[g] of every group, and the end of the last. */
KERNEL void heads_put(MEM(i64, starts), MEM(i64, places), MEM(const i64, heads), MEM(const i64, index),
                      MEM(const i64, order), u64 n, u64 groups)
{
    OPEN(i64, starts);
    OPEN(i64, places);
    OPEN(const i64, heads);
    OPEN(const i64, index);
    OPEN(const i64, order);

    FOR_EACH(p, (n + HEADS - 1) / HEADS)
    {
        u64 end = n - p * HEADS < HEADS ? n : (p + 1) * HEADS, g = 0;

        for (u64 i = 0; i < p; i++)
            g += (u64)heads[i];
        for (u64 at = p * HEADS; at < end; at++)
            if (IS_HEAD(at) && g < groups) {
                starts[g] = (i64)at;
                places[g++] = index[order[at]];
            }
        if (end == n)
            starts[groups] = (i64)n;
    }
}

KERNEL void bag_sums(MEM(T, out), MEM(const T, dy), MEM(const i64, order), MEM(const i64, starts),
                     MEM(const i64, offsets), MEM(const i64, counts), MEM(const T, sample), u64 n_bags, u64 groups,
                     u64 dim)
{
    OPEN(T, out);
    OPEN(const T, dy);
    OPEN(const i64, order);
    OPEN(const i64, starts);
    OPEN(const i64, offsets);
    OPEN(const i64, counts);
    OPEN(const T, sample);

    FOR_ROWS(g, groups)
    {
        GLOBAL T *to = out + g * dim;

        ROW_EACH(j, dim)
            to[j] = 0;
        for (i64 at = starts[g]; at < starts[g + 1]; at++) {
            u64 i = (u64)order[at];
            i64 b = owner_of(offsets, n_bags, i);
            GLOBAL const T *from = dy + (b < 0 ? 0 : (u64)b) * dim;
            A f;

            if (b < 0)
                continue;
            f = factor_of(IS_NULL(sample) ? 0 : sample, IS_NULL(counts) ? 0 : counts, (u64)b, i);
            ROW_EACH(j, dim)
                to[j] += f * from[j];
        }
    }
}
#endif
