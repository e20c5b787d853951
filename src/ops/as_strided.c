/* SPDX-License-Identifier: Apache-2.0 */
/* as_strided: a view with sizes and strides of the caller's choice, which may overlap. Its gradient
 * is computed on a flat block that stands for the storage: gradients of elements seen several times
 * add up there. That map and its transpose are each other's derivative. */
#include "ops/view.h"

typedef struct layout {
    int n;
    int64_t dims[TT_MAX_DIMS], strides[TT_MAX_DIMS], offset;
} layout;

/* Both layouts over one block of `extent` elements, offsets from its first. */
typedef struct strided_attrs {
    layout in, out;
    int64_t extent;
} strided_attrs;

static tt_tensor *strided_grad(tt_tensor *g, const strided_attrs *a);
static tt_tensor *strided_map(tt_tensor *x, const strided_attrs *a);

static tt_status strided_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], strided_grad(grad_out[0], tti_attrs(n)));
}

static tt_status grad_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], strided_map(grad_out[0], tti_attrs(n)));
}

static const tti_op op_as_strided = { "as_strided", strided_backward, 0 };
static const tti_op op_strided_map = { "as_strided_map", strided_backward, 0 };
static const tti_op op_strided_grad = { "as_strided_grad", grad_backward, 0 };

static layout layout_of(const int64_t *dims, const int64_t *strides, int n, int64_t offset)
{
    layout l = { .n = n, .offset = offset };

    for (int i = 0; i < n; i++) {
        l.dims[i] = dims[i];
        l.strides[i] = strides[i];
    }
    return l;
}

/* One past the last element the layout reaches. */
static int64_t end_of(const layout *l)
{
    int64_t end = l->offset + 1;

    for (int i = 0; i < l->n; i++) {
        if (l->dims[i] == 0)
            return l->offset;
        end += (l->dims[i] - 1) * l->strides[i];
    }
    return end;
}

static tt_tensor *seen(tt_tensor *block, const layout *l)
{
    return block != NULL ? tti_view_raw(block, l->dims, l->strides, l->n, l->offset) : NULL;
}

/* out = x's elements, put into a block and read through the other layout. */
static tt_tensor *strided_map(tt_tensor *x, const strided_attrs *a)
{
    tti_call c = { .op = &op_strided_map, .in = &x, .n_in = 1 };
    tt_tensor *block, *y;
    tt_status st;

    c.attrs = a;
    c.attrs_bytes = sizeof *a;
    if (!tti_call_begin(&c))
        return NULL;
    block = tti_zeros_shape(TT_SHAPE(a->extent), x);
    st = tti_copy(seen(block, &a->in), x);
    y = st == TT_OK ? tti_contiguous(seen(block, &a->out)) : NULL;
    return tti_call_end(&c, y, st);
}

static tt_tensor *strided_grad(tt_tensor *g, const strided_attrs *a)
{
    tti_call c = { .op = &op_strided_grad, .in = &g, .n_in = 1 };
    tt_tensor *block, *where, *flat, *y;
    int64_t one = 1;
    tt_status st;

    c.attrs = a;
    c.attrs_bytes = sizeof *a;
    if (!tti_call_begin(&c))
        return NULL;
    block = tti_zeros_shape(TT_SHAPE(a->extent), g);
    where = tti_iota(a->extent, 0, 1, g->device);
    where = tti_contiguous(seen(where, &a->out));
    flat = tti_contiguous(g);
    if (block == NULL || where == NULL || flat == NULL)
        return tti_call_end(&c, NULL, tt_last_status());
    where = tti_view_raw(where, &where->numel, &one, 1, 0);
    flat = tti_view_raw(flat, &flat->numel, &one, 1, flat->offset);
    st = where != NULL && flat != NULL ? tti_index_put(block, 0, where, flat, true)
                                       : tt_last_status();
    y = st == TT_OK ? tti_contiguous(seen(block, &a->in)) : NULL;
    return tti_call_end(&c, y, st);
}

static tt_status check(const tt_tensor *x, const layout *l)
{
    int64_t end = l->offset + 1, step;
    int64_t room = (int64_t)(x->storage->bytes / tti_esize(x));
    bool ok = l->offset >= 0 && tti_numel(l->dims, l->n) >= 0;
    char text[TTI_SHAPE_TEXT];

    for (int i = 0; ok && i < l->n; i++)
        ok = l->strides[i] >= 0 &&
             !__builtin_mul_overflow(l->dims[i] > 0 ? l->dims[i] - 1 : 0, l->strides[i], &step) &&
             !__builtin_add_overflow(end, step, &end);
    if (ok && (end <= room || tti_numel(l->dims, l->n) == 0))
        return TT_OK;
    return TT_FAIL(
        TT_ERR_INVALID,
        "as_strided: shape %s with the given strides and offset %lld does not lie in the "
        "%lld elements of the storage",
        tti_shape_text(l->dims, l->n, text, sizeof text), (long long)l->offset, (long long)room);
}

tt_tensor *tt_as_strided(tt_tensor *x, tt_shape shape, const int64_t *strides, int64_t offset)
{
    tti_call c = { .op = &op_as_strided, .in = &x, .n_in = 1 };
    strided_attrs a;
    int64_t first;

    if (!tti_call_begin(&c))
        return NULL;
    if (shape.n_dims < 0 || shape.n_dims > TT_MAX_DIMS || (strides == NULL && shape.n_dims > 0))
        return TT_FAIL_NULL(TT_ERR_INVALID, "as_strided: expected 0 to %d sizes with strides",
                            TT_MAX_DIMS);
    a.out = layout_of(shape.dims, strides, shape.n_dims, offset);
    if (check(x, &a.out) != TT_OK)
        return NULL;
    if (c.wants_grad) {
        a.in = layout_of(x->dims, x->strides, x->n_dims, x->offset);
        first = x->offset < offset ? x->offset : offset;
        a.in.offset -= first;
        a.out.offset -= first;
        a.extent = end_of(&a.in) > end_of(&a.out) ? end_of(&a.in) : end_of(&a.out);
        c.attrs = &a;
        c.attrs_bytes = sizeof a;
    }
    return tti_view_end(&c, tti_view_raw(x, shape.dims, strides, shape.n_dims, offset));
}
