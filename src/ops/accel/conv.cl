/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions become products of matrices: im2col unfolds patches into columns [c*kh*kw, oh*ow] of each image,
 * col2im sums columns back into images. Channels of a group lie together, so groups need no care here. */

/* As in conv.c. */
typedef struct conv_args {
    u64 n, c, h, w, oh, ow, kh, kw;
    i64 stride0, stride1, pad0, pad1, dilation0, dilation1;
} conv_args;

/* The results out .. end of one row that meet the input at column out * stride - lack. */
typedef struct run_t {
    i64 out, end;
} run_t;

FN run_t run_of(i64 lack, i64 stride, i64 size, i64 n_out)
{
    run_t r;

    r.out = lack > 0 ? (lack + stride - 1) / stride : 0;
    r.end = size + lack <= 0 ? 0 : (size - 1 + lack) / stride + 1;
    r.out = r.out < n_out ? r.out : n_out;
    r.end = r.end < n_out ? r.end : n_out;
    r.end = r.end < r.out ? r.out : r.end;
    return r;
}

KERNEL void im2col(MEM(T, cols), MEM(const T, x), conv_args g)
{
    OPEN(T, cols);
    OPEN(const T, x);

    FOR_ROWS(r, g.n * g.c * g.kh * g.kw)
    {
        i64 kx = r % g.kw, ky = r / g.kw % g.kh;
        GLOBAL const T *plane = x + r / (g.kw * g.kh) * (g.h * g.w);
        GLOBAL T *to = cols + r * (g.oh * g.ow);
        i64 lack_y = g.pad0 - ky * g.dilation0, lack_x = g.pad1 - kx * g.dilation1;
        T zero = { 0 };
#ifdef CPU_DEVICE
        run_t run = run_of(lack_x, g.stride1, g.w, g.ow);

        for (i64 oy = 0; oy < (i64)g.oh; oy++, to += g.ow) {
            i64 iy = oy * g.stride0 - lack_y;
            i64 begin = iy >= 0 && iy < (i64)g.h ? run.out : (i64)g.ow;
            i64 end = iy >= 0 && iy < (i64)g.h ? run.end : (i64)g.ow;
            GLOBAL const T *row = plane + iy * (i64)g.w - lack_x;

            for (i64 ox = 0; ox < begin; ox++)
                to[ox] = zero;
            if (g.stride1 == 1)
                for (i64 ox = begin; ox < end; ox++)
                    to[ox] = row[ox];
            else
                for (i64 ox = begin; ox < end; ox++)
                    to[ox] = row[ox * g.stride1];
            for (i64 ox = end; ox < (i64)g.ow; ox++)
                to[ox] = zero;
        }
#else
        FOR_LANES(i, g.oh * g.ow)
        {
            i64 iy = (i64)(i / g.ow) * g.stride0 - lack_y, ix = (i64)(i % g.ow) * g.stride1 - lack_x;
            T v = zero;

            if (iy >= 0 && iy < (i64)g.h && ix >= 0 && ix < (i64)g.w)
                v = plane[iy * (i64)g.w + ix];
            to[i] = v;
        }
#endif
    }
}

FN T plus(T x, T y)
{
#ifdef IS_COMPLEX
    x.re += y.re;
    x.im += y.im;
    return x;
#else
    return x + y;
#endif
}

/* Sums go over taps in their order, on every device. */
KERNEL void col2im(MEM(T, x), MEM(const T, cols), conv_args g)
{
    OPEN(T, x);
    OPEN(const T, cols);
    T zero = { 0 };

#ifdef CPU_DEVICE
    FOR_ROWS(p, g.n * g.c)
    {
        GLOBAL T *plane = x + p * (g.h * g.w);
        GLOBAL const T *from = cols + p * (g.kh * g.kw * g.oh * g.ow);

        for (u64 i = 0; i < g.h * g.w; i++)
            plane[i] = zero;
        for (i64 ky = 0; ky < (i64)g.kh; ky++)
            for (i64 kx = 0; kx < (i64)g.kw; kx++) {
                i64 lack_y = g.pad0 - ky * g.dilation0, lack_x = g.pad1 - kx * g.dilation1;
                run_t run = run_of(lack_x, g.stride1, g.w, g.ow);

                for (i64 oy = 0; oy < (i64)g.oh; oy++, from += g.ow) {
                    i64 iy = oy * g.stride0 - lack_y;
                    GLOBAL T *row = plane + iy * (i64)g.w - lack_x;

                    if (iy < 0 || iy >= (i64)g.h)
                        continue;
                    for (i64 ox = run.out; ox < run.end; ox++)
                        row[ox * g.stride1] = plus(row[ox * g.stride1], from[ox]);
                }
            }
    }
#else
    FOR_EACH(e, g.n * g.c * g.h * g.w)
    {
        i64 ix = e % g.w, iy = e / g.w % g.h;
        GLOBAL const T *from = cols + e / (g.w * g.h) * (g.kh * g.kw * g.oh * g.ow);
        T sum = zero;

        for (i64 ky = 0; ky < (i64)g.kh; ky++)
            for (i64 kx = 0; kx < (i64)g.kw; kx++, from += g.oh * g.ow) {
                i64 oy = iy + g.pad0 - ky * g.dilation0, ox = ix + g.pad1 - kx * g.dilation1;

                if (oy < 0 || ox < 0 || oy % g.stride0 != 0 || ox % g.stride1 != 0)
                    continue;
                oy /= g.stride0;
                ox /= g.stride1;
                if (oy < (i64)g.oh && ox < (i64)g.ow)
                    sum = plus(sum, from[oy * (i64)g.ow + ox]);
            }
        x[e] = sum;
    }
#endif
}
