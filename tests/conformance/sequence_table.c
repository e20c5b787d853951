/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table of layers: those that run over sequences. */
#include "conformance/layer_table.h"

#define SQRT6 2.4494897427831781

/* Two copies of a layer and a norm at the end. */
static const tt_transformer_options stacked = { .feedforward = 6, .dropout = -1 };

static tt_module *stack(tt_module *layer,
                        tt_module *(*make)(const tt_module *layer, int n, tt_module *norm))
{
    tt_module *norm = tt_layer_norm_new(TT_SHAPE(4), NULL), *m = make(layer, 2, norm);

    tt_module_free(layer);
    tt_module_free(norm);
    return m;
}

static tt_module *make_lstm(void)
{
    return tt_lstm_new(3, 4, NULL);
}

static tt_module *make_lstm_deep(void)
{
    return tt_lstm_new(
        2, 4, &(tt_rnn_options){ .layers = 2, .batch_first = true, .bidirectional = true });
}

static tt_module *make_gru(void)
{
    return tt_gru_new(3, 4, NULL);
}

static tt_module *make_gru_deep(void)
{
    return tt_gru_new(2, 4,
                      &(tt_rnn_options){ .layers = 2, .batch_first = true, .bidirectional = true });
}

static tt_module *make_mha(void)
{
    return tt_mha_new(4, 2, NULL);
}

static tt_module *make_encoder_layer(void)
{
    return tt_transformer_encoder_layer_new(4, 2, &(tt_transformer_options){ .feedforward = 6 });
}

static tt_module *make_encoder_layer_norm_first(void)
{
    return tt_transformer_encoder_layer_new(4, 2,
                                            &(tt_transformer_options){ .feedforward = 6,
                                                                       .dropout = -1,
                                                                       .norm_first = true,
                                                                       .batch_first = true,
                                                                       .activation = TT_ACT_GELU });
}

static tt_module *make_decoder_layer(void)
{
    return tt_transformer_decoder_layer_new(
        4, 2, &(tt_transformer_options){ .feedforward = 6, .dropout = -1 });
}

static tt_module *make_encoder(void)
{
    return stack(tt_transformer_encoder_layer_new(4, 2, &stacked), tt_transformer_encoder_new);
}

static tt_module *make_decoder(void)
{
    return stack(tt_transformer_decoder_layer_new(4, 2, &stacked), tt_transformer_decoder_new);
}

