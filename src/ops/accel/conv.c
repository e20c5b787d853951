/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions on accelerators. Devices that are CPUs run the CPU's code in the stream; elsewhere patches are
 * unfolded into columns, some images at a time, and products of matrices do the rest:
 *
 *     y [oc, oh*ow] = w [oc, c*kh*kw] @ columns [c*kh*kw, oh*ow]       for each image and group
 *
 * Half types go through float32. */
#include "ops/accel/gemm.h"
#include "ops/cpu/nn_conv.h"
#include "ops/op.h"

#define COLUMN_BYTES ((size_t)64 << 20) /* unfolded at a time, unless one image has more */

extern const char tti_source_conv[];
static const tti_program program = { "conv", { tti_source_conv } };
static tti_kernel_slot unfold_slots[TT_N_DTYPES], fold_slots[TT_N_DTYPES];

/* As in conv.cl. */
typedef struct conv_args {
    uint64_t n, c, h, w, oh, ow, kh, kw;
    int64_t stride[2], pad[2], dilation[2];
} conv_args;

/* What one image, and one group of it, have of each tensor, in elements; and the columns of some images. */
typedef struct parts {
    const tti_conv_job *j;
    tt_device d;
    size_t e;
    int64_t rows, cols, oc; /* of a group: its columns' sizes, its results' channels */
    int64_t x, y, columns;  /* of an image */
    int64_t at_once;        /* images */
    char *buffer;
    size_t bytes;
} parts;

/* Patches of one pixel, side by side: the image is its columns. */
static bool is_columns(const tti_conv *g)
{
    return g->kh == 1 && g->kw == 1 && g->stride[0] == 1 && g->stride[1] == 1 && g->pad[0] == 0 &&
           g->pad[1] == 0;
}

static tt_status parts_open(parts *p, const tti_conv_job *j, tt_device d)
{
    const tti_conv *g = &j->g;
    size_t image;

    *p = (parts){ .j = j, .d = d, .e = tti_dtype_sizes[j->dtype] };
    p->rows = g->c / g->groups * g->kh * g->kw;
    p->cols = g->oh * g->ow;
    p->oc = g->oc / g->groups;
    p->x = g->c * g->h * g->w;
    p->y = g->oc * p->cols;
    p->columns = g->groups * p->rows * p->cols;
    p->at_once = g->n;
    if (is_columns(g))
        return TT_OK;
    image = (size_t)p->columns * p->e;
    if (image * (size_t)g->n > COLUMN_BYTES)
        p->at_once = image < COLUMN_BYTES ? (int64_t)(COLUMN_BYTES / image) : 1;
    p->bytes = image * (size_t)p->at_once;
    p->buffer = tti_accel_scratch(d, p->bytes);
    return p->buffer != NULL ? TT_OK : tt_last_status();
}

static void parts_close(parts *p)
{
    tti_accel_scratch_free(p->d, p->buffer, p->bytes);
}

static char *element(const parts *p, const void *base, int64_t i)
{
    return (char *)base + (size_t)i * p->e;
}

/* `columns` from n images at x, or the other way round. */
static tt_status refold(const parts *p, tti_kernel_slot *slots, const char *name, int64_t n,
                        const void *dst, const void *src)
{
    const tti_conv *g = &p->j->g;
    tti_kernel *k = tti_kernel_get(&slots[p->j->dtype], p->d, &program,
                                   tti_accel_type((tt_dtype)p->j->dtype), name);
    conv_args a = { (uint64_t)n,
                    (uint64_t)g->c,
                    (uint64_t)g->h,
                    (uint64_t)g->w,
                    (uint64_t)g->oh,
                    (uint64_t)g->ow,
                    (uint64_t)g->kh,
                    (uint64_t)g->kw,
                    { g->stride[0], g->stride[1] },
                    { g->pad[0], g->pad[1] },
                    { g->dilation[0], g->dilation[1] } };
    tti_arg args[] = { TTI_MEM(dst), TTI_MEM(src), TTI_VAL(a) };
    uint64_t rows = (uint64_t)(n * g->c);

    if (k == NULL)
        return tt_last_status();
    if (slots == unfold_slots)
        return tti_launch(p->d, k, tti_grid_rows(p->d, rows * a.kh * a.kw, a.oh * a.ow), args, 3);
    if (tti_group_size(p->d) == 1)
        return tti_launch(p->d, k, tti_grid_rows(p->d, rows, a.h * a.w * a.kh * a.kw), args, 3);
    return tti_launch(p->d, k, tti_grid_elements(p->d, rows * a.h * a.w), args, 3);
}

static tt_status unfold(const parts *p, int64_t first, int64_t n, const void **columns_p)
{
    const void *x = element(p, p->j->x, first * p->x);

    *columns_p = p->buffer != NULL ? p->buffer : x;
    return p->buffer != NULL ? refold(p, unfold_slots, "im2col", n, p->buffer, x) : TT_OK;
}

/* A product for each of n images and each group. */
static tti_gemm_own_job product(const parts *p, int64_t n)
{
    uint64_t groups = (uint64_t)p->j->g.groups;

    return (tti_gemm_own_job){ .dtype = (tt_dtype)p->j->dtype,
                               .alpha = 1.0,
                               .sizes = { .batch = (uint64_t)n * groups, .batch_in = groups } };
}

