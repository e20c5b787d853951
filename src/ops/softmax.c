/* SPDX-License-Identifier: Apache-2.0 */
/* softmax and log_softmax. */
#include "ops/op.h"

typedef struct softmax_attrs {
    int dim;
    bool log;
} softmax_attrs;

/* Sizes of x as [outer, n, inner] around dim. */
static void split_at(const tt_tensor *x, int dim, int64_t *n_p, int64_t *inner_p)
{
    *n_p = x->n_dims > 0 ? x->dims[dim] : 1;
    *inner_p = 1;
    for (int i = dim + 1; i < x->n_dims; i++)
        *inner_p *= x->dims[i];
}

/* The same in operators that can be differentiated again. */
static tt_tensor *grad_by_parts(tt_tensor *g, tt_tensor *y, const softmax_attrs *a)
{
    if (a->log)
        return tt_sub(g, tt_mul(tt_exp(y), tt_sum_dim(g, a->dim, true)));
    return tt_mul(y, tt_sub(g, tt_sum_dim(tt_mul(g, y), a->dim, true)));
}

static tt_status softmax_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const softmax_attrs *a = tti_attrs(n);
    tt_tensor *y = tti_saved_get(n, 0), *g = grad_out[0], *dx;
    int64_t size, inner;

    if (y == NULL)
        return tt_last_status();
    if (tti_grad_mode == TT_GRAD_ON || !TTI_HAS_KERNEL(y, nn, softmax_grad))
        return tti_give(grad_in, grad_by_parts(g, y, a));
    g = tti_contiguous(g);
    dx = tti_empty(y->dims, y->n_dims, (tt_dtype)y->dtype, y->device);
    if (g == NULL || dx == NULL)
        return tt_last_status();
    split_at(y, a->dim, &size, &inner);
    TT_TRY(TTI_RUN("softmax_grad", y, nn, softmax_grad, dx, g, y, size, inner, a->log));
    return tti_give(grad_in, dx);
}

static const tti_op op_softmax = { .name = "softmax", .backward = softmax_backward };
static const tti_op op_log_softmax = { .name = "log_softmax", .backward = softmax_backward };

static tt_tensor *softmax(const tti_op *op, tt_tensor *x, int dim, bool log)
{
    softmax_attrs a = { .log = log };
    tti_call c = { .op = op, .n_in = 1, .in = &x, .attrs = &a, .attrs_bytes = sizeof a };
    tt_tensor *flat, *y;
    int64_t n, inner;

    TTI_AUTOCAST(TTI_WIDE, &x);
    if (!tti_call_begin(&c) || tti_check_floating(op->name, x, false) != TT_OK ||
        tti_wrap_dim(op->name, &dim, x->n_dims) != TT_OK)
        return NULL;
    a.dim = dim;
    flat = tti_contiguous(x);
    y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    if (flat == NULL || y == NULL)
        return NULL;
    split_at(x, dim, &n, &inner);
    tti_call_save(&c, y);
    return tti_call_end(&c, y, TTI_RUN(op->name, x, nn, softmax, y, flat, n, inner, log));
}

tt_tensor *tt_softmax(tt_tensor *x, int dim)
{
    return softmax(&op_softmax, x, dim, false);
}

tt_tensor *tt_log_softmax(tt_tensor *x, int dim)
{
    return softmax(&op_log_softmax, x, dim, true);
}
