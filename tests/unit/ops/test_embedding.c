/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings and bags against plain loops in double; gradients dense and sparse. */
#include <tutti/sparse.h>

#include <math.h>

#include "unit/ops/nn_data.h"

enum { ROWS = 13, DIM = 70, N = 40 };

static tt_tensor *some_index(tt_shape shape, int64_t rows)
{
    tt_tensor *t = tt_empty(shape, TT_I64, TT_CPU);
    int64_t *at = tt_tensor_data(t);

    for (int64_t i = 0; i < tt_tensor_numel(t); i++)
        at[i] = nn_below(9, (uint64_t)i, rows);
    return t;
}

static tt_status status_of(const tt_tensor *t)
{
    return t != NULL ? TT_OK : tt_last_status();
}

/* ---- embedding --------------------------------------------------------------------------------- */

TT_TEST(ops_embedding, takes_rows)
{
    static const tt_dtype dtypes[] = { TT_F32, TT_F64, TT_F16, TT_BF16 };

    for (int d = 0; d < 4; d++)
        TT_SCOPE {
            tt_tensor *w = nn_values(TT_SHAPE(ROWS, DIM), dtypes[d], 1);
            tt_tensor *at = some_index(TT_SHAPE(4, 10), ROWS);
            tt_tensor *y = tt_embedding(w, d % 2 == 0 ? at : tt_to_dtype(at, TT_I32), NULL);
            const double *v = nn_read(w, 0), *out = nn_read(y, 1);

            TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(4, 10, DIM)));
            TT_CHECK_EQ(tt_tensor_dtype(y), dtypes[d]);
            for (int i = 0; i < N * DIM; i++)
                TT_REQUIRE(out[i] == v[((int64_t *)tt_tensor_data(at))[i / DIM] * DIM + i % DIM]);
        }
}

TT_TEST(ops_embedding, names_a_bad_index)
{
    TT_SCOPE {
        tt_tensor *w = nn_values(TT_SHAPE(ROWS, 3), TT_F32, 1);

        TT_CHECK_ERR_SAYS(status_of(tt_embedding(w, TT_INTS(1, 2, 13), NULL)), TT_ERR_INVALID,
                          "indices from 0 to 12, got 13 at position 2");
        TT_CHECK_ERR_SAYS(status_of(tt_embedding(w, TT_INTS(-1), NULL)), TT_ERR_INVALID,
                          "got -1 at position 0");
        TT_CHECK_ERR_SAYS(status_of(tt_embedding(w, TT_FLOATS(1), NULL)), TT_ERR_INVALID,
                          "int64 or int32");
        TT_CHECK_ERR_SAYS(status_of(tt_embedding(w, TT_INTS(1),
                                                 &(tt_embedding_options){ .has_padding_idx = true,
                                                                          .padding_idx = 13 })),
                          TT_ERR_INVALID, "padding_idx within 13 rows, got 13");
    }
}

/* The sum of dy's rows by index, without row `skip`. */
static void check_dense_grad(tt_tensor *g, const tt_tensor *at, const double *dy, int64_t skip)
{
    static double want[ROWS * DIM];
    const double *got = nn_read(g, 0);

    for (int i = 0; i < ROWS * DIM; i++)
        want[i] = 0;
    for (int i = 0; i < N; i++) {
        int64_t row = ((int64_t *)tt_tensor_data(at))[i];

        for (int d = 0; d < DIM && row != skip; d++)
            want[row * DIM + d] += dy[i * DIM + d];
    }
    for (int i = 0; i < ROWS * DIM; i++)
        TT_REQUIRE_NEAR(got[i], want[i], 1e-5);
}

TT_TEST(ops_embedding, dense_gradient_skips_padding)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(nn_values(TT_SHAPE(ROWS, DIM), TT_F32, 1));
        tt_tensor *at = some_index(TT_SHAPE(4, 10), ROWS);
        tt_tensor *dy = nn_values(TT_SHAPE(4, 10, DIM), TT_F32, 2);
        int64_t skip = *(int64_t *)tt_tensor_data(at);
        tt_embedding_options opt = { .has_padding_idx = true, .padding_idx = skip - ROWS };

        TT_REQUIRE_OK(
            tt_backward_with(tt_embedding(w, at, NULL), &(tt_backward_options){ .gradient = dy }));
        check_dense_grad(tt_grad_of(w), at, nn_read(dy, 1), -1);
        TT_REQUIRE_OK(tt_set_grad(w, NULL));
        TT_REQUIRE_OK(
            tt_backward_with(tt_embedding(w, at, &opt), &(tt_backward_options){ .gradient = dy }));
        check_dense_grad(tt_grad_of(w), at, nn_read(dy, 1), skip);
    }
}

