/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse tensors: making, coalescing, sums of all kinds, gradients that are sparse. */
#include <math.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

static const tt_close_options exact = { .exact = true };

static bool is(tt_tensor *t, tt_tensor *want)
{
    tt_close_report r;
    bool same = tt_compare(t, want, &exact, &r);

    if (!same)
        TT_FAIL_TEST("%s (%s)", r.text, tt_last_error());
    return same;
}

/* [4, 2] with entries in rows 2, 0, 2; dense [[3, 4], [0, 0], [6, 8], [0, 0]]. */
static tt_tensor *sample(void)
{
    return tt_sparse_coo(tt_view(TT_INTS(2, 0, 2), TT_SHAPE(1, 3)),
                         tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(3, 2)), TT_SHAPE(4, 2));
}

static tt_tensor *sample_dense(void)
{
    return tt_view(TT_FLOATS(3, 4, 0, 0, 6, 8, 0, 0), TT_SHAPE(4, 2));
}

TT_TEST(sparse, coalesce_sorts_and_adds)
{
    TT_SCOPE {
        tt_tensor *t = sample(), *c = tt_sparse_coalesce(t);

        TT_REQUIRE_NOT_NULL(c);
        TT_CHECK_EQ(tt_sparse_nnz(t), 3);
        TT_CHECK_EQ(tt_sparse_dims(t), 1);
        TT_CHECK(!tt_sparse_is_coalesced(t));
        TT_CHECK(tt_sparse_is_coalesced(c));
        is(tt_sparse_indices(c), tt_view(TT_INTS(0, 2), TT_SHAPE(1, 2)));
        is(tt_sparse_values(c), tt_view(TT_FLOATS(3, 4, 6, 8), TT_SHAPE(2, 2)));
        is(tt_to_dense(t), sample_dense());
        is(tt_to_dense(c), sample_dense());
        TT_CHECK_PTR(tt_sparse_coalesce(c), c);
    }
}

TT_TEST(sparse, coalesce_orders_many_keys)
{
    TT_SCOPE {
        int64_t n = 5000;
        tt_tensor *i = tt_empty(TT_SHAPE(2, n), TT_I64, TT_CPU);
        tt_tensor *v = tt_ones(TT_SHAPE(n), TT_F64, TT_CPU);
        int64_t *p = tt_tensor_data(i);
        uint64_t seed = tt_test_seed();
        tt_tensor *t, *c;

        for (int64_t k = 0; k < 2 * n; k++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            p[k] = (int64_t)(seed >> 33) % (k < n ? 700 : 3);
        }
        t = tt_sparse_coo(i, v, TT_SHAPE(700, 3));
        c = tt_sparse_coalesce(t);
        TT_REQUIRE_NOT_NULL(c);
        p = tt_tensor_data(tt_sparse_indices(c));
        n = tt_sparse_nnz(c);
        for (int64_t k = 1; k < n; k++)
            TT_REQUIRE_LT(p[k - 1] * 3 + p[n + k - 1], p[k] * 3 + p[n + k]);
        is(tt_to_dense(c), tt_to_dense(t));
        TT_CHECK_NEAR(tt_item(tt_sum(c)), 5000, 0);
    }
}

static tt_status times_dense(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    tt_tensor *s = tt_sparse_coo(ctx, in[0], TT_SHAPE(4, 2));

    (void)n_in;
    (void)n_out;
    out[0] = tt_to_dense(tt_mul(s, in[1]));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

/* The result has entries where the sparse operand has. */
TT_TEST(sparse, times_dense)
{
    TT_SCOPE {
        tt_tensor *t = sample(), *row = TT_FLOATS(10, 100), *y;
        tt_tensor *d = tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6, 7, 8), TT_SHAPE(4, 2));
        tt_tensor *at = tt_view(TT_INTS(2, 0, 2), TT_SHAPE(1, 3)), *in[2];

        y = tt_mul(t, d);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_tensor_is_sparse(y));
        TT_CHECK_EQ(tt_sparse_nnz(y), 3);
        is(tt_to_dense(y), tt_view(TT_FLOATS(3, 8, 0, 0, 30, 48, 0, 0), TT_SHAPE(4, 2)));
        is(tt_to_dense(tt_mul(d, t)), tt_to_dense(y));
        is(tt_to_dense(tt_mul(t, row)),
           tt_view(TT_FLOATS(30, 400, 0, 0, 60, 800, 0, 0), TT_SHAPE(4, 2)));
        is(tt_to_dense(tt_mul(tt_full(TT_SHAPE_SCALAR, 2, TT_F32, TT_CPU), t)),
           tt_mul_scalar(sample_dense(), 2));
        TT_CHECK_EQ(tt_tensor_dtype(tt_mul(t, tt_to_dtype(d, TT_F64))), TT_F64);
        TT_CHECK_NULL(tt_mul(t, t));
        TT_CHECK_CONTAINS(tt_last_error(), "at most one sparse tensor");
        TT_CHECK_NULL(tt_mul(t, TT_FLOATS(1, 2, 3)));
        in[0] = tt_require_grad(tt_to_dtype(tt_sparse_values(t), TT_F64));
        in[1] = tt_require_grad(tt_to_dtype(d, TT_F64));
        TT_CHECK_OK(tt_gradcheck(times_dense, at, in, 2, 1,
                                 &(tt_gradcheck_options){ .second_order = true }));
    }
}

