/* SPDX-License-Identifier: Apache-2.0 */
/* Elements chosen one by one along a dimension: gather reads them, scatter and scatter_add write
 * them. The index has the rank of the tensor and may be smaller in the other dimensions. */
#include "ops/index.h"
#include "ops/view.h"

typedef struct gather_attrs {
    int dim;
    tt_shape other; /* gather: of x; scatter: of src */
} gather_attrs;

/* ---- checks ------------------------------------------------------------------------------ */

/* Every size of `part` but that of `except` is within `whole`. */
static bool fits(const tt_tensor *part, const tt_tensor *whole, int except)
{
    for (int i = 0; i < part->n_dims; i++)
        if (i != except && part->dims[i] > whole->dims[i])
            return false;
    return true;
}

static int rank_of(const tt_tensor *t)
{
    return t->n_dims > 0 ? t->n_dims : 1;
}

static tt_status check_against(const char *name, const tt_tensor *index, const char *what,
                               const tt_tensor *t, int except)
{
    if (rank_of(index) != rank_of(t))
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected an index with %d dimensions like %s, got shape %s", name,
                       t->n_dims, what, TTI_SHAPE_OF(index));
    if (index->numel == 0 || index->n_dims != t->n_dims || fits(index, t, except))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: an index of shape %s does not fit %s of shape %s", name,
                   TTI_SHAPE_OF(index), what, TTI_SHAPE_OF(t));
}

/* A tensor without dimensions takes part as a vector of one. */
static tt_tensor *at_least_1d(tt_tensor *t)
{
    int64_t one = 1;

    return t == NULL || t->n_dims > 0 ? t : tti_view_raw(t, &one, &one, 1, t->offset);
}

/* ---- gather ------------------------------------------------------------------------------ */

static tt_status gather_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const gather_attrs *a = tti_attrs(n);
    tt_tensor *index = tti_saved_get(n, 0);

    return tti_give(&grad_in[0], tt_scatter_add(tti_zeros_shape(a->other, grad_out[0]), a->dim,
                                                index, grad_out[0]));
}

static const tti_op op_gather = { "gather", gather_backward, 0 };

tt_tensor *tt_gather(tt_tensor *x, int dim, tt_tensor *index)
{
    tt_tensor *in[] = { x, index };
    tti_call c = { .op = &op_gather, .in = in, .n_in = 2 };
    gather_attrs a;
    tt_tensor *plain, *out;

    if (!tti_call_begin(&c) || tti_wrap_dim("gather", &dim, x->n_dims) != TT_OK ||
        check_against("gather", index, "the tensor", x, dim) != TT_OK)
        return NULL;
    plain = index->dtype == TT_U8 ? tti_cast(index, TT_I64) : index;
    plain = plain != NULL ? tti_index_plain("gather", plain, x) : NULL;
    if (plain == NULL)
        return NULL;
    out = tti_empty(index->dims, index->n_dims, (tt_dtype)x->dtype, x->device);
    a = (gather_attrs){ .dim = dim, .other = tt_tensor_shape(x) };
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    tti_call_save(&c, plain);
    return tti_call_end(
        &c, out,
        tti_gather(at_least_1d(out), at_least_1d(tti_contiguous(x)), dim, at_least_1d(plain)));
}

/* ---- scatter ----------------------------------------------------------------------------- */

/* The gradient of a source: what was gathered, with zeros where the index did not reach. */
static tt_tensor *source_grad(tt_tensor *g, const gather_attrs *a, tt_tensor *index)
{
    tt_tensor *y = tt_gather(g, a->dim, index);

    for (int i = 0; y != NULL && i < y->n_dims && i < a->other.n_dims; i++) {
        tt_shape rest = tt_tensor_shape(y);
        tt_tensor *both[2] = { y, NULL };

        rest.dims[i] = a->other.dims[i] - y->dims[i];
        if (rest.dims[i] <= 0)
            continue;
        both[1] = tti_zeros_shape(rest, y);
        y = tt_cat(both, 2, i);
    }
    return y;
}

static tt_status scatter_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const gather_attrs *a = tti_attrs(n);
    tt_tensor *g = grad_out[0], *index = tti_saved_get(n, 0);

    if (index == NULL)
        return tt_last_status();
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0],
                        tt_scatter(g, a->dim, index, tti_zeros_shape(tt_tensor_shape(index), g))));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2], source_grad(g, a, index)));
    return TT_OK;
}

static tt_status scatter_add_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], grad_out[0]));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2], source_grad(grad_out[0], tti_attrs(n), tti_saved_get(n, 0))));
    return TT_OK;
}

static const tti_op op_scatter = { "scatter", scatter_backward, 0 };
static const tti_op op_scatter_ = { "scatter_", scatter_backward, 0 };
static const tti_op op_scatter_add = { "scatter_add", scatter_add_backward, 0 };
static const tti_op op_scatter_add_ = { "scatter_add_", scatter_add_backward, 0 };

static tt_status check_scatter(const char *name, const tt_tensor *x, int dim,
                               const tt_tensor *index, const tt_tensor *src)
{
    if (x->dtype != src->dtype)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a source of type %s, got %s", name,
                       tt_dtype_name((tt_dtype)x->dtype), tt_dtype_name((tt_dtype)src->dtype));
    TT_TRY(check_against(name, index, "the source", src, -1));
    return check_against(name, index, "the tensor", x, dim);
}

static tt_tensor *scatter(const tti_op *op, tt_tensor *const *in, int dim, bool in_place)
{
    tti_call c = { .op = op, .in = in, .n_in = 3 };
    bool add = op == &op_scatter_add || op == &op_scatter_add_;
    tt_tensor *out, *index, *src;
    gather_attrs a;
    tt_status st;

    if (!(in_place ? tti_call_begin_inplace(&c) : tti_call_begin(&c)) ||
        tti_wrap_dim(op->name, &dim, in[0]->n_dims) != TT_OK ||
        check_scatter(op->name, in[0], dim, in[1], in[2]) != TT_OK)
        return NULL;
    index = tti_index_plain(op->name, in[1], in[0]);
    src = tti_index_source(in[0], in[2]);
    if (index == NULL || src == NULL)
        return NULL;
    out = tti_index_target(&c, in_place);
    a = (gather_attrs){ .dim = dim, .other = tt_tensor_shape(in[2]) };
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    tti_call_save(&c, index);
    st = tti_scatter(at_least_1d(out), dim, at_least_1d(index), at_least_1d(src), add);
    return tti_index_end(&c, out, st, in_place);
}

tt_tensor *tt_scatter(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src)
{
    return scatter(&op_scatter, (tt_tensor *[]){ x, index, src }, dim, false);
}

tt_tensor *tt_scatter_(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src)
{
    return scatter(&op_scatter_, (tt_tensor *[]){ x, index, src }, dim, true);
}

tt_tensor *tt_scatter_add(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src)
{
    return scatter(&op_scatter_add, (tt_tensor *[]){ x, index, src }, dim, false);
}

tt_tensor *tt_scatter_add_(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src)
{
    return scatter(&op_scatter_add_, (tt_tensor *[]){ x, index, src }, dim, true);
}
