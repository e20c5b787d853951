/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, means and maxima of rows of a table. out = bag(weight, sample) is linear in both, so its
 * gradients are three operators that are each other's gradients:
 *
 *     bag(weight, sample)      -> out
 *     bag_grad(dy, sample)     -> d weight (dense)
 *     bag_sample(dy, weight)   -> d sample
 */
#include "base/error.h"
#include "ops/embedding.h"

#include <math.h>

#include "tutti/sparse.h"

typedef struct bag_attrs {
    tt_bag_mode mode;
    int64_t rows, padding;
    bool sparse;
    tt_shape sample; /* shape of the weights per sample */
} bag_attrs;

/* What all three operators save after their own tensors; all int64. */
typedef struct bag_parts {
    tt_tensor *index, *offsets, *counts, *argmax;
} bag_parts;

static void save_parts(tti_call *c, const bag_parts *p)
{
    tti_call_save(c, p->index);
    tti_call_save(c, p->offsets);
    tti_call_save(c, p->counts);
    tti_call_save(c, p->argmax);
}

static tt_status get_parts(tti_node *n, int first, bag_parts *p)
{
    TT_TRY(tti_give(&p->index, tti_saved_get(n, first)));
    TT_TRY(tti_give(&p->offsets, tti_saved_get(n, first + 1)));
    TT_TRY(tti_give(&p->counts, tti_saved_get(n, first + 2)));
    p->argmax = NULL;
    if (tti_has_saved(n, first + 3))
        return tti_give(&p->argmax, tti_saved_get(n, first + 3));
    return TT_OK;
}

static tti_bags bags_of(const bag_parts *p, const tt_tensor *sample, const bag_attrs *a)
{
    return (tti_bags){ p->index, p->offsets, sample, a->mode, a->padding };
}

static tt_dtype real_of(const tt_tensor *t)
{
    return t->dtype == TT_F64 ? TT_F64 : TT_F32;
}

/* An optional tensor, contiguous and of the type; TT_OK with NULL when there is none. */
static tt_status ready(tt_tensor **t_p, tt_dtype dtype)
{
    return *t_p == NULL ? TT_OK : tti_give(t_p, tti_contiguous(tti_cast(*t_p, dtype)));
}

static tt_tensor *bag_grad(tt_tensor *dy, tt_tensor *sample, const bag_parts *p,
                           const bag_attrs *a);
static tt_tensor *bag_sample(tt_tensor *dy, tt_tensor *weight, const bag_parts *p,
                             const bag_attrs *a);
static tt_tensor *bag(tt_tensor *weight, tt_tensor *sample, bag_parts *p, const bag_attrs *a);

/* ---- d sample ---------------------------------------------------------------------------------- */

static tt_status bag_sample_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const bag_attrs *a = tti_attrs(n);
    bag_parts p;

    TT_TRY(get_parts(n, 2, &p));
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], bag(tti_saved_get(n, 1), grad_out[0], &p, a)));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&grad_in[1], bag_grad(tti_saved_get(n, 0), grad_out[0], &p, a)));
    return TT_OK;
}

static const tti_op op_bag_sample = { "embedding_bag_sample_grad", bag_sample_backward, 0 };

static tt_status dot_rows(tt_tensor *out, tt_tensor *dy, tt_tensor *weight, const bag_parts *p,
                          const bag_attrs *a)
{
    tti_bags b = bags_of(p, NULL, a);

    TT_TRY(tti_made(out));
    TT_TRY(ready(&dy, (tt_dtype)out->dtype));
    TT_TRY(ready(&weight, (tt_dtype)out->dtype));
    return TTI_RUN("embedding_bag_weights_grad", dy, nn, embedding_bag_weights_grad, out, dy,
                   weight, &b);
}

