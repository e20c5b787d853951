/* SPDX-License-Identifier: Apache-2.0 */
/* Attention against plain loops in double, for many shapes; gradients against finite differences and
 * against those of the composite. */
#include "unit/ops/nn_data.h"

typedef struct attention_case {
    int64_t batch, heads, l, s, e, v;
    bool causal;
    enum { NO_MASK, BOOL_MASK, FLOAT_MASK, ROW_MASK } mask;
    double scale;
} attention_case;

static const attention_case cases[] = {
    { 1, 1, 1, 1, 1, 1, false, NO_MASK, 0 },       { 2, 3, 7, 5, 4, 6, false, NO_MASK, 0 },
    { 2, 2, 33, 33, 16, 16, true, NO_MASK, 0 },    { 1, 2, 70, 300, 20, 24, false, NO_MASK, 0.3 },
    { 1, 1, 130, 270, 64, 64, true, NO_MASK, 0 },  { 1, 1, 300, 70, 33, 17, true, NO_MASK, 0 },
    { 2, 2, 65, 66, 32, 48, false, BOOL_MASK, 0 }, { 2, 2, 12, 40, 8, 8, false, FLOAT_MASK, 0 },
    { 2, 2, 12, 40, 8, 8, true, ROW_MASK, 0 },     { 1, 1, 5, 600, 8, 40, false, NO_MASK, 0 },
};

static tt_tensor *mask_of(const attention_case *c, tt_dtype dtype)
{
    switch (c->mask) {
    case NO_MASK:
        return NULL;
    case BOOL_MASK:
        return tt_to_dtype(
            tt_floor(tt_add_scalar(nn_values(TT_SHAPE(c->batch, 1, c->l, c->s), TT_F32, 9), 1.4)),
            TT_BOOL);
    case FLOAT_MASK:
        return nn_values(TT_SHAPE(c->l, c->s), dtype, 9);
    default:
        return nn_values(TT_SHAPE(c->heads, 1, c->s), dtype, 9);
    }
}

/* What the mask adds to score (b, h, i, j). */
static double mask_at(const attention_case *c, const double *m, int64_t b, int64_t h, int64_t i,
                      int64_t j)
{
    if (c->causal && j > i)
        return -INFINITY;
    switch (c->mask) {
    case NO_MASK:
        return 0;
    case BOOL_MASK:
        return m[(b * c->l + i) * c->s + j] != 0 ? 0 : -INFINITY;
    case FLOAT_MASK:
        return m[i * c->s + j];
    default:
        return m[h * c->s + j];
    }
}

/* One row of the result. */
static void expect_row(const attention_case *c, const double *const qkvm[4], int64_t bh, int64_t i,
                       double *out)
{
    static double w[1024];
    const double *q = qkvm[0] + (bh * c->l + i) * c->e;
    double most = -INFINITY, sum = 0;

    for (int64_t j = 0; j < c->s; j++) {
        const double *k = qkvm[1] + (bh * c->s + j) * c->e;

        w[j] = 0;
        for (int64_t d = 0; d < c->e; d++)
            w[j] += q[d] * k[d];
        w[j] = w[j] * (c->scale != 0 ? c->scale : 1 / sqrt((double)c->e)) +
               mask_at(c, qkvm[3], bh / c->heads, bh % c->heads, i, j);
        most = w[j] > most ? w[j] : most;
    }
    for (int64_t j = 0; j < c->s; j++) {
        w[j] = most == -INFINITY ? 0 : exp(w[j] - most);
        sum += w[j];
    }
    for (int64_t d = 0; d < c->v; d++) {
        out[d] = 0;
        for (int64_t j = 0; j < c->s; j++)
            out[d] += sum > 0 ? w[j] / sum * qkvm[2][(bh * c->s + j) * c->v + d] : 0;
    }
}

static void check_case(const attention_case *c, tt_dtype dtype, double tol)
{
    static double all[4][65536];
    static double want[256];
    tt_tensor *t[5] = { nn_values(TT_SHAPE(c->batch, c->heads, c->l, c->e), dtype, 1),
                        nn_values(TT_SHAPE(c->batch, c->heads, c->s, c->e), dtype, 2),
                        nn_values(TT_SHAPE(c->batch, c->heads, c->s, c->v), dtype, 3),
                        mask_of(c, dtype) };
    const double *const in[4] = { all[0], all[1], all[2], all[3] };
    tt_tensor *y = tt_attention(
        t[0], t[1], t[2],
        &(tt_attention_options){ .causal = c->causal, .mask = t[3], .scale = c->scale });
    const double *out = nn_read(y, 0);

    TT_CHECK_EQ(tt_tensor_dtype(y), dtype);
    for (int i = 0; i < 4; i++)
        if (t[i] != NULL)
            TT_REQUIRE_OK(tt_copy_out_f64(t[i], all[i], (size_t)tt_tensor_numel(t[i])));
    for (int64_t r = 0; r < c->batch * c->heads * c->l; r++) {
        expect_row(c, in, r / c->l, r % c->l, want);
        for (int64_t d = 0; d < c->v; d++)
            TT_REQUIRE_NEAR(out[r * c->v + d], want[d], tol);
    }
}

