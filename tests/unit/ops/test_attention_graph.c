/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where more than its kernels take part: gradients of gradients, of the mask, dropout. */
#include "harness/check_tensor.h"
#include "unit/ops/nn_data.h"

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

TT_TEST(ops_attention, gradients_of_gradients)
{
    TT_SCOPE {
        tt_tensor *in[4];
        run_options r = { 0 };
        tt_gradcheck_options twice = { .second_order = true };

        make_inputs(in, 4, 5);
        TT_CHECK_OK(tt_gradcheck(run, &r, in, 3, 1, &twice));
        r.opt.causal = true;
        TT_CHECK_OK(tt_gradcheck(run, &r, in, 3, 1, &twice));
    }
}

TT_TEST(ops_attention, gradient_of_the_mask)
{
    TT_SCOPE {
        tt_tensor *in[4];
        run_options r = { .mask_in = true };

        make_inputs(in, 4, 5);
        TT_CHECK_OK(tt_gradcheck(run, &r, in, 4, 1, NULL));
    }
}

/* The gradients of half types are those of float32, rounded once. */
TT_TEST(ops_attention, gradient_of_a_mask_of_half_type)
{
    const tt_dtype types[] = { TT_F16, TT_BF16 };

    for (int t = 0; t < 2; t++)
        TT_SCOPE {
            tt_tensor *in[4], *half[4], *wide[4];

            make_inputs(in, 9, 13);
            for (int i = 0; i < 4; i++) {
                half[i] = tt_require_grad(tt_to_dtype(tt_detach(in[i]), types[t]));
                wide[i] = tt_require_grad(tt_to_dtype(tt_detach(half[i]), TT_F32));
            }
            TT_CHECK_OK(tt_backward(tt_sum(tt_attention(
                half[0], half[1], half[2], &(tt_attention_options){ .mask = half[3] }))));
            TT_CHECK_OK(tt_backward(tt_sum(tt_attention(
                wide[0], wide[1], wide[2], &(tt_attention_options){ .mask = wide[3] }))));
            for (int i = 0; i < 4; i++)
                TT_CHECK_TENSOR(tt_grad_of(half[i]), tt_to_dtype(tt_grad_of(wide[i]), types[t]),
                                0.0);
        }
}

/* Several blocks of queries and keys: kernels against plain operators. */
TT_TEST(ops_attention, gradients_of_large_blocks)
{
    TT_SCOPE {
        tt_tensor *in[3], *grads[2][3];
        int64_t n = 300;

        for (int i = 0; i < 3; i++)
            in[i] = tt_require_grad(nn_values(TT_SHAPE(1, 2, n, 24), TT_F32, (uint64_t)i));
        for (int way = 0; way < 2; way++) {
            tt_tensor *y =
                tt_attention(in[0], in[1], in[2], &(tt_attention_options){ .causal = true });

            y = tt_sum(tt_mul(y, y));
            TT_REQUIRE_OK(
                tt_grad(&y, 1, in, 3, &(tt_grad_options){ .create_graph = way == 1 }, grads[way]));
        }
        for (int i = 0; i < 3; i++)
            TT_CHECK(nn_same(grads[0][i], grads[1][i], 2e-5));
    }
}

TT_TEST(ops_attention, dropout_and_its_gradients)
{
    TT_SCOPE {
        tt_tensor *in[4];
        tt_generator *g = tt_generator_new(5);
        run_options r = { .opt = { .dropout_p = 0.4, .generator = g } };

        make_inputs(in, 5, 7);
        TT_CHECK_OK(tt_gradcheck(run, &r, in, 3, 1, NULL));
        TT_CHECK_OK(
            tt_gradcheck(run, &r, in, 3, 1, &(tt_gradcheck_options){ .second_order = true }));
        TT_CHECK_EQ(tt_generator_get(g).offset, 2 * 5 * 2);
        tt_generator_free(g);
    }
}

/* With equal weights and v of ones, a result is the share of the keys that were kept. */
TT_TEST(ops_attention, dropout_keeps_what_philox_says)
{
    TT_SCOPE {
        tt_generator *g = tt_generator_new(11);
        tt_tensor *zero = tt_zeros(TT_SHAPE(3, 2, 90, 4), TT_F32, TT_CPU);
        tt_tensor *y = tt_attention(zero, zero, tt_ones(TT_SHAPE(3, 2, 90, 4), TT_F32, TT_CPU),
                                    &(tt_attention_options){ .dropout_p = 0.25, .generator = g });
        const double *out = nn_read(y, 0);

        for (uint64_t row = 0; row < 540; row++) {
            int kept = 0;

            for (uint64_t c = 0; c < 90; c++)
                kept += tti_philox(11, row * 23 + c / 4, 0).w[c % 4] >= 0x40000000u;
            TT_REQUIRE_NEAR(out[row * 4], kept / 90.0 / 0.75, 1e-5);
        }
        tt_generator_free(g);
    }
}
