/* SPDX-License-Identifier: Apache-2.0 */
/* The same elements in another order, as copies: flip, roll; and with one side of a diagonal set to
 * zero: tril, triu. Each is the derivative of its like. */
#include "ops/view.h"

typedef struct flip_attrs {
    int n;
    int dims[TT_MAX_DIMS];
} flip_attrs;

static tt_status flip_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const flip_attrs *a = tti_attrs(n);

    return tti_give(&grad_in[0], tt_flip(grad_out[0], a->dims, a->n));
}

static const tti_op op_flip = { "flip", flip_backward, 0 };

/* One dimension backwards; x is contiguous. */
static tt_tensor *flip_dim(tt_tensor *x, int dim)
{
    int64_t n = x->dims[dim];
    tt_tensor *order = tti_iota(n, n - 1, -1, x->device);
    tt_tensor *y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);

    if (order == NULL || y == NULL || tti_index_select(y, x, dim, order) != TT_OK)
        return NULL;
    return y;
}

tt_tensor *tt_flip(tt_tensor *x, const int *dims, int n_dims)
{
    tti_call c = { .op = &op_flip, .in = &x, .n_in = 1 };
    flip_attrs a = { .n = n_dims };
    unsigned seen = 0;
    tt_tensor *y;

    if (!tti_call_begin(&c))
        return NULL;
    if (n_dims < 0 || n_dims > TT_MAX_DIMS || (dims == NULL && n_dims > 0))
        return TT_FAIL_NULL(TT_ERR_INVALID, "flip: expected 0 to %d dimensions, got %d",
                            TT_MAX_DIMS, n_dims);
    for (int i = 0; i < n_dims; i++) {
        a.dims[i] = dims[i];
        if (tti_wrap_dim("flip", &a.dims[i], x->n_dims) != TT_OK)
            return NULL;
        if ((seen >> a.dims[i] & 1) != 0)
            return TT_FAIL_NULL(TT_ERR_INVALID, "flip: dimension %d is given twice", a.dims[i]);
        seen |= 1u << a.dims[i];
    }
    y = tti_contiguous(x);
    for (int i = 0; i < n_dims && y != NULL && x->n_dims > 0; i++)
        y = flip_dim(y, a.dims[i]);
    if (y != NULL && y->storage == x->storage) {
        y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
        if (tti_copy(y, x) != TT_OK)
            y = NULL;
    }
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    return tti_call_end(&c, y, tti_made(y));
}

/* ---- roll -------------------------------------------------------------------------------- */

typedef struct roll_attrs {
    int64_t shift;
    int dim;
} roll_attrs;

static tt_status roll_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const roll_attrs *a = tti_attrs(n);

    return tti_give(&grad_in[0], tt_roll(grad_out[0], -a->shift, a->dim));
}

static const tti_op op_roll = { "roll", roll_backward, 0 };

/* y[.., to .. to + n, ..] = x[.., from .. from + n, ..] */
static tt_status move(tt_tensor *y, int64_t to, const tt_tensor *x, int64_t from, roll_attrs at,
                      int64_t n)
{
    int64_t dims[TT_MAX_DIMS];
    tt_tensor *dst, *src;

    if (n == 0)
        return TT_OK;
    for (int i = 0; i < x->n_dims; i++)
        dims[i] = i == at.dim ? n : x->dims[i];
    dst = tti_view_raw(y, dims, y->strides, y->n_dims, y->offset + to * y->strides[at.dim]);
    src = tti_view_raw(x, dims, x->strides, x->n_dims, x->offset + from * x->strides[at.dim]);
    return tti_copy(dst, src);
}

tt_tensor *tt_roll(tt_tensor *x, int64_t shift, int dim)
{
    tti_call c = { .op = &op_roll, .in = &x, .n_in = 1 };
    roll_attrs a;
    int64_t size;
    tt_tensor *y;
    tt_status st;

    if (!tti_call_begin(&c) || tti_wrap_dim("roll", &dim, x->n_dims) != TT_OK)
        return NULL;
    if (x->n_dims == 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "roll: a tensor without dimensions has none to roll");
    size = x->dims[dim];
    shift = size > 0 ? shift % size : 0;
    if (shift < 0)
        shift += size;
    a = (roll_attrs){ .shift = shift, .dim = dim };
    y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    st = tti_made(y);
    if (st == TT_OK)
        st = move(y, shift, x, 0, a, size - shift);
    if (st == TT_OK)
        st = move(y, 0, x, size - shift, a, shift);
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    return tti_call_end(&c, y, st);
}

/* ---- triangles --------------------------------------------------------------------------- */

static tt_status tril_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const int64_t *diagonal = tti_attrs(n);

    return tti_give(&grad_in[0], tt_tril(grad_out[0], *diagonal));
}

static tt_status triu_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const int64_t *diagonal = tti_attrs(n);

    return tti_give(&grad_in[0], tt_triu(grad_out[0], *diagonal));
}

static const tti_op op_tril = { "tril", tril_backward, 0 };
static const tti_op op_triu = { "triu", triu_backward, 0 };

static tt_tensor *tri(const tti_op *op, tt_tensor *x, int64_t diagonal)
{
    tti_call c = { .op = op, .in = &x, .n_in = 1 };
    tt_tensor *from, *y;
    tt_status st;

    if (!tti_call_begin(&c))
        return NULL;
    if (x->n_dims < 2)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected at least 2 dimensions, got shape %s",
                            op->name, TTI_SHAPE_OF(x));
    from = tti_contiguous(x);
    y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    st = from != NULL ? tti_made(y) : tt_last_status();
    if (st == TT_OK)
        st = tti_tri(y, from, diagonal, op == &op_triu);
    c.attrs = &diagonal;
    c.attrs_bytes = sizeof diagonal;
    return tti_call_end(&c, y, st);
}

tt_tensor *tt_tril(tt_tensor *x, int64_t diagonal)
{
    return tri(&op_tril, x, diagonal);
}

tt_tensor *tt_triu(tt_tensor *x, int64_t diagonal)
{
    return tri(&op_triu, x, diagonal);
}