static tt_tensor *bag_sample(tt_tensor *dy, tt_tensor *weight, const bag_parts *p,
                             const bag_attrs *a)
{
    tt_tensor *in[2] = { dy, weight }, *out;
    tti_call c = {
        .op = &op_bag_sample, .n_in = 2, .in = in, .attrs = a, .attrs_bytes = sizeof *a
    };
    tt_status st;

    if (!tti_call_begin(&c))
        return NULL;
    tti_call_save(&c, dy);
    tti_call_save(&c, weight);
    save_parts(&c, p);
    out = tti_empty(a->sample.dims, a->sample.n_dims, real_of(dy), dy->device);
    st = dot_rows(out, dy, weight, p, a);
    return tti_call_end(&c, st == TT_OK ? tti_cast(out, (tt_dtype)dy->dtype) : NULL, st);
}

/* ---- d weight ---------------------------------------------------------------------------------- */

/* Where the maxima came from; places of empty bags give 0. */
static tt_tensor *take_maxima(tt_tensor *g, tt_tensor *argmax)
{
    tt_tensor *none = tt_lt_scalar(argmax, 0.0);

    return tt_masked_fill(tt_gather(g, 0, tt_clamp(argmax, 0.0, INFINITY)), none, 0.0);
}

static tt_status bag_grad_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const bag_attrs *a = tti_attrs(n);
    tt_tensor *sample = tti_has_saved(n, 1) ? tti_saved_get(n, 1) : NULL;
    bag_parts p;

    TT_TRY(get_parts(n, 2, &p));
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], p.argmax != NULL ? take_maxima(grad_out[0], p.argmax)
                                                      : bag(grad_out[0], sample, &p, a)));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&grad_in[1], bag_sample(tti_saved_get(n, 0), grad_out[0], &p, a)));
    return TT_OK;
}

static const tti_op op_bag_grad = { "embedding_bag_grad", bag_grad_backward, 0 };

static tt_status add_rows(tt_tensor *dw, tt_tensor *dy, tt_tensor *sample, const bag_parts *p,
                          const bag_attrs *a)
{
    tti_bags b;

    TT_TRY(tti_made(dw));
    TT_TRY(ready(&dy, (tt_dtype)dw->dtype));
    TT_TRY(ready(&sample, (tt_dtype)dw->dtype));
    b = bags_of(p, sample, a);
    return TTI_RUN("embedding_bag_grad", dy, nn, embedding_bag_grad, dw, dy, p->counts, p->argmax,
                   &b);
}

static tt_tensor *bag_grad(tt_tensor *dy, tt_tensor *sample, const bag_parts *p, const bag_attrs *a)
{
    tt_tensor *in[2] = { dy, sample }, *dw;
    tti_call c = {
        .op = &op_bag_grad, .n_in = 2, .in = in, .optional = 2, .attrs = a, .attrs_bytes = sizeof *a
    };
    int64_t dims[2] = { a->rows, 0 };
    tt_status st;

    if (!tti_call_begin(&c))
        return NULL;
    tti_call_save(&c, dy);
    tti_call_save(&c, sample);
    save_parts(&c, p);
    dims[1] = dy->dims[1];
    dw = tti_empty(dims, 2, real_of(dy), dy->device);
    st = add_rows(dw, dy, sample, p, a);
    return tti_call_end(&c, st == TT_OK ? tti_cast(dw, (tt_dtype)dy->dtype) : NULL, st);
}

/* The sparse form with a row for every use, from which the padding is taken out. */
static tt_tensor *sparse_uses(tt_tensor *dy, const tti_bags *b, const bag_parts *p,
                              const bag_attrs *a)
{
    int64_t dims[2] = { p->index->numel, dy->dims[1] };
    tt_tensor *rows = tti_empty(dims, 2, (tt_dtype)dy->dtype, dy->device);

    if (rows == NULL)
        return NULL;
    if (TTI_RUN("embedding_bag_rows", dy, nn, embedding_bag_rows, rows, dy, p->counts, b) != TT_OK)
        return NULL;
    return tti_sparse_rows(p->index, rows, a->rows, a->padding);
}

