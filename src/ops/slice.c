/* SPDX-License-Identifier: Apache-2.0 */
/* Views of some of the elements: slice, narrow, select, diagonal. Their gradient puts the gradient
 * of the view into zeros, by the same view; that operator's gradient is the view again. */
#include "ops/view.h"

typedef enum part_kind {
    PART_SLICE,
    PART_SELECT,
    PART_DIAGONAL,
} part_kind;

/* Which part of a tensor: everything needed to view it in any tensor of the same sizes. */
typedef struct part {
    part_kind kind;
    int dim, dim2;
    int64_t start, length, step; /* diagonal: start is along dim, step along dim2 */
    tt_shape in;
} part;

typedef struct geometry {
    int n;
    int64_t dims[TT_MAX_DIMS], strides[TT_MAX_DIMS], offset;
} geometry;

static void apply(const part *p, const int64_t *dims, const int64_t *strides, int n, geometry *g)
{
    g->n = 0;
    g->offset = 0;
    for (int i = 0; i < n; i++) {
        int64_t size = dims[i], stride = strides[i];

        if (i == p->dim) {
            g->offset += p->start * stride;
            size = p->length;
            stride *= p->step;
            if (p->kind != PART_SLICE)
                continue;
        } else if (i == p->dim2 && p->kind == PART_DIAGONAL) {
            g->offset += p->step * stride;
            continue;
        }
        g->dims[g->n] = size;
        g->strides[g->n++] = stride;
    }
    if (p->kind == PART_DIAGONAL) {
        g->dims[g->n] = p->length;
        g->strides[g->n++] = strides[p->dim] + strides[p->dim2];
    }
}

static tt_tensor *part_of(const tti_op *op, tt_tensor *x, const part *p);
static tt_tensor *part_grad(tt_tensor *g, const part *p);

static tt_status part_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], part_grad(grad_out[0], tti_attrs(n)));
}

static const tti_op op_slice = { "slice", part_backward, 0 };
static const tti_op op_narrow = { "narrow", part_backward, 0 };
static const tti_op op_select = { "select", part_backward, 0 };
static const tti_op op_diagonal = { "diagonal", part_backward, 0 };

static tt_status part_grad_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const part *p = tti_attrs(n);
    static const tti_op *const ops[] = { &op_slice, &op_select, &op_diagonal };

    return tti_give(&grad_in[0], part_of(ops[p->kind], grad_out[0], p));
}

static const tti_op op_slice_grad = { "slice_grad", part_grad_backward, 0 };
static const tti_op op_select_grad = { "select_grad", part_grad_backward, 0 };
static const tti_op op_diagonal_grad = { "diagonal_grad", part_grad_backward, 0 };

/* Zeros of the input's sizes with `g` in the place of the part. */
static tt_tensor *part_grad(tt_tensor *g, const part *p)
{
    static const tti_op *const ops[] = { &op_slice_grad, &op_select_grad, &op_diagonal_grad };
    tti_call c = { .op = ops[p->kind], .in = &g, .n_in = 1, .attrs = p, .attrs_bytes = sizeof *p };
    tt_tensor *out, *place;
    geometry at;

    if (!tti_call_begin(&c))
        return NULL;
    out = tti_zeros_shape(p->in, g);
    if (out == NULL)
        return tti_call_end(&c, NULL, tt_last_status());
    apply(p, out->dims, out->strides, out->n_dims, &at);
    place = tti_view_raw(out, at.dims, at.strides, at.n, at.offset);
    return tti_call_end(&c, out, tti_copy(place, g));
}

static tt_tensor *part_end(tti_call *c, const part *p)
{
    tt_tensor *x = c->in[0];
    geometry at;

    apply(p, x->dims, x->strides, x->n_dims, &at);
    c->attrs = p;
    c->attrs_bytes = sizeof *p;
    return tti_view_end(c, tti_view_raw(x, at.dims, at.strides, at.n, x->offset + at.offset));
}

static tt_tensor *part_of(const tti_op *op, tt_tensor *x, const part *p)
{
    tti_call c = { .op = op, .in = &x, .n_in = 1 };

    return tti_call_begin(&c) ? part_end(&c, p) : NULL;
}

