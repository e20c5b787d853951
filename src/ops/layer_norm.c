/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm and root-mean-square norm. */
#include "ops/norm.h"

typedef struct row_attrs {
    double eps;
    int n_dims; /* normalised ones, the last */
    bool rms;
} row_attrs;

/* x seen as [rows, n]: a view on the stack, for kernels. */
static tt_tensor as_rows(const tt_tensor *x, int n_dims)
{
    tt_tensor v = *x;
    int64_t n = 1;

    for (int i = x->n_dims - n_dims; i < x->n_dims; i++)
        n *= x->dims[i];
    v.n_dims = 2;
    v.dims[0] = n > 0 ? x->numel / n : 0;
    v.dims[1] = n;
    v.strides[0] = n;
    v.strides[1] = 1;
    return v;
}

static tt_status grad_by_parts(tti_node *n, tt_tensor *g, tt_tensor *x, tt_tensor *w,
                               tt_tensor **grad_in)
{
    const row_attrs *a = tti_attrs(n);
    tti_norm_parts p = { .x = x, .w = w, .n_dims = a->n_dims, .eps = a->eps, .rms = a->rms };

    for (int i = 0; i < a->n_dims; i++)
        p.dims[i] = i - a->n_dims;
    TT_TRY(tti_norm_grad_parts(&p, g, tti_needs(n, 0) ? &grad_in[0] : NULL,
                               tti_needs(n, 1) ? &grad_in[1] : NULL));
    if (tti_needs(n, 2))
        grad_in[2] = g; /* summed to the shape of the bias by the engine */
    return TT_OK;
}

static tt_status layer_norm_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const row_attrs *a = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 0), *w = tti_has_saved(n, 1) ? tti_saved_get(n, 1) : NULL;
    tt_tensor *mean = tti_has_saved(n, 2) ? tti_saved_get(n, 2) : NULL;
    tt_tensor *rstd = tti_saved_get(n, 3), *g = grad_out[0];
    tt_tensor vx, vg, vdx;

    if (x == NULL || rstd == NULL || (w == NULL && tti_has_saved(n, 1)))
        return tt_last_status();
    if (tti_grad_mode == TT_GRAD_ON)
        return grad_by_parts(n, g, x, w, grad_in);
    x = tti_contiguous(x);
    g = tti_contiguous(g);
    if (x == NULL || g == NULL)
        return tt_last_status();
    vx = as_rows(x, a->n_dims);
    vg = as_rows(g, a->n_dims);
    if (tti_needs(n, 0)) {
        grad_in[0] = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
        TT_TRY(tti_made(grad_in[0]));
        vdx = as_rows(grad_in[0], a->n_dims);
    }
    for (int i = 1; i < 3; i++)
        if (tti_needs(n, i)) {
            grad_in[i] = tti_empty(x->dims + x->n_dims - a->n_dims, a->n_dims, (tt_dtype)x->dtype,
                                   x->device);
            TT_TRY(tti_made(grad_in[i]));
        }
    if (w != NULL && (w = tti_contiguous(tti_cast(w, (tt_dtype)x->dtype))) == NULL)
        return tt_last_status();
    return TTI_RUN("layer_norm", x, nn, layer_norm_grad, grad_in[0] != NULL ? &vdx : NULL,
                   grad_in[1], grad_in[2], &vg, &vx, w, (const tt_tensor *[2]){ mean, rstd });
}

static const tti_op op_layer_norm = { .name = "layer_norm", .backward = layer_norm_backward };
static const tti_op op_rms_norm = { .name = "rms_norm", .backward = layer_norm_backward };

/* A weight or bias must have the sizes of the normalised dimensions. */
static tt_status check_affine(const char *name, const tt_tensor *x, int n_dims, const tt_tensor *w)
{
    bool fits = w == NULL || w->n_dims == n_dims;

    for (int i = 0; w != NULL && fits && i < n_dims; i++)
        fits = w->dims[i] == x->dims[x->n_dims - n_dims + i];
    if (fits)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: expected weight and bias with the last %d dimensions of %s, got %s", name,
                   n_dims, TTI_SHAPE_OF(x), TTI_SHAPE_OF(w));
}

