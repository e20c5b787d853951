/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of reductions, and the operator that all of them are. See reduce.h. */
#include "ops/reduce.h"

tt_status tti_reduce_dims(const char *name, const tt_tensor *x, const int *dims, int n,
                          uint32_t *mask_p)
{
    uint32_t mask = 0;

    if (dims == NULL || n == 0) {
        *mask_p = (1u << x->n_dims) - 1;
        return TT_OK;
    }
    for (int i = 0; i < n; i++) {
        int d = dims[i];

        TT_TRY(tti_wrap_dim(name, &d, x->n_dims));
        if ((mask >> d & 1) != 0)
            return TT_FAIL(TT_ERR_INVALID, "%s: expected each dimension once, got %d twice", name,
                           d);
        mask |= 1u << d;
    }
    *mask_p = mask;
    return TT_OK;
}

tt_tensor *tti_reduce_empty(const tt_tensor *x, uint32_t mask, tt_dtype dtype)
{
    int64_t dims[TT_MAX_DIMS];

    for (int i = 0; i < x->n_dims; i++)
        dims[i] = (mask >> i & 1) != 0 ? 1 : x->dims[i];
    return tti_empty(dims, x->n_dims, dtype, x->device);
}

void tti_reduce_squeeze(tt_tensor *out, uint32_t mask)
{
    int n = 0;

    for (int i = 0; i < out->n_dims; i++)
        if ((mask >> i & 1) == 0) {
            out->dims[n] = out->dims[i];
            out->strides[n] = out->strides[i];
            n++;
        }
    out->n_dims = (uint8_t)n;
}

int64_t tti_reduce_count(const tt_shape *shape, uint32_t mask)
{
    int64_t n = 1;

    for (int i = 0; i < shape->n_dims; i++)
        if ((mask >> i & 1) != 0)
            n *= shape->dims[i];
    return n;
}

tt_shape tti_reduce_kept(const tti_reduce_attrs *a)
{
    tt_shape s = a->shape;

    for (int i = 0; i < s.n_dims; i++)
        if ((a->mask >> i & 1) != 0)
            s.dims[i] = 1;
    return s;
}

tt_tensor *tti_reduce_keep(tt_tensor *t, const tti_reduce_attrs *a)
{
    if (t == NULL || t->n_dims == a->shape.n_dims)
        return t;
    return tt_reshape(t, tti_reduce_kept(a));
}

tt_tensor *tti_reduce_expand(tt_tensor *t, const tti_reduce_attrs *a)
{
    if (t != NULL && tt_shape_equal(tt_tensor_shape(t), a->shape))
        return t;
    return tt_expand(tti_reduce_keep(t, a), a->shape);
}

tt_status tti_reduce_kernel(tti_reduce_op op, tt_tensor *out, const tt_tensor *x,
                            const tti_reduce_attrs *a, bool keep_dims)
{
    if (tt_unlikely(out == NULL || x == NULL))
        return tt_last_status();
    TT_TRY(TTI_RUN("reduce", x, reduce, reduce, op, out, x, a->mask, &a->p));
    if (!keep_dims)
        tti_reduce_squeeze(out, a->mask);
    return TT_OK;
}

/* Integers are added and multiplied as int64. */
static tt_tensor *as_wide(const tti_reduction *r, tt_tensor *x)
{
    bool wide = r->kernel == TTI_SUM || r->kernel == TTI_PROD;

    if (wide && (tt_dtype_is_integral((tt_dtype)x->dtype) || x->dtype == TT_BOOL))
        return tti_cast(x, TT_I64);
    return x;
}

tt_tensor *tti_reduce_call(const tti_reduction *r, tt_tensor *x, const int *dims, int n_dims)
{
    tti_reduce_attrs a = { .p = r->p };
    tti_call c = { .op = r->op, .n_in = 1, .in = &x, .attrs = &a, .attrs_bytes = sizeof a };
    tt_tensor *wide, *out;

    if (!tti_call_begin(&c) || tti_reduce_dims(r->op->name, x, dims, n_dims, &a.mask) != TT_OK)
        return NULL;
    a.shape = tt_tensor_shape(x);
    wide = as_wide(r, x);
    if (wide == NULL)
        return NULL;
    out = tti_reduce_empty(x, a.mask, r->dtype >= 0 ? (tt_dtype)r->dtype : (tt_dtype)wide->dtype);
    if ((r->save & 1) != 0)
        tti_call_save(&c, x);
    if ((r->save & 2) != 0)
        tti_call_save(&c, out);
    return tti_call_end(&c, out, tti_reduce_kernel(r->kernel, out, wide, &a, r->keep_dims));
}