/* The sparse form already summed by row: optimizers would do it next, over all uses. */
static tt_tensor *sparse_sums(tt_tensor *dy, const tti_bags *b, const bag_parts *p,
                              const bag_attrs *a)
{
    int64_t dims[2] = { 0, dy->dims[1] };
    tt_tensor *order = tti_empty(p->index->dims, 1, TT_I64, dy->device);
    tt_tensor *made[2];

    if (order == NULL ||
        TTI_RUN("embedding_bag_sums", dy, index, sort_keys, order, p->index, &dims[0]) != TT_OK)
        return NULL;
    made[0] = tti_empty(dims, 2, (tt_dtype)dy->dtype, dy->device);
    made[1] = tti_empty((int64_t[]){ 1, dims[0] }, 2, TT_I64, dy->device);
    if (made[0] == NULL || made[1] == NULL ||
        TTI_RUN("embedding_bag_sums", dy, nn, embedding_bag_sums, made, dy, p->counts, order, b) !=
            TT_OK)
        return NULL;
    return tt_sparse_coo_unchecked(made[1], made[0], TT_SHAPE(a->rows, dims[1]), true);
}

/* Not differentiable again. */
static tt_tensor *sparse_grad(tt_tensor *dy, tt_tensor *sample, const bag_parts *p,
                              const bag_attrs *a)
{
    tti_bags b;

    if (ready(&dy, real_of(dy)) != TT_OK || ready(&sample, real_of(dy)) != TT_OK)
        return NULL;
    b = bags_of(p, sample, a);
    if (a->padding < 0 && TTI_HAS_KERNEL(dy, nn, embedding_bag_sums) &&
        TTI_HAS_KERNEL(dy, index, sort_keys))
        return sparse_sums(dy, &b, p, a);
    return sparse_uses(dy, &b, p, a);
}

/* ---- forward ---------------------------------------------------------------------------------- */

static tt_status bag_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const bag_attrs *a = tti_attrs(n);
    tt_tensor *sample = tti_has_saved(n, 1) ? tti_saved_get(n, 1) : NULL;
    bag_parts p;

    TT_TRY(get_parts(n, 2, &p));
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], a->sparse ? sparse_grad(grad_out[0], sample, &p, a)
                                               : bag_grad(grad_out[0], sample, &p, a)));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&grad_in[1], bag_sample(grad_out[0], tti_saved_get(n, 0), &p, a)));
    return TT_OK;
}

static const tti_op op_bag = { "embedding_bag", bag_backward, 0 };

static tt_status collect(tt_tensor *out, tt_tensor *weight, tt_tensor *sample, const bag_parts *p,
                         const bag_attrs *a)
{
    tti_bags b;

    TT_TRY(tti_made(out));
    TT_TRY(ready(&weight, (tt_dtype)out->dtype));
    TT_TRY(ready(&sample, (tt_dtype)out->dtype));
    b = bags_of(p, sample, a);
    return TTI_RUN("embedding_bag", weight, nn, embedding_bag, out, p->counts, p->argmax, weight,
                   &b);
}

static tt_tensor *bag(tt_tensor *weight, tt_tensor *sample, bag_parts *p, const bag_attrs *a)
{
    tt_tensor *in[2] = { weight, sample }, *out;
    tti_call c = {
        .op = &op_bag, .n_in = 2, .in = in, .optional = 2, .attrs = a, .attrs_bytes = sizeof *a
    };
    int64_t dims[2] = { p->offsets->numel - 1, 0 };

    if (!tti_call_begin(&c))
        return NULL;
    dims[1] = weight->dims[1];
    out = tti_empty(dims, 2, (tt_dtype)weight->dtype, weight->device);
    p->counts = tti_empty(dims, 1, TT_I64, weight->device);
    p->argmax = a->mode == TT_BAG_MAX ? tti_empty(dims, 2, TT_I64, weight->device) : NULL;
    if (p->counts == NULL || (a->mode == TT_BAG_MAX && p->argmax == NULL))
        return NULL;
    tti_call_save(&c, tti_wants_grad(sample) ? weight : NULL);
    tti_call_save(&c, sample);
    save_parts(&c, p);
    return tti_call_end(&c, out, collect(out, weight, sample, p, a));
}

/* ---- the operator ------------------------------------------------------------------------------- */