static tt_status check_norm(const char *name, tt_tensor *const in[3], int n_dims, bool complex_too)
{
    const tt_tensor *x = in[0];

    TT_TRY(tti_check_floating(name, x, complex_too));
    if (n_dims < 1 || n_dims > x->n_dims)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected 1 to %d dimensions to normalise, got %d", name,
                       x->n_dims, n_dims);
    TT_TRY(check_affine(name, x, n_dims, in[1]));
    TT_TRY(check_affine(name, x, n_dims, in[2]));
    return TT_OK;
}

static tt_tensor *row_norm(tt_tensor *const in[3], const row_attrs *a)
{
    tt_tensor *x = in[0], *w = in[1], *b = in[2], *y, *mean = NULL, *rstd;
    tti_call c = { .op = a->rms ? &op_rms_norm : &op_layer_norm,
                   .n_in = 3,
                   .in = in,
                   .optional = 6,
                   .attrs = a,
                   .attrs_bytes = sizeof *a };
    tt_tensor vx, vy;
    tt_dtype stat;

    if (!tti_call_begin(&c) || check_norm(c.op->name, in, a->n_dims, false) != TT_OK)
        return NULL;
    stat = x->dtype == TT_F64 ? TT_F64 : TT_F32;
    y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    x = tti_contiguous(x);
    w = tti_contiguous(tti_cast(w, (tt_dtype)in[0]->dtype));
    b = tti_contiguous(tti_cast(b, (tt_dtype)in[0]->dtype));
    if (y == NULL || x == NULL || (in[1] != NULL && w == NULL) || (in[2] != NULL && b == NULL))
        return NULL;
    vx = as_rows(x, a->n_dims);
    vy = as_rows(y, a->n_dims);
    rstd = tti_empty(vx.dims, 1, stat, x->device);
    if (rstd == NULL || (!a->rms && (mean = tti_empty(vx.dims, 1, stat, x->device)) == NULL))
        return NULL;
    tti_call_save(&c, in[0]);
    tti_call_save(&c, in[1]);
    tti_call_save(&c, mean);
    tti_call_save(&c, rstd);
    return tti_call_end(&c, y,
                        TTI_RUN(c.op->name, x, nn, layer_norm, &vy, mean, rstd, &vx, w, b, a->eps));
}

tt_tensor *tt_layer_norm(tt_tensor *x, int n_dims, tt_tensor *weight, tt_tensor *bias, double eps)
{
    tt_tensor *in[3] = { x, weight, bias };
    const row_attrs a = { .eps = eps, .n_dims = n_dims };

    TTI_AUTOCAST(TTI_WIDE, &in[0], &in[1], &in[2]);
    return row_norm(in, &a);
}

/* By the root of the mean of squares, which are complex, as in PyTorch. */
static tt_tensor *complex_rms_norm(tt_tensor *const in[3], const row_attrs *a)
{
    int dims[TT_MAX_DIMS];
    tt_tensor *y;

    if (check_norm("rms_norm", in, a->n_dims, true) != TT_OK)
        return NULL;
    for (int i = 0; i < a->n_dims; i++)
        dims[i] = i - a->n_dims;
    y = tt_mean_dims(tt_square(in[0]), dims, a->n_dims, true);
    y = tt_mul(in[0], tt_rsqrt(tt_add_scalar(y, a->eps)));
    return in[1] != NULL ? tt_mul(y, in[1]) : y;
}

tt_tensor *tt_rms_norm(tt_tensor *x, int n_dims, tt_tensor *weight, double eps)
{
    tt_tensor *in[3] = { x, weight, NULL };
    const row_attrs a = { .eps = eps, .n_dims = n_dims, .rms = true };

    TTI_AUTOCAST(TTI_WIDE, &in[0], &in[1]);
    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return complex_rms_norm(in, &a);
    return row_norm(in, &a);
}