TT_TEST(ops_embedding, sparse_gradient_equals_dense)
{
    for (int padded = 0; padded < 2; padded++)
        TT_SCOPE {
            tt_tensor *w = tt_require_grad(nn_values(TT_SHAPE(ROWS, DIM), TT_F32, 1));
            tt_tensor *at = some_index(TT_SHAPE(4, 10), ROWS);
            tt_tensor *dy = nn_values(TT_SHAPE(4, 10, DIM), TT_F32, 2);
            int64_t skip = *(int64_t *)tt_tensor_data(at);
            tt_embedding_options opt = { .has_padding_idx = padded != 0,
                                         .padding_idx = skip,
                                         .sparse_grad = true };

            TT_REQUIRE_OK(tt_backward_with(tt_embedding(w, at, &opt),
                                           &(tt_backward_options){ .gradient = dy }));
            TT_REQUIRE(tt_tensor_is_sparse(tt_grad_of(w)));
            if (padded == 0)
                TT_CHECK_EQ(tt_sparse_nnz(tt_grad_of(w)), N);
            else
                TT_CHECK_LT(tt_sparse_nnz(tt_grad_of(w)), N);
            check_dense_grad(tt_to_dense(tt_grad_of(w)), at, nn_read(dy, 1), padded ? skip : -1);
        }
}

static tt_status run_embedding(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                               int n_out)
{
    (void)n_in, (void)n_out;
    out[0] = tt_embedding(tt_mul(in[0], in[0]), ctx,
                          &(tt_embedding_options){ .has_padding_idx = true, .padding_idx = 1 });
    return status_of(out[0]);
}

TT_TEST(ops_embedding, gradients)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(nn_values(TT_SHAPE(4, 3), TT_F64, 1));

        TT_CHECK_OK(tt_gradcheck(run_embedding, TT_INTS(3, 0, 3, 2), &w, 1, 1,
                                 &(tt_gradcheck_options){ .second_order = true }));
    }
}

/* ---- bags --------------------------------------------------------------------------------------- */

typedef struct bag_case {
    tt_bag_mode mode;
    tt_dtype dtype;
    bool sampled, padded;
} bag_case;

/* Element d of bag [begin, end), in double. */
static double bag_value(const bag_case *c, const double *w, const double *f, const int64_t *at,
                        int64_t begin, int64_t end, int d)
{
    double sum = 0, best = -INFINITY;
    int64_t n = 0;

    for (int64_t i = begin; i < end; i++) {
        double v = w[at[i] * DIM + d];

        if (c->padded && at[i] == at[0])
            continue;
        n++;
        sum += c->sampled ? f[i] * v : v;
        best = v > best ? v : best;
    }
    if (n == 0)
        return 0;
    return c->mode == TT_BAG_SUM ? sum : c->mode == TT_BAG_MEAN ? sum / (double)n : best;
}

static void check_bag(const bag_case *c)
{
    static const int64_t starts[] = { 0, 3, 3, 17, 39, N };
    tt_tensor *w = nn_values(TT_SHAPE(ROWS, DIM), c->dtype, 1);
    tt_tensor *at = some_index(TT_SHAPE(N), ROWS);
    tt_tensor *f = nn_values(TT_SHAPE(N), c->dtype, 3);
    tt_tensor *offsets = TT_INTS(0, 3, 3, 17, 39);
    const int64_t *index = tt_tensor_data(at);
    tt_bag_options opt = { .mode = c->mode,
                           .per_sample_weights = c->sampled ? f : NULL,
                           .has_padding_idx = c->padded,
                           .padding_idx = index[0] };
    tt_tensor *y = tt_embedding_bag(w, at, offsets, &opt);
    const double *out = nn_read(y, 0), *rows = nn_read(w, 1), *factors = nn_read(f, 2);
    double tol = c->dtype == TT_F64 ? 1e-12 : c->dtype == TT_F32 ? 1e-5 : 0.03;

    TT_CHECK_EQ(tt_tensor_dtype(y), c->dtype);
    for (int b = 0; b < 5; b++)
        for (int d = 0; d < DIM; d++) {
            double want = bag_value(c, rows, factors, index, starts[b], starts[b + 1], d);

            TT_REQUIRE_NEAR(out[b * DIM + d], want, tol * fmax(1, fabs(want)));
        }
}

