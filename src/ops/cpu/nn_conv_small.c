/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 convolutions of images of very few pixels, as the last layers of deep networks have them.
 * There most taps of the kernel meet padding, and what is left is close to a linear layer:
 *
 *     y [n, oc * out] = x [n, c * in] @ spread [oc * out, c * in]^T
 *
 * in and out are the numbers of pixels, and spread[k, o, j, i] is the weight of the tap through which
 * output pixel o sees input pixel i, or 0. All three operators are then one product of matrices over
 * the whole batch, on the tensors as they are; only the weights are spread, or folded back. */
#include <string.h>

#include "base/settings.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/nn_conv.h"

#define MAX_PIXELS 4
#define GRAIN 16384

typedef struct spread {
    const tti_conv *g;
    int64_t in, out, taps;
    int tap[MAX_PIXELS][MAX_PIXELS]; /* [o][i], -1: out of reach */
    float *data;
    size_t bytes;
} spread;

/* The position in the kernel that leads from output position o to input position i, or -1. */
static int64_t tap_at(const tti_conv *g, int axis, int64_t o, int64_t i)
{
    int64_t way = i + g->pad[axis] - o * g->stride[axis];
    int64_t size = axis == 0 ? g->kh : g->kw;

    if (way < 0 || way % g->dilation[axis] != 0 || way / g->dilation[axis] >= size)
        return -1;
    return way / g->dilation[axis];
}

bool tti_conv_small_takes(const tti_conv *g)
{
    return g->groups == 1 && g->h * g->w <= MAX_PIXELS && g->oh * g->ow <= MAX_PIXELS &&
           g->h * g->w <= g->kh * g->kw && g->c >= 32 && g->oc >= 32 && g->n > 1;
}

static tt_status spread_init(spread *s, const tti_conv *g)
{
    *s = (spread){ .g = g, .in = g->h * g->w, .out = g->oh * g->ow, .taps = g->kh * g->kw };
    for (int64_t o = 0; o < s->out; o++) {
        for (int64_t i = 0; i < s->in; i++) {
            int64_t y = tap_at(g, 0, o / g->ow, i / g->w), x = tap_at(g, 1, o % g->ow, i % g->w);

            s->tap[o][i] = y < 0 || x < 0 ? -1 : (int)(y * g->kw + x);
        }
    }
    s->bytes = (size_t)(g->oc * s->out * g->c * s->in) * sizeof(float);
    s->data = tti_driver_cpu.alloc(0, s->bytes);
    return s->data != NULL ? TT_OK : TT_ERR_NOMEM;
}

static void spread_fini(spread *s)
{
    tti_driver_cpu.free(0, s->data, s->bytes);
}

static void spread_row(const spread *s, const float *w, float *row, const int *tap)
{
    int64_t c = s->g->c, in = s->in, taps = s->taps;

    for (int64_t i = 0; i < in; i++) {
        if (tap[i] < 0)
            for (int64_t j = 0; j < c; j++)
                row[j * in + i] = 0.0f;
        else
            for (int64_t j = 0; j < c; j++)
                row[j * in + i] = w[j * taps + tap[i]];
    }
}

static void spread_weights(const spread *s, const float *w)
{
    int64_t c = s->g->c, row = c * s->in, n = s->g->oc;

#pragma omp parallel for num_threads(tti_threads_for(n * s->out * row, GRAIN))
    for (int64_t k = 0; k < n; k++)
        for (int64_t o = 0; o < s->out; o++)
            spread_row(s, w + k * c * s->taps, s->data + (k * s->out + o) * row, s->tap[o]);
}

/* The gradient of a weight is the sum over the places to which it was spread. */
static void fold_row(const spread *s, const float *row, float *w, const int *tap)
{
    int64_t c = s->g->c, in = s->in, taps = s->taps;

    for (int64_t i = 0; i < in; i++)
        if (tap[i] >= 0)
            for (int64_t j = 0; j < c; j++)
                w[j * taps + tap[i]] += row[j * in + i];
}

static void fold_weights(const spread *s, float *w)
{
    int64_t c = s->g->c, row = c * s->in, n = s->g->oc;

#pragma omp parallel for num_threads(tti_threads_for(n * s->out * row, GRAIN))
    for (int64_t k = 0; k < n; k++) {
        memset(w + k * c * s->taps, 0, (size_t)(c * s->taps) * sizeof *w);
        for (int64_t o = 0; o < s->out; o++)
            fold_row(s, s->data + (k * s->out + o) * row, w + k * c * s->taps, s->tap[o]);
    }
}

static void fill_bias(const spread *s, float *y, const float *b)
{
    for (int64_t n = 0; n < s->g->n; n++)
        for (int64_t k = 0; k < s->g->oc; k++)
            for (int64_t o = 0; o < s->out; o++)
                *y++ = b[k];
}

tt_status tti_conv_small(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                         const tti_conv *g)
{
    int64_t rows = g->oc * g->oh * g->ow, cols = g->c * g->h * g->w;
    tti_mat m = { .tb = true, .m = g->n, .n = rows, .k = cols, .lda = cols, .ldb = cols };
    spread s;
    tt_status st;

    TT_TRY(spread_init(&s, g));
    spread_weights(&s, tti_data(w));
    m.ldc = rows;
    m.alpha = 1.0;
    m.beta = b != NULL ? 1.0 : 0.0;
    if (b != NULL)
        fill_bias(&s, tti_data(y), tti_data(b));
    st = tti_sgemm(&m, tti_data(x), s.data, tti_data(y));
    spread_fini(&s);
    return st;
}

tt_status tti_conv_small_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                    const tti_conv *g)
{
    int64_t rows = g->oc * g->oh * g->ow, cols = g->c * g->h * g->w;
    tti_mat m = { .m = g->n, .n = cols, .k = rows, .lda = rows, .ldb = cols, .ldc = cols };
    spread s;
    tt_status st;

    TT_TRY(spread_init(&s, g));
    spread_weights(&s, tti_data(w));
    m.alpha = 1.0;
    st = tti_sgemm(&m, tti_data(dy), s.data, tti_data(dx));
    spread_fini(&s);
    return st;
}

tt_status tti_conv_small_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                     const tti_conv *g)
{
    int64_t rows = g->oc * g->oh * g->ow, cols = g->c * g->h * g->w;
    tti_mat m = { .ta = true, .m = rows, .n = cols, .k = g->n, .lda = rows, .ldb = cols };
    spread s;
    tt_status st;

    TT_TRY(spread_init(&s, g));
    m.ldc = cols;
    m.alpha = 1.0;
    st = tti_sgemm(&m, tti_data(dy), tti_data(x), s.data);
    if (st == TT_OK)
        fold_weights(&s, tti_data(dw));
    spread_fini(&s);
    return st;
}