const layer_row sequence_rows[] = {
    {
        .name = "lstm",
        .make = make_lstm,
        .text = "LSTM(3, 4)",
        .in = { 3, { 3, 2, 3 } },
        .out = { 3, { 3, 2, 4 } },
        .bad = { 3, { 3, 2, 4 } },
        .error = "LSTM: expected",
        .state = { { "weight_ih_l0", { 2, { 16, 3 } }, UNIFORM, 0.5 },
                   { "weight_hh_l0", { 2, { 16, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l0", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "bias_hh_l0", { 1, { 16 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "lstm_deep",
        .make = make_lstm_deep,
        .text = "LSTM(2, 4, num_layers=2, batch_first=True, bidirectional=True)",
        .in = { 3, { 2, 3, 2 } },
        .out = { 3, { 2, 3, 8 } },
        .bad = { 3, { 3, 2, 4 } },
        .error = "LSTM: expected",
        .state = { { "weight_ih_l0", { 2, { 16, 2 } }, UNIFORM, 0.5 },
                   { "weight_hh_l0", { 2, { 16, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l0", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "bias_hh_l0", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "weight_ih_l0_reverse", { 2, { 16, 2 } }, UNIFORM, 0.5 },
                   { "weight_hh_l0_reverse", { 2, { 16, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l0_reverse", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "bias_hh_l0_reverse", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "weight_ih_l1", { 2, { 16, 8 } }, UNIFORM, 0.5 },
                   { "weight_hh_l1", { 2, { 16, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l1", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "bias_hh_l1", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "weight_ih_l1_reverse", { 2, { 16, 8 } }, UNIFORM, 0.5 },
                   { "weight_hh_l1_reverse", { 2, { 16, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l1_reverse", { 1, { 16 } }, UNIFORM, 0.5 },
                   { "bias_hh_l1_reverse", { 1, { 16 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "gru",
        .make = make_gru,
        .text = "GRU(3, 4)",
        .in = { 3, { 3, 2, 3 } },
        .out = { 3, { 3, 2, 4 } },
        .bad = { 3, { 3, 2, 4 } },
        .error = "GRU: expected",
        .state = { { "weight_ih_l0", { 2, { 12, 3 } }, UNIFORM, 0.5 },
                   { "weight_hh_l0", { 2, { 12, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l0", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "bias_hh_l0", { 1, { 12 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "gru_deep",
        .make = make_gru_deep,
        .text = "GRU(2, 4, num_layers=2, batch_first=True, bidirectional=True)",
        .in = { 3, { 2, 3, 2 } },
        .out = { 3, { 2, 3, 8 } },
        .bad = { 3, { 3, 2, 4 } },
        .error = "GRU: expected",
        .state = { { "weight_ih_l0", { 2, { 12, 2 } }, UNIFORM, 0.5 },
                   { "weight_hh_l0", { 2, { 12, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l0", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "bias_hh_l0", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "weight_ih_l0_reverse", { 2, { 12, 2 } }, UNIFORM, 0.5 },
                   { "weight_hh_l0_reverse", { 2, { 12, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l0_reverse", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "bias_hh_l0_reverse", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "weight_ih_l1", { 2, { 12, 8 } }, UNIFORM, 0.5 },
                   { "weight_hh_l1", { 2, { 12, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l1", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "bias_hh_l1", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "weight_ih_l1_reverse", { 2, { 12, 8 } }, UNIFORM, 0.5 },
                   { "weight_hh_l1_reverse", { 2, { 12, 4 } }, UNIFORM, 0.5 },
                   { "bias_ih_l1_reverse", { 1, { 12 } }, UNIFORM, 0.5 },
                   { "bias_hh_l1_reverse", { 1, { 12 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "mha",
        .make = make_mha,
        .text = "MultiheadAttention(\n  (out_proj): Linear(in_features=4, out_features=4, "
                "bias=True)\n)",
        .in = { 3, { 3, 2, 4 } },
        .out = { 3, { 3, 2, 4 } },
        .bad = { 3, { 3, 2, 5 } },
        .error = "MultiheadAttention: expected",
        .state = { { "in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "out_proj.bias", { 1, { 4 } }, ZEROS } },
    },
    {
        .name = "encoder_layer",
        .make = make_encoder_layer,
        .text = "  (linear1): Linear(in_features=4, out_features=6, bias=True)\n  (dropout): "
                "Dropout(p=0.1, inplace=False)\n  (linear2): Linear(in_features=6, out_features=4, "
                "bias=True)",
        .in = { 3, { 3, 2, 4 } },
        .out = { 3, { 3, 2, 4 } },
        .modes = RANDOM,
        .bad = { 3, { 3, 2, 5 } },
        .error = "MultiheadAttention: expected",
        .state = { { "self_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "self_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "self_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "self_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "linear1.weight", { 2, { 6, 4 } }, UNIFORM, 0.5 },
                   { "linear1.bias", { 1, { 6 } }, UNIFORM, 0.5 },
                   { "linear2.weight", { 2, { 4, 6 } }, UNIFORM, 1 / SQRT6 },
                   { "linear2.bias", { 1, { 4 } }, UNIFORM, 1 / SQRT6 },
                   { "norm1.weight", { 1, { 4 } }, ONES },
                   { "norm1.bias", { 1, { 4 } }, ZEROS },
                   { "norm2.weight", { 1, { 4 } }, ONES },
                   { "norm2.bias", { 1, { 4 } }, ZEROS } },
    },
    {
        .name = "encoder_layer_norm_first",
        .make = make_encoder_layer_norm_first,
        .text = "(norm2): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)",
        .in = { 3, { 3, 2, 4 } },
        .out = { 3, { 3, 2, 4 } },
        .bad = { 3, { 3, 2, 5 } },
        .error = "expected",
        .state = { { "self_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "self_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "self_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "self_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "linear1.weight", { 2, { 6, 4 } }, UNIFORM, 0.5 },
                   { "linear1.bias", { 1, { 6 } }, UNIFORM, 0.5 },
                   { "linear2.weight", { 2, { 4, 6 } }, UNIFORM, 1 / SQRT6 },
                   { "linear2.bias", { 1, { 4 } }, UNIFORM, 1 / SQRT6 },
                   { "norm1.weight", { 1, { 4 } }, ONES },
                   { "norm1.bias", { 1, { 4 } }, ZEROS },
                   { "norm2.weight", { 1, { 4 } }, ONES },
                   { "norm2.bias", { 1, { 4 } }, ZEROS } },
    },
    {
        .name = "decoder_layer",
        .make = make_decoder_layer,
        .text = "(multihead_attn): MultiheadAttention(",
        .in = { 3, { 3, 2, 4 } },
        .out = { 3, { 3, 2, 4 } },
        .in2 = { 3, { 2, 2, 4 } },
        .bad = { 3, { 3, 2, 5 } },
        .error = "MultiheadAttention: expected",
        .state = { { "self_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "self_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "self_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "self_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "multihead_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "multihead_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "multihead_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "multihead_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "linear1.weight", { 2, { 6, 4 } }, UNIFORM, 0.5 },
                   { "linear1.bias", { 1, { 6 } }, UNIFORM, 0.5 },
                   { "linear2.weight", { 2, { 4, 6 } }, UNIFORM, 1 / SQRT6 },
                   { "linear2.bias", { 1, { 4 } }, UNIFORM, 1 / SQRT6 },
                   { "norm1.weight", { 1, { 4 } }, ONES },
                   { "norm1.bias", { 1, { 4 } }, ZEROS },
                   { "norm2.weight", { 1, { 4 } }, ONES },
                   { "norm2.bias", { 1, { 4 } }, ZEROS },
                   { "norm3.weight", { 1, { 4 } }, ONES },
                   { "norm3.bias", { 1, { 4 } }, ZEROS } },
    },
    {
        .name = "encoder",
        .make = make_encoder,
        .text = "TransformerEncoder(\n  (layers): ModuleList(",
        .in = { 3, { 3, 2, 4 } },
        .out = { 3, { 3, 2, 4 } },
        .bad = { 3, { 3, 2, 5 } },
        .error = "MultiheadAttention: expected",
        .state = { { "layers.0.self_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "layers.0.self_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "layers.0.self_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "layers.0.self_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "layers.0.linear1.weight", { 2, { 6, 4 } }, UNIFORM, 0.5 },
                   { "layers.0.linear1.bias", { 1, { 6 } }, UNIFORM, 0.5 },
                   { "layers.0.linear2.weight", { 2, { 4, 6 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.0.linear2.bias", { 1, { 4 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.0.norm1.weight", { 1, { 4 } }, ONES },
                   { "layers.0.norm1.bias", { 1, { 4 } }, ZEROS },
                   { "layers.0.norm2.weight", { 1, { 4 } }, ONES },
                   { "layers.0.norm2.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.self_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "layers.1.self_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "layers.1.self_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "layers.1.self_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.linear1.weight", { 2, { 6, 4 } }, UNIFORM, 0.5 },
                   { "layers.1.linear1.bias", { 1, { 6 } }, UNIFORM, 0.5 },
                   { "layers.1.linear2.weight", { 2, { 4, 6 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.1.linear2.bias", { 1, { 4 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.1.norm1.weight", { 1, { 4 } }, ONES },
                   { "layers.1.norm1.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.norm2.weight", { 1, { 4 } }, ONES },
                   { "layers.1.norm2.bias", { 1, { 4 } }, ZEROS },
                   { "norm.weight", { 1, { 4 } }, ONES },
                   { "norm.bias", { 1, { 4 } }, ZEROS } },
    },
    {
        .name = "decoder",
        .make = make_decoder,
        .text = "TransformerDecoder(\n  (layers): ModuleList(",
        .in = { 3, { 3, 2, 4 } },
        .out = { 3, { 3, 2, 4 } },
        .in2 = { 3, { 2, 2, 4 } },
        .bad = { 3, { 3, 2, 5 } },
        .error = "MultiheadAttention: expected",
        .state = { { "layers.0.self_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "layers.0.self_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "layers.0.self_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "layers.0.self_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "layers.0.multihead_attn.in_proj_weight",
                     { 2, { 12, 4 } },
                     UNIFORM,
                     SQRT6 / 4 },
                   { "layers.0.multihead_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "layers.0.multihead_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "layers.0.multihead_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "layers.0.linear1.weight", { 2, { 6, 4 } }, UNIFORM, 0.5 },
                   { "layers.0.linear1.bias", { 1, { 6 } }, UNIFORM, 0.5 },
                   { "layers.0.linear2.weight", { 2, { 4, 6 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.0.linear2.bias", { 1, { 4 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.0.norm1.weight", { 1, { 4 } }, ONES },
                   { "layers.0.norm1.bias", { 1, { 4 } }, ZEROS },
                   { "layers.0.norm2.weight", { 1, { 4 } }, ONES },
                   { "layers.0.norm2.bias", { 1, { 4 } }, ZEROS },
                   { "layers.0.norm3.weight", { 1, { 4 } }, ONES },
                   { "layers.0.norm3.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.self_attn.in_proj_weight", { 2, { 12, 4 } }, UNIFORM, SQRT6 / 4 },
                   { "layers.1.self_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "layers.1.self_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "layers.1.self_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.multihead_attn.in_proj_weight",
                     { 2, { 12, 4 } },
                     UNIFORM,
                     SQRT6 / 4 },
                   { "layers.1.multihead_attn.in_proj_bias", { 1, { 12 } }, ZEROS },
                   { "layers.1.multihead_attn.out_proj.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "layers.1.multihead_attn.out_proj.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.linear1.weight", { 2, { 6, 4 } }, UNIFORM, 0.5 },
                   { "layers.1.linear1.bias", { 1, { 6 } }, UNIFORM, 0.5 },
                   { "layers.1.linear2.weight", { 2, { 4, 6 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.1.linear2.bias", { 1, { 4 } }, UNIFORM, 1 / SQRT6 },
                   { "layers.1.norm1.weight", { 1, { 4 } }, ONES },
                   { "layers.1.norm1.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.norm2.weight", { 1, { 4 } }, ONES },
                   { "layers.1.norm2.bias", { 1, { 4 } }, ZEROS },
                   { "layers.1.norm3.weight", { 1, { 4 } }, ONES },
                   { "layers.1.norm3.bias", { 1, { 4 } }, ZEROS },
                   { "norm.weight", { 1, { 4 } }, ONES },
                   { "norm.bias", { 1, { 4 } }, ZEROS } },
    },
};

const int sequence_n_rows = (int)(sizeof sequence_rows / sizeof sequence_rows[0]);
