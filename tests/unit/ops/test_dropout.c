/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: what is kept, how often, and that backward draws the same numbers. */
#include "unit/ops/nn_data.h"

TT_TEST(ops_dropout, keeps_and_scales)
{
    TT_SCOPE {
        int64_t n = 60001, kept = 0;
        tt_generator *g = tt_generator_new(tt_test_seed());
        tt_tensor *y = tt_dropout(tt_ones(TT_SHAPE(n), TT_F32, TT_CPU), 0.3, true, g);
        const double *v = nn_read(y, 0);

        for (int64_t i = 0; i < n; i++) {
            TT_REQUIRE(v[i] == 0.0 || v[i] == (double)(float)(1.0 / 0.7));
            kept += v[i] != 0.0;
        }
        /* within five standard deviations */
        TT_CHECK_NEAR((double)kept / (double)n, 0.7, 5.0 * sqrt(0.21 / (double)n));
        TT_CHECK_EQ(tt_generator_get(g).offset, (n + 3) / 4);
        TT_CHECK(!nn_same(y, tt_dropout(tt_ones(TT_SHAPE(n), TT_F32, TT_CPU), 0.3, true, g), 0.0));
        tt_generator_free(g);
    }
}

/* Element i follows word i % 4 of block i / 4, in every type. */
TT_TEST(ops_dropout, follows_philox_in_every_type)
{
    static const tt_dtype dtypes[] = { TT_F32, TT_F64, TT_F16, TT_BF16 };

    TT_SCOPE {
        tt_generator *g = tt_generator_new(77);

        for (int d = 0; d < 4; d++) {
            const double *v;

            tt_generator_set(g, (tt_generator_state){ 77, 5 });
            v = nn_read(tt_dropout(tt_ones(TT_SHAPE(3, 67), dtypes[d], TT_CPU), 0.5, true, g), 0);
            for (int64_t i = 0; i < 201; i++) {
                uint32_t w = tti_philox(77, 5 + (uint64_t)i / 4, 0).w[i % 4];

                TT_REQUIRE(v[i] == (w >= 0x80000000u ? 2.0 : 0.0));
            }
        }
        tt_generator_free(g);
    }
}

TT_TEST(ops_dropout, edges)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(nn_values(TT_SHAPE(5), TT_F32, 1));
        tt_tensor *y;

        TT_CHECK_PTR(tt_dropout(x, 0.5, false, NULL), x);
        TT_CHECK_PTR(tt_dropout(x, 0.0, true, NULL), x);
        y = tt_dropout(x, 1.0, true, NULL);
        TT_CHECK(nn_same(y, tt_zeros(TT_SHAPE(5), TT_F32, TT_CPU), 0.0));
        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
        TT_CHECK(nn_same(tt_grad_of(x), tt_zeros(TT_SHAPE(5), TT_F32, TT_CPU), 0.0));
        TT_CHECK_NULL(tt_dropout(x, 1.5, true, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "from 0 to 1, got 1.5");
        TT_CHECK_NULL(tt_dropout(tt_ones(TT_SHAPE(2), TT_I64, TT_CPU), 0.5, true, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "floating");
    }
}

TT_TEST(ops_dropout, backward_drops_the_same)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(tt_ones(TT_SHAPE(7, 9), TT_F32, TT_CPU));
        tt_tensor *y = tt_dropout(tt_transpose(x, 0, 1), 0.4, true, NULL);

        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
        TT_CHECK(nn_same(tt_transpose(tt_grad_of(x), 0, 1), y, 1e-6));
    }
}

static tt_status run(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)n_in, (void)n_out;
    tt_generator_set(ctx, (tt_generator_state){ 3, 0 });
    out[0] = tt_dropout(tt_mul(in[0], in[0]), 0.5, true, ctx);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

TT_TEST(ops_dropout, gradients)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(nn_values(TT_SHAPE(3, 5), TT_F64, 2));
        tt_generator *g = tt_generator_new(3);

        TT_CHECK_OK(
            tt_gradcheck(run, g, &x, 1, 1, &(tt_gradcheck_options){ .second_order = true }));
        tt_generator_free(g);
    }
}

TT_TEST(ops_dropout, same_with_any_number_of_threads)
{
    TT_SCOPE {
        tt_tensor *x = nn_values(TT_SHAPE(50000), TT_F32, 3), *y[2];
        tt_generator *g = tt_generator_new(4);

        for (int i = 0; i < 2; i++) {
            TT_REQUIRE_OK(tt_set_num_threads(1 + 2 * i));
            tt_generator_set(g, (tt_generator_state){ 4, 0 });
            y[i] = tt_dropout(x, 0.1, true, g);
        }
        TT_CHECK(nn_same(y[0], y[1], 0.0));
        tt_generator_free(g);
    }
}
