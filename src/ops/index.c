/* SPDX-License-Identifier: Apache-2.0 */
/* Whole slices chosen by a vector of indices: index_select reads them; index_add and index_copy
 * write them, to a new tensor or in place. */
#include "ops/index.h"

#include "ops/elementwise.h"
#include "ops/view.h"

tt_tensor *tti_index_plain(const char *name, tt_tensor *index, const tt_tensor *x)
{
    if (tti_check_index(name, index) != TT_OK)
        return NULL;
    return tti_contiguous(tti_operand(index, TT_I64, x->device));
}

static tt_status check_vector(const char *name, const tt_tensor *index)
{
    if (index->n_dims <= 1)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected a vector of indices, got shape %s", name,
                   TTI_SHAPE_OF(index));
}

/* ---- index_select ------------------------------------------------------------------------ */

typedef struct index_attrs {
    int dim;
    tt_shape in; /* of index_select's input */
} index_attrs;

/* Zeros of the input's shape plus the gradient's slices. */
static tt_status select_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const index_attrs *a = tti_attrs(n);
    tt_tensor *index = tti_saved_get(n, 0);

    return tti_give(&grad_in[0],
                    tt_index_add(tti_zeros_shape(a->in, grad_out[0]), a->dim, index, grad_out[0]));
}

static const tti_op op_index_select = { "index_select", select_backward, 0 };

tt_tensor *tt_index_select(tt_tensor *x, int dim, tt_tensor *index)
{
    tt_tensor *in[] = { x, index };
    tti_call c = { .op = &op_index_select, .in = in, .n_in = 2 };
    index_attrs a;
    int64_t dims[TT_MAX_DIMS];
    tt_tensor *plain, *out;

    if (!tti_call_begin(&c) || tti_wrap_dim("index_select", &dim, x->n_dims) != TT_OK ||
        check_vector("index_select", index) != TT_OK)
        return NULL;
    plain = tti_index_plain("index_select", index, x);
    if (plain == NULL)
        return NULL;
    for (int i = 0; i < x->n_dims; i++)
        dims[i] = i == dim ? index->numel : x->dims[i];
    if (x->n_dims == 0 && index->numel != 1)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "index_select: expected one index for a tensor without dimensions, got "
                            "%lld",
                            (long long)index->numel);
    out = tti_empty(dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    a = (index_attrs){ .dim = dim, .in = tt_tensor_shape(x) };
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    tti_call_save(&c, plain);
    return tti_call_end(&c, out, tti_index_select(out, tti_contiguous(x), dim, plain));
}

/* ---- index_add and index_copy --------------------------------------------------------------- */

static tt_status add_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const index_attrs *a = tti_attrs(n);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], grad_out[0]));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2], tt_index_select(grad_out[0], a->dim, tti_saved_get(n, 0))));
    return TT_OK;
}

static tt_status copy_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const index_attrs *a = tti_attrs(n);
    tt_tensor *g = grad_out[0], *index = tti_saved_get(n, 0);
    tt_shape slices = tt_tensor_shape(g);

    if (index == NULL)
        return tt_last_status();
    if (slices.n_dims > 0)
        slices.dims[a->dim] = index->numel;
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&grad_in[0], tt_index_copy(g, a->dim, index, tti_zeros_shape(slices, g))));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&grad_in[2], tt_index_select(g, a->dim, index)));
    return TT_OK;
}

static const tti_op op_index_add = { "index_add", add_backward, 0 };
static const tti_op op_index_add_ = { "index_add_", add_backward, 0 };
static const tti_op op_index_copy = { "index_copy", copy_backward, 0 };

static tt_status check_put(const char *name, const tt_tensor *x, int dim, const tt_tensor *index,
                           const tt_tensor *src)
{
    bool ok = x->n_dims == src->n_dims || (x->n_dims <= 1 && src->n_dims <= 1);

    TT_TRY(check_vector(name, index));
    if (x->dtype != src->dtype)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a source of type %s, got %s", name,
                       tt_dtype_name((tt_dtype)x->dtype), tt_dtype_name((tt_dtype)src->dtype));
    if (x->n_dims <= 1 && src->n_dims <= 1)
        ok = src->numel == index->numel;
    for (int i = 0; ok && x->n_dims > 1 && i < x->n_dims; i++)
        ok = src->dims[i] == (i == dim ? index->numel : x->dims[i]);
    if (ok)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: expected a source like %s with %lld in dimension %d, got shape %s", name,
                   TTI_SHAPE_OF(x), (long long)index->numel, dim, TTI_SHAPE_OF(src));
}

tt_tensor *tti_index_source(const tt_tensor *x, tt_tensor *src)
{
    tt_tensor *copy;

    if (src->storage != x->storage)
        return tti_contiguous(tti_operand(src, (tt_dtype)src->dtype, x->device));
    copy = tti_empty(src->dims, src->n_dims, (tt_dtype)src->dtype, src->device);
    return tti_copy(copy, src) == TT_OK ? copy : NULL;
}

tt_tensor *tti_index_target(const tti_call *c, bool in_place)
{
    tt_tensor *x = c->in[0], *copy;

    if (in_place && tti_is_contiguous(x))
        return x;
    copy = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    return tti_copy(copy, x) == TT_OK ? copy : NULL;
}

tt_tensor *tti_index_end(tti_call *c, tt_tensor *out, tt_status st, bool in_place)
{
    if (!in_place)
        return tti_call_end(c, out, st);
    if (st == TT_OK && out != c->in[0])
        st = tti_copy(c->in[0], out);
    return st == TT_OK ? tti_call_end_inplace(c, st) : NULL;
}

static tt_tensor *put(const tti_op *op, tt_tensor *const *in, int dim, bool in_place)
{
    tti_call c = { .op = op, .in = in, .n_in = 3 };
    bool add = op != &op_index_copy;
    index_attrs a = { 0 };
    tt_tensor *out, *index, *src;

    if (!(in_place ? tti_call_begin_inplace(&c) : tti_call_begin(&c)) ||
        tti_wrap_dim(op->name, &dim, in[0]->n_dims) != TT_OK ||
        check_put(op->name, in[0], dim, in[1], in[2]) != TT_OK)
        return NULL;
    index = tti_index_plain(op->name, in[1], in[0]);
    src = tti_index_source(in[0], in[2]);
    if (index == NULL || src == NULL)
        return NULL;
    out = tti_index_target(&c, in_place);
    a.dim = dim;
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    tti_call_save(&c, index);
    return tti_index_end(&c, out, tti_index_put(out, dim, index, src, add), in_place);
}

tt_tensor *tt_index_add(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src)
{
    return put(&op_index_add, (tt_tensor *[]){ x, index, src }, dim, false);
}

tt_tensor *tt_index_add_(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src)
{
    return put(&op_index_add_, (tt_tensor *[]){ x, index, src }, dim, true);
}

tt_tensor *tt_index_copy(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src)
{
    return put(&op_index_copy, (tt_tensor *[]){ x, index, src }, dim, false);
}