static tt_status forward(const parts *p, int64_t first, int64_t n)
{
    tti_gemm_own_job m = product(p, n);
    tti_gemm_args *s = &m.sizes;

    TT_TRY(unfold(p, first, n, &m.b));
    s->m = (uint64_t)p->oc, s->n = (uint64_t)p->cols;
    s->k = s->k_in = (uint64_t)p->rows;
    s->ai = p->rows, s->ak = 1, s->a_step1 = p->oc * p->rows;
    s->bk = p->cols, s->bj = 1, s->b_step1 = p->rows * p->cols;
    s->b_step0 = p->columns;
    s->bias_i = 1, s->bias_step1 = p->oc;
    m.a = p->j->w;
    m.bias = p->j->b;
    m.c = element(p, p->j->y, first * p->y);
    return tti_gemm_own(p->d, &m);
}

static tt_status grad_input(const parts *p, int64_t first, int64_t n)
{
    tti_gemm_own_job m = product(p, n);
    tti_gemm_args *s = &m.sizes;
    void *x = element(p, p->j->x, first * p->x);

    s->m = (uint64_t)p->rows, s->n = (uint64_t)p->cols;
    s->k = s->k_in = (uint64_t)p->oc;
    s->ai = 1, s->ak = p->rows, s->a_step1 = p->oc * p->rows;
    s->bk = p->cols, s->bj = 1, s->b_step1 = p->oc * p->cols;
    s->b_step0 = p->y;
    m.a = p->j->w;
    m.b = element(p, p->j->y, first * p->y);
    m.c = p->buffer != NULL ? p->buffer : x;
    TT_TRY(tti_gemm_own(p->d, &m));
    return p->buffer != NULL ? refold(p, fold_slots, "col2im", n, x, p->buffer) : TT_OK;
}

/* One product per group: it sums over the pixels of all images. */
static tt_status grad_weight(const parts *p, int64_t first, int64_t n)
{
    tti_gemm_own_job m = product(p, 1);
    tti_gemm_args *s = &m.sizes;

    TT_TRY(unfold(p, first, n, &m.b));
    s->m = (uint64_t)p->oc, s->n = (uint64_t)p->rows;
    s->k = (uint64_t)(n * p->cols), s->k_in = (uint64_t)p->cols;
    s->ai = p->cols, s->ak = 1, s->a_outer = p->y, s->a_step1 = p->oc * p->cols;
    s->bk = 1, s->bj = p->cols, s->b_outer = p->columns, s->b_step1 = p->rows * p->cols;
    m.a = element(p, p->j->y, first * p->y);
    m.c = p->j->w;
    m.beta = first > 0 ? 1.0 : 0.0;
    return tti_gemm_own(p->d, &m);
}

static tt_status by_columns(tt_device d, const tti_conv_job *j)
{
    static tt_status (*const step[])(const parts *p, int64_t first, int64_t n) = {
        [TTI_CONV_FORWARD] = forward,
        [TTI_CONV_GRAD_INPUT] = grad_input,
        [TTI_CONV_GRAD_WEIGHT] = grad_weight,
    };
    parts p;
    tt_status st = TT_OK;

    TT_TRY(parts_open(&p, j, d));
    for (int64_t first = 0; first < j->g.n && st == TT_OK; first += p.at_once) {
        int64_t left = j->g.n - first;

        st = step[j->kind](&p, first, left < p.at_once ? left : p.at_once);
    }
    parts_close(&p);
    return st;
}

static tt_status run_job(const void *job)
{
    return tti_conv_run(job);
}

static bool is_half(const tt_tensor *t)
{
    return t->dtype == TT_F16 || t->dtype == TT_BF16;
}

/* x, w and y as they are; `out` is the one of them that is written. */
static tt_status run(tti_conv_kind kind, const tt_tensor *xwyb[4], tt_tensor *out,
                     const tti_conv *g)
{
    tti_conv_job j;

    TT_TRY(tti_accel_check_type("conv", out));
    if (out->numel == 0)
        return TT_OK;
    if (g->n == 0) /* no part of a batch is walked */
        return tti_fill(out, 0.0);
    j = tti_conv_job_of(kind, xwyb[0], xwyb[1], xwyb[2], xwyb[3], g);
    if (tti_gemm_way_of(out->device) == TTI_GEMM_HOST)
        return tti_accel_on_host(out->device, run_job, &j, sizeof j);
    return by_columns(out->device, &j);
}

static tt_status convolve(tti_conv_kind kind, const tt_tensor *xwyb[4], int written,
                          const tti_conv *g)
{
    tt_tensor *out = (tt_tensor *)xwyb[written];
    const tt_tensor *wide[4] = { NULL };

    if (!is_half(out))
        return run(kind, xwyb, out, g);
    for (int i = 0; i < 4; i++) {
        if (xwyb[i] == NULL)
            continue;
        wide[i] = i == written ? tti_empty(out->dims, out->n_dims, TT_F32, out->device)
                               : tti_cast((tt_tensor *)xwyb[i], TT_F32);
        if (wide[i] == NULL)
            return tt_last_status();
    }
    TT_TRY(run(kind, wide, (tt_tensor *)wide[written], g));
    return tti_copy(out, wide[written]);
}

tt_status tti_accel_conv(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                         const tti_conv *c)
{
    return convolve(TTI_CONV_FORWARD, (const tt_tensor *[]){ x, w, y, b }, 2, c);
}

tt_status tti_accel_conv_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                    const tti_conv *c)
{
    return convolve(TTI_CONV_GRAD_INPUT, (const tt_tensor *[]){ dx, w, dy, NULL }, 0, c);
}

tt_status tti_accel_conv_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                     const tti_conv *c)
{
    return convolve(TTI_CONV_GRAD_WEIGHT, (const tt_tensor *[]){ x, dw, dy, NULL }, 1, c);
}
