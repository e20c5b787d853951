/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over strided operands: dimensions are sorted by the result's strides and joined where all
 * operands allow it, the innermost one goes to the loop, and large walks are split among threads by
 * element number, so that any shape divides evenly. */
#include "ops/cpu/parallel.h"
#include "ops/cpu/pointwise.h"
#include "tensor/shape.h"

typedef struct walk {
    int n; /* operands with the result */
    int n_dims;
    int64_t numel;
    int64_t dims[TT_MAX_DIMS]; /* innermost first */
    int64_t strides[TT_MAX_DIMS][TTI_MAX_OPERANDS];
    char *ptrs[TTI_MAX_OPERANDS];
} walk;

static void run(const tti_work *w, int64_t n, char *const *ptrs, const int64_t *strides)
{
    if (tt_unlikely(w->halves))
        tti_copy_loops_now()->half(w, n, ptrs, strides);
    else
        w->loop(n, ptrs, strides, w->p);
}

/* Dimension a goes inside dimension b. */
static bool inside(const walk *k, int a, int b)
{
    for (int i = 0; i < k->n; i++)
        if (k->strides[a][i] != k->strides[b][i])
            return k->strides[a][i] < k->strides[b][i];
    return false;
}

static void swap_dims(walk *k, int a, int b)
{
    int64_t d = k->dims[a];

    k->dims[a] = k->dims[b];
    k->dims[b] = d;
    for (int i = 0; i < k->n; i++) {
        int64_t s = k->strides[a][i];

        k->strides[a][i] = k->strides[b][i];
        k->strides[b][i] = s;
    }
}

/* The dimension `in` followed by `out` is one long dimension for every operand. */
static bool joins(const walk *k, int in, int out)
{
    for (int i = 0; i < k->n; i++)
        if (k->strides[out][i] != k->strides[in][i] * k->dims[in])
            return false;
    return true;
}

static void simplify(walk *k)
{
    int kept = 0;

    for (int i = 1; i < k->n_dims; i++) /* few and mostly sorted */
        for (int j = i; j > 0 && inside(k, j, j - 1); j--)
            swap_dims(k, j, j - 1);
    for (int i = 1; i < k->n_dims; i++) {
        if (joins(k, kept, i)) {
            k->dims[kept] *= k->dims[i];
            continue;
        }
        kept++;
        if (kept != i)
            swap_dims(k, kept, i);
    }
    k->n_dims = k->n_dims > 0 ? kept + 1 : 0;
}

static void prepare(walk *k, const tt_tensor *const *ts, int n)
{
    const tt_tensor *out = ts[0];
    int64_t wide[TT_MAX_DIMS];

    k->n = n;
    k->n_dims = 0;
    k->numel = out->numel;
    for (int i = 0; i < n; i++) {
        const tt_tensor *t = ts[i];
        int64_t size = (int64_t)tti_esize(t);
        int kept = 0;

        k->ptrs[i] = tti_data(t);
        tti_broadcast_strides(t->dims, t->strides, t->n_dims, out->n_dims, out->dims, wide);
        for (int d = out->n_dims - 1; d >= 0; d--) {
            if (out->dims[d] == 1)
                continue;
            k->dims[kept] = out->dims[d];
            k->strides[kept++][i] = wide[d] * size;
        }
        k->n_dims = kept;
    }
    simplify(k);
    if (k->n_dims == 0) {
        k->n_dims = 1;
        k->dims[0] = 1;
        for (int i = 0; i < n; i++)
            k->strides[0][i] = 0;
        k->strides[0][0] = (int64_t)tti_esize(out);
    }
}

