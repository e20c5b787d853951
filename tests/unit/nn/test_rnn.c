/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM and GRU against the formulas written as plain loops, and their gradients against finite
 * differences. */
#include "unit/nn/nn_data.h"

#define T 4
#define B 3
#define IN 2
#define H 3

static double sigm(double x)
{
    return 1 / (1 + exp(-x));
}

/* w [rows, n] times x [n], plus b, of row `r`. */
static double row(const tt_module *m, const char *w, const char *b, int r, const double *x, int n)
{
    const float *p = nn_data(tt_module_param(m, w)) + (size_t)r * (size_t)n;
    double sum = (double)nn_data(tt_module_param(m, b))[r];

    for (int i = 0; i < n; i++)
        sum += (double)p[i] * x[i];
    return sum;
}

static void lstm_cell(const tt_module *m, const double *x, double *h, double *c)
{
    double g[4 * H];

    for (int r = 0; r < 4 * H; r++)
        g[r] = row(m, "weight_ih_l0", "bias_ih_l0", r, x, IN) +
               row(m, "weight_hh_l0", "bias_hh_l0", r, h, H);
    for (int i = 0; i < H; i++) {
        c[i] = sigm(g[H + i]) * c[i] + sigm(g[i]) * tanh(g[2 * H + i]);
        h[i] = sigm(g[3 * H + i]) * tanh(c[i]);
    }
}

static void gru_cell(const tt_module *m, const double *x, double *h, double *c)
{
    double gi[3 * H], gh[3 * H];

    (void)c;
    for (int r = 0; r < 3 * H; r++) {
        gi[r] = row(m, "weight_ih_l0", "bias_ih_l0", r, x, IN);
        gh[r] = row(m, "weight_hh_l0", "bias_hh_l0", r, h, H);
    }
    for (int i = 0; i < H; i++) {
        double z = sigm(gi[H + i] + gh[H + i]);
        double n = tanh(gi[2 * H + i] + sigm(gi[i] + gh[i]) * gh[2 * H + i]);

        h[i] = (1 - z) * n + z * h[i];
    }
}

typedef void (*cell_fn)(const tt_module *m, const double *x, double *h, double *c);

/* y [T, B, H] from x [T, B, IN] with states from h0 and c0 [1, B, H], which are updated. */
static void reference(const tt_module *m, cell_fn cell, const float *x, double *h, double *c,
                      double *y)
{
    for (int t = 0; t < T; t++)
        for (int b = 0; b < B; b++) {
            double in[IN];

            for (int i = 0; i < IN; i++)
                in[i] = (double)x[(t * B + b) * IN + i];
            cell(m, in, h + b * H, c + b * H);
            for (int i = 0; i < H; i++)
                y[(t * B + b) * H + i] = h[b * H + i];
        }
}

static void start(double *h, const tt_tensor *h0)
{
    for (int i = 0; i < B * H; i++)
        h[i] = h0 != NULL ? (double)nn_data(h0)[i] : 0;
}

TT_TEST(rnn, lstm_matches_its_formula)
{
    tt_module *m = tt_lstm_new(IN, H, NULL);

    TT_REQUIRE_NOT_NULL(m);
    nn_check_names(tt_module_params(m, NULL),
                   NN_NAMES("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"));
    nn_fill_params(m);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(T, B, IN), 1), *h0 = nn_tensor(TT_SHAPE(1, B, H), 2),
                  *c0 = nn_tensor(TT_SHAPE(1, B, H), 3), *h, *c;
        double want[T * B * H], hs[B * H], cs[B * H];
        tt_tensor *y = tt_lstm_forward(m, x, h0, c0, &h, &c);

        start(hs, h0);
        start(cs, c0);
        reference(m, lstm_cell, nn_data(x), hs, cs, want);
        nn_check_values(y, want, T * B * H, 1e-6);
        nn_check_values(h, hs, B * H, 1e-6);
        nn_check_values(c, cs, B * H, 1e-6);
        start(hs, NULL);
        start(cs, NULL);
        reference(m, lstm_cell, nn_data(x), hs, cs, want);
        nn_check_values(tt_module_forward(m, x), want, T * B * H, 1e-6);
        TT_CHECK_NULL(tt_lstm_forward(m, x, h0, NULL, NULL, NULL));
        TT_CHECK_NULL(
            tt_lstm_forward(m, x, c0, tt_ones(TT_SHAPE(1, 1, H), TT_F32, TT_CPU), NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "initial state [1, 3, 3], got [1, 1, 3]");
    }
    tt_module_free(m);
}

TT_TEST(rnn, gru_matches_its_formula)
{
    tt_module *m = tt_gru_new(IN, H, NULL);

    TT_REQUIRE_NOT_NULL(m);
    nn_fill_params(m);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(T, B, IN), 1), *h0 = nn_tensor(TT_SHAPE(1, B, H), 2), *h;
        double want[T * B * H], hs[B * H];
        tt_tensor *y = tt_gru_forward(m, x, h0, &h);

        start(hs, h0);
        reference(m, gru_cell, nn_data(x), hs, hs, want);
        nn_check_values(y, want, T * B * H, 1e-6);
        nn_check_values(h, hs, B * H, 1e-6);
    }
    tt_module_free(m);
}

