/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head attention against plain loops, its masks, and transformer layers. */
#include "unit/nn/nn_data.h"

#define B 2
#define T 3
#define S 4
#define E 4
#define HEADS 2

/* Row `part * E + r` of in_proj applied to x. */
static double project(const tt_module *m, int part, int r, const float *x)
{
    const float *w = nn_data(tt_module_param(m, "in_proj_weight")) + (part * E + r) * E;
    double sum = (double)nn_data(tt_module_param(m, "in_proj_bias"))[part * E + r];

    for (int i = 0; i < E; i++)
        sum += (double)w[i] * (double)x[i];
    return sum;
}

/* Is position s hidden from t in batch b? */
typedef bool (*hidden_fn)(int b, int t, int s);

static void attend_head(const double *q, const double (*k)[E], const double (*v)[E], int head,
                        const bool *hide, double *out)
{
    double score[S], top = -INFINITY, sum = 0;
    int n = E / HEADS, from = head * n;

    for (int s = 0; s < S; s++) {
        score[s] = hide[s] ? -INFINITY : 0;
        for (int i = from; i < from + n; i++)
            score[s] += q[i] * k[s][i] / sqrt(n);
        top = fmax(top, score[s]);
    }
    for (int s = 0; s < S; s++)
        sum += score[s] = exp(score[s] - top);
    for (int i = from; i < from + n; i++) {
        out[i] = 0;
        for (int s = 0; s < S; s++)
            out[i] += score[s] / sum * v[s][i];
    }
}

/* Batch-first attention, written out. */
static void reference(const tt_module *m, const float *query, const float *key, hidden_fn hidden,
                      double *y)
{
    const float *w = nn_data(tt_module_param(m, "out_proj.weight"));
    const float *bias = nn_data(tt_module_param(m, "out_proj.bias"));

    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++) {
            double q[E], k[S][E], v[S][E], mixed[E];
            bool hide[S];

            for (int r = 0; r < E; r++) {
                q[r] = project(m, 0, r, query + (b * T + t) * E);
                for (int s = 0; s < S; s++) {
                    k[s][r] = project(m, 1, r, key + (b * S + s) * E);
                    v[s][r] = project(m, 2, r, key + (b * S + s) * E);
                }
            }
            for (int s = 0; s < S; s++)
                hide[s] = hidden(b, t, s);
            for (int head = 0; head < HEADS; head++)
                attend_head(q, (const double(*)[E])k, (const double(*)[E])v, head, hide, mixed);
            for (int r = 0; r < E; r++) {
                double *out = &y[(b * T + t) * E + r];

                *out = (double)bias[r];
                for (int i = 0; i < E; i++)
                    *out += (double)w[r * E + i] * mixed[i];
            }
        }
}

static bool none_hidden(int b, int t, int s)
{
    (void)b;
    (void)t;
    (void)s;
    return false;
}

static bool later_hidden(int b, int t, int s)
{
    (void)b;
    return s > t;
}

static bool end_hidden(int b, int t, int s)
{
    return b == 1 && s == 3 && t >= 0;
}

static bool later_or_end_hidden(int b, int t, int s)
{
    return later_hidden(b, t, s) || end_hidden(b, t, s);
}

static tt_module *attention(void)
{
    tt_module *m = tt_mha_new(E, HEADS, &(tt_mha_options){ .batch_first = true });

    TT_REQUIRE_NOT_NULL(m);
    nn_fill_params(m);
    return m;
}

static tt_tensor *later_mask(tt_dtype dtype)
{
    tt_tensor *mask = tt_triu(tt_ones(TT_SHAPE(T, S), TT_BOOL, TT_CPU), 1);

    return dtype == TT_BOOL
               ? mask
               : tt_masked_fill(tt_zeros(TT_SHAPE(T, S), TT_F32, TT_CPU), mask, -INFINITY);
}

static tt_tensor *end_mask(void)
{
    return tt_from_data((const bool[]){ 0, 0, 0, 0, 0, 0, 0, 1 }, TT_SHAPE(B, S), TT_BOOL);
}