TT_TEST(sparse, bad_parts_are_refused)
{
    TT_SCOPE {
        tt_tensor *v = TT_FLOATS(1, 2);

        TT_CHECK_NULL(tt_sparse_coo(tt_view(TT_INTS(0, 4), TT_SHAPE(1, 2)), v, TT_SHAPE(4)));
        TT_CHECK_CONTAINS(tt_last_error(),
                          "index 4 at [0, 1] is out of range for dimension 0 of size 4");
        TT_CHECK_NULL(tt_sparse_coo(tt_view(TT_INTS(0, 1), TT_SHAPE(1, 2)), v, TT_SHAPE(4, 2)));
        TT_CHECK_CONTAINS(tt_last_error(), "do not describe a tensor of shape [4, 2]");
        TT_CHECK_NULL(tt_sparse_coo(TT_INTS(0, 1), v, TT_SHAPE(4)));
        TT_CHECK_NULL(tt_sparse_values(v));
        TT_CHECK_CONTAINS(tt_last_error(), "expected a sparse tensor, got a dense one");
        TT_CHECK_NULL(tt_exp(sample()));
        TT_CHECK_CONTAINS(tt_last_error(), "use tt_to_dense");
    }
}

TT_TEST(sparse, sums_of_sparse_and_dense)
{
    TT_SCOPE {
        tt_tensor *t = sample(), *ones = tt_ones(TT_SHAPE(4, 2), TT_F32, TT_CPU);
        tt_tensor *both = tt_add(t, t), *twice = tt_mul_scalar(sample_dense(), 2);
        tt_tensor *plus = tt_add_scalar(sample_dense(), 1);

        TT_CHECK(tt_tensor_is_sparse(both));
        TT_CHECK_EQ(tt_sparse_nnz(both), 6);
        is(tt_to_dense(both), twice);
        is(tt_add(ones, t), plus);
        is(tt_add(t, ones), plus);
        is(tt_sub(t, t), tt_zeros(TT_SHAPE(4, 2), TT_F32, TT_CPU));
        is(tt_add_scaled(ones, t, -1), tt_rsub_scalar(sample_dense(), 1));
        TT_CHECK_PTR(tt_add_(ones, t), ones);
        is(ones, plus);
        TT_CHECK_PTR(tt_add_(t, sample()), t);
        is(tt_to_dense(t), twice);
        TT_CHECK_NULL(tt_add_(t, ones));
        TT_CHECK_CONTAINS(tt_last_error(), "cannot be added to a sparse one in place");
        TT_CHECK_NULL(tt_add(t, tt_ones(TT_SHAPE(4, 1), TT_F32, TT_CPU)));
        TT_CHECK_CONTAINS(tt_last_error(), "expected equal shapes");
        is(tt_add_(tt_t(tt_zeros(TT_SHAPE(2, 4), TT_F32, TT_CPU)), sample()), sample_dense());
    }
}

TT_TEST(sparse, values_change_where_they_are)
{
    TT_SCOPE {
        tt_tensor *t = sample();

        is(tt_to_dense(tt_mul_scalar(t, 3)), tt_mul_scalar(sample_dense(), 3));
        is(tt_to_dense(tt_neg(t)), tt_neg(sample_dense()));
        is(tt_to_dense(tt_to_dtype(t, TT_F64)), tt_to_dtype(sample_dense(), TT_F64));
        TT_CHECK_NEAR(tt_item(tt_sum(t)), 21, 0);
        TT_CHECK_NEAR(tt_item(tt_norm(t, 1)), 21, 0);
        TT_CHECK_NEAR(tt_item(tt_norm(t, INFINITY)), 8, 0);
        tt_tensor *copy = tt_clone(t);
        TT_CHECK_PTR(tt_mul_scalar_(t, 2), t);
        is(tt_to_dense(t), tt_mul_scalar(sample_dense(), 2));
        is(tt_to_dense(copy), sample_dense());
        TT_CHECK_PTR(tt_zero_(t), t);
        TT_CHECK_EQ(tt_sparse_nnz(t), 0);
        is(tt_to_dense(t), tt_zeros(TT_SHAPE(4, 2), TT_F32, TT_CPU));
    }
}

TT_TEST(sparse, from_dense_leaves_zeros_out)
{
    TT_SCOPE {
        tt_tensor *rows = tt_to_sparse(sample_dense(), 1);
        tt_tensor *all = tt_to_sparse(tt_view(TT_FLOATS(0, 5, 0, 7), TT_SHAPE(2, 2)), 2);

        TT_CHECK_EQ(tt_sparse_nnz(rows), 2);
        is(tt_to_dense(rows), sample_dense());
        is(tt_sparse_indices(all), tt_view(TT_INTS(0, 1, 1, 1), TT_SHAPE(2, 2)));
        is(tt_sparse_values(all), TT_FLOATS(5, 7));
        TT_CHECK_EQ(tt_sparse_nnz(tt_to_sparse(tt_zeros(TT_SHAPE(3), TT_F32, TT_CPU), 1)), 0);
        TT_CHECK_NULL(tt_to_sparse(sample_dense(), 3));
    }
}

