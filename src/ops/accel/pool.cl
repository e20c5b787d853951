/* SPDX-License-Identifier: Apache-2.0 */
/* Pools over planes. Every result and every gradient has one item that sums it, in the order of the CPU's
 * kernels: rows of a window first, then its columns. */

/* As in pool.c. */
typedef struct pool_args {
    u64 planes;
    i64 h, w, oh, ow;
    i64 kernel0, kernel1, stride0, stride1, pad0, pad1, dilation0, dilation1;
    i64 divisor, exclude_pad;
} pool_args;

/* Every pixel j of every row r. On CPUs what depends on the row only stays outside of the inner loop. */
#ifdef CPU_DEVICE
#define FOR_PIXELS(r, j, rows, width) \
    FOR_ROWS(r, rows)                 \
    for (i64 j = 0; j < (i64)(width); j++)
#else
#define FOR_PIXELS(r, j, rows, width)    \
    FOR_EACH(r##_e, (u64)(rows) * (width)) \
    for (i64 r = r##_e / (width), j = r##_e % (width), r##_once = 1; r##_once != 0; r##_once = 0)
#endif

FN i64 least(i64 a, i64 b)
{
    return a < b ? a : b;
}

FN i64 most(i64 a, i64 b)
{
    return a > b ? a : b;
}

/* The first of start, start + step, ... that is not negative. */
FN i64 first_inside(i64 start, i64 step)
{
    return start >= 0 ? start : start + (-start + step - 1) / step * step;
}

KERNEL void max_pool(MEM(T, y), MEM(i64, indices), MEM(const T, x), pool_args p)
{
    OPEN(T, y);
    OPEN(i64, indices);
    OPEN(const T, x);

    FOR_PIXELS(r, j, p.planes * p.oh, p.ow)
    {
        i64 top = (i64)(r % p.oh) * p.stride0 - p.pad0, left = j * p.stride1 - p.pad1;
        i64 h0 = first_inside(top, p.dilation0), w0 = first_inside(left, p.dilation1);
        i64 h1 = least(top + p.kernel0 * p.dilation0, p.h), w1 = least(left + p.kernel1 * p.dilation1, p.w);
        GLOBAL const T *plane = x + (i64)(r / p.oh) * (p.h * p.w);
        i64 at = least(h0, p.h - 1) * p.w + least(w0, p.w - 1); /* of a window that is all padding, too */
        T best = -INFINITY;

        for (i64 h = h0; h < h1; h += p.dilation0)
            for (i64 w = w0; w < w1; w += p.dilation1) {
                T v = plane[h * p.w + w];
                int more = v > best || v != v;

                best = more ? v : best;
                at = more ? h * p.w + w : at;
            }
        y[(i64)r * p.ow + j] = best;
        if (!IS_NULL(indices))
            indices[(i64)r * p.ow + j] = at;
    }
}

/* dx[plane, indices[i]] += dy[i]: an item has some pixels of its plane and looks for what goes there. */
KERNEL void max_pool_grad(MEM(T, dx), MEM(const T, dy), MEM(const i64, indices), u64 planes, u64 in, u64 out)
{
    OPEN(T, dx);
    OPEN(const T, dy);
    OPEN(const i64, indices);

    FOR_ROWS(r, planes)
    {
        GLOBAL T *to = dx + r * in;
        GLOBAL const T *from = dy + r * out;
        GLOBAL const i64 *at = indices + r * out;

        FOR_LANES(i, in)
        to[i] = 0;
        for (u64 i = 0; i < out; i++)
#ifdef CPU_DEVICE
            to[at[i]] += from[i];
#else
            if ((u64)at[i] % WG == LID)
                to[at[i]] += from[i];
#endif
    }
}

/* The input rows of a row of windows, and how many rows count. */
typedef struct band_t {
    i64 begin, end, count;
} band_t;

FN band_t band_of(i64 first, i64 kernel_size, i64 pad, i64 size, i64 exclude)
{
    i64 last = least(first + kernel_size, size + pad);
    band_t b;

    b.begin = most(first, 0);
    b.end = least(last, size);
    b.count = exclude ? b.end - b.begin : last - first;
    return b;
}

KERNEL void avg_pool(MEM(T, y), MEM(const T, x), pool_args p)
{
    OPEN(T, y);
    OPEN(const T, x);

    FOR_PIXELS(r, j, p.planes * p.oh, p.ow)
    {
        band_t rows = band_of((i64)(r % p.oh) * p.stride0 - p.pad0, p.kernel0, p.pad0, p.h, p.exclude_pad);
        band_t cols = band_of(j * p.stride1 - p.pad1, p.kernel1, p.pad1, p.w, p.exclude_pad);
        GLOBAL const T *plane = x + (i64)(r / p.oh) * (p.h * p.w);
        T sum = 0;

        for (i64 w = cols.begin; w < cols.end; w++) {
            T column = 0;

            for (i64 h = rows.begin; h < rows.end; h++)
                column += plane[h * p.w + w];
            sum += column;
        }
        y[(i64)r * p.ow + j] = sum / (T)(p.divisor != 0 ? p.divisor : rows.count * cols.count);
    }
}

KERNEL void avg_pool_grad(MEM(T, dx), MEM(const T, dy), pool_args p)
{
    OPEN(T, dx);
    OPEN(const T, dy);

    FOR_PIXELS(r, w, p.planes * p.h, p.w)
    {
        i64 h = r % p.h;
        GLOBAL const T *plane = dy + (i64)(r / p.h) * (p.oh * p.ow);
        i64 i0 = h + p.pad0 < p.kernel0 ? 0 : (h + p.pad0 - p.kernel0) / p.stride0 + 1;
        i64 i1 = least((h + p.pad0) / p.stride0 + 1, p.oh);
        T sum = 0;

        for (i64 i = i0; i < i1; i++) {
            band_t rows = band_of(i * p.stride0 - p.pad0, p.kernel0, p.pad0, p.h, p.exclude_pad);
            T column = 0;

            for (i64 k = 0; k < p.kernel1; k++) {
                i64 left = w + p.pad1 - k, j = left / p.stride1;
                band_t cols;

                if (left < 0 || left % p.stride1 != 0 || j >= p.ow)
                    continue;
                cols = band_of(j * p.stride1 - p.pad1, p.kernel1, p.pad1, p.w, p.exclude_pad);
                column += plane[i * p.ow + j] / (T)(p.divisor != 0 ? p.divisor : rows.count * cols.count);
            }
            sum += column;
        }
        dx[(i64)r * p.w + w] = sum;
    }
}

/* ---- adaptive: window i of n over `size` elements ---------------------------------------------- */

FN band_t span_of(i64 i, i64 n, i64 size)
{
    band_t b;

    b.begin = i * size / n;
    b.end = ((i + 1) * size + n - 1) / n;
    b.count = b.end - b.begin;
    return b;
}

KERNEL void adaptive_max(MEM(T, y), MEM(i64, indices), MEM(const T, x), pool_args p)
{
    OPEN(T, y);
    OPEN(i64, indices);
    OPEN(const T, x);

    FOR_PIXELS(r, j, p.planes * p.oh, p.ow)
    {
        band_t rows = span_of(r % p.oh, p.oh, p.h), cols = span_of(j, p.ow, p.w);
        GLOBAL const T *plane = x + (i64)(r / p.oh) * (p.h * p.w);
        i64 at = rows.begin * p.w + cols.begin;
        T best = -INFINITY;

        for (i64 h = rows.begin; h < rows.end; h++)
            for (i64 i = h * p.w + cols.begin; i < h * p.w + cols.end; i++)
                if (plane[i] > best || plane[i] != plane[i]) {
                    best = plane[i];
                    at = i;
                }
        y[(i64)r * p.ow + j] = best;
        indices[(i64)r * p.ow + j] = at;
    }
}

KERNEL void adaptive_avg(MEM(T, y), MEM(const T, x), pool_args p)
{
    OPEN(T, y);
    OPEN(const T, x);

    FOR_PIXELS(r, j, p.planes * p.oh, p.ow)
    {
        band_t rows = span_of(r % p.oh, p.oh, p.h), cols = span_of(j, p.ow, p.w);
        GLOBAL const T *plane = x + (i64)(r / p.oh) * (p.h * p.w);
        T sum = 0;

        for (i64 w = cols.begin; w < cols.end; w++) {
            T column = 0;

            for (i64 h = rows.begin; h < rows.end; h++)
                column += plane[h * p.w + w];
            sum += column;
        }
        y[(i64)r * p.ow + j] = sum / (T)(rows.count * cols.count);
    }
}

/* The windows that have element `at`: from the first that ends after it to the last that begins before. */
FN band_t windows_of(i64 at, i64 n, i64 size)
{
    band_t b;

    b.begin = at * n / size;
    b.end = least((at + 1) * n / size + 1, n);
    while (b.begin > 0 && span_of(b.begin - 1, n, size).end > at)
        b.begin--;
    while (b.end > b.begin && span_of(b.end - 1, n, size).begin > at)
        b.end--;
    b.count = b.end - b.begin;
    return b;
}

KERNEL void adaptive_avg_grad(MEM(T, dx), MEM(const T, dy), pool_args p)
{
    OPEN(T, dx);
    OPEN(const T, dy);

    FOR_PIXELS(r, w, p.planes * p.h, p.w)
    {
        band_t down = windows_of(r % p.h, p.oh, p.h), across = windows_of(w, p.ow, p.w);
        GLOBAL const T *plane = dy + (i64)(r / p.h) * (p.oh * p.ow);
        T sum = 0;

        for (i64 i = down.begin; i < down.end; i++) {
            i64 rows = span_of(i, p.oh, p.h).count;
            T column = 0;

            for (i64 j = across.begin; j < across.end; j++)
                column += plane[i * p.ow + j] / (T)(rows * span_of(j, p.ow, p.w).count);
            sum += column;
        }
        dx[(i64)r * p.w + w] = sum;
    }
}