TT_TEST(attention, matches_plain_loops_with_every_mask)
{
    tt_module *m = attention();

    nn_check_names(tt_module_params(m, NULL),
                   NN_NAMES("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"));
    TT_SCOPE {
        tt_tensor *q = nn_tensor(TT_SHAPE(B, T, E), 1), *k = nn_tensor(TT_SHAPE(B, S, E), 2);
        struct {
            hidden_fn hidden;
            tt_mha_call call;
        } rows[] = {
            { none_hidden, { 0 } },
            { later_hidden, { .causal = true } },
            { later_hidden, { .mask = later_mask(TT_BOOL) } },
            { later_hidden, { .mask = later_mask(TT_F32) } },
            { end_hidden, { .padding_mask = end_mask() } },
            { later_or_end_hidden, { .causal = true, .padding_mask = end_mask() } },
            { later_or_end_hidden, { .mask = later_mask(TT_F32), .padding_mask = end_mask() } },
        };

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            double want[B * T * E];
            tt_tensor *weights = NULL;

            reference(m, nn_data(q), nn_data(k), rows[i].hidden, want);
            nn_check_values(tt_mha_forward(m, q, k, k, &rows[i].call, NULL), want, B * T * E, 1e-5);
            nn_check_values(tt_mha_forward(m, q, k, k, &rows[i].call, &weights), want, B * T * E,
                            1e-5);
            TT_REQUIRE_NOT_NULL(weights);
            TT_CHECK(tt_shape_equal(tt_tensor_shape(weights), TT_SHAPE(B, T, S)));
            TT_CHECK_NEAR(tt_item(tt_sum(weights)), B * T, 1e-5);
        }
    }
    tt_module_free(m);
}

TT_TEST(attention, time_first_is_the_default)
{
    tt_module *m = attention(), *first = tt_mha_new(E, HEADS, NULL);

    nn_fill_params(first);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(B, T, E), 1), *y = tt_module_forward(m, x);

        TT_CHECK(tt_allclose(tt_transpose(tt_module_forward(first, tt_transpose(x, 0, 1)), 0, 1), y,
                             NULL));
        TT_CHECK_NULL(tt_module_forward(m, nn_tensor(TT_SHAPE(B, T, E + 1), 1)));
        TT_CHECK_CONTAINS(tt_last_error(), "expected a query");
        TT_CHECK_NULL(tt_mha_forward(m, x, x, x, &(tt_mha_call){ .mask = TT_FLOATS(1) }, NULL));
    }
    TT_CHECK_NULL(tt_mha_new(5, 2, NULL));
    tt_module_free(m);
    tt_module_free(first);
}

/* ---- transformers ------------------------------------------------------------------------------ */

static tt_tensor *norm(tt_module *m, const char *name, tt_tensor *x)
{
    return tt_module_run(m, name, x);
}

static tt_tensor *ffn(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "linear2", tt_gelu(tt_module_run(m, "linear1", x)));
}

TT_TEST(transformer, encoder_layer_is_attention_and_two_linear_layers)
{
    for (int first = 0; first < 2; first++) {
        tt_module *m =
            tt_transformer_encoder_layer_new(E, HEADS,
                                             &(tt_transformer_options){ .feedforward = 6,
                                                                        .dropout = -1,
                                                                        .activation = TT_ACT_GELU,
                                                                        .batch_first = true,
                                                                        .norm_first = first == 1 });

        TT_REQUIRE_NOT_NULL(m);
        nn_fill_params(m);
        TT_SCOPE {
            tt_tensor *x = nn_tensor(TT_SHAPE(B, T, E), 1), *y = tt_module_forward(m, x);
            tt_module *attn = tt_module_child(m, "self_attn");

            if (first == 1) {
                x = tt_add(x, tt_module_forward(attn, norm(m, "norm1", x)));
                x = tt_add(x, ffn(m, norm(m, "norm2", x)));
            } else {
                x = norm(m, "norm1", tt_add(x, tt_module_forward(attn, x)));
                x = norm(m, "norm2", tt_add(x, ffn(m, x)));
            }
            TT_CHECK(tt_allclose(y, x, NULL));
        }
        tt_module_free(m);
    }
}

