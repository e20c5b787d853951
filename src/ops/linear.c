/* SPDX-License-Identifier: Apache-2.0 */
/* x @ w^T + b as one operator: the workhorse of every network, so its gradients go straight to the
 * kernels unless they must be differentiable themselves. */
#include "ops/matmul.h"

/* How many rows there are when the leading dimensions are folded into one; rows may be empty. */
static int64_t row_count(const tt_tensor *x)
{
    return tti_numel(x->dims, x->n_dims - 1);
}

/* x with its leading dimensions folded into rows; no copy when contiguous. Unrecorded. */
static tt_tensor *as_rows(tt_tensor *x)
{
    int64_t dims[2], strides[2];

    if (x == NULL || x->n_dims == 2)
        return x;
    x = tti_contiguous(x);
    if (x == NULL)
        return NULL;
    dims[1] = x->dims[x->n_dims - 1];
    dims[0] = row_count(x);
    strides[0] = dims[1];
    strides[1] = 1;
    return tti_view_raw(x, dims, strides, 2, x->offset);
}

static tt_tensor *input_grad(tt_tensor *g, tt_tensor *w)
{
    tt_tensor *dx;

    if (tti_grad_mode == TT_GRAD_ON || tt_dtype_is_complex((tt_dtype)g->dtype))
        return tt_matmul(g, tt_conj(w));
    dx = tti_mm(as_rows(g), w, false, false);
    if (dx != NULL && g->n_dims != 2) {
        tt_shape s = tt_tensor_shape(g);

        s.dims[s.n_dims - 1] = w->dims[1];
        dx = tt_reshape(dx, s);
    }
    return dx;
}

static tt_tensor *weight_grad(const tti_node *n, tt_tensor *g, tt_tensor *x)
{
    int64_t rows = row_count(x), in = x->dims[x->n_dims - 1], out = g->dims[g->n_dims - 1];

    if (tti_grad_mode == TT_GRAD_ON || tt_dtype_is_complex((tt_dtype)g->dtype))
        return tt_mm(tt_t(tt_reshape(g, TT_SHAPE(rows, out))),
                     tt_conj(tt_reshape(x, TT_SHAPE(rows, in))));
    return tti_mm_grad(n, 1, as_rows(g), as_rows(x), true, false);
}

static tt_tensor *bias_grad(tt_tensor *g)
{
    int dims[TT_MAX_DIMS];

    for (int i = 0; i < g->n_dims - 1; i++)
        dims[i] = i;
    return g->n_dims > 1 ? tt_sum_dims(g, dims, g->n_dims - 1, false) : g;
}

static tt_status linear_backward(tti_node *n, tt_tensor *const *go, tt_tensor **gi)
{
    tt_tensor *g = go[0];
    tt_tensor *x, *w;

    if (tti_needs(n, 1)) {
        x = tti_saved_get(n, 0);
        if (x == NULL)
            return tt_last_status();
        TT_TRY(tti_give(&gi[1], weight_grad(n, g, x)));
    }
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&gi[2], bias_grad(g)));
    if (tti_needs(n, 0)) {
        w = tti_saved_get(n, 1);
        if (w == NULL)
            return tt_last_status();
        TT_TRY(tti_give(&gi[0], input_grad(g, w)));
    }
    return TT_OK;
}

static const tti_op op_linear = { .name = "linear", .backward = linear_backward };

static tt_status check(const tt_tensor *x, const tt_tensor *w, const tt_tensor *b)
{
    if (w->n_dims != 2 || x->n_dims < 1 || x->dims[x->n_dims - 1] != w->dims[1])
        return TT_FAIL(TT_ERR_INVALID,
                       "linear: expected an input [..., in] and a weight [out, in], got shapes %s "
                       "and %s",
                       TTI_SHAPE_OF(x), TTI_SHAPE_OF(w));
    if (b != NULL && (b->n_dims != 1 || b->dims[0] != w->dims[0]))
        return TT_FAIL(TT_ERR_INVALID, "linear: expected a bias of shape [%lld], got %s",
                       (long long)w->dims[0], TTI_SHAPE_OF(b));
    if (x->dtype != w->dtype || (b != NULL && b->dtype != w->dtype))
        return TT_FAIL(TT_ERR_INVALID,
                       "linear: expected input, weight and bias of one type, got %s, %s and %s",
                       tt_dtype_name((tt_dtype)x->dtype), tt_dtype_name((tt_dtype)w->dtype),
                       b != NULL ? tt_dtype_name((tt_dtype)b->dtype) : "none");
    return TT_OK;
}

/* The result has x's leading sizes; the product sees them as rows. */
static tt_tensor *forward(tt_tensor *x, tt_tensor *w, tt_tensor *b)
{
    int64_t dims[TT_MAX_DIMS];
    tt_tensor *y, *rows;

    for (int i = 0; i < x->n_dims - 1; i++)
        dims[i] = x->dims[i];
    dims[x->n_dims - 1] = w->dims[0];
    y = tti_empty(dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    rows = y != NULL ? as_rows(y) : NULL;
    x = rows != NULL ? as_rows(x) : NULL;
    b = b != NULL ? tti_contiguous(b) : NULL;
    if (x == NULL)
        return NULL;
    if (TTI_RUN("linear", w, linalg, gemm, rows, x, w,
                &(tti_gemm){ .alpha = 1.0, .trans_b = true, .bias = b }) != TT_OK)
        return NULL;
    return y;
}

/* A vector is one row. */
static tt_tensor *linear_vector(tt_tensor *x, tt_tensor *w, tt_tensor *b)
{
    return tt_squeeze_dim(tt_linear(tt_unsqueeze(x, 0), w, b), 0);
}

/* A weight that is a vector makes one number of each row. */
static tt_tensor *linear_to_number(tt_tensor *x, tt_tensor *w, tt_tensor *b)
{
    tt_tensor *y;

    if (x->n_dims < 1 || x->dims[x->n_dims - 1] != w->dims[0] || (b != NULL && b->n_dims != 0))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "linear: expected an input [..., in], a weight [in] and a bias without "
                            "dimensions, got shapes %s, %s and %s",
                            TTI_SHAPE_OF(x), TTI_SHAPE_OF(w), b != NULL ? TTI_SHAPE_OF(b) : "none");
    y = tt_matmul(x, w);
    return b != NULL ? tt_add(y, b) : y;
}

tt_tensor *tt_linear(tt_tensor *x, tt_tensor *w, tt_tensor *b)
{
    tt_tensor *in[3];
    tti_call c = { .op = &op_linear, .n_in = 3, .in = in, .optional = 1u << 2 };

    TTI_AUTOCAST(TTI_LOW, &x, &w, &b);
    if (x != NULL && w != NULL && w->n_dims == 1)
        return linear_to_number(x, w, b);
    if (x != NULL && x->n_dims == 1)
        return linear_vector(x, w, b);
    in[0] = x;
    in[1] = w;
    in[2] = b;
    if (!tti_call_begin(&c) || check(x, w, b) != TT_OK)
        return NULL;
    tti_call_save(&c, x);
    tti_call_save(&c, w);
    return tti_call_end(&c, forward(x, w, b), TT_OK);
}