/* Offsets with the end of the last bag behind them: int64 [bags + 1]. */
static tt_tensor *full_offsets(tt_tensor *index, tt_tensor *offsets, bool has_last)
{
    int64_t n, bags, step = 1;
    tt_tensor *all;

    if (offsets == NULL) {
        n = index->dims[0] + 1;
        all = tti_empty(&n, 1, TT_I64, index->device);
        if (all == NULL || TTI_RUN("embedding_bag", all, pointwise, arange, all, 0.0,
                                   (double)index->dims[1]) != TT_OK)
            return NULL;
        return all;
    }
    if (has_last)
        return tti_flat_index("embedding_bag", offsets);
    bags = offsets->dims[0];
    n = bags + 1;
    all = tti_empty(&n, 1, TT_I64, index->device);
    if (all == NULL || tti_fill(all, (double)index->numel) != TT_OK)
        return NULL;
    return tti_copy(tti_view_raw(all, &bags, &step, 1, 0), offsets) == TT_OK ? all : NULL;
}

static tt_status check_bag_shapes(const tt_tensor *index, const tt_tensor *offsets,
                                  const tt_bag_options *o)
{
    TT_TRY(tti_check_index("embedding_bag", index));
    if (offsets == NULL && index->n_dims != 2)
        return TTI_NULL("embedding_bag: expected a 2-D index, or a 1-D one with offsets, got %s",
                        TTI_SHAPE_OF(index));
    if (offsets == NULL)
        return TT_OK;
    TT_TRY(tti_check_index("embedding_bag", offsets));
    if (index->n_dims != 1 || offsets->n_dims != 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "embedding_bag: expected 1-D index and offsets, got %s and %s",
                       TTI_SHAPE_OF(index), TTI_SHAPE_OF(offsets));
    if (o->include_last_offset && offsets->numel < 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "embedding_bag: expected at least the last offset, got none");
    return TT_OK;
}

static tt_status check_bag_sample(const tt_tensor *weight, const tt_tensor *index,
                                  const tt_bag_options *o)
{
    const tt_tensor *s = o->per_sample_weights;

    if (o->mode == TT_BAG_MAX && o->sparse_grad)
        return TT_FAIL(TT_ERR_INVALID, "embedding_bag: maxima have no sparse gradient");
    if (s == NULL)
        return TT_OK;
    if (o->mode != TT_BAG_SUM)
        return TT_FAIL(TT_ERR_INVALID,
                       "embedding_bag: per_sample_weights are for sums only (TT_BAG_SUM)");
    if (s->dtype != weight->dtype || !tti_same_shape(s, index))
        return TT_FAIL(TT_ERR_INVALID,
                       "embedding_bag: expected per_sample_weights %s of type %s, got %s of type "
                       "%s",
                       TTI_SHAPE_OF(index), tt_dtype_name((tt_dtype)weight->dtype), TTI_SHAPE_OF(s),
                       tt_dtype_name((tt_dtype)s->dtype));
    return TT_OK;
}

tt_tensor *tt_embedding_bag(tt_tensor *weight, tt_tensor *index, tt_tensor *offsets,
                            const tt_bag_options *opt)
{
    static const tt_bag_options defaults = { 0 };
    const tt_bag_options *o = opt != NULL ? opt : &defaults;
    bag_attrs a = { .mode = o->mode, .padding = o->padding_idx, .sparse = o->sparse_grad };
    bag_parts p = { 0 };

    if (weight == NULL || index == NULL)
        return TT_NULL_GIVEN("embedding_bag", "a weight and an index");
    if (tti_embedding_table("embedding_bag", weight) != TT_OK ||
        check_bag_shapes(index, offsets, o) != TT_OK || check_bag_sample(weight, index, o) != TT_OK)
        return NULL;
    a.rows = weight->dims[0];
    a.sample = tt_tensor_shape(index);
    if (tti_embedding_padding("embedding_bag", a.rows, o->has_padding_idx, &a.padding) != TT_OK)
        return NULL;
    p.index = tti_flat_index("embedding_bag", index);
    p.offsets = p.index != NULL ? full_offsets(index, offsets, o->include_last_offset) : NULL;
    if (p.offsets == NULL)
        return NULL;
    return bag(weight, o->per_sample_weights, &p, &a);
}
