/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: mm and bmm are the recorded operators; matmul arranges any other ranks into
 * one of them. */
#include "base/error.h"
#include "ops/matmul.h"

#include <math.h>

static tt_status gemm(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, const tti_gemm *g)
{
    if (out == NULL)
        return tt_last_status();
    return TTI_RUN("matmul", out, linalg, gemm, out, a, b, g);
}

/* The sizes of op(a) @ op(b). */
static void product_dims(const tt_tensor *a, const tt_tensor *b, bool trans_a, bool trans_b,
                         int64_t d[3])
{
    int n = a->n_dims;

    d[0] = a->dims[0];
    d[n - 2] = a->dims[trans_a ? n - 1 : n - 2];
    d[n - 1] = b->dims[trans_b ? n - 2 : n - 1];
}

static tt_tensor *mm_into(tt_tensor *out, const tt_tensor *a, const tt_tensor *b, bool trans_a,
                          bool trans_b)
{
    tti_gemm how = { .alpha = 1.0, .trans_a = trans_a, .trans_b = trans_b };

    return gemm(out, a, b, &how) == TT_OK ? out : NULL;
}

tt_tensor *tti_mm(const tt_tensor *a, const tt_tensor *b, bool trans_a, bool trans_b)
{
    int64_t d[3];

    if (a == NULL || b == NULL)
        return NULL; /* a view that could not be made */
    product_dims(a, b, trans_a, trans_b, d);
    return mm_into(tti_empty(d, a->n_dims, (tt_dtype)a->dtype, a->device), a, b, trans_a, trans_b);
}

tt_tensor *tti_mm_grad(const tti_node *n, int i, const tt_tensor *a, const tt_tensor *b,
                       bool trans_a, bool trans_b)
{
    int64_t d[3];

    if (a == NULL || b == NULL)
        return NULL;
    product_dims(a, b, trans_a, trans_b, d);
    return mm_into(tti_grad_new(n, i, d, a->n_dims, (tt_dtype)a->dtype, a->device), a, b, trans_a,
                   trans_b);
}

/* ---- mm and bmm --------------------------------------------------------------------------- */

/* The recorded transpose of the last two dimensions, conjugated for complex tensors. */
static tt_tensor *adjoint(tt_tensor *x)
{
    return tt_conj(tt_transpose(x, -2, -1));
}

static bool simple(const tt_tensor *g)
{
    return tti_grad_mode != TT_GRAD_ON && !tt_dtype_is_complex((tt_dtype)g->dtype);
}

static tt_status mm_backward(tti_node *n, tt_tensor *const *go, tt_tensor **gi)
{
    tt_tensor *g = go[0];
    tt_tensor *other;

    if (tti_needs(n, 0)) {
        other = tti_saved_get(n, 1);
        if (other == NULL)
            return tt_last_status();
        TT_TRY(tti_give(&gi[0], simple(g) ? tti_mm_grad(n, 0, g, other, false, true)
                                          : tt_matmul(g, adjoint(other))));
    }
    if (tti_needs(n, 1)) {
        other = tti_saved_get(n, 0);
        if (other == NULL)
            return tt_last_status();
        TT_TRY(tti_give(&gi[1], simple(g) ? tti_mm_grad(n, 1, other, g, true, false)
                                          : tt_matmul(adjoint(other), g)));
    }
    return TT_OK;
}

static const tti_op op_mm = { .name = "mm", .backward = mm_backward };
static const tti_op op_bmm = { .name = "bmm", .backward = mm_backward };

static tt_status check_product(const char *name, const tt_tensor *a, const tt_tensor *b, int rank)
{
    if (a->n_dims != rank || b->n_dims != rank)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected two %d-D tensors, got shapes %s and %s", name,
                       rank, TTI_SHAPE_OF(a), TTI_SHAPE_OF(b));
    if (a->dims[rank - 1] != b->dims[rank - 2] || (rank == 3 && a->dims[0] != b->dims[0]))
        return TT_FAIL(TT_ERR_INVALID, "%s: shapes %s and %s do not fit: %lld columns, %lld rows",
                       name, TTI_SHAPE_OF(a), TTI_SHAPE_OF(b), (long long)a->dims[rank - 1],
                       (long long)b->dims[rank - 2]);
    if (a->dtype != b->dtype)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected operands of one type, got %s and %s", name,
                       tt_dtype_name((tt_dtype)a->dtype), tt_dtype_name((tt_dtype)b->dtype));
    return TT_OK;
}