TT_TEST(ops_embedding_bag, matches_plain_sums)
{
    static const tt_dtype dtypes[] = { TT_F32, TT_F64, TT_BF16, TT_F16 };

    for (int i = 0; i < 4; i++)
        for (int padded = 0; padded < 2; padded++)
            TT_SCOPE {
                check_bag(&(bag_case){ TT_BAG_SUM, dtypes[i], false, padded });
                check_bag(&(bag_case){ TT_BAG_SUM, dtypes[i], true, padded });
                check_bag(&(bag_case){ TT_BAG_MEAN, dtypes[i], false, padded });
                check_bag(&(bag_case){ TT_BAG_MAX, dtypes[i], false, padded });
            }
}

TT_TEST(ops_embedding_bag, forms_of_input_agree)
{
    TT_SCOPE {
        tt_tensor *w = nn_values(TT_SHAPE(ROWS, 5), TT_F32, 1);
        tt_tensor *at = some_index(TT_SHAPE(4, 10), ROWS);
        tt_tensor *flat = tt_reshape(at, TT_SHAPE(40));
        tt_tensor *want = tt_embedding_bag(w, at, NULL, NULL);

        TT_CHECK(nn_same(tt_embedding_bag(w, flat, TT_INTS(0, 10, 20, 30), NULL), want, 0.0));
        TT_CHECK(nn_same(tt_embedding_bag(w, flat, TT_INTS(0, 10, 20, 30, 40),
                                          &(tt_bag_options){ .include_last_offset = true }),
                         want, 0.0));
        TT_CHECK(nn_same(tt_mean_dim(tt_embedding(w, at, NULL), 1, false), want, 1e-6));
    }
}

TT_TEST(ops_embedding_bag, says_what_is_wrong)
{
    TT_SCOPE {
        tt_tensor *w = nn_values(TT_SHAPE(ROWS, 5), TT_F32, 1), *at = TT_INTS(1, 2, 3);
        tt_tensor *ones = tt_ones(TT_SHAPE(3), TT_F32, TT_CPU);

        TT_CHECK_ERR_SAYS(status_of(tt_embedding_bag(w, TT_INTS(1, 99), TT_INTS(0), NULL)),
                          TT_ERR_INVALID, "from 0 to 12, got 99 at position 1");
        TT_CHECK_ERR_SAYS(status_of(tt_embedding_bag(w, at, TT_INTS(1), NULL)), TT_ERR_INVALID,
                          "first offset to be 0, got 1");
        TT_CHECK_ERR_SAYS(status_of(tt_embedding_bag(w, at, TT_INTS(0, 2, 1), NULL)),
                          TT_ERR_INVALID, "got 1 after 2");
        tt_clear_error();
        TT_CHECK_ERR_SAYS(status_of(tt_embedding_bag(w, at, NULL, NULL)), TT_ERR_INVALID,
                          "2-D index");
        TT_CHECK_ERR_SAYS(status_of(tt_embedding_bag(
                              w, at, TT_INTS(0), &(tt_bag_options){ .per_sample_weights = ones })),
                          TT_ERR_INVALID, "sums only");
        TT_CHECK_ERR_SAYS(
            status_of(tt_embedding_bag(
                w, at, TT_INTS(0), &(tt_bag_options){ .mode = TT_BAG_MAX, .sparse_grad = true })),
            TT_ERR_INVALID, "no sparse gradient");
    }
}

typedef struct bag_run {
    tt_bag_mode mode;
    tt_tensor *index, *offsets;
} bag_run;

static tt_status run_bag(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    const bag_run *r = ctx;
    tt_bag_options opt = { .mode = r->mode, .has_padding_idx = true, .padding_idx = 1 };

    (void)n_out;
    opt.per_sample_weights = n_in == 2 ? in[1] : NULL;
    out[0] = tt_embedding_bag(in[0], r->index, r->offsets, &opt);
    return status_of(out[0]);
}