/* w's gradient arrives sparse from one use and dense from another. */
TT_TEST(sparse, gradients_pass_through_values)
{
    TT_SCOPE {
        tt_tensor *v = tt_require_grad(tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(3, 2)));
        tt_tensor *t = tt_sparse_coo(tt_view(TT_INTS(2, 0, 2), TT_SHAPE(1, 3)), v, TT_SHAPE(4, 2));
        tt_tensor *weight = tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6, 7, 8), TT_SHAPE(4, 2));

        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(tt_to_dense(tt_mul_scalar(t, 2)), weight))));
        is(tt_grad_of(v), tt_view(TT_FLOATS(10, 12, 2, 4, 10, 12), TT_SHAPE(3, 2)));
        TT_REQUIRE_OK(tt_set_grad(v, NULL));
        t = tt_sparse_coo(tt_view(TT_INTS(2, 0, 2), TT_SHAPE(1, 3)), v, TT_SHAPE(4, 2));
        TT_REQUIRE_OK(
            tt_backward(tt_sum(tt_mul(tt_to_dense(tt_add(tt_sparse_coalesce(t), t)), weight))));
        is(tt_grad_of(v), tt_view(TT_FLOATS(10, 12, 2, 4, 10, 12), TT_SHAPE(3, 2)));
    }
}

static tt_status sparse_forward(tt_function_ctx *ctx, tt_tensor *const *in, int n_in,
                                tt_tensor **out, int n_out)
{
    (void)ctx;
    (void)n_in;
    (void)n_out;
    out[0] = tt_sum(in[0]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status sparse_backward(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                                 tt_tensor **grad_in, int n_in)
{
    (void)ctx;
    (void)grad_out;
    (void)n_out;
    (void)n_in;
    grad_in[0] = sample();
    return grad_in[0] != NULL ? TT_OK : tt_last_status();
}

static const tt_function sparse_fn = { "sparse_sum", sparse_forward, sparse_backward, NULL };

static tt_tensor *sparse_sum(tt_tensor *x)
{
    tt_tensor *out = NULL;

    return tt_function_apply(&sparse_fn, NULL, &x, 1, &out, 1) == TT_OK ? out : NULL;
}

TT_TEST(sparse, gradients_of_leaves_accumulate_in_every_mix)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(tt_zeros(TT_SHAPE(4, 2), TT_F32, TT_CPU));
        tt_tensor *ones = tt_ones(TT_SHAPE(4, 2), TT_F32, TT_CPU), *grad;

        TT_REQUIRE_OK(tt_backward(tt_add(sparse_sum(w), sparse_sum(w))));
        grad = tt_grad_of(w);
        TT_CHECK(tt_tensor_is_sparse(grad));
        is(tt_to_dense(grad), tt_mul_scalar(sample_dense(), 2));
        TT_REQUIRE_OK(tt_backward(sparse_sum(w)));
        TT_CHECK(tt_tensor_is_sparse(tt_grad_of(w)));
        is(tt_to_dense(tt_grad_of(w)), tt_mul_scalar(sample_dense(), 3));
        TT_REQUIRE_OK(tt_backward(tt_sum(w))); /* dense onto sparse: dense from here on */
        TT_CHECK(!tt_tensor_is_sparse(tt_grad_of(w)));
        is(tt_grad_of(w), tt_add(tt_mul_scalar(sample_dense(), 3), ones));
        grad = tt_grad_of(w);
        TT_REQUIRE_OK(tt_backward(sparse_sum(w))); /* sparse onto dense: in place */
        TT_CHECK_PTR(tt_grad_of(w), grad);
        is(tt_grad_of(w), tt_add(tt_mul_scalar(sample_dense(), 4), ones));
        TT_REQUIRE_OK(tt_set_grad(w, NULL));
        TT_REQUIRE_OK(tt_backward(tt_add(sparse_sum(w), tt_sum(w)))); /* both in one walk */
        is(tt_grad_of(w), tt_add(sample_dense(), ones));
    }
}

static tt_status chain(void *ctx)
{
    tt_status st = TT_OK;

    (void)ctx;
    TT_SCOPE {
        tt_tensor *t = sample();
        tt_tensor *y = tt_to_dense(tt_sparse_coalesce(tt_add(t, tt_mul_scalar(t, 2))));

        y = y != NULL ? tt_to_sparse(y, 1) : NULL;
        if (y == NULL || tt_add_(y, t) == NULL)
            st = tt_last_status();
    }
    return st;
}

TT_TEST(sparse, survives_every_failed_allocation)
{
    TT_CHECK_GT(tt_test_fail_allocs(chain, NULL), 20);
}
