/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by unfolding patches into columns and multiplying matrices: any type, the reference for
 * the fast ones. For each image and group:
 *
 *     y [oc, oh*ow] = w [oc, c*kh*kw] @ columns [c*kh*kw, oh*ow]
 */
#include <string.h>

#include "ops/cpu/gemm.h"
#include "ops/cpu/nn_conv.h"

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
static void add_element(char *dst, const char *src, tt_dtype dtype)
{
    int n = tt_dtype_is_complex(dtype) ? 2 : 1;

    if (dtype == TT_I64) {
        *(uint64_t *)(void *)dst += *(const uint64_t *)(const void *)src;
        return;
    }
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
                add_element(plane + (size_t)(iy * u->w + ix) * u->esize, columns, dtype);
        }
    }
}

static tt_status multiply(tt_dtype dtype, const tti_mat *p, const void *a, const void *b, void *c)
{
    if (dtype == TT_F32)
        return tti_sgemm(p, a, b, c);
    if (dtype == TT_F64)
        return tti_dgemm(p, a, b, c);
    if (dtype == TT_I64) {
        tti_igemm(p, a, b, c);
        return TT_OK;
    }
    return tti_cgemm(p, a, b, c, dtype == TT_C128);
}

/* Sizes in bytes of what one image and one group have of each tensor. */
typedef struct parts {
    size_t x, y, w;
    int64_t rows, cols, oc; /* of the columns, and of y */
    char *columns;
    size_t bytes;
    unfold u;
} parts;

static tt_status parts_of(const tti_conv_job *j, parts *p)
{
    const tti_conv *g = &j->g;
    size_t e = tti_dtype_sizes[j->dtype];

    p->rows = g->c / g->groups * g->kh * g->kw;
    p->cols = g->oh * g->ow;
    p->oc = g->oc / g->groups;
    p->x = (size_t)(g->c / g->groups * g->h * g->w) * e;
    p->y = (size_t)(p->oc * p->cols) * e;
    p->w = (size_t)(p->oc * p->rows) * e;
    p->u = unfold_of(g, e);
    p->bytes = (size_t)(p->rows * p->cols) * e;
    p->bytes = p->bytes != 0 ? p->bytes : 1;
    p->columns = tti_driver_cpu.alloc(0, p->bytes);
    return p->columns != NULL ? TT_OK : TT_ERR_NOMEM;
}

/* Every channel of y starts as its bias. */
static void fill_bias(const tti_conv_job *j, const parts *p)
{
    size_t e = p->u.esize;
    char *y = j->y;

    for (int64_t i = 0; i < j->g.n * j->g.oc; i++)
        for (int64_t k = 0; k < p->cols; k++, y += e)
            memcpy(y, (const char *)j->b + (size_t)(i % j->g.oc) * e, e);
}

static tt_status forward(const tti_conv_job *j, const parts *p)
{
    tti_mat m = { .alpha = 1.0, .m = p->oc, .n = p->cols, .k = p->rows };

    if (j->b != NULL) {
        fill_bias(j, p);
        m.beta = 1.0;
    }
    m.lda = p->rows, m.ldb = p->cols, m.ldc = p->cols;
    for (int64_t i = 0; i < j->g.n * j->g.groups; i++) {
        to_columns(&p->u, (const char *)j->x + (size_t)i * p->x, p->columns);
        TT_TRY(multiply((tt_dtype)j->dtype, &m,
                        (const char *)j->w + (size_t)(i % j->g.groups) * p->w, p->columns,
                        (char *)j->y + (size_t)i * p->y));
    }
    return TT_OK;
}

static tt_status grad_input(const tti_conv_job *j, const parts *p)
{
    tti_mat m = { .alpha = 1.0, .ta = true, .m = p->rows, .n = p->cols, .k = p->oc };

    memset(j->x, 0, p->x * (size_t)(j->g.n * j->g.groups));
    m.lda = p->rows, m.ldb = p->cols, m.ldc = p->cols;
    for (int64_t i = 0; i < j->g.n * j->g.groups; i++) {
        TT_TRY(multiply((tt_dtype)j->dtype, &m,
                        (const char *)j->w + (size_t)(i % j->g.groups) * p->w,
                        (const char *)j->y + (size_t)i * p->y, p->columns));
        from_columns(&p->u, p->columns, (char *)j->x + (size_t)i * p->x, (tt_dtype)j->dtype);
    }
    return TT_OK;
}

static tt_status grad_weight(const tti_conv_job *j, const parts *p)
{
    tti_mat m = { .alpha = 1.0, .beta = 1.0, .tb = true, .m = p->oc, .n = p->rows, .k = p->cols };

    memset(j->w, 0, p->w * (size_t)j->g.groups);
    m.lda = p->cols, m.ldb = p->cols, m.ldc = p->rows;
    for (int64_t i = 0; i < j->g.n * j->g.groups; i++) {
        to_columns(&p->u, (const char *)j->x + (size_t)i * p->x, p->columns);
        TT_TRY(multiply((tt_dtype)j->dtype, &m, (const char *)j->y + (size_t)i * p->y, p->columns,
                        (char *)j->w + (size_t)(i % j->g.groups) * p->w));
    }
    return TT_OK;
}

tt_status tti_conv_plain(const tti_conv_job *j)
{
    parts p;
    tt_status st;

    TT_TRY(parts_of(j, &p));
    st = j->kind == TTI_CONV_FORWARD      ? forward(j, &p)
         : j->kind == TTI_CONV_GRAD_INPUT ? grad_input(j, &p)
                                          : grad_weight(j, &p);
    tti_driver_cpu.free(0, p.columns, p.bytes);
    return st;
}