TT_TEST(ops_embedding_bag, gradients)
{
    TT_SCOPE {
        tt_tensor *in[2] = { tt_require_grad(nn_values(TT_SHAPE(5, 3), TT_F64, 1)),
                             tt_require_grad(nn_values(TT_SHAPE(7), TT_F64, 2)) };
        bag_run r = { TT_BAG_SUM, TT_INTS(0, 4, 1, 3, 4, 4, 2), TT_INTS(0, 2, 2, 5) };
        tt_gradcheck_options twice = { .second_order = true };

        TT_CHECK_OK(tt_gradcheck(run_bag, &r, in, 2, 1, &twice));
        r.mode = TT_BAG_MEAN;
        TT_CHECK_OK(tt_gradcheck(run_bag, &r, in, 1, 1, &twice));
        r.mode = TT_BAG_MAX;
        TT_CHECK_OK(tt_gradcheck(run_bag, &r, in, 1, 1, &twice));
    }
}

static tt_tensor *weight_grad(const tt_bag_options *opt, tt_tensor *dy)
{
    tt_tensor *w = tt_require_grad(nn_values(TT_SHAPE(ROWS, DIM), TT_F32, 1));
    tt_tensor *y = tt_embedding_bag(w, some_index(TT_SHAPE(4, 10), ROWS), NULL, opt);

    TT_REQUIRE_OK(tt_backward_with(y, &(tt_backward_options){ .gradient = dy }));
    return tt_grad_of(w);
}

static void check_sparse(tt_bag_mode mode, bool padded)
{
    tt_tensor *dy = nn_values(TT_SHAPE(4, DIM), TT_F32, 4);
    tt_bag_options opt = { .mode = mode,
                           .has_padding_idx = padded,
                           .padding_idx = nn_below(9, 3, ROWS) };
    tt_tensor *dense, *sparse;

    if (mode == TT_BAG_SUM)
        opt.per_sample_weights = nn_values(TT_SHAPE(4, 10), TT_F32, 5);
    dense = weight_grad(&opt, dy);
    opt.sparse_grad = true;
    sparse = weight_grad(&opt, dy);
    TT_REQUIRE(tt_tensor_is_sparse(sparse));
    TT_CHECK_LE(tt_sparse_nnz(sparse), padded ? N - 1 : ROWS);
    TT_CHECK(padded || tt_sparse_is_coalesced(sparse));
    TT_CHECK(nn_same(tt_to_dense(sparse), dense, 1e-5));
    for (int i = 1; i < tt_sparse_nnz(sparse) && !padded; i++) {
        const double *at = nn_read(tt_sparse_indices(sparse), 0);

        TT_REQUIRE(at[i - 1] < at[i]);
    }
}

TT_TEST(ops_embedding_bag, sparse_gradient_equals_dense)
{
    for (int padded = 0; padded < 2; padded++)
        TT_SCOPE {
            check_sparse(TT_BAG_MEAN, padded != 0);
            check_sparse(TT_BAG_SUM, padded != 0);
        }
}

TT_TEST(ops_embedding_bag, same_with_any_number_of_threads)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(nn_values(TT_SHAPE(50, 300), TT_F32, 1));
        tt_tensor *at = some_index(TT_SHAPE(100, 20), 50);
        tt_tensor *y[2], *g[2];

        for (int i = 0; i < 2; i++) {
            TT_REQUIRE_OK(tt_set_num_threads(1 + 2 * i));
            y[i] = tt_embedding_bag(w, at, NULL, NULL);
            TT_REQUIRE_OK(tt_set_grad(w, NULL));
            TT_REQUIRE_OK(tt_backward(tt_sum(y[i])));
            g[i] = tt_clone(tt_grad_of(w));
        }
        TT_CHECK(nn_same(y[0], y[1], 0.0));
        TT_CHECK(nn_same(g[0], g[1], 0.0));
    }
}

static tt_status train(void *ctx)
{
    tt_status st = TT_OK;

    (void)ctx;
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(tt_ones(TT_SHAPE(5, 3), TT_BF16, TT_CPU));
        tt_tensor *at = TT_INTS(1, 2, 3);
        tt_tensor *y = tt_embedding_bag(w, at, TT_INTS(0, 2), NULL);
        tt_tensor *z = tt_embedding(w, at, NULL);

        st = y != NULL && z != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
        if (st == TT_OK)
            st = tt_backward(tt_sum(z));
    }
    return st;
}

TT_TEST(ops_embedding_bag, survives_a_lack_of_memory)
{
    TT_CHECK_GT(tt_test_fail_allocs(train, NULL), 10);
}
