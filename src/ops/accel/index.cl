/* SPDX-License-Identifier: Apache-2.0 */
/* Elements from places given by other tensors, triangles and one-hot rows. Needs loops.cl, index_element.cl. */

/* out [outer, n, inner] = x [outer, size, inner] at index [n] */
KERNEL void index_select(MEM(E, out), MEM(const E, x), MEM(const i64, index), MEM(i64, trouble), u64 outer,
                         u64 n, u64 size, u64 inner, i32 op)
{
    OPEN(E, out);
    OPEN(const E, x);
    OPEN(const i64, index);
    OPEN(i64, trouble);

    FOR_RANGES(from, to, outer * n * inner)
    {
        while (from < to) {
            u64 slice = inner == 1 ? from : from / inner, j = from - slice * inner;
            u64 o = outer == 1 ? 0 : slice / n, i = slice - o * n;
            u64 run = inner == 1 ? n - i : inner - j, m = run < to - from ? run : to - from;

            if (inner == 1) {
                for (u64 k = 0; k < m; k++) {
                    i64 at = index[i + k];

                    if ((u64)at < size)
                        out[from + k] = x[o * size + (u64)at];
                    else
                        TROUBLE(trouble, op, at, size, i + k);
                }
            } else if ((u64)index[i] < size) {
                GLOBAL E *RESTRICT a = out + from;
                GLOBAL const E *RESTRICT b = x + (o * size + (u64)index[i]) * inner + j;

                for (u64 k = 0; k < m; k++)
                    a[k] = b[k];
            } else {
                TROUBLE(trouble, op, index[i], size, i);
            }
            from += m;
        }
    }
}

/* out[e] = x[row + j * step + index[e] * stride], where e is j of a row of the index */
typedef struct gather_t {
    loop_t rows;
    i64 numel, n, step, stride, size;
} gather_t;

KERNEL void index_gather(MEM(E, out), MEM(const E, x), MEM(const i64, index), MEM(i64, trouble), gather_t q,
                         i32 op)
{
    OPEN(E, out);
    OPEN(const E, x);
    OPEN(const i64, index);
    OPEN(i64, trouble);

    FOR_RANGES(from, to, (u64)q.numel)
    {
        while (from < to) {
            u64 row = from / (u64)q.n, j = from - row * (u64)q.n;
            u64 m = (u64)q.n - j < to - from ? (u64)q.n - j : to - from;
            i64 at = loop_at(q.rows, row).x + (i64)j * q.step;

            for (u64 k = 0; k < m; k++) {
                i64 i = index[from + k];

                if ((u64)i < (u64)q.size)
                    out[from + k] = x[at + (i64)k * q.step + i * q.stride];
                else
                    TROUBLE(trouble, op, i, q.size, from + k);
            }
            from += m;
        }
    }
}

/* Columns from the diagonal on (upper), or up to it; the others become 0. */
KERNEL void index_tri(MEM(E, out), MEM(const E, x), u64 numel, u64 rows, u64 columns, i64 diagonal, u32 upper)
{
    OPEN(E, out);
    OPEN(const E, x);

    FOR_RANGES(from, to, numel)
    {
        while (from < to) {
            u64 row = from / columns, j = from - row * columns;
            u64 m = columns - j < to - from ? columns - j : to - from;
            i64 edge = (i64)(row % rows) + diagonal - (i64)j; /* in this run */

            if (upper != 0)
                for (u64 k = 0; k < m; k++)
                    out[from + k] = (i64)k >= edge ? x[from + k] : no_element();
            else
                for (u64 k = 0; k < m; k++)
                    out[from + k] = (i64)k <= edge ? x[from + k] : no_element();
            from += m;
        }
    }
}

#if ESIZE == 8
KERNEL void index_one_hot(MEM(i64, out), MEM(const i64, index), MEM(i64, trouble), u64 numel, u64 classes,
                          i32 op)
{
    OPEN(i64, out);
    OPEN(const i64, index);
    OPEN(i64, trouble);

    FOR_RANGES(from, to, numel)
    {
        while (from < to) {
            u64 row = from / classes, j = from - row * classes;
            u64 m = classes - j < to - from ? classes - j : to - from;
            i64 at = index[row];

            if ((u64)at >= classes)
                TROUBLE(trouble, op, at, classes, row);
            for (u64 k = 0; k < m; k++)
                out[from + k] = (i64)(j + k) == at;
            from += m;
        }
    }
}
#endif