TT_TEST(rnn, both_directions_of_two_layers)
{
    tt_rnn_options o = { .layers = 2, .bidirectional = true };
    tt_module *m = tt_lstm_new(IN, H, &o), *one = tt_lstm_new(IN, H, NULL);

    nn_fill_params(m);
    TT_CHECK_EQ(tt_module_n_own_params(m), 16);
    TT_CHECK_NOT_NULL(tt_module_param(m, "weight_ih_l1_reverse"));
    TT_CHECK_EQ(tt_tensor_size(tt_module_param(m, "weight_ih_l1"), 1), 2 * H);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(T, B, IN), 1), *h, *c;
        tt_tensor *y = tt_lstm_forward(m, x, NULL, NULL, &h, &c), *r, *hr;

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(T, B, 2 * H)));
        TT_CHECK(tt_shape_equal(tt_tensor_shape(h), TT_SHAPE(4, B, H)));
        /* the last layer: forwards ends at the last time, backwards at the first */
        TT_CHECK(tt_allclose(tt_narrow(tt_select(y, 0, T - 1), 1, 0, H), tt_select(h, 0, 2), NULL));
        TT_CHECK(tt_allclose(tt_narrow(tt_select(y, 0, 0), 1, H, H), tt_select(h, 0, 3), NULL));
        /* backwards is forwards over the reversed input */
        for (int i = 0; i < 4; i++) {
            static const char *const names[] = { "weight_ih_l0", "weight_hh_l0", "bias_ih_l0",
                                                 "bias_hh_l0" };

            TT_CHECK_OK(tt_module_set_param(one, names[i], tt_module_param_at(m, 4 + i)));
        }
        r = tt_lstm_forward(one, tt_flip(x, (int[]){ 0 }, 1), NULL, NULL, &hr, NULL);
        TT_REQUIRE_NOT_NULL(r);
        TT_CHECK(tt_allclose(tt_select(hr, 0, 0), tt_select(h, 0, 1), NULL));
    }
    tt_module_free(m);
    tt_module_free(one);
}

TT_TEST(rnn, batch_first_and_single_sequences)
{
    tt_module *m = tt_gru_new(IN, H, NULL);
    tt_module *first = tt_gru_new(IN, H, &(tt_rnn_options){ .batch_first = true });

    nn_fill_params(m);
    nn_fill_params(first);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(T, B, IN), 1), *y = tt_module_forward(m, x), *z;

        z = tt_module_forward(first, tt_transpose(x, 0, 1));
        TT_CHECK(tt_allclose(tt_transpose(z, 0, 1), y, NULL));
        z = tt_module_forward(m, tt_select(x, 1, 2));
        TT_CHECK(tt_allclose(z, tt_select(y, 1, 2), NULL));
    }
    tt_module_free(m);
    tt_module_free(first);
}

/* ---- gradients -------------------------------------------------------------------------------- */

