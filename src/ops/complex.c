/* SPDX-License-Identifier: Apache-2.0 */
/* Complex tensors and the real ones they are made of. Parts are views: every second element of the
 * storage, seen as real numbers. */
#include "ops/elementwise.h"
#include "tensor/debug.h"

/* ---- conjugate --------------------------------------------------------------------------------- */

static tt_status conj_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_conj(g[0]));
}

static const tti_elementwise op_conj = { { "conj", conj_backward, 0 }, TTI_CONJ, TTI_PROMOTE, 0 };

tt_tensor *tt_conj(tt_tensor *x)
{
    if (tti_alive(x, "conj") && !tt_dtype_is_complex((tt_dtype)x->dtype))
        return x;
    return tti_apply1(&op_conj, x, NULL, 0);
}

/* x times i, or times -i */
static tt_status times_i_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out);
static const tti_elementwise op_times_i = {
    { "times_i", times_i_backward, 0 }, TTI_MUL_S, TTI_PROMOTE, 0
};

static tt_tensor *times_i(tt_tensor *x, double sign)
{
    double p[2] = { 0, sign };

    return tti_apply1(&op_times_i, x, p, 2);
}

static tt_status times_i_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], times_i(g[0], -tti_attr(n, 1)));
}

/* ---- views ------------------------------------------------------------------------------------- */

static tt_dtype complex_of(tt_dtype d)
{
    return d == TT_F64 ? TT_C128 : TT_C64;
}

static tt_dtype real_of(tt_dtype d)
{
    return d == TT_C128 ? TT_F64 : TT_F32;
}

static tt_status real_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_to_dtype(g[0], complex_of((tt_dtype)g[0]->dtype)));
}

static tt_status imag_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], times_i(tt_to_dtype(g[0], complex_of((tt_dtype)g[0]->dtype)), 1.0));
}

static tt_status view_as_real_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_view_as_complex(tt_contiguous(g[0])));
}

static tt_status view_as_complex_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_view_as_real(g[0]));
}

static const tti_op op_real = { "real", real_backward, 0 };
static const tti_op op_imag = { "imag", imag_backward, 0 };
static const tti_op op_view_as_real = { "view_as_real", view_as_real_backward, 0 };
static const tti_op op_view_as_complex = { "view_as_complex", view_as_complex_backward, 0 };

static tt_tensor *end_view(tti_call *c, tt_tensor *v)
{
    tt_tensor *x = c->in[0];

    if (v != NULL && c->wants_grad)
        v->base = tt_tensor_retain(x->base != NULL ? x->base : x);
    return tti_call_end(c, v, tti_made(v));
}

static tt_status check_complex(const char *name, const tt_tensor *x)
{
    if (tt_dtype_is_complex((tt_dtype)x->dtype))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected a complex tensor, got %s", name,
                   tt_dtype_name((tt_dtype)x->dtype));
}

/* The parts as real numbers: all strides double, with `n_dims` of them or one more of size 2. */
static tt_tensor *parts(const tt_tensor *x, int n_dims, int64_t part)
{
    int64_t dims[TT_MAX_DIMS + 1], strides[TT_MAX_DIMS + 1];
    tt_tensor *v;

    for (int i = 0; i < x->n_dims; i++) {
        dims[i] = x->dims[i];
        strides[i] = 2 * x->strides[i];
    }
    dims[x->n_dims] = 2;
    strides[x->n_dims] = 1;
    v = tti_view_raw(x, dims, strides, n_dims, 2 * x->offset + part);
    if (v != NULL)
        v->dtype = (uint8_t)real_of((tt_dtype)x->dtype);
    return v;
}

tt_tensor *tt_real(tt_tensor *x)
{
    tti_call c = { .op = &op_real, .n_in = 1, .in = &x };

    if (tti_alive(x, "real") && !tt_dtype_is_complex((tt_dtype)x->dtype))
        return x;
    return tti_call_begin(&c) ? end_view(&c, parts(x, x->n_dims, 0)) : NULL;
}

tt_tensor *tt_imag(tt_tensor *x)
{
    tti_call c = { .op = &op_imag, .n_in = 1, .in = &x };

    if (!tti_call_begin(&c) || check_complex("imag", x) != TT_OK)
        return NULL;
    return end_view(&c, parts(x, x->n_dims, 1));
}

tt_tensor *tt_view_as_real(tt_tensor *x)
{
    tti_call c = { .op = &op_view_as_real, .n_in = 1, .in = &x };

    if (!tti_call_begin(&c) || check_complex("view_as_real", x) != TT_OK)
        return NULL;
    return end_view(&c, parts(x, x->n_dims + 1, 0));
}

tt_tensor *tt_view_as_complex(tt_tensor *x)
{
    tti_call c = { .op = &op_view_as_complex, .n_in = 1, .in = &x };
    int64_t strides[TT_MAX_DIMS];
    tt_tensor *v;
    int n;

    if (!tti_call_begin(&c))
        return NULL;
    n = x->n_dims - 1;
    if ((x->dtype != TT_F32 && x->dtype != TT_F64) || n < 0 || x->dims[n] != 2)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "view_as_complex: expected float32 or float64 with a last dimension "
                            "of 2, got %s of shape %s",
                            tt_dtype_name((tt_dtype)x->dtype), TTI_SHAPE_OF(x));
    for (int i = 0; i < n; i++)
        strides[i] = x->strides[i] / 2;
    for (int i = 0; i < n; i++)
        if (x->strides[i] % 2 != 0 && x->dims[i] != 1)
            n = -1;
    if (n < 0 || x->strides[n] != 1 || x->offset % 2 != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "view_as_complex: the two parts are not side by side in memory: make "
                            "it contiguous first");
    v = tti_view_raw(x, x->dims, strides, n, x->offset / 2);
    if (v != NULL)
        v->dtype = (uint8_t)complex_of((tt_dtype)x->dtype);
    return end_view(&c, v);
}
