/* SPDX-License-Identifier: Apache-2.0 */
/* Random permutations and samples. They are drawn on the host, one after the other. */
#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "ops/generator.h"
#include "ops/op.h"

/* Draw i of a reserved stretch: 64 bits, two per block. */
static uint64_t word64(const tt_generator_state *s, uint64_t i)
{
    tti_philox_block b = tti_philox(s->seed, s->offset + i / 2, 0);

    return i % 2 == 0 ? ((uint64_t)b.w[0] << 32) | b.w[1] : ((uint64_t)b.w[2] << 32) | b.w[3];
}

static double unit(const tt_generator_state *s, uint64_t i)
{
    return (double)(word64(s, i) >> 11) * 0x1p-53;
}

__extension__ typedef unsigned __int128 wide;

tt_tensor *tt_randperm(int64_t n, tt_device device, tt_generator *gen)
{
    tt_tensor *t;
    int64_t *p;
    tt_generator_state s;

    if (n < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "randperm: expected a count of 0 or more, got %lld",
                            (long long)n);
    t = tt_device_resolve(device, &device) == TT_OK ? tt_arange(0, (double)n, 1, TT_I64, TT_CPU)
                                                    : NULL;
    if (t == NULL)
        return NULL;
    s = tti_generator_take(gen, device, ((uint64_t)n + 1) / 2);
    p = tti_data(t);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(((wide)word64(&s, (uint64_t)i) * (uint64_t)(i + 1)) >> 64);
        int64_t keep = p[i];

        p[i] = p[j];
        p[j] = keep;
    }
    return tt_to_device(t, device);
}

/* ---- multinomial ------------------------------------------------------------------------------- */

typedef struct candidate {
    double key;
    int64_t index;
} candidate;

static int by_key(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The sum of the weights; a weight that is none is an error. */
static tt_status check_weights(const double *w, int64_t n_classes, int64_t n, bool replacement)
{
    double sum = 0;
    int64_t positive = 0;

    for (int64_t i = 0; i < n_classes; i++) {
        if (!(w[i] >= 0) || isinf(w[i]))
            return TT_FAIL(TT_ERR_INVALID, "multinomial: expected finite weights of 0 or more");
        sum += w[i];
        positive += w[i] > 0;
    }
    if (!(sum > 0))
        return TT_FAIL(TT_ERR_INVALID, "multinomial: the weights of a row add up to 0");
    if (!replacement && positive < n)
        return TT_FAIL(TT_ERR_INVALID,
                       "multinomial: %lld different samples are wanted of %lld possible ones",
                       (long long)n, (long long)positive);
    return TT_OK;
}

/* Each draw finds its place among the running sums, which replace the weights. */
static void draw_again(double *w, int64_t n_classes, const tt_generator_state *s, uint64_t at,
                       int64_t n, int64_t *out)
{
    for (int64_t i = 1; i < n_classes; i++)
        w[i] += w[i - 1];
    for (int64_t k = 0; k < n; k++) {
        double u = unit(s, at + (uint64_t)k) * w[n_classes - 1];
        int64_t lo = 0, hi = n_classes - 1;

        while (lo < hi) {
            int64_t mid = lo + (hi - lo) / 2;

            if (w[mid] > u)
                hi = mid;
            else
                lo = mid + 1;
        }
        out[k] = lo;
    }
}

/* A race: class i arrives after an exponential time of rate w[i]; the first n win. */
static tt_status draw_once(const double *w, int64_t n_classes, const tt_generator_state *s,
                           uint64_t at, int64_t n, int64_t *out)
{
    candidate *race = tti_malloc((size_t)n_classes * sizeof *race);

    if (race == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n_classes; i++) {
        double time = -log1p(-unit(s, at + (uint64_t)i)) / w[i];

        race[i] = (candidate){ .key = w[i] > 0 ? time : INFINITY, .index = i };
    }
    qsort(race, (size_t)n_classes, sizeof *race, by_key);
    for (int64_t k = 0; k < n; k++)
        out[k] = race[k].index;
    tti_mfree(race);
    return TT_OK;
}

static tt_status check_multinomial(const tt_tensor *w, int64_t n)
{
    TT_TRY(tti_check_floating("multinomial", w, false));
    if (w->n_dims < 1 || w->n_dims > 2 || w->dims[w->n_dims - 1] < 1)
        return TT_FAIL(TT_ERR_INVALID, "multinomial: expected weights [C] or [N, C], got shape %s",
                       TTI_SHAPE_OF(w));
    if (n < 1)
        return TT_FAIL(TT_ERR_INVALID, "multinomial: expected 1 or more samples, got %lld",
                       (long long)n);
    return TT_OK;
}

static const tti_op op_multinomial = { "multinomial", NULL, 0 };

tt_tensor *tt_multinomial(tt_tensor *weights, int64_t n, bool replacement, tt_generator *gen)
{
    tti_call c = { .op = &op_multinomial, .n_in = 1, .in = &weights };
    tt_shape shape = tt_tensor_shape(weights);
    tt_tensor *out, *w;
    int64_t classes, rows, draws;
    tt_generator_state s;
    tt_status st = TT_OK;

    if (!tti_call_begin(&c) || check_multinomial(weights, n) != TT_OK)
        return NULL;
    classes = weights->dims[weights->n_dims - 1];
    rows = weights->numel / classes;
    draws = replacement ? n : classes;
    shape.dims[shape.n_dims - 1] = n;
    out = tt_empty(shape, TT_I64, TT_CPU);
    w = tti_empty(weights->dims, weights->n_dims, TT_F64, TT_CPU); /* written to below */
    if (out == NULL || tti_copy(w, weights) != TT_OK)
        return NULL;
    s = tti_generator_take(gen, weights->device, ((uint64_t)(rows * draws) + 1) / 2);
    for (int64_t r = 0; r < rows && st == TT_OK; r++) {
        double *row = (double *)tti_data(w) + r * classes;
        int64_t *to = (int64_t *)tti_data(out) + r * n;

        st = check_weights(row, classes, n, replacement);
        if (st == TT_OK && replacement)
            draw_again(row, classes, &s, (uint64_t)(r * draws), n, to);
        else if (st == TT_OK)
            st = draw_once(row, classes, &s, (uint64_t)(r * draws), n, to);
    }
    if (st == TT_OK)
        out = tt_to_device(out, weights->device);
    return tti_call_end(&c, out, st);
}
