/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers against plain loops in double, with two layers, two directions and initial states;
 * transformer layers against the same written with operators. */
#include <stdio.h>

#include "unit/nn/nn_data.h"

enum { T = 5, B = 3, I = 4, H = 3, LAYERS = 2, DIRS = 2, WIDE = DIRS * H };

typedef struct state {
    double h[LAYERS * DIRS][B][H], c[LAYERS * DIRS][B][H];
} state;

static tt_tensor *doubles(tt_shape shape, double salt)
{
    return tt_to_dtype(nn_tensor(shape, salt), TT_F64);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Row `row` of w times x, plus the bias. */
static double affine(const double *w, const double *b, int row, const double *x, int n)
{
    double sum = b[row];

    for (int i = 0; i < n; i++)
        sum += w[row * n + i] * x[i];
    return sum;
}

typedef struct cell {
    const double *w_ih, *w_hh, *b_ih, *b_hh;
    int n_in;
} cell;

static cell cell_of(const tt_module *m, int layer, int dir)
{
    int at = 4 * (layer * DIRS + dir);

    return (cell){ tt_tensor_data(tt_module_param_at(m, at)),
                   tt_tensor_data(tt_module_param_at(m, at + 1)),
                   tt_tensor_data(tt_module_param_at(m, at + 2)),
                   tt_tensor_data(tt_module_param_at(m, at + 3)), layer == 0 ? I : WIDE };
}

static void lstm_step(const cell *k, const double *x, double *h, double *c)
{
    double gate[4 * H];

    for (int g = 0; g < 4 * H; g++)
        gate[g] = affine(k->w_ih, k->b_ih, g, x, k->n_in) + affine(k->w_hh, k->b_hh, g, h, H);
    for (int j = 0; j < H; j++) {
        c[j] = sigmoid(gate[H + j]) * c[j] + sigmoid(gate[j]) * tanh(gate[2 * H + j]);
        h[j] = sigmoid(gate[3 * H + j]) * tanh(c[j]);
    }
}

static void gru_step(const cell *k, const double *x, double *h, double *c)
{
    double in[3 * H], rec[3 * H];

    (void)c;
    for (int g = 0; g < 3 * H; g++) {
        in[g] = affine(k->w_ih, k->b_ih, g, x, k->n_in);
        rec[g] = affine(k->w_hh, k->b_hh, g, h, H);
    }
    for (int j = 0; j < H; j++) {
        double r = sigmoid(in[j] + rec[j]), z = sigmoid(in[H + j] + rec[H + j]);

        h[j] = (1 - z) * tanh(in[2 * H + j] + r * rec[2 * H + j]) + z * h[j];
    }
}

typedef void (*step_fn)(const cell *k, const double *x, double *h, double *c);

/* x [B][T][I] through both layers; y [B][T][WIDE], and the last states in s. */
static void plain(const tt_module *m, step_fn step, const double *x, double *y, state *s)
{
    double below[B][T][WIDE];

    for (int layer = 0; layer < LAYERS; layer++) {
        for (int dir = 0; dir < DIRS; dir++) {
            cell k = cell_of(m, layer, dir);
            int at = layer * DIRS + dir;

            for (int i = 0; i < B * T; i++) {
                int b = i / T, t = dir == 0 ? i % T : T - 1 - i % T;
                const double *in = layer == 0 ? x + (b * T + t) * I : below[b][t];

                step(&k, in, s->h[at][b], s->c[at][b]);
                memcpy(y + (b * T + t) * WIDE + dir * H, s->h[at][b], sizeof s->h[at][b]);
            }
        }
        memcpy(below, y, sizeof below);
    }
}

static const tt_rnn_options deep = { .layers = LAYERS, .batch_first = true, .bidirectional = true };

static void check_all(const tt_tensor *t, const double *want, int n, double tol)
{
    double got[LAYERS * DIRS * B * T * WIDE];

    TT_REQUIRE_NOT_NULL(t);
    TT_REQUIRE_EQ(tt_tensor_numel(t), n);
    TT_REQUIRE_OK(tt_copy_out_f64(t, got, (size_t)n));
    for (int i = 0; i < n; i++)
        TT_CHECK_NEAR(got[i], want[i], tol);
}

static void check_rnn(bool lstm, tt_dtype dtype, bool states, double tol)
{
    tt_module *m = lstm ? tt_lstm_new(I, H, &deep) : tt_gru_new(I, H, &deep);
    double y[B * T * WIDE];
    state s = { 0 };

    TT_REQUIRE_NOT_NULL(m);
    nn_fill_params(m);
    TT_CHECK_OK(tt_module_to_dtype(m, TT_F64));
    TT_SCOPE {
        tt_tensor *x = doubles(TT_SHAPE(B, T, I), 1), *h0 = NULL, *c0 = NULL, *h, *c = NULL, *got;

        if (states) {
            h0 = doubles(TT_SHAPE(LAYERS * DIRS, B, H), 2);
            c0 = doubles(TT_SHAPE(LAYERS * DIRS, B, H), 3);
            memcpy(s.h, tt_tensor_data(h0), sizeof s.h);
            memcpy(s.c, tt_tensor_data(c0), sizeof s.c);
            h0 = tt_to_dtype(h0, dtype);
            c0 = tt_to_dtype(c0, dtype);
        }
        plain(m, lstm ? lstm_step : gru_step, tt_tensor_data(x), y, &s);
        TT_CHECK_OK(tt_module_to_dtype(m, dtype));
        x = tt_to_dtype(x, dtype);
        got = lstm ? tt_lstm_forward(m, x, h0, c0, &h, &c) : tt_gru_forward(m, x, h0, &h);
        check_all(got, y, B * T * WIDE, tol);
        check_all(h, &s.h[0][0][0], LAYERS * DIRS * B * H, tol);
        if (lstm)
            check_all(c, &s.c[0][0][0], LAYERS * DIRS * B * H, tol);
    }
    tt_module_free(m);
}

TT_TEST(sequences, lstm_of_two_layers_and_directions_is_a_plain_loop)
{
    for (int states = 0; states < 2; states++) {
        check_rnn(true, TT_F64, states, 1e-12);
        check_rnn(true, TT_F32, states, 2e-6);
    }
}

TT_TEST(sequences, gru_of_two_layers_and_directions_is_a_plain_loop)
{
    for (int states = 0; states < 2; states++) {
        check_rnn(false, TT_F64, states, 1e-12);
        check_rnn(false, TT_F32, states, 2e-6);
    }
}

static tt_status lstm_of_states(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                                int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = tt_lstm_forward(ctx, in[0], in[1], in[2], &out[1], &out[2]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status gru_of_states(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                               int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = tt_gru_forward(ctx, in[0], in[1], &out[1]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

TT_TEST(sequences, initial_and_last_states_have_gradients)
{
    tt_module *lstm = tt_lstm_new(I, H, &deep), *gru = tt_gru_new(I, H, &deep);

    nn_fill_params(lstm);
    nn_fill_params(gru);
    TT_CHECK_OK(tt_module_to_dtype(lstm, TT_F64));
    TT_CHECK_OK(tt_module_to_dtype(gru, TT_F64));
    TT_SCOPE {
        tt_tensor *in[3] = { tt_require_grad(doubles(TT_SHAPE(2, 3, I), 1)),
                             tt_require_grad(doubles(TT_SHAPE(LAYERS * DIRS, 2, H), 2)),
                             tt_require_grad(doubles(TT_SHAPE(LAYERS * DIRS, 2, H), 3)) };

        TT_CHECK_OK(tt_gradcheck(lstm_of_states, lstm, in, 3, 3, NULL));
        TT_CHECK_OK(tt_gradcheck(gru_of_states, gru, in, 2, 2, NULL));
    }
    tt_module_free(lstm);
    tt_module_free(gru);
}

/* ---- transformers ------------------------------------------------------------------------------ */

enum { E = 6, HEADS = 2, FF = 5 };

static tt_tensor *param(const tt_module *m, const char *block, const char *name)
{
    char full[64];

    snprintf(full, sizeof full, "%s.%s", block, name);
    return tt_module_param(m, full);
}

static tt_tensor *heads_of(tt_tensor *x)
{
    int64_t b = tt_tensor_size(x, 0), t = tt_tensor_size(x, 1);

    return tt_transpose(tt_reshape(x, TT_SHAPE(b, t, HEADS, E / HEADS)), 1, 2);
}

/* softmax(q k^T / sqrt(E / heads)) v by operators; q [B, T, E], kv [B, S, E]. */
static tt_tensor *attend(const tt_module *m, const char *block, tt_tensor *q, tt_tensor *kv,
                         bool causal)
{
    tt_tensor *w = param(m, block, "in_proj_weight"), *b = param(m, block, "in_proj_bias"), *p[3];
    tt_tensor *scores, *y;

    for (int i = 0; i < 3; i++)
        p[i] = heads_of(tt_linear(i == 0 ? q : kv, tt_narrow(w, 0, i * (int64_t)E, E),
                                  tt_narrow(b, 0, i * (int64_t)E, E)));
    scores = tt_div_scalar(tt_matmul(p[0], tt_transpose(p[1], -2, -1)), sqrt(E / HEADS));
    if (causal) {
        int64_t t = tt_tensor_size(q, 1);
        tt_tensor *later = tt_triu(tt_ones(TT_SHAPE(t, t), TT_F64, TT_CPU), 1);

        scores = tt_masked_fill(scores, tt_gt_scalar(later, 0), -INFINITY);
    }
    y = tt_matmul(tt_softmax(scores, -1), p[2]);
    y = tt_reshape(tt_transpose(y, 1, 2), tt_tensor_shape(q));
    return tt_linear(y, param(m, block, "out_proj.weight"), param(m, block, "out_proj.bias"));
}

static tt_tensor *normed(const tt_module *m, const char *block, tt_tensor *x)
{
    return tt_layer_norm(x, 1, param(m, block, "weight"), param(m, block, "bias"), 1e-5);
}

static tt_tensor *fed(const tt_module *m, tt_tensor *x)
{
    x = tt_gelu(tt_linear(x, param(m, "linear1", "weight"), param(m, "linear1", "bias")));
    return tt_linear(x, param(m, "linear2", "weight"), param(m, "linear2", "bias"));
}

static tt_tensor *plain_encoder(const tt_module *m, tt_tensor *x, bool first)
{
    tt_tensor *n;

    if (first) {
        n = normed(m, "norm1", x);
        x = tt_add(x, attend(m, "self_attn", n, n, true));
        return tt_add(x, fed(m, normed(m, "norm2", x)));
    }
    x = normed(m, "norm1", tt_add(x, attend(m, "self_attn", x, x, true)));
    return normed(m, "norm2", tt_add(x, fed(m, x)));
}

static tt_tensor *plain_decoder(const tt_module *m, tt_tensor *x, tt_tensor *memory, bool first)
{
    tt_tensor *n;

    if (first) {
        n = normed(m, "norm1", x);
        x = tt_add(x, attend(m, "self_attn", n, n, true));
        x = tt_add(x, attend(m, "multihead_attn", normed(m, "norm2", x), memory, false));
        return tt_add(x, fed(m, normed(m, "norm3", x)));
    }
    x = normed(m, "norm1", tt_add(x, attend(m, "self_attn", x, x, true)));
    x = normed(m, "norm2", tt_add(x, attend(m, "multihead_attn", x, memory, false)));
    return normed(m, "norm3", tt_add(x, fed(m, x)));
}

static void check_transformer(bool decoder, bool first)
{
    tt_transformer_options o = { .feedforward = FF,
                                 .dropout = -1,
                                 .batch_first = true,
                                 .norm_first = first,
                                 .activation = TT_ACT_GELU };
    tt_module *m = decoder ? tt_transformer_decoder_layer_new(E, HEADS, &o)
                           : tt_transformer_encoder_layer_new(E, HEADS, &o);

    TT_REQUIRE_NOT_NULL(m);
    nn_fill_params(m);
    TT_CHECK_OK(tt_module_to_dtype(m, TT_F64));
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(doubles(TT_SHAPE(B, T, E), 1)), *want, *got, *grad;
        tt_tensor *memory = decoder ? doubles(TT_SHAPE(B, 4, E), 2) : NULL;
        tt_tensor *scale = doubles(TT_SHAPE(B, T, E), 3);

        want = decoder ? plain_decoder(m, x, memory, first) : plain_encoder(m, x, first);
        got = tt_transformer_forward(m, x, memory, &(tt_transformer_call){ .causal = true });
        TT_REQUIRE(want != NULL && got != NULL);
        TT_CHECK(tt_allclose(got, want, &(tt_close_options){ .rtol = 1e-11, .atol = 1e-12 }));
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(want, scale))));
        grad = tt_clone(tt_grad_of(x));
        TT_CHECK_OK(tt_set_grad(x, NULL));
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(got, scale))));
        TT_CHECK(
            tt_allclose(tt_grad_of(x), grad, &(tt_close_options){ .rtol = 1e-10, .atol = 1e-11 }));
    }
    tt_module_free(m);
}

TT_TEST(sequences, encoder_layers_are_their_operators)
{
    check_transformer(false, false);
    check_transformer(false, true);
}

TT_TEST(sequences, decoder_layers_are_their_operators)
{
    check_transformer(true, false);
    check_transformer(true, true);
}
