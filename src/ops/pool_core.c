/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling between the operators and the kernels. The gradient of a maximum scatters by index, whose
 * own gradient gathers; the gradient of an average is linear, and its gradient is the average. */
#include "ops/pool.h"

tt_status tti_pool_input(const char *name, const tt_tensor *x, int spatial, tti_pool_attrs *a)
{
    int n = x->n_dims;

    if (n != spatial + 1 && n != spatial + 2)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a %d-D or %d-D input, got %s", name,
                       spatial + 1, spatial + 2, TTI_SHAPE_OF(x));
    for (int i = n - spatial; i < n; i++)
        if (x->dims[i] == 0)
            return TT_FAIL(TT_ERR_INVALID,
                           "%s: expected pooled dimensions that are not empty, "
                           "got %s",
                           name, TTI_SHAPE_OF(x));
    a->in = tt_tensor_shape(x);
    a->p.n = n == spatial + 2 ? x->dims[0] : 1;
    a->p.c = x->dims[n - spatial - 1];
    a->p.h = spatial == 2 ? x->dims[n - 2] : 1;
    a->p.w = x->dims[n - 1];
    return TT_OK;
}

void tti_pool_output(int spatial, tti_pool_attrs *a)
{
    int n = a->in.n_dims;

    a->out = a->in;
    a->out.dims[n - 1] = a->p.ow;
    if (spatial == 2)
        a->out.dims[n - 2] = a->p.oh;
}

static tt_tensor *empty_of(const tt_shape *s, tt_dtype dtype, const tt_tensor *like)
{
    return tti_empty(s->dims, s->n_dims, dtype, like->device);
}

/* What kernels compute in: contiguous, and float32 for half types, int64 for integers. */
static tt_dtype compute_type(const tt_tensor *x)
{
    if (tt_dtype_is_integral((tt_dtype)x->dtype))
        return TT_I64;
    return x->dtype == TT_F64 ? TT_F64 : TT_F32;
}

static tt_tensor *for_kernel(tt_tensor *x)
{
    return tti_cast(tti_contiguous(x), compute_type(x));
}

/* ---- maximum --------------------------------------------------------------------------------- */

static tt_tensor *as_planes(const tt_tensor *t, const tti_pool *p, int64_t size)
{
    int64_t dims[2] = { p->n * p->c, size }, strides[2] = { size, 1 };

    return tti_view_raw(t, dims, strides, 2, t->offset);
}

static tt_status scatter(tt_tensor *dx, tt_tensor *dy, tt_tensor *indices, const tti_pool *p)
{
    tt_tensor *to, *from, *at;

    TT_TRY(tti_made(dx));
    TT_TRY(tti_made(dy));
    TT_TRY(tti_give(&to, as_planes(dx, p, p->h * p->w)));
    TT_TRY(tti_give(&from, as_planes(dy, p, p->oh * p->ow)));
    TT_TRY(tti_give(&at, as_planes(indices, p, p->oh * p->ow)));
    return TTI_RUN("max_pool_grad", dx, nn, max_pool_grad, to, from, at);
}

static tt_status max_grad_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_pool_attrs *a = tti_attrs(n);
    int64_t planes = a->p.n * a->p.c;
    tt_tensor *at = tti_saved_get(n, 0);
    tt_tensor *g = tt_reshape(grad_out[0], TT_SHAPE(planes, a->p.h * a->p.w));

    at = tt_reshape(at, TT_SHAPE(planes, a->p.oh * a->p.ow));
    return tti_give(&grad_in[0], tt_reshape(tt_gather(g, 1, at), a->out));
}

static const tti_op op_max_grad = { "max_pool_grad", max_grad_backward, 0 };

static tt_tensor *max_grad(tt_tensor *dy, tt_tensor *indices, const tti_pool_attrs *a)
{
    tti_call c = { .op = &op_max_grad, .n_in = 1, .in = &dy, .attrs = a, .attrs_bytes = sizeof *a };
    tt_tensor *dx;
    tt_status st;

    if (indices == NULL || !tti_call_begin(&c))
        return NULL;
    dx = empty_of(&a->in, compute_type(dy), dy);
    tti_call_save(&c, indices);
    st = scatter(dx, for_kernel(dy), indices, &a->p);
    return tti_call_end(&c, st == TT_OK ? tti_cast(dx, (tt_dtype)dy->dtype) : NULL, st);
}

tt_status tti_pool_max_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], max_grad(grad_out[0], tti_saved_get(n, 0), tti_attrs(n)));
}

