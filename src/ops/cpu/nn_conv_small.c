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

#include "ops/cpu/gemm.h"
#include "ops/cpu/nn_conv.h"
#include "ops/cpu/nn_conv_taps.h"
#include "ops/cpu/parallel.h"

#define GRAIN 16384
#define TILE 16

typedef struct spread {
    const tti_conv *g;
    tti_conv_taps taps;
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

/* Where it was measured to be faster than oneDNN. Spread weights that are more than there were before
 * pay only from some batch on. */
bool tti_conv_small_takes(const tti_conv *g)
{
    int64_t in = g->h * g->w, out = g->oh * g->ow, taps = g->kh * g->kw;

    if (in > TTI_SMALL_PIXELS || out > TTI_SMALL_PIXELS || taps > TTI_SMALL_LANES || in > taps)
        return false;
    return g->groups == 1 && g->c >= 16 && g->oc >= 16 && g->n >= (in * out > taps ? 8 : 1);
}

static void find_taps(tti_conv_taps *t, const tti_conv *g)
{
    int n[TTI_SMALL_LANES] = { 0 };

    *t = (tti_conv_taps){
        .c = g->c, .in = g->h * g->w, .out = g->oh * g->ow, .taps = g->kh * g->kw
    };
    memset(t->tap, -1, sizeof t->tap);
    memset(t->pair, -1, sizeof t->pair);
    for (int64_t o = 0; o < t->out; o++) {
        for (int64_t i = 0; i < t->in; i++) {
            int64_t y = tap_at(g, 0, o / g->ow, i / g->w), x = tap_at(g, 1, o % g->ow, i % g->w);
            int64_t tap = y * g->kw + x, pair = o * TTI_SMALL_PIXELS + i;

            if (y < 0 || x < 0)
                continue;
            t->tap[pair] = (int32_t)tap;
            t->pair[n[tap]++][tap] = (int32_t)pair;
            if (n[tap] > t->n_pairs)
                t->n_pairs = n[tap];
        }
    }
}

static tt_status spread_init(spread *s, const tti_conv *g)
{
    s->g = g;
    find_taps(&s->taps, g);
    s->bytes = (size_t)(g->oc * s->taps.out * g->c * s->taps.in) * sizeof(float);
    s->data = tti_driver_cpu.alloc(0, s->bytes);
    return s->data != NULL ? TT_OK : TT_ERR_NOMEM;
}

static void spread_fini(spread *s)
{
    tti_driver_cpu.free(0, s->data, s->bytes);
}

static int threads_for(const spread *s)
{
    return tti_threads_for((int64_t)(s->bytes / sizeof(float)), GRAIN);
}

static void spread_weights(const spread *s, const float *w)
{
    const tti_conv_taps_table *table = TTI_ISA_PICK(tti_conv_taps_table);
    const tti_conv_taps *t = &s->taps;

    TTI_PARALLEL_FOR(threads_for(s), k, s->g->oc, 1,
                     table->spread(t, w + k * t->c * t->taps, s->data + k * t->out * t->c * t->in));
}

/* The gradient of a weight is the sum over the pairs of pixels to which it was spread. */
static void fold_weights(const spread *s, float *w)
{
    const tti_conv_taps_table *table = TTI_ISA_PICK(tti_conv_taps_table);
    const tti_conv_taps *t = &s->taps;

    TTI_PARALLEL_FOR(threads_for(s), k, s->g->oc, 1,
                     table->fold(t, s->data + k * t->out * t->c * t->in, w + k * t->c * t->taps));
}

/* y [n, oc * out] from its transpose, with the bias. */
static void transpose_out(const spread *s, const float *from, const float *b, float *y)
{
    int64_t n = s->g->n, out = s->taps.out, rows = s->g->oc * out;

    TTI_PARALLEL_FOR(threads_for(s), r0, rows, TILE, {
        int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows;

        for (int64_t i = 0; i < n; i++)
            for (int64_t r = r0; r < r1; r++)
                y[i * rows + r] = from[r * n + i] + (b != NULL ? b[r / out] : 0.0f);
    });
}

/* Through the transpose, y^T = spread @ x^T: the product then reads the large operand as it lies, and
 * is faster than the other way round while the batch is small. */
static tt_status forward(const tti_conv_job *j)
{
    const tti_conv *g = &j->g;
    int64_t rows = g->oc * g->oh * g->ow, cols = g->c * g->h * g->w;
    tti_mat m = { .tb = true, .m = rows, .n = g->n, .k = cols, .lda = cols, .ldb = cols };
    size_t bytes = (size_t)(rows * g->n) * sizeof(float);
    float *result;
    spread s;
    tt_status st;

    TT_TRY(spread_init(&s, g));
    result = tti_driver_cpu.alloc(0, bytes);
    if (result == NULL) {
        spread_fini(&s);
        return TT_ERR_NOMEM;
    }
    spread_weights(&s, j->w);
    m.ldc = g->n;
    m.alpha = 1.0;
    st = tti_sgemm(&m, s.data, j->x, result);
    if (st == TT_OK)
        transpose_out(&s, result, j->b, j->y);
    tti_driver_cpu.free(0, result, bytes);
    spread_fini(&s);
    return st;
}

static tt_status grad_input(const tti_conv_job *j)
{
    const tti_conv *g = &j->g;
    int64_t rows = g->oc * g->oh * g->ow, cols = g->c * g->h * g->w;
    tti_mat m = { .m = g->n, .n = cols, .k = rows, .lda = rows, .ldb = cols, .ldc = cols };
    spread s;
    tt_status st;

    TT_TRY(spread_init(&s, g));
    spread_weights(&s, j->w);
    m.alpha = 1.0;
    st = tti_sgemm(&m, j->y, s.data, j->x);
    spread_fini(&s);
    return st;
}

static tt_status grad_weight(const tti_conv_job *j)
{
    const tti_conv *g = &j->g;
    int64_t rows = g->oc * g->oh * g->ow, cols = g->c * g->h * g->w;
    tti_mat m = { .ta = true, .m = rows, .n = cols, .k = g->n, .lda = rows, .ldb = cols };
    spread s;
    tt_status st;

    TT_TRY(spread_init(&s, g));
    m.ldc = cols;
    m.alpha = 1.0;
    st = tti_sgemm(&m, j->y, j->x, s.data);
    if (st == TT_OK)
        fold_weights(&s, j->w);
    spread_fini(&s);
    return st;
}

tt_status tti_conv_small(const tti_conv_job *j)
{
    switch (j->kind) {
    case TTI_CONV_FORWARD:
        return forward(j);
    case TTI_CONV_GRAD_INPUT:
        return grad_input(j);
    default:
        return grad_weight(j);
    }
}