TT_TEST(ops_attention, matches_plain_loops)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        TT_SCOPE {
            check_case(&cases[i], TT_F64, 1e-12);
            check_case(&cases[i], TT_F32, 2e-6);
            check_case(&cases[i], TT_BF16, 2e-2);
            check_case(&cases[i], TT_F16, 2e-3);
        }
}

/* q, k, v as views of one projection [B, T, 3, H, D]. */
static void split_fused(tt_tensor *fused, tt_tensor *qkv[3])
{
    static const int order[] = { 2, 0, 3, 1, 4 };
    tt_tensor *p = tt_permute(fused, order, 5);

    for (int i = 0; i < 3; i++)
        qkv[i] = tt_select(p, 0, i);
}

TT_TEST(ops_attention, takes_views_of_a_fused_projection)
{
    TT_SCOPE {
        tt_tensor *fused = tt_require_grad(nn_values(TT_SHAPE(2, 40, 3, 3, 16), TT_F32, 4));
        tt_tensor *qkv[3], *y, *z, *g;
        tt_attention_options opt = { .causal = true };

        split_fused(fused, qkv);
        y = tt_attention(qkv[0], qkv[1], qkv[2], &opt);
        z = tt_attention(tt_contiguous(qkv[0]), tt_contiguous(qkv[1]), tt_contiguous(qkv[2]), &opt);
        TT_CHECK(nn_same(y, z, 0.0));
        /* Heads are joined without a copy. */
        TT_CHECK(tt_tensor_is_contiguous(tt_transpose(y, 1, 2), TT_FORMAT_CONTIGUOUS));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, y))));
        g = tt_clone(tt_grad_of(fused));
        TT_REQUIRE_OK(tt_set_grad(fused, NULL));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(z, z))));
        TT_CHECK(nn_same(tt_grad_of(fused), g, 1e-5));
    }
}

TT_TEST(ops_attention, any_number_of_leading_dimensions)
{
    TT_SCOPE {
        tt_tensor *q = nn_values(TT_SHAPE(2, 3, 2, 5, 4), TT_F32, 1);
        tt_tensor *k = nn_values(TT_SHAPE(2, 1, 2, 6, 4), TT_F32, 2);
        tt_tensor *v = nn_values(TT_SHAPE(6, 3), TT_F32, 3);
        tt_tensor *y = tt_attention(q, k, v, NULL);
        tt_tensor *one =
            tt_attention(tt_select(tt_select(tt_select(q, 0, 1), 0, 2), 0, 1),
                         tt_select(tt_select(tt_select(k, 0, 1), 0, 0), 0, 1), v, NULL);

        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(2, 3, 2, 5, 3)));
        TT_CHECK(nn_same(tt_select(tt_select(tt_select(y, 0, 1), 0, 2), 0, 1), one, 0.0));
    }
}

TT_TEST(ops_attention, rows_that_see_nothing_are_zero)
{
    TT_SCOPE {
        tt_tensor *q = tt_require_grad(nn_values(TT_SHAPE(3, 8), TT_F32, 1));
        tt_tensor *k = tt_require_grad(nn_values(TT_SHAPE(3, 8), TT_F32, 2));
        tt_tensor *v = tt_require_grad(nn_values(TT_SHAPE(3, 8), TT_F32, 3));
        tt_tensor *mask =
            tt_reshape(tt_to_dtype(TT_FLOATS(1, 1, 1, 0, 0, 0, 0, 1, 0), TT_BOOL), TT_SHAPE(3, 3));
        tt_tensor *y = tt_attention(q, k, v, &(tt_attention_options){ .mask = mask });
        tt_tensor *zero = tt_zeros(TT_SHAPE(8), TT_F32, TT_CPU);

        TT_CHECK(nn_same(tt_select(y, 0, 1), zero, 0.0));
        TT_CHECK(nn_same(tt_select(y, 0, 2), tt_select(v, 0, 1), 1e-6));
        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
        TT_CHECK(nn_same(tt_select(tt_grad_of(q), 0, 1), zero, 0.0));
        for (int i = 0; i < 24; i++)
            TT_REQUIRE(isfinite(nn_read(tt_grad_of(k), 0)[i]));
    }
}

/* ---- gradients --------------------------------------------------------------------------------- */