/* One sequence without a batch dimension is a batch of one. */
static void check_lone(bool batch_first)
{
    int batch = batch_first ? 0 : 1;
    tt_module *m = tt_mha_new(E, HEADS, &(tt_mha_options){ .batch_first = batch_first });

    TT_REQUIRE_NOT_NULL(m);
    nn_fill_params(m);
    TT_SCOPE {
        tt_tensor *q = nn_tensor(TT_SHAPE(T, E), 1), *k = nn_tensor(TT_SHAPE(S, E), 2);
        tt_tensor *q1 = tt_unsqueeze(q, batch), *k1 = tt_unsqueeze(k, batch), *w, *w1, *y, *y1;
        tt_tensor *hidden = tt_from_data((const bool[]){ 0, 0, 1, 0 }, TT_SHAPE(S), TT_BOOL);
        tt_mha_call one = { .padding_mask = hidden, .per_head = true };
        tt_mha_call many = { .padding_mask = tt_unsqueeze(hidden, 0), .per_head = true };

        y = tt_mha_forward(m, q, k, k, &one, &w);
        y1 = tt_mha_forward(m, q1, k1, k1, &many, &w1);
        TT_REQUIRE(y != NULL && y1 != NULL);
        TT_CHECK(tt_equal(y, tt_squeeze_dim(y1, batch)));
        TT_CHECK(tt_equal(w, tt_squeeze_dim(w1, 0)));
        TT_CHECK_EQ(tt_tensor_dims(w), 3);
        one.per_head = false;
        TT_REQUIRE_NOT_NULL(tt_mha_forward(m, q, k, k, &one, &w));
        TT_CHECK(tt_shape_equal(tt_tensor_shape(w), TT_SHAPE(T, S)));
        y = tt_module_forward(m, q);
        TT_CHECK(tt_equal(y, tt_squeeze_dim(tt_module_forward(m, q1), batch)));
        TT_CHECK_NULL(tt_mha_forward(m, q, k1, k1, NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "3 dimensions");
    }
    tt_module_free(m);
}

TT_TEST(attention, inputs_without_a_batch)
{
    check_lone(true);
    check_lone(false);
}

TT_TEST(transformer, inputs_without_a_batch)
{
    tt_transformer_options o = { .feedforward = 6, .dropout = -1 };
    tt_module *enc = tt_transformer_encoder_layer_new(E, HEADS, &o);
    tt_module *dec = tt_transformer_decoder_layer_new(E, HEADS, &o);

    TT_REQUIRE(enc != NULL && dec != NULL);
    nn_fill_params(enc);
    nn_fill_params(dec);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(T, E), 1), *mem = nn_tensor(TT_SHAPE(S, E), 2), *y;
        tt_tensor *x1 = tt_unsqueeze(x, 1), *mem1 = tt_unsqueeze(mem, 1);

        y = tt_module_forward(enc, x);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_equal(y, tt_squeeze_dim(tt_module_forward(enc, x1), 1)));
        y = tt_transformer_forward(dec, x, mem, NULL);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_equal(y, tt_squeeze_dim(tt_transformer_forward(dec, x1, mem1, NULL), 1)));
    }
    tt_module_free(enc);
    tt_module_free(dec);
}

TT_TEST(transformer, names_are_pytorchs)
{
    tt_module *enc = tt_transformer_encoder_layer_new(E, HEADS, NULL);
    tt_module *dec = tt_transformer_decoder_layer_new(E, HEADS, NULL);
    tt_module *n = tt_layer_norm_new(TT_SHAPE(E), NULL);
    tt_module *stack = tt_transformer_encoder_new(enc, 2, n);

    nn_check_names(tt_module_params(enc, NULL),
                   NN_NAMES("self_attn.in_proj_weight", "self_attn.in_proj_bias",
                            "self_attn.out_proj.weight", "self_attn.out_proj.bias",
                            "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
                            "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"));
    TT_CHECK(tt_module_has(dec, "multihead_attn.in_proj_weight"));
    TT_CHECK(tt_module_has(dec, "norm3.weight"));
    TT_CHECK(tt_module_has(stack, "layers.1.linear2.bias"));
    TT_CHECK(tt_module_has(stack, "norm.weight"));
    TT_CHECK(tt_module_param(stack, "layers.0.norm1.weight") !=
             tt_module_param(enc, "norm1.weight"));
    TT_CHECK_NULL(tt_transformer_decoder_new(enc, 2, NULL));
    TT_CHECK_EQ(tt_tensor_size(tt_module_param(enc, "linear1.weight"), 0), 2048);
    tt_module_free(enc);
    tt_module_free(dec);
    tt_module_free(n);
    tt_module_free(stack);
}

TT_TEST(transformer, decoder_looks_at_its_memory)
{
    tt_module *layer = tt_transformer_decoder_layer_new(
        E, HEADS,
        &(tt_transformer_options){ .feedforward = 6, .dropout = -1, .batch_first = true });
    tt_module *m = tt_transformer_decoder_new(layer, 1, NULL);

    nn_fill_params(m);
    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(B, T, E), 1), *mem = nn_tensor(TT_SHAPE(B, S, E), 2), *y;
        tt_module *l = tt_module_child(m, "layers.0");
        tt_module *self = tt_module_child(l, "self_attn"),
                  *cross = tt_module_child(l, "multihead_attn");

        y = tt_transformer_forward(m, x, mem, &(tt_transformer_call){ .causal = true });
        x = norm(l, "norm1",
                 tt_add(x, tt_mha_forward(self, x, x, x, &(tt_mha_call){ .causal = true }, NULL)));
        x = norm(l, "norm2", tt_add(x, tt_mha_forward(cross, x, mem, mem, NULL, NULL)));
        x = norm(l, "norm3",
                 tt_add(x, tt_module_run(l, "linear2", tt_relu(tt_module_run(l, "linear1", x)))));
        TT_CHECK(tt_allclose(y, x, NULL));
        tt_clear_error();
        TT_CHECK_NULL(tt_module_forward(m, x));
        TT_CHECK_CONTAINS(tt_last_error(), "memory");
    }
    tt_module_free(m);
    tt_module_free(layer);
}