/* Elements [begin, end) in the order of the walk. */
static void walk_range(const walk *k, const tti_work *w, int64_t begin, int64_t end)
{
    int64_t at[TT_MAX_DIMS], rest = begin;
    char *ptrs[TTI_MAX_OPERANDS];

    for (int i = 0; i < k->n; i++)
        ptrs[i] = k->ptrs[i];
    for (int d = 0; d < k->n_dims; d++) {
        at[d] = rest % k->dims[d];
        rest /= k->dims[d];
        for (int i = 0; i < k->n; i++)
            ptrs[i] += at[d] * k->strides[d][i];
    }
    while (begin < end) {
        int64_t n = k->dims[0] - at[0];

        n = n < end - begin ? n : end - begin;
        run(w, n, ptrs, k->strides[0]);
        begin += n;
        for (int i = 0; i < k->n; i++)
            ptrs[i] -= at[0] * k->strides[0][i];
        at[0] = 0;
        for (int d = 1; d < k->n_dims; d++) {
            for (int i = 0; i < k->n; i++)
                ptrs[i] += k->strides[d][i];
            if (++at[d] < k->dims[d])
                break;
            at[d] = 0;
            for (int i = 0; i < k->n; i++)
                ptrs[i] -= k->dims[d] * k->strides[d][i];
        }
    }
}

static void walk_all(const walk *k, const tti_work *w, int64_t grain)
{
    int threads = tti_threads_for(k->numel, grain);
    int64_t share;

    if (threads == 1) {
        walk_range(k, w, 0, k->numel);
        return;
    }
    share = ((k->numel + threads - 1) / threads + 63) & ~(int64_t)63;
#pragma omp parallel num_threads(threads)
    {
        int64_t begin = omp_get_thread_num() * share;
        int64_t end = begin + share < k->numel ? begin + share : k->numel;

        /* A smaller team than asked for still does all of it. */
        for (; begin < k->numel; begin += share * omp_get_num_threads()) {
            end = begin + share < k->numel ? begin + share : k->numel;
            walk_range(k, w, begin, end);
        }
    }
}

void tti_walk(const tti_work *w, const tt_tensor *const *ts, int64_t grain)
{
    walk k;

    if (ts[0]->numel == 0)
        return;
    prepare(&k, ts, w->n_operands);
    walk_all(&k, w, grain);
}

/* The dimension along which the source is dense, other than the innermost; 0 when there is none. */
static int crossing(const walk *k, int64_t size)
{
    if (k->n_dims < 2 || k->strides[0][0] != size || k->strides[0][1] == size)
        return 0;
    for (int d = 1; d < k->n_dims; d++)
        if (k->strides[d][1] == size && k->dims[d] >= 8 && k->dims[0] >= 8)
            return d;
    return 0;
}

#define BAND 64

/* Band i of all bands of all planes; a plane has rows along dimension 1, columns along 0. */
static void transpose_band(const walk *k, int64_t i)
{
    int64_t size = k->strides[0][0], bands = (k->dims[1] + BAND - 1) / BAND;
    int64_t row = i % bands * BAND, rest = i / bands;
    int64_t rows = k->dims[1] - row < BAND ? k->dims[1] - row : BAND;
    char *to = k->ptrs[0] + row * k->strides[1][0];
    const char *from = k->ptrs[1] + row * size;

    for (int d = 2; d < k->n_dims; d++) {
        to += rest % k->dims[d] * k->strides[d][0];
        from += rest % k->dims[d] * k->strides[d][1];
        rest /= k->dims[d];
    }
    tti_copy_loops_now()->transpose[size](rows, k->dims[0], to, k->strides[1][0], from,
                                          k->strides[0][1]);
}

void tti_walk_copy(const tti_work *w, const tt_tensor *dst, const tt_tensor *src)
{
    const tt_tensor *ts[] = { dst, src };
    int64_t size = (int64_t)tti_esize(dst), n_bands;
    int threads = tti_threads_for(dst->numel, TTI_GRAIN);
    walk k;
    int d;

    if (dst->numel == 0)
        return;
    prepare(&k, ts, 2);
    d = size <= 8 ? crossing(&k, size) : 0;
    if (d == 0) {
        walk_all(&k, w, TTI_GRAIN);
        return;
    }
    swap_dims(&k, 1, d);
    n_bands = k.numel / (k.dims[0] * k.dims[1]) * ((k.dims[1] + BAND - 1) / BAND);
    TTI_PARALLEL_FOR(threads, i, n_bands, 1, transpose_band(&k, i));
}