static tt_tensor *product(const tti_op *op, tt_tensor *a, tt_tensor *b, int rank)
{
    tt_tensor *in[] = { a, b };
    tti_call c = { .op = op, .n_in = 2, .in = in };

    if (!tti_call_begin(&c) || check_product(op->name, a, b, rank) != TT_OK)
        return NULL;
    tti_call_save(&c, a);
    tti_call_save(&c, b);
    return tti_call_end(&c, tti_mm(a, b, false, false), TT_OK);
}

tt_tensor *tt_mm(tt_tensor *a, tt_tensor *b)
{
    TTI_AUTOCAST(TTI_LOW, &a, &b);
    return product(&op_mm, a, b, 2);
}

tt_tensor *tt_bmm(tt_tensor *a, tt_tensor *b)
{
    TTI_AUTOCAST(TTI_LOW, &a, &b);
    return product(&op_bmm, a, b, 3);
}

/* ---- other ranks ----------------------------------------------------------------------------- */

tt_tensor *tt_dot(tt_tensor *a, tt_tensor *b)
{
    if (a == NULL || b == NULL)
        return TT_NULL_GIVEN("dot", "two tensors");
    if (a->n_dims != 1 || b->n_dims != 1)
        return TT_FAIL_NULL(TT_ERR_INVALID, "dot: expected two vectors, got shapes %s and %s",
                            TTI_SHAPE_OF(a), TTI_SHAPE_OF(b));
    return tt_squeeze(tt_mm(tt_unsqueeze(a, 0), tt_unsqueeze(b, 1)));
}

tt_tensor *tt_mv(tt_tensor *a, tt_tensor *x)
{
    if (a == NULL || x == NULL)
        return TT_NULL_GIVEN("mv", "two tensors");
    if (a->n_dims != 2 || x->n_dims != 1)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "mv: expected a matrix and a vector, got shapes %s and %s",
                            TTI_SHAPE_OF(a), TTI_SHAPE_OF(x));
    return tt_squeeze_dim(tt_mm(a, tt_unsqueeze(x, 1)), 1);
}

tt_tensor *tt_outer(tt_tensor *a, tt_tensor *b)
{
    if (a == NULL || b == NULL)
        return TT_NULL_GIVEN("outer", "two tensors");
    if (a->n_dims != 1 || b->n_dims != 1)
        return TT_FAIL_NULL(TT_ERR_INVALID, "outer: expected two vectors, got shapes %s and %s",
                            TTI_SHAPE_OF(a), TTI_SHAPE_OF(b));
    return tt_mul(tt_unsqueeze(a, 1), tt_unsqueeze(b, 0));
}

/* The leading dimensions of t replaced by `batch`, then flattened into one. */
static tt_tensor *to_batch(tt_tensor *t, const int64_t *batch, int n_batch, int64_t total)
{
    tt_shape full = { .n_dims = n_batch + 2 };
    int64_t rows = t->dims[t->n_dims - 2], cols = t->dims[t->n_dims - 1];

    for (int i = 0; i < n_batch; i++)
        full.dims[i] = batch[i];
    full.dims[n_batch] = rows;
    full.dims[n_batch + 1] = cols;
    return tt_reshape(tt_expand(t, full), TT_SHAPE(total, rows, cols));
}

static tt_tensor *matmul_batched(tt_tensor *a, tt_tensor *b)
{
    tt_shape out = { 0 };
    int n = 0;
    int64_t total;
    tt_tensor *y;

    if (tti_broadcast("matmul", a->dims, a->n_dims - 2, b->dims, b->n_dims - 2, out.dims, &n) !=
        TT_OK)
        return NULL;
    total = tti_numel(out.dims, n);
    y = tt_bmm(to_batch(a, out.dims, n, total), to_batch(b, out.dims, n, total));
    if (y == NULL)
        return NULL;
    out.dims[n] = y->dims[1];
    out.dims[n + 1] = y->dims[2];
    out.n_dims = n + 2;
    return n == 1 ? y : tt_reshape(y, out);
}