static tt_status needs_dims(const char *name, const tt_tensor *x, int least)
{
    return x->n_dims >= least
               ? TT_OK
               : TT_FAIL(TT_ERR_INVALID, "%s: expected at least %d dimension%s, got shape %s", name,
                         least, least > 1 ? "s" : "", TTI_SHAPE_OF(x));
}

static int64_t clip(int64_t at, int64_t size)
{
    if (at < 0)
        at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

tt_tensor *tt_slice(tt_tensor *x, int dim, int64_t start, int64_t end, int64_t step)
{
    tti_call c = { .op = &op_slice, .in = &x, .n_in = 1 };
    part p;

    if (!tti_call_begin(&c) || needs_dims("slice", x, 1) != TT_OK ||
        tti_wrap_dim("slice", &dim, x->n_dims) != TT_OK)
        return NULL;
    if (step < 1)
        return TT_FAIL_NULL(TT_ERR_INVALID, "slice: expected a step of at least 1, got %lld",
                            (long long)step);
    start = clip(start, x->dims[dim]);
    end = clip(end, x->dims[dim]);
    p = (part){ .kind = PART_SLICE,
                .dim = dim,
                .start = start,
                .length = end > start ? (end - start - 1) / step + 1 : 0,
                .step = step,
                .in = tt_tensor_shape(x) };
    return part_end(&c, &p);
}

tt_tensor *tt_narrow(tt_tensor *x, int dim, int64_t start, int64_t length)
{
    tti_call c = { .op = &op_narrow, .in = &x, .n_in = 1 };
    int64_t from = start;
    part p;

    if (!tti_call_begin(&c) || needs_dims("narrow", x, 1) != TT_OK ||
        tti_wrap_dim("narrow", &dim, x->n_dims) != TT_OK)
        return NULL;
    if (from < 0)
        from += x->dims[dim];
    if (from < 0 || length < 0 || from > x->dims[dim] || length > x->dims[dim] - from)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "narrow: start %lld and length %lld are not within dimension %d of "
                            "size %lld",
                            (long long)start, (long long)length, dim, (long long)x->dims[dim]);
    p = (part){ .kind = PART_SLICE,
                .dim = dim,
                .start = from,
                .length = length,
                .step = 1,
                .in = tt_tensor_shape(x) };
    return part_end(&c, &p);
}

tt_tensor *tt_select(tt_tensor *x, int dim, int64_t index)
{
    tti_call c = { .op = &op_select, .in = &x, .n_in = 1 };
    part p;

    if (!tti_call_begin(&c) || needs_dims("select", x, 1) != TT_OK ||
        tti_wrap_dim("select", &dim, x->n_dims) != TT_OK)
        return NULL;
    if (index < -x->dims[dim] || index >= x->dims[dim])
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "select: index %lld is out of range for dimension %d of size %lld",
                            (long long)index, dim, (long long)x->dims[dim]);
    p = (part){ .kind = PART_SELECT,
                .dim = dim,
                .start = index < 0 ? index + x->dims[dim] : index,
                .length = 1,
                .step = 1,
                .in = tt_tensor_shape(x) };
    return part_end(&c, &p);
}

tt_tensor *tt_diagonal(tt_tensor *x, int64_t offset, int dim1, int dim2)
{
    tti_call c = { .op = &op_diagonal, .in = &x, .n_in = 1 };
    int64_t rows, columns, length;
    part p;

    if (!tti_call_begin(&c) || needs_dims("diagonal", x, 2) != TT_OK ||
        tti_wrap_dim("diagonal", &dim1, x->n_dims) != TT_OK ||
        tti_wrap_dim("diagonal", &dim2, x->n_dims) != TT_OK)
        return NULL;
    if (dim1 == dim2)
        return TT_FAIL_NULL(TT_ERR_INVALID, "diagonal: expected two dimensions, got %d twice",
                            dim1);
    rows = x->dims[dim1];
    columns = x->dims[dim2];
    if (offset >= 0)
        length = offset >= columns ? 0 : rows < columns - offset ? rows : columns - offset;
    else
        length = -offset >= rows ? 0 : columns < rows + offset ? columns : rows + offset;
    p = (part){ .kind = PART_DIAGONAL,
                .dim = dim1,
                .dim2 = dim2,
                .start = length > 0 && offset < 0 ? -offset : 0,
                .length = length,
                .step = length > 0 && offset > 0 ? offset : 0,
                .in = tt_tensor_shape(x) };
    return part_end(&c, &p);
}