static tt_status loss_of(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    static const char *const names[] = { "weight_ih_l0", "weight_hh_l0", "bias_ih_l0",
                                         "bias_hh_l0" };

    (void)n_in;
    (void)n_out;
    out[0] = tt_module_functional_call(ctx, names, in + 1, 4, in[0]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static void check_gradients(tt_module *m)
{
    TT_CHECK_OK(tt_module_to_dtype(m, TT_F64));
    TT_SCOPE {
        tt_tensor *in[5];

        in[0] = tt_require_grad(tt_to_dtype(nn_tensor(TT_SHAPE(2, 2, IN), 5), TT_F64));
        for (int i = 0; i < 4; i++)
            in[1 + i] = tt_require_grad(tt_mul_scalar(tt_detach(tt_module_param_at(m, i)), 0.9));
        TT_CHECK_OK(tt_gradcheck(loss_of, m, in, 5, 1, NULL));
    }
    tt_module_free(m);
}

TT_TEST(rnn, lstm_gradients)
{
    tt_module *m = tt_lstm_new(IN, H, NULL);

    nn_fill_params(m);
    check_gradients(m);
}

TT_TEST(rnn, gru_gradients)
{
    tt_module *m = tt_gru_new(IN, H, NULL);

    nn_fill_params(m);
    check_gradients(m);
}

/* The float32 operator against the steps in float64: gradients of everything, from y and states. */
static tt_tensor *some_loss(tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor *c0)
{
    tt_dtype d = tt_tensor_dtype(x);
    tt_tensor *h, *c = NULL, *y;

    y = c0 != NULL ? tt_lstm_forward(m, x, h0, c0, &h, &c) : tt_gru_forward(m, x, h0, &h);
    TT_REQUIRE_NOT_NULL(y);
    y = tt_sum(tt_mul(y, tt_to_dtype(nn_tensor(tt_tensor_shape(y), 21), d)));
    y = tt_add(y, tt_sum(tt_mul(h, tt_to_dtype(nn_tensor(tt_tensor_shape(h), 22), d))));
    if (c != NULL)
        y = tt_add(y, tt_sum(tt_mul(c, tt_to_dtype(nn_tensor(tt_tensor_shape(c), 23), d))));
    return y;
}

static void check_close(const tt_tensor *a, tt_tensor *b, double tol)
{
    TT_REQUIRE(a != NULL && b != NULL);
    TT_CHECK(
        tt_allclose(a, tt_to_dtype(b, TT_F32), &(tt_close_options){ .rtol = tol, .atol = tol }));
}

static void compare_types(tt_module *m, bool lstm)
{
    tt_module *wide = tt_module_copy(m);

    TT_CHECK_OK(tt_module_to_dtype(wide, TT_F64));
    TT_SCOPE {
        tt_tensor *in[2][3];

        for (int i = 0; i < 3; i++) {
            tt_shape s = i == 0 ? TT_SHAPE(T, B, IN) : TT_SHAPE(4, B, H);

            in[0][i] = tt_require_grad(nn_tensor(s, i));
            in[1][i] = tt_require_grad(tt_to_dtype(nn_tensor(s, i), TT_F64));
        }
        TT_REQUIRE_OK(tt_backward(some_loss(m, in[0][0], in[0][1], lstm ? in[0][2] : NULL)));
        TT_REQUIRE_OK(tt_backward(some_loss(wide, in[1][0], in[1][1], lstm ? in[1][2] : NULL)));
        for (int i = 0; i < (lstm ? 3 : 2); i++)
            check_close(tt_grad_of(in[0][i]), tt_grad_of(in[1][i]), 1e-5);
        for (int i = 0; i < tt_module_n_own_params(m); i++)
            check_close(tt_grad_of(tt_module_param_at(m, i)),
                        tt_grad_of(tt_module_param_at(wide, i)), 1e-5);
    }
    tt_module_free(m);
    tt_module_free(wide);
}

TT_TEST(rnn, lstm_operator_has_the_gradients_of_the_steps)
{
    tt_module *m = tt_lstm_new(IN, H, &(tt_rnn_options){ .layers = 2, .bidirectional = true });

    nn_fill_params(m);
    compare_types(m, true);
}

TT_TEST(rnn, gru_operator_has_the_gradients_of_the_steps)
{
    tt_module *m = tt_gru_new(IN, H, &(tt_rnn_options){ .layers = 2, .bidirectional = true });

    nn_fill_params(m);
    compare_types(m, false);
}

/* The gradient of the norm of a gradient. */
static tt_tensor *second_order(tt_module *m, tt_tensor *x)
{
    tt_tensor *g = NULL, *y;

    tt_require_grad(x);
    y = tt_sum(tt_square(tt_module_forward(m, x)));
    TT_REQUIRE_OK(tt_grad(&y, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &g));
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_square(g))));
    return tt_grad_of(tt_module_param(m, "weight_hh_l0"));
}

TT_TEST(rnn, gradients_are_differentiable)
{
    for (int lstm = 0; lstm < 2; lstm++) {
        tt_module *m = lstm ? tt_lstm_new(IN, H, NULL) : tt_gru_new(IN, H, NULL), *wide;

        nn_fill_params(m);
        wide = tt_module_copy(m);
        TT_CHECK_OK(tt_module_to_dtype(wide, TT_F64));
        TT_SCOPE {
            tt_tensor *x = nn_tensor(TT_SHAPE(T, B, IN), 1);

            check_close(second_order(m, x), second_order(wide, tt_to_dtype(tt_detach(x), TT_F64)),
                        1e-5);
        }
        tt_module_free(m);
        tt_module_free(wide);
    }
}

static tt_status train_step(void *ctx)
{
    tt_module *m = ctx;
    tt_status st;

    tt_module_zero_grad(m);
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(2, 2, IN), TT_F32, TT_CPU);
        tt_tensor *loss = x != NULL ? tt_sum(tt_module_forward(m, x)) : NULL;

        st = loss != NULL ? tt_backward(loss) : tt_last_status();
    }
    return st;
}

TT_TEST(rnn, survives_every_failed_allocation)
{
    tt_module *m[] = { tt_lstm_new(IN, H, NULL), tt_gru_new(IN, H, NULL) };

    for (int i = 0; i < 2; i++) {
        TT_CHECK_GT(tt_test_fail_allocs(train_step, m[i]), 10);
        tt_module_free(m[i]);
    }
}

TT_TEST(rnn, values_and_hooks_take_states_too)
{
    tt_module *m = tt_lstm_new(IN, H, NULL);

    nn_fill_params(m);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(T, B, IN), 1), *y = tt_module_forward(m, x);
        tt_value *in = tt_value_tensor_new(x), *out = tt_module_call(m, in);

        TT_REQUIRE_NOT_NULL(out);
        TT_CHECK(tt_allclose(tt_value_as_tensor(tt_value_at(out, 0)), y, NULL));
        TT_CHECK_EQ(tt_value_count(tt_value_at(out, 1)), 2);
        tt_value_free(in);
        tt_value_free(out);
    }
    tt_module_free(m);
}
