/* SPDX-License-Identifier: Apache-2.0 */
/* Joining tensors: cat along a dimension that exists, stack along a new one. Both are one operator
 * over inputs seen as [before, width] blocks that follow one another in each row of the result. */
#include "ops/view.h"

#include <string.h>

#include "ops/cpu/parallel.h"

#define FEW 16

typedef struct join_attrs {
    int dim;
    int n;
    bool stack;
    int64_t sizes[]; /* along dim, per input; -1: an empty vector that was left out */
} join_attrs;

static tt_status join_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const join_attrs *a = tti_attrs(n);
    tt_tensor *g = grad_out[0];
    int64_t at = 0;

    for (int i = 0; i < a->n; i++) {
        int64_t size = a->sizes[i] > 0 ? a->sizes[i] : 0;

        if (tti_needs(n, i) && a->stack)
            TT_TRY(tti_give(&grad_in[i], tt_select(g, a->dim, i)));
        else if (tti_needs(n, i) && a->sizes[i] < 0)
            TT_TRY(tti_give(&grad_in[i], tti_zeros_shape(TT_SHAPE(0), g)));
        else if (tti_needs(n, i))
            TT_TRY(tti_give(&grad_in[i], tt_narrow(g, a->dim, at, size)));
        at += size;
    }
    return TT_OK;
}

static const tti_op op_cat = { "cat", join_backward, 0 };
static const tti_op op_stack = { "stack", join_backward, 0 };

/* ---- moving the elements ------------------------------------------------------------------- */

#define PARALLEL_BYTES (128 * 1024)

/* One input into its columns of the rows of out. */
typedef struct block {
    char *out;
    const char *in;
    size_t rows, width, pitch; /* bytes per row of the input, and of the result */
} block;

static void copy_rows(const block *b, size_t from, size_t to)
{
    for (size_t r = from; r < to; r++)
        memcpy(b->out + r * b->pitch, b->in + r * b->width, b->width);
}

static void copy_block(const block *b)
{
    size_t bytes = b->rows * b->width;
    int threads = tti_threads_for((int64_t)bytes, PARALLEL_BYTES);

    if (threads == 1)
        copy_rows(b, 0, b->rows);
    else if (b->rows > 1)
        TTI_PARALLEL_FOR(threads, r, (int64_t)b->rows, 1, copy_rows(b, (size_t)r, (size_t)r + 1));
    else
        TTI_PARALLEL_FOR(threads, from, (int64_t)bytes, PARALLEL_BYTES, {
            int64_t left = (int64_t)bytes - from;

            memcpy(b->out + from, b->in + from,
                   (size_t)(left < PARALLEL_BYTES ? left : PARALLEL_BYTES));
        });
}

static bool plain_bytes(const tt_tensor *out, const tt_tensor *x)
{
    return out->device.kind == TT_DEVICE_CPU && x->device.kind == TT_DEVICE_CPU &&
           x->dtype == out->dtype && tti_is_contiguous(x) && tti_is_contiguous(out);
}

/* Put x at `at` along `dim` of out, whose sizes otherwise agree. */
static tt_status place(tt_tensor *out, const tt_tensor *x, int dim, int64_t at, bool stack)
{
    int64_t after = out->strides[dim];
    int64_t size = stack ? 1 : x->dims[dim];
    tt_tensor *slot;
    tt_scope scope;
    tt_status st;

    if (x->numel == 0)
        return TT_OK;
    if (plain_bytes(out, x)) {
        size_t e = tti_esize(out);
        block b = { .out = (char *)tti_data(out) + (size_t)(at * after) * e,
                    .in = tti_data(x),
                    .width = (size_t)(size * after) * e,
                    .pitch = (size_t)(out->dims[dim] * after) * e };

        b.rows = (size_t)x->numel * e / b.width;
        copy_block(&b);
        return TT_OK;
    }
    scope = tt_scope_open();
    if (stack) {
        int64_t strides[TT_MAX_DIMS];

        for (int i = 0; i < x->n_dims; i++)
            strides[i] = out->strides[i < dim ? i : i + 1];
        slot = tti_view_raw(out, x->dims, strides, x->n_dims, at * after);
    } else {
        slot = tti_view_raw(out, x->dims, out->strides, x->n_dims, at * after);
    }
    st = slot != NULL ? tti_copy(slot, x) : tt_last_status();
    tt_scope_close(&scope);
    return st;
}

/* ---- the operators ------------------------------------------------------------------------- */

static bool is_empty_vector(const tt_tensor *t)
{
    return t->n_dims == 1 && t->dims[0] == 0;
}

static tt_status check_sizes(const tt_tensor *first, const tt_tensor *x, int i, int dim)
{
    bool ok = x->n_dims == first->n_dims;

    for (int d = 0; ok && d < x->n_dims; d++)
        ok = d == dim || x->dims[d] == first->dims[d];
    if (ok)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "cat: expected sizes to agree except in dimension %d; tensor %d has shape %s, "
                   "the first %s",
                   dim, i, TTI_SHAPE_OF(x), TTI_SHAPE_OF(first));
}