typedef struct run_options {
    tt_attention_options opt;
    bool mask_in; /* the mask is input 3 */
} run_options;

static tt_status run(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    run_options *r = ctx;

    (void)n_in, (void)n_out;
    if (r->mask_in)
        r->opt.mask = in[3];
    if (r->opt.generator != NULL)
        tt_generator_set(r->opt.generator, (tt_generator_state){ 5, 0 });
    out[0] = tt_attention(in[0], in[1], in[2], &r->opt);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static void make_inputs(tt_tensor *in[4], int64_t l, int64_t s)
{
    in[0] = tt_require_grad(nn_values(TT_SHAPE(2, 1, l, 3), TT_F64, 1));
    in[1] = tt_require_grad(nn_values(TT_SHAPE(2, 1, s, 3), TT_F64, 2));
    in[2] = tt_require_grad(nn_values(TT_SHAPE(2, 1, s, 5), TT_F64, 3));
    in[3] = tt_require_grad(nn_values(TT_SHAPE(l, s), TT_F64, 4));
}

TT_TEST(ops_attention, gradients)
{
    TT_SCOPE {
        tt_tensor *in[4];
        run_options r = { 0 };

        make_inputs(in, 6, 4);
        TT_CHECK_OK(tt_gradcheck(run, &r, in, 3, 1, NULL));
        r.opt.causal = true;
        TT_CHECK_OK(tt_gradcheck(run, &r, in, 3, 1, NULL));
        r.opt.mask = tt_detach(in[3]);
        TT_CHECK_OK(tt_gradcheck(run, &r, in, 3, 1, NULL));
    }
}

/* ---- the rest ------------------------------------------------------------------------------------ */

static tt_status status_of(const tt_tensor *t)
{
    return t != NULL ? TT_OK : tt_last_status();
}

TT_TEST(ops_attention, says_what_is_wrong)
{
    TT_SCOPE {
        tt_tensor *q = nn_values(TT_SHAPE(2, 4, 8), TT_F32, 1);
        tt_tensor *k = nn_values(TT_SHAPE(2, 5, 7), TT_F32, 1);
        tt_tensor *mask = nn_values(TT_SHAPE(3, 4), TT_F32, 1);

        TT_CHECK_ERR_SAYS(status_of(tt_attention(q, k, k, NULL)), TT_ERR_INVALID,
                          "got [2, 4, 8], [2, 5, 7] and [2, 5, 7]");
        TT_CHECK_ERR_SAYS(status_of(tt_attention(q, q, tt_to_dtype(q, TT_F64), NULL)),
                          TT_ERR_INVALID, "one type");
        TT_CHECK_ERR_SAYS(status_of(tt_attention(q, q, q, &(tt_attention_options){ .mask = mask })),
                          TT_ERR_INVALID, "broadcasts to [2, 4, 4], got [3, 4]");
        TT_CHECK_ERR_SAYS(
            status_of(tt_attention(q, q, q, &(tt_attention_options){ .dropout_p = 1.0 })),
            TT_ERR_INVALID, "got 1");
    }
}

TT_TEST(ops_attention, same_with_any_number_of_threads)
{
    TT_SCOPE {
        tt_tensor *in[3], *y[2], *g[2][3];

        for (int i = 0; i < 3; i++)
            in[i] = tt_require_grad(nn_values(TT_SHAPE(1, 3, 200, 32), TT_F32, (uint64_t)i));
        for (int way = 0; way < 2; way++) {
            tt_tensor *sum;

            TT_REQUIRE_OK(tt_set_num_threads(way == 0 ? 1 : 4));
            y[way] = tt_attention(in[0], in[1], in[2], &(tt_attention_options){ .causal = true });
            sum = tt_sum(y[way]);
            TT_REQUIRE_OK(tt_grad(&sum, 1, in, 3, NULL, g[way]));
        }
        TT_CHECK(nn_same(y[0], y[1], 0.0));
        for (int i = 0; i < 3; i++)
            TT_CHECK(nn_same(g[0][i], g[1][i], 0.0));
    }
}

static tt_status train(void *ctx)
{
    tt_status st = TT_OK;

    (void)ctx;
    TT_SCOPE {
        tt_tensor *q = tt_require_grad(tt_ones(TT_SHAPE(2, 2, 4, 4), TT_BF16, TT_CPU));
        tt_tensor *mask = tt_ones(TT_SHAPE(4, 4), TT_BOOL, TT_CPU);
        tt_tensor *y = tt_attention(q, q, q, &(tt_attention_options){ .mask = mask });

        st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
    }
    return st;
}

TT_TEST(ops_attention, survives_a_lack_of_memory)
{
    TT_CHECK_GT(tt_test_fail_allocs(train, NULL), 10);
}
