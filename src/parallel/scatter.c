/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a tensor to devices: a split, whose pieces are views, and moves. Gradients are moved back and joined. */
#include "parallel/comm.h"

/* Sizes of the pieces as tt_chunk cuts them; their number. */
static int equal_sizes(int64_t size, int n, int64_t *sizes)
{
    int64_t each = (size + n - 1) / n, left = size;
    int pieces = 0;

    do {
        sizes[pieces] = left < each ? left : each;
        left -= sizes[pieces++];
    } while (left > 0);
    return pieces;
}

static tt_status given_sizes(const tt_tensor *t, const tti_places *p, const tt_scatter_options *o,
                             int64_t *sizes)
{
    int64_t sum = 0;

    if (o->n_sizes != p->n)
        return TT_FAIL(TT_ERR_INVALID, "scatter: expected as many sizes as devices, %d, got %d",
                       p->n, o->n_sizes);
    for (int i = 0; i < p->n; i++) {
        if (o->sizes[i] < 0 || __builtin_add_overflow(sum, o->sizes[i], &sum))
            return TT_FAIL(TT_ERR_INVALID, "scatter: piece %d has size %lld", i,
                           (long long)o->sizes[i]);
        sizes[i] = o->sizes[i];
    }
    if (sum != t->dims[o->dim])
        return TT_FAIL(TT_ERR_INVALID,
                       "scatter: expected sizes that add up to %lld, dimension %d of shape %s, got "
                       "%lld",
                       (long long)t->dims[o->dim], o->dim, TTI_SHAPE_OF(t), (long long)sum);
    return TT_OK;
}

/* What the outputs take along dim; they agree with t otherwise. */
static tt_status output_sizes(const tt_tensor *t, const tti_places *p, int dim, int64_t *sizes)
{
    int64_t sum = 0;

    for (int i = 0; i < p->n; i++) {
        const tt_tensor *out = p->outputs[i];
        bool fits = out->n_dims == t->n_dims;

        for (int d = 0; fits && d < t->n_dims; d++)
            fits = d == dim || out->dims[d] == t->dims[d];
        if (!fits)
            return TT_FAIL(TT_ERR_INVALID,
                           "scatter: expected output %d to agree with shape %s except in dimension "
                           "%d, got %s",
                           i, TTI_SHAPE_OF(t), dim, TTI_SHAPE_OF(out));
        sizes[i] = out->dims[dim];
        sum += sizes[i];
    }
    if (sum != t->dims[dim])
        return TT_FAIL(TT_ERR_INVALID,
                       "scatter: expected outputs whose sizes add up to %lld, dimension %d of "
                       "shape %s, got %lld",
                       (long long)t->dims[dim], dim, TTI_SHAPE_OF(t), (long long)sum);
    return TT_OK;
}

static tt_status cut(tt_tensor *t, const tti_places *p, const tt_scatter_options *o,
                     tt_tensor **pieces, int *n_p)
{
    int64_t sizes[TTI_MAX_TARGETS];

    *n_p = p->n;
    if (p->outputs != NULL)
        TT_TRY(output_sizes(t, p, o->dim, sizes));
    else if (o->sizes != NULL)
        TT_TRY(given_sizes(t, p, o, sizes));
    else
        *n_p = equal_sizes(t->dims[o->dim], p->n, sizes);
    return tt_split_sizes(t, sizes, *n_p, o->dim, pieces);
}

static tt_status place(tt_tensor *t, const tti_places *p, tt_tensor **results, int n)
{
    if (p->outputs != NULL)
        TT_TRY(tti_check_unrecorded("scatter", t, p->outputs, p->n));
    for (int i = 0; i < n; i++) {
        if (p->outputs == NULL) {
            TT_TRY(tti_give(&results[i], tt_to_device(results[i], p->devices[i])));
        } else {
            TT_TRY(tti_comm_put(p->outputs[i], results[i]));
            results[i] = p->outputs[i];
        }
    }
    return TT_OK;
}

tt_status tt_comm_scatter(tt_tensor *t, const tt_targets *to, const tt_scatter_options *opt,
                          tt_tensor **results, int *n_p)
{
    tt_scatter_options o = opt != NULL ? *opt : (tt_scatter_options){ 0 };
    tti_places p;
    tt_scope scope;
    tt_status st;
    int n = 0;

    TT_TRY(tti_check_tensors("scatter", &t, 1));
    TT_TRY(tti_places_get("scatter", to, &p));
    if (t->storage == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "scatter: expected a dense tensor, got a sparse one");
    if (t->n_dims == 0)
        return TT_FAIL(TT_ERR_INVALID, "scatter: a tensor without dimensions has no pieces");
    if (p.outputs != NULL && o.sizes != NULL)
        return TT_FAIL(TT_ERR_INVALID, "scatter: expected sizes or outputs, got both");
    TT_TRY(tti_wrap_dim("scatter", &o.dim, t->n_dims));
    for (int i = 0; i < p.n; i++)
        results[i] = NULL;
    scope = tt_scope_open();
    st = cut(t, &p, &o, results, &n);
    if (st == TT_OK)
        st = place(t, &p, results, n);
    if (n_p != NULL)
        *n_p = st == TT_OK ? n : 0;
    return tti_close_keep(&scope, st, results, p.n);
}
