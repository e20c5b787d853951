/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by unfolding patches into columns and multiplying matrices: any type, the reference for
 * the fast ones. For each image and group:
 *
 *     y [oc, oh*ow] = w [oc, c*kh*kw] @ columns [c*kh*kw, oh*ow]
 */
#include <string.h>

#include "ops/cpu/gemm.h"
#include "ops/cpu/nn_conv.h"
#include "ops/op.h"

typedef struct unfold {
    int64_t c, h, w, oh, ow, kh, kw; /* channels of one group */
    const tti_conv *g;
    size_t esize;
} unfold;

static unfold unfold_of(const tti_conv *g, size_t esize)
{
    return (unfold){ g->c / g->groups, g->h, g->w, g->oh, g->ow, g->kh, g->kw, g, esize };
}

static void to_columns(const unfold *u, const char *x, char *columns)
{
    const tti_conv *g = u->g;

    for (int64_t r = 0; r < u->c * u->kh * u->kw; r++) {
        int64_t kx = r % u->kw, ky = r / u->kw % u->kh;
        const char *plane = x + (size_t)(r / (u->kw * u->kh) * u->h * u->w) * u->esize;

        for (int64_t i = 0; i < u->oh * u->ow; i++, columns += u->esize) {
            int64_t iy = i / u->ow * g->stride[0] - g->pad[0] + ky * g->dilation[0];
            int64_t ix = i % u->ow * g->stride[1] - g->pad[1] + kx * g->dilation[1];

            if (iy >= 0 && iy < u->h && ix >= 0 && ix < u->w)
                memcpy(columns, plane + (size_t)(iy * u->w + ix) * u->esize, u->esize);
            else
                memset(columns, 0, u->esize);
        }
    }
}

/* Elements are one or two reals; adding them one by one serves complex types too. */
static void add_reals(char *dst, const char *src, tt_dtype dtype)
{
    int n = tt_dtype_is_complex(dtype) ? 2 : 1;

    for (int i = 0; i < n; i++) {
        if (dtype == TT_F64 || dtype == TT_C128)
            ((double *)(void *)dst)[i] += ((const double *)(const void *)src)[i];
        else
            ((float *)(void *)dst)[i] += ((const float *)(const void *)src)[i];
    }
}

static void from_columns(const unfold *u, const char *columns, char *x, tt_dtype dtype)
{
    const tti_conv *g = u->g;

    for (int64_t r = 0; r < u->c * u->kh * u->kw; r++) {
        int64_t kx = r % u->kw, ky = r / u->kw % u->kh;
        char *plane = x + (size_t)(r / (u->kw * u->kh) * u->h * u->w) * u->esize;

        for (int64_t i = 0; i < u->oh * u->ow; i++, columns += u->esize) {
            int64_t iy = i / u->ow * g->stride[0] - g->pad[0] + ky * g->dilation[0];
            int64_t ix = i % u->ow * g->stride[1] - g->pad[1] + kx * g->dilation[1];

            if (iy >= 0 && iy < u->h && ix >= 0 && ix < u->w)
                add_reals(plane + (size_t)(iy * u->w + ix) * u->esize, columns, dtype);
        }
    }
}

static tt_status multiply(tt_dtype dtype, const tti_mat *p, const void *a, const void *b, void *c)
{
    if (dtype == TT_F32)
        return tti_sgemm(p, a, b, c);
    if (dtype == TT_F64)
        return tti_dgemm(p, a, b, c);
    return tti_cgemm(p, a, b, c, dtype == TT_C128);
}

/* Sizes in bytes of what one image and one group have of each tensor. */
typedef struct parts {
    size_t x, y, w;
    int64_t rows, cols, oc; /* of the columns, and of y */
    tt_tensor *columns;
} parts;

static tt_status parts_of(const tti_conv *g, const tt_tensor *like, parts *p)
{
    size_t e = tti_esize(like);

    p->rows = g->c / g->groups * g->kh * g->kw;
    p->cols = g->oh * g->ow;
    p->oc = g->oc / g->groups;
    p->x = (size_t)(g->c / g->groups * g->h * g->w) * e;
    p->y = (size_t)(p->oc * p->cols) * e;
    p->w = (size_t)(p->oc * p->rows) * e;
    p->columns = tti_empty((const int64_t[]){ p->rows, p->cols }, 2, (tt_dtype)like->dtype, TT_CPU);
    return tti_made(p->columns);
}

tt_status tti_conv_plain(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                         const tti_conv *g)
{
    unfold u = unfold_of(g, tti_esize(x));
    parts p;
    tti_mat m = { .alpha = 1.0 };

    TT_TRY(parts_of(g, x, &p));
    if (b != NULL) {
        int64_t strides[] = { 0, b->strides[0], 0, 0 };
        tt_tensor *wide = tti_view_raw(b, y->dims, strides, 4, b->offset);

        TT_TRY(tti_copy(y, wide));
        m.beta = 1.0;
    }
    m.m = p.oc, m.n = p.cols, m.k = p.rows;
    m.lda = p.rows, m.ldb = p.cols, m.ldc = p.cols;
    for (int64_t i = 0; i < g->n * g->groups; i++) {
        to_columns(&u, (const char *)tti_data(x) + (size_t)i * p.x, tti_data(p.columns));
        TT_TRY(multiply((tt_dtype)x->dtype, &m,
                        (const char *)tti_data(w) + (size_t)(i % g->groups) * p.w,
                        tti_data(p.columns), (char *)tti_data(y) + (size_t)i * p.y));
    }
    return TT_OK;
}

tt_status tti_conv_plain_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                    const tti_conv *g)
{
    unfold u = unfold_of(g, tti_esize(dx));
    parts p;
    tti_mat m = { .alpha = 1.0, .ta = true };

    TT_TRY(parts_of(g, dx, &p));
    TT_TRY(tti_fill(dx, 0.0));
    m.m = p.rows, m.n = p.cols, m.k = p.oc;
    m.lda = p.rows, m.ldb = p.cols, m.ldc = p.cols;
    for (int64_t i = 0; i < g->n * g->groups; i++) {
        TT_TRY(multiply((tt_dtype)dx->dtype, &m,
                        (const char *)tti_data(w) + (size_t)(i % g->groups) * p.w,
                        (const char *)tti_data(dy) + (size_t)i * p.y, tti_data(p.columns)));
        from_columns(&u, tti_data(p.columns), (char *)tti_data(dx) + (size_t)i * p.x,
                     (tt_dtype)dx->dtype);
    }
    return TT_OK;
}

tt_status tti_conv_plain_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                     const tti_conv *g)
{
    unfold u = unfold_of(g, tti_esize(dw));
    parts p;
    tti_mat m = { .alpha = 1.0, .beta = 1.0, .tb = true };

    TT_TRY(parts_of(g, dw, &p));
    TT_TRY(tti_fill(dw, 0.0));
    m.m = p.oc, m.n = p.rows, m.k = p.cols;
    m.lda = p.cols, m.ldb = p.cols, m.ldc = p.rows;
    for (int64_t i = 0; i < g->n * g->groups; i++) {
        to_columns(&u, (const char *)tti_data(x) + (size_t)i * p.x, tti_data(p.columns));
        TT_TRY(multiply((tt_dtype)dw->dtype, &m, (const char *)tti_data(dy) + (size_t)i * p.y,
                        tti_data(p.columns), (char *)tti_data(dw) + (size_t)(i % g->groups) * p.w));
    }
    return TT_OK;
}