/* Rows of all batches against one matrix: a single large product. */
static tt_tensor *matmul_folded(tt_tensor *a, tt_tensor *b)
{
    tt_shape out = tt_tensor_shape(a);
    tt_tensor *y = tt_mm(tt_reshape(a, TT_SHAPE(-1, a->dims[a->n_dims - 1])), b);

    if (y == NULL)
        return NULL;
    out.dims[out.n_dims - 1] = y->dims[1];
    return tt_reshape(y, out);
}

tt_tensor *tt_matmul(tt_tensor *a, tt_tensor *b)
{
    TTI_AUTOCAST(TTI_LOW, &a, &b);
    if (a == NULL || b == NULL)
        return TT_NULL_GIVEN("matmul", "two tensors");
    if (a->n_dims == 0 || b->n_dims == 0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "matmul: expected at least one dimension, got shapes %s and %s",
                            TTI_SHAPE_OF(a), TTI_SHAPE_OF(b));
    if (a->n_dims == 2 && b->n_dims == 2)
        return tt_mm(a, b);
    if (a->n_dims == 1 && b->n_dims == 1)
        return tt_dot(a, b);
    if (a->n_dims == 1)
        return tt_squeeze_dim(tt_matmul(tt_unsqueeze(a, 0), b), -2);
    if (b->n_dims == 1)
        return tt_squeeze_dim(tt_matmul(a, tt_unsqueeze(b, 1)), -1);
    if (b->n_dims == 2 && a->numel != 0)
        return matmul_folded(a, b);
    return matmul_batched(a, b);
}

/* ---- with something added ---------------------------------------------------------------------- */

static tt_tensor *scaled(tt_tensor *t, double s)
{
    return s == 1.0 ? t : tt_mul_scalar(t, s);
}

typedef tt_tensor *(*product_fn)(tt_tensor *a, tt_tensor *b);

static tt_tensor *add_product(product_fn fn, tt_tensor *c, tt_tensor *a, tt_tensor *b, double beta,
                              double alpha)
{
    tt_tensor *ab;

    if (tt_dtype_is_integral((tt_dtype)c->dtype)) { /* and so are the numbers then */
        alpha = trunc(alpha);
        beta = trunc(beta);
    }
    ab = scaled(fn(a, b), alpha);
    if (ab != NULL && beta == 0.0) /* c is not looked at: it may hold NaN */
        return ab;
    return tt_add(scaled(c, beta), ab);
}

/* Half types are added up in float32, and rounded once. */
static tt_tensor *add_product_once(product_fn fn, tt_tensor *c, tt_tensor *a, tt_tensor *b,
                                   double beta, double alpha)
{
    tt_dtype d;
    tt_tensor *sum = NULL;

    if (a == NULL || b == NULL)
        return fn(a, b); /* which says what is missing */
    d = (tt_dtype)c->dtype;
    if ((d != TT_F16 && d != TT_BF16) || a->dtype != c->dtype || b->dtype != c->dtype)
        return add_product(fn, c, a, b, beta, alpha);
    sum = add_product(fn, tt_to_dtype(c, TT_F32), tt_to_dtype(a, TT_F32), tt_to_dtype(b, TT_F32),
                      beta, alpha);
    return sum != NULL ? tt_to_dtype(sum, d) : NULL;
}

static tt_tensor *mm_plain(tt_tensor *a, tt_tensor *b)
{
    return product(&op_mm, a, b, 2);
}

static tt_tensor *bmm_plain(tt_tensor *a, tt_tensor *b)
{
    return product(&op_bmm, a, b, 3);
}

tt_tensor *tt_addmm(tt_tensor *c, tt_tensor *a, tt_tensor *b, double beta, double alpha)
{
    TTI_AUTOCAST(TTI_LOW, &c, &a, &b);
    if (c == NULL)
        return TT_NULL_GIVEN("addmm", "three tensors");
    return add_product_once(mm_plain, c, a, b, beta, alpha);
}

tt_tensor *tt_baddbmm(tt_tensor *c, tt_tensor *a, tt_tensor *b, double beta, double alpha)
{
    TTI_AUTOCAST(TTI_LOW, &c, &a, &b);
    if (c == NULL)
        return TT_NULL_GIVEN("baddbmm", "three tensors");
    return add_product_once(bmm_plain, c, a, b, beta, alpha);
}