/* A window that lies in the padding alone has the lowest value, which narrow integers must hold. */
static tt_tensor *narrowed(tt_tensor *y, tt_dtype dtype)
{
    static const double lowest[] = {
        [TT_I8] = INT8_MIN, [TT_I16] = INT16_MIN, [TT_I32] = INT32_MIN
    };
    double p[2] = { 0, INT32_MAX };

    if (tt_dtype_is_integral(dtype) && dtype != TT_I64) {
        p[0] = dtype != TT_U8 ? lowest[dtype] : 0;
        if (tti_unary(TTI_CLAMP, y, y, p) != TT_OK)
            return NULL;
    }
    return tti_cast(y, dtype);
}

static tt_status find_max(tt_tensor *y, tt_tensor *indices, tt_tensor *x, const tti_pool_attrs *a)
{
    TT_TRY(tti_made(y));
    TT_TRY(tti_made(x));
    if (a->adaptive)
        return TTI_RUN("adaptive_max_pool", x, nn, adaptive_pool, y, indices, x, &a->p);
    return TTI_RUN("max_pool", x, nn, max_pool, y, indices, x, &a->p);
}

tt_tensor *tti_pool_max(const tti_op *op, tt_tensor *x, const tti_pool_attrs *a,
                        tt_tensor **indices_p)
{
    tti_call c = { .op = op, .n_in = 1, .in = &x, .attrs = a, .attrs_bytes = sizeof *a };
    tt_tensor *outs[2] = { NULL };
    tt_status st = TT_OK;

    if (!tti_call_begin(&c))
        return NULL;
    outs[0] = empty_of(&a->out, compute_type(x), x);
    if (c.wants_grad || indices_p != NULL || a->adaptive)
        st = tti_give(&outs[1], empty_of(&a->out, TT_I64, x));
    if (st == TT_OK)
        st = find_max(outs[0], outs[1], for_kernel(x), a);
    if (st == TT_OK)
        st = tti_give(&outs[0], narrowed(outs[0], (tt_dtype)x->dtype));
    tti_call_save(&c, outs[1]);
    st = tti_call_end_many(&c, outs, indices_p != NULL ? 2 : 1, st);
    if (indices_p != NULL)
        *indices_p = st == TT_OK ? outs[1] : NULL;
    return st == TT_OK ? outs[0] : NULL;
}

/* ---- average --------------------------------------------------------------------------------- */

static tt_status spread(tt_tensor *dx, tt_tensor *dy, const tti_pool_attrs *a)
{
    TT_TRY(tti_made(dx));
    TT_TRY(tti_made(dy));
    if (a->adaptive)
        return TTI_RUN("adaptive_avg_pool_grad", dx, nn, adaptive_avg_pool_grad, dx, dy, &a->p);
    return TTI_RUN("avg_pool_grad", dx, nn, avg_pool_grad, dx, dy, &a->p);
}

static const tti_op op_avg_again = { "avg_pool", tti_pool_avg_backward, 0 };

static tt_status avg_grad_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], tti_pool_avg(&op_avg_again, grad_out[0], tti_attrs(n)));
}

static const tti_op op_avg_grad = { "avg_pool_grad", avg_grad_backward, 0 };

tt_status tti_pool_avg_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const tti_pool_attrs *a = tti_attrs(n);
    tt_tensor *dy = grad_out[0];
    tti_call c = { .op = &op_avg_grad, .n_in = 1, .in = &dy, .attrs = a, .attrs_bytes = sizeof *a };
    tt_tensor *dx;
    tt_status st;

    if (!tti_call_begin(&c))
        return tt_last_status();
    dx = empty_of(&a->in, compute_type(dy), dy);
    st = spread(dx, for_kernel(dy), a);
    return tti_give(&grad_in[0],
                    tti_call_end(&c, st == TT_OK ? tti_cast(dx, (tt_dtype)dy->dtype) : NULL, st));
}

static tt_status average(tt_tensor *y, tt_tensor *x, const tti_pool_attrs *a)
{
    TT_TRY(tti_made(y));
    TT_TRY(tti_made(x));
    if (a->adaptive)
        return TTI_RUN("adaptive_avg_pool", x, nn, adaptive_pool, y, NULL, x, &a->p);
    return TTI_RUN("avg_pool", x, nn, avg_pool, y, x, &a->p);
}

tt_tensor *tti_pool_avg(const tti_op *op, tt_tensor *x, const tti_pool_attrs *a)
{
    tti_call c = { .op = op, .n_in = 1, .in = &x, .attrs = a, .attrs_bytes = sizeof *a };
    tt_tensor *y;
    tt_status st;

    if (!tti_call_begin(&c))
        return NULL;
    y = empty_of(&a->out, compute_type(x), x);
    st = average(y, for_kernel(x), a);
    return tti_call_end(&c, st == TT_OK ? tti_cast(y, (tt_dtype)x->dtype) : NULL, st);
}