static tt_dtype join_type(tt_tensor *const *xs, int n)
{
    tt_tensor meet = { .dtype = xs[0]->dtype, .n_dims = xs[0]->n_dims, .flags = xs[0]->flags };

    for (int i = 1; i < n; i++) {
        if (xs[i]->dtype == meet.dtype)
            continue;
        meet.dtype = (uint8_t)tti_result_type(&meet, xs[i]);
        meet.n_dims = xs[i]->n_dims > meet.n_dims ? xs[i]->n_dims : meet.n_dims;
        meet.flags &= xs[i]->flags;
    }
    return (tt_dtype)meet.dtype;
}

/* Whether each tensor that is joined is channels-last, and so the result. */
static bool all_channels_last(tt_tensor *const *xs, const join_attrs *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->sizes[i] >= 0 &&
            (tti_is_contiguous(xs[i]) || !tt_tensor_is_contiguous(xs[i], TT_FORMAT_CHANNELS_LAST)))
            return false;
    return true;
}

static tt_tensor *cat_into(tti_call *c, join_attrs *a)
{
    const tt_tensor *first = NULL;
    int64_t dims[TT_MAX_DIMS], strides[TT_MAX_DIMS], at = 0;
    tt_tensor *out;
    tt_status st = TT_OK;

    for (int i = 0; i < a->n && first == NULL; i++)
        first = is_empty_vector(c->in[i]) ? NULL : c->in[i];
    first = first != NULL ? first : c->in[0];
    if (first->n_dims == 0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "cat: tensors without dimensions cannot be joined: use tt_stack");
    if (tti_wrap_dim("cat", &a->dim, first->n_dims) != TT_OK)
        return NULL;
    memcpy(dims, first->dims, sizeof dims);
    dims[a->dim] = 0;
    for (int i = 0; i < a->n; i++) {
        const tt_tensor *x = c->in[i];

        a->sizes[i] = -1;
        if (is_empty_vector(x) && first->n_dims != 1)
            continue;
        if (check_sizes(first, x, i, a->dim) != TT_OK)
            return NULL;
        a->sizes[i] = x->dims[a->dim];
        dims[a->dim] += a->sizes[i];
    }
    if (all_channels_last(c->in, a)) {
        tti_strides_format(dims, first->n_dims, TT_FORMAT_CHANNELS_LAST, strides);
        out =
            tti_empty_strided(dims, strides, first->n_dims, join_type(c->in, a->n), first->device);
    } else {
        out = tti_empty(dims, first->n_dims, join_type(c->in, a->n), first->device);
    }
    st = tti_made(out);
    for (int i = 0; i < a->n && st == TT_OK; i++) {
        if (a->sizes[i] < 0)
            continue;
        st = place(out, c->in[i], a->dim, at, false);
        at += a->sizes[i];
    }
    return tti_call_end(c, out, st);
}

static tt_tensor *stack_into(tti_call *c, join_attrs *a)
{
    const tt_tensor *first = c->in[0];
    int64_t dims[TT_MAX_DIMS + 1];
    tt_tensor *out;
    tt_status st;

    if (tti_wrap_dim("stack", &a->dim, first->n_dims + 1) != TT_OK)
        return NULL;
    for (int i = 0; i < a->n; i++) {
        a->sizes[i] = 1;
        if (!tti_same_shape(first, c->in[i]))
            return TT_FAIL_NULL(TT_ERR_INVALID,
                                "stack: expected equal shapes; tensor %d has %s, the first %s", i,
                                TTI_SHAPE_OF(c->in[i]), TTI_SHAPE_OF(first));
    }
    for (int i = 0, j = 0; i <= first->n_dims; i++)
        dims[i] = i == a->dim ? a->n : first->dims[j++];
    out = tti_empty(dims, first->n_dims + 1, join_type(c->in, a->n), first->device);
    st = tti_made(out);
    for (int i = 0; i < a->n && st == TT_OK; i++)
        st = place(out, c->in[i], a->dim, i, true);
    return tti_call_end(c, out, st);
}

static tt_tensor *join(const tti_op *op, tt_tensor *const *xs, int n, int dim)
{
    tti_call c = { .op = op, .in = xs, .n_in = n };
    size_t bytes = sizeof(join_attrs) + (size_t)(n > 0 ? n : 0) * sizeof(int64_t);
    _Alignas(join_attrs) char room[sizeof(join_attrs) + FEW * sizeof(int64_t)];
    join_attrs *a = (join_attrs *)(void *)room;
    tt_tensor *out;

    if (xs == NULL || n < 1 || n > UINT16_MAX)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected 1 to %d tensors, got %d", op->name,
                            UINT16_MAX, n);
    if (!tti_call_begin(&c))
        return NULL;
    if (n > FEW && (a = tti_malloc(bytes)) == NULL)
        return NULL;
    a->dim = dim;
    a->n = n;
    a->stack = op == &op_stack;
    c.attrs = a;
    c.attrs_bytes = bytes;
    out = a->stack ? stack_into(&c, a) : cat_into(&c, a);
    if (n > FEW)
        tti_mfree(a);
    return out;
}

tt_tensor *tt_cat(tt_tensor *const *xs, int n, int dim)
{
    return join(&op_cat, xs, n, dim);
}

tt_tensor *tt_stack(tt_tensor *const *xs, int n, int dim)
{
    return join(&op_stack, xs, n, dim);
}
