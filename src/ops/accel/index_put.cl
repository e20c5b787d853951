/* SPDX-License-Identifier: Apache-2.0 */
/* Elements to places given by an index, in the order of the index: every place has one work-item that owns it,
 * so the last one wins, and sums are the same every run. Built with -DMOVE and a size of elements, or, to add,
 * with an element type. Needs loops.cl and, with MOVE, index_element.cl. */

#ifdef MOVE
#define COMBINE(out, at, src, i) ((out)[at] = (src)[i])
#else
#define E T
#if defined(IS_COMPLEX)
FN T plus(T a, T b)
{
    a.re += b.re;
    a.im += b.im;
    return a;
}
#define COMBINE(out, at, src, i) ((out)[at] = plus((out)[at], (src)[i]))
#elif defined(IS_BOOL)
#define COMBINE(out, at, src, i) ((out)[at] = ((out)[at] | (src)[i]) != 0)
#elif defined(IS_INT)
#define COMBINE(out, at, src, i) ((out)[at] = (T)((u64)(out)[at] + (u64)(src)[i]))
#else
#define COMBINE(out, at, src, i) ST(out, at, LD(out, at) + LD(src, i))
#endif
#endif

/* out [outer, size, inner] at index [n] from src [outer, n, inner]: an item owns columns of inner. */
KERNEL void index_put(MEM(E, out), MEM(const E, src), MEM(const i64, index), MEM(i64, trouble), u64 outer,
                      u64 n, u64 size, u64 inner, i32 op)
{
    OPEN(E, out);
    OPEN(const E, src);
    OPEN(const i64, index);
    OPEN(i64, trouble);

    FOR_RANGES(from, to, outer * inner)
    {
        while (from < to) {
            u64 o = from / inner, j = from - o * inner, m = inner - j < to - from ? inner - j : to - from;

            for (u64 i = 0; i < n; i++) {
                i64 at = index[i];

                if ((u64)at < size) {
                    GLOBAL E *RESTRICT a = out + (o * size + (u64)at) * inner + j;
                    GLOBAL const E *RESTRICT b = src + (o * n + i) * inner + j;

                    for (u64 k = 0; k < m; k++)
                        COMBINE(a, k, b, k);
                } else {
                    TROUBLE(trouble, op, at, size, i);
                }
            }
            from += m;
        }
    }
}

/* The same for few columns and many indices: `order` sorts the index stably, and the item at the first of
 * equal ones does all of them. */
KERNEL void index_put_sorted(MEM(E, out), MEM(const E, src), MEM(const i64, index), MEM(i64, trouble),
                             u64 outer, u64 n, u64 size, u64 inner, i32 op, MEM(const i64, order))
{
    OPEN(E, out);
    OPEN(const E, src);
    OPEN(const i64, index);
    OPEN(i64, trouble);
    OPEN(const i64, order);

    FOR_EACH(e, outer * n * inner)
    {
        u64 slice = e / inner, j = e - slice * inner, o = slice / n, s = slice - o * n;
        i64 at = index[order[s]];

        if (s > 0 && index[order[s - 1]] == at)
            continue;
        if ((u64)at >= size)
            TROUBLE(trouble, op, at, size, order[s]);
        else
            for (; s < n && index[order[s]] == at; s++)
                COMBINE(out, (o * size + (u64)at) * inner + j, src, (o * n + (u64)order[s]) * inner + j);
    }
}

/* Lines of the index along the indexed dimension, `width` of them beside each other. */
typedef struct scatter_t {
    loop_t rows;                  /* of lines: strides of the index and of out */
    loop_t src_rows;              /* the same lines in src */
    i64 lines, width, n, size;    /* of a line: n elements to places [0, size) */
    i64 index_stride, src_stride; /* along a line */
    i64 out_stride;
} scatter_t;

KERNEL void index_scatter(MEM(E, out), MEM(const E, src), MEM(const i64, index), MEM(i64, trouble), scatter_t q,
                          i32 op)
{
    OPEN(E, out);
    OPEN(const E, src);
    OPEN(const i64, index);
    OPEN(i64, trouble);

    FOR_RANGES(from, to, (u64)q.lines)
    {
        while (from < to) {
            u64 row = from / (u64)q.width, j = from - row * (u64)q.width;
            u64 m = (u64)q.width - j < to - from ? (u64)q.width - j : to - from;
            place_t at = loop_at(q.rows, row);
            i64 in = loop_at(q.src_rows, row).x + (i64)j;

            for (i64 i = 0; i < q.n; i++) {
                for (u64 k = 0; k < m; k++) {
                    i64 place = at.x + i * q.index_stride + (i64)(j + k), to_i = index[place];

                    if ((u64)to_i < (u64)q.size)
                        COMBINE(out, at.out + to_i * q.out_stride + (i64)(j + k), src,
                                in + i * q.src_stride + (i64)k);
                    else
                        TROUBLE(trouble, op, to_i, q.size, place);
                }
            }
            from += m;
        }
    }
}
