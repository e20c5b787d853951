/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table of layers. Sizes are small, so that gradients can be checked element by
 * element. */
#include "conformance/layer_table.h"

#define SQRT3 1.7320508075688772

static tt_module *make_identity(void)
{
    return tt_identity_new();
}

static tt_module *make_linear(void)
{
    return tt_linear_new(3, 4, NULL);
}

static tt_module *make_linear_bare(void)
{
    return tt_linear_new(3, 4, &(tt_linear_options){ .no_bias = true });
}

static tt_module *make_bilinear(void)
{
    return tt_bilinear_new(4, 2, 3, NULL);
}

static tt_module *make_conv1d(void)
{
    return tt_conv1d_new(3, 4, 3, &(tt_conv_layer_options){ .padding = 1 });
}

static tt_module *make_conv2d(void)
{
    return tt_conv2d_new(2, 4, 2,
                         &(tt_conv_layer_options){ .stride = 2, .dilation = 2, .groups = 2 });
}

static tt_module *make_conv2d_wide(void)
{
    return tt_conv2d_new(
        1, 2, 1, &(tt_conv_layer_options){ .kernel_w = 4, .padding_w = 1, .no_bias = true });
}

static tt_module *make_conv_transpose2d(void)
{
    return tt_conv_transpose2d_new(3, 1, 2,
                                   &(tt_conv_layer_options){ .stride = 2, .output_padding = 1 });
}

static tt_module *make_max_pool1d(void)
{
    return tt_max_pool1d_new(2, NULL);
}

static tt_module *make_max_pool2d(void)
{
    return tt_max_pool2d_new(3, &(tt_pool_layer_options){ .stride = 2, .padding = 1 });
}

static tt_module *make_avg_pool1d(void)
{
    return tt_avg_pool1d_new(2, NULL);
}

static tt_module *make_avg_pool2d(void)
{
    return tt_avg_pool2d_new(2, &(tt_pool_layer_options){ .stride = 1 });
}

static tt_module *make_adaptive_avg_pool2d(void)
{
    return tt_adaptive_avg_pool2d_new(2, 3);
}

static tt_module *make_adaptive_max_pool2d(void)
{
    return tt_adaptive_max_pool2d_new(2, 3);
}

static tt_module *make_flatten(void)
{
    return tt_flatten_new();
}

static tt_module *make_batch_norm1d(void)
{
    return tt_batch_norm1d_new(3, NULL);
}

static tt_module *make_batch_norm2d(void)
{
    return tt_batch_norm2d_new(3, NULL);
}

static tt_module *make_batch_norm3d(void)
{
    return tt_batch_norm3d_new(3, NULL);
}

static tt_module *make_layer_norm(void)
{
    return tt_layer_norm_new(TT_SHAPE(2, 3), NULL);
}

static tt_module *make_rms_norm(void)
{
    return tt_rms_norm_new(TT_SHAPE(4), NULL);
}

static tt_module *make_group_norm(void)
{
    return tt_group_norm_new(2, 4, NULL);
}

static tt_module *make_embedding(void)
{
    return tt_embedding_new(7, 3, NULL);
}

static tt_module *make_embedding_bag(void)
{
    return tt_embedding_bag_new(7, 3, NULL);
}

static tt_module *make_relu(void)
{
    return tt_relu_new();
}

static tt_module *make_gelu(void)
{
    return tt_gelu_new();
}

static tt_module *make_gelu_tanh(void)
{
    return tt_gelu_tanh_new();
}

static tt_module *make_silu(void)
{
    return tt_silu_new();
}

static tt_module *make_tanh(void)
{
    return tt_tanh_new();
}

static tt_module *make_sigmoid(void)
{
    return tt_sigmoid_new();
}

static tt_module *make_elu(void)
{
    return tt_elu_new(1.5);
}

static tt_module *make_celu(void)
{
    return tt_celu_new(1.5);
}

static tt_module *make_leaky_relu(void)
{
    return tt_leaky_relu_new(0.01);
}

static tt_module *make_softplus(void)
{
    return tt_softplus_new(1, 20);
}

static tt_module *make_softmax(void)
{
    return tt_softmax_new(-1);
}

static tt_module *make_log_softmax(void)
{
    return tt_log_softmax_new(1);
}

static tt_module *make_activation(void)
{
    return tt_activation_new(TT_ACT_SILU);
}

static tt_module *make_dropout(void)
{
    return tt_dropout_new(0.5);
}

static tt_module *make_sequential(void)
{
    return TT_SEQUENTIAL(tt_linear_new(4, 4, NULL), tt_tanh_new(), tt_batch_norm1d_new(4, NULL));
}

const layer_row layer_rows[] = {
    {
        .name = "identity",
        .make = make_identity,
        .text = "Identity()",
        .in = { 2, { 2, 3 } },
        .out = { 2, { 2, 3 } },
    },
    {
        .name = "linear",
        .make = make_linear,
        .text = "Linear(in_features=3, out_features=4, bias=True)",
        .in = { 3, { 2, 5, 3 } },
        .out = { 3, { 2, 5, 4 } },
        .bad = { 2, { 2, 4 } },
        .error = "expected",
        .state = { { "weight", { 2, { 4, 3 } }, UNIFORM, 1 / SQRT3 },
                   { "bias", { 1, { 4 } }, UNIFORM, 1 / SQRT3 } },
    },
    {
        .name = "linear_bare",
        .make = make_linear_bare,
        .text = "Linear(in_features=3, out_features=4, bias=False)",
        .in = { 2, { 2, 3 } },
        .out = { 2, { 2, 4 } },
        .bad = { 2, { 3, 2 } },
        .error = "expected",
        .state = { { "weight", { 2, { 4, 3 } }, UNIFORM, 1 / SQRT3 } },
    },
    {
        .name = "bilinear",
        .make = make_bilinear,
        .text = "Bilinear(in1_features=4, in2_features=2, out_features=3, bias=True)",
        .in = { 2, { 2, 4 } },
        .out = { 2, { 2, 3 } },
        .in2 = { 2, { 2, 2 } },
        .bad = { 2, { 2, 3 } },
        .error = "Bilinear: expected inputs [..., 4] and [..., 2]",
        .state = { { "weight", { 3, { 3, 4, 2 } }, UNIFORM, 0.5 },
                   { "bias", { 1, { 3 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "conv1d",
        .make = make_conv1d,
        .text = "Conv1d(3, 4, kernel_size=(3,), stride=(1,), padding=(1,))",
        .in = { 3, { 2, 3, 5 } },
        .out = { 3, { 2, 4, 5 } },
        .bad = { 3, { 2, 2, 5 } },
        .error = "takes 3 channels",
        .state = { { "weight", { 3, { 4, 3, 3 } }, UNIFORM, 1.0 / 3 },
                   { "bias", { 1, { 4 } }, UNIFORM, 1.0 / 3 } },
    },
    {
        .name = "conv2d",
        .make = make_conv2d,
        .text = "Conv2d(2, 4, kernel_size=(2, 2), stride=(2, 2), dilation=(2, 2), groups=2)",
        .in = { 4, { 2, 2, 5, 7 } },
        .out = { 4, { 2, 4, 2, 3 } },
        .bad = { 4, { 2, 3, 5, 7 } },
        .error = "takes 2 channels",
        .state = { { "weight", { 4, { 4, 1, 2, 2 } }, UNIFORM, 0.5 },
                   { "bias", { 1, { 4 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "conv2d_wide",
        .make = make_conv2d_wide,
        .text = "Conv2d(1, 2, kernel_size=(1, 4), stride=(1, 1), padding=(0, 1), bias=False)",
        .in = { 4, { 2, 1, 3, 5 } },
        .out = { 4, { 2, 2, 3, 4 } },
        .bad = { 2, { 2, 5 } },
        .error = "expected",
        .state = { { "weight", { 4, { 2, 1, 1, 4 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "conv_transpose2d",
        .make = make_conv_transpose2d,
        .text = "ConvTranspose2d(3, 1, kernel_size=(2, 2), stride=(2, 2), output_padding=(1, 1))",
        .in = { 4, { 2, 3, 2, 3 } },
        .out = { 4, { 2, 1, 5, 7 } },
        .bad = { 4, { 2, 2, 2, 3 } },
        .error = "takes 3 channels",
        .state = { { "weight", { 4, { 3, 1, 2, 2 } }, UNIFORM, 0.5 },
                   { "bias", { 1, { 1 } }, UNIFORM, 0.5 } },
    },
    {
        .name = "max_pool1d",
        .make = make_max_pool1d,
        .text = "MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        .in = { 3, { 2, 3, 5 } },
        .out = { 3, { 2, 3, 2 } },
        .bad = { 1, { 2 } },
        .error = "expected",
    },
    {
        .name = "max_pool2d",
        .make = make_max_pool2d,
        .text = "MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)",
        .in = { 4, { 2, 2, 5, 6 } },
        .out = { 4, { 2, 2, 3, 3 } },
        .bad = { 2, { 2, 2 } },
        .error = "expected",
    },
    {
        .name = "avg_pool1d",
        .make = make_avg_pool1d,
        .text = "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
        .in = { 3, { 2, 3, 5 } },
        .out = { 3, { 2, 3, 2 } },
        .bad = { 1, { 2 } },
        .error = "expected",
    },
    {
        .name = "avg_pool2d",
        .make = make_avg_pool2d,
        .text = "AvgPool2d(kernel_size=2, stride=1, padding=0)",
        .in = { 4, { 2, 2, 3, 4 } },
        .out = { 4, { 2, 2, 2, 3 } },
        .bad = { 2, { 2, 2 } },
        .error = "expected",
    },
    {
        .name = "adaptive_avg_pool2d",
        .make = make_adaptive_avg_pool2d,
        .text = "AdaptiveAvgPool2d(output_size=(2, 3))",
        .in = { 4, { 2, 2, 5, 4 } },
        .out = { 4, { 2, 2, 2, 3 } },
        .bad = { 2, { 2, 2 } },
        .error = "expected",
    },
    {
        .name = "adaptive_max_pool2d",
        .make = make_adaptive_max_pool2d,
        .text = "AdaptiveMaxPool2d(output_size=(2, 3))",
        .in = { 4, { 2, 2, 5, 4 } },
        .out = { 4, { 2, 2, 2, 3 } },
        .bad = { 2, { 2, 2 } },
        .error = "expected",
    },
    {
        .name = "flatten",
        .make = make_flatten,
        .text = "Flatten(start_dim=1, end_dim=-1)",
        .in = { 3, { 2, 3, 4 } },
        .out = { 2, { 2, 12 } },
    },
    {
        .name = "batch_norm1d",
        .make = make_batch_norm1d,
        .text = "BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                "track_running_stats=True)",
        .in = { 2, { 4, 3 } },
        .out = { 2, { 4, 3 } },
        .modes = DIFFERENT,
        .bad = { 2, { 4, 2 } },
        .error = "BatchNorm1d: expected",
        .state = { { "weight", { 1, { 3 } }, ONES },
                   { "bias", { 1, { 3 } }, ZEROS },
                   { "running_mean", { 1, { 3 } }, ZEROS, 0, true },
                   { "running_var", { 1, { 3 } }, ONES, 0, true },
                   { "num_batches_tracked", { 0, { 0 } }, COUNTER, 0, true } },
    },
    {
        .name = "batch_norm2d",
        .make = make_batch_norm2d,
        .text = "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                "track_running_stats=True)",
        .in = { 4, { 2, 3, 2, 3 } },
        .out = { 4, { 2, 3, 2, 3 } },
        .modes = DIFFERENT,
        .bad = { 2, { 2, 3 } },
        .error = "BatchNorm2d: expected",
        .state = { { "weight", { 1, { 3 } }, ONES },
                   { "bias", { 1, { 3 } }, ZEROS },
                   { "running_mean", { 1, { 3 } }, ZEROS, 0, true },
                   { "running_var", { 1, { 3 } }, ONES, 0, true },
                   { "num_batches_tracked", { 0, { 0 } }, COUNTER, 0, true } },
    },
    {
        .name = "batch_norm3d",
        .make = make_batch_norm3d,
        .text = "BatchNorm3d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                "track_running_stats=True)",
        .in = { 5, { 2, 3, 2, 1, 2 } },
        .out = { 5, { 2, 3, 2, 1, 2 } },
        .modes = DIFFERENT,
        .bad = { 4, { 2, 3, 2, 1 } },
        .error = "BatchNorm3d: expected",
        .state = { { "weight", { 1, { 3 } }, ONES },
                   { "bias", { 1, { 3 } }, ZEROS },
                   { "running_mean", { 1, { 3 } }, ZEROS, 0, true },
                   { "running_var", { 1, { 3 } }, ONES, 0, true },
                   { "num_batches_tracked", { 0, { 0 } }, COUNTER, 0, true } },
    },
    {
        .name = "layer_norm",
        .make = make_layer_norm,
        .text = "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)",
        .in = { 3, { 4, 2, 3 } },
        .out = { 3, { 4, 2, 3 } },
        .bad = { 3, { 4, 3, 2 } },
        .error = "expected",
        .state = { { "weight", { 2, { 2, 3 } }, ONES }, { "bias", { 2, { 2, 3 } }, ZEROS } },
    },
    {
        .name = "rms_norm",
        .make = make_rms_norm,
        .text = "RMSNorm((4,), eps=None, elementwise_affine=True)",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
        .bad = { 2, { 3, 5 } },
        .error = "expected",
        .state = { { "weight", { 1, { 4 } }, ONES } },
    },
    {
        .name = "group_norm",
        .make = make_group_norm,
        .text = "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)",
        .in = { 3, { 2, 4, 3 } },
        .out = { 3, { 2, 4, 3 } },
        .bad = { 3, { 2, 3, 3 } },
        .error = "expected",
        .state = { { "weight", { 1, { 4 } }, ONES }, { "bias", { 1, { 4 } }, ZEROS } },
    },
    {
        .name = "embedding",
        .make = make_embedding,
        .text = "Embedding(7, 3)",
        .in = { 2, { 2, 4 } },
        .out = { 3, { 2, 4, 3 } },
        .n_index = 7,
        .state = { { "weight", { 2, { 7, 3 } }, NORMAL } },
    },
    {
        .name = "embedding_bag",
        .make = make_embedding_bag,
        .text = "EmbeddingBag(7, 3, mode='mean')",
        .in = { 2, { 2, 4 } },
        .out = { 2, { 2, 3 } },
        .n_index = 7,
        .state = { { "weight", { 2, { 7, 3 } }, NORMAL } },
    },
    {
        .name = "relu",
        .make = make_relu,
        .text = "ReLU()",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "gelu",
        .make = make_gelu,
        .text = "GELU(approximate='none')",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "gelu_tanh",
        .make = make_gelu_tanh,
        .text = "GELU(approximate='tanh')",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "silu",
        .make = make_silu,
        .text = "SiLU()",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "tanh",
        .make = make_tanh,
        .text = "Tanh()",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "sigmoid",
        .make = make_sigmoid,
        .text = "Sigmoid()",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "elu",
        .make = make_elu,
        .text = "ELU(alpha=1.5)",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "celu",
        .make = make_celu,
        .text = "CELU(alpha=1.5)",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "leaky_relu",
        .make = make_leaky_relu,
        .text = "LeakyReLU(negative_slope=0.01)",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "softplus",
        .make = make_softplus,
        .text = "Softplus(beta=1.0, threshold=20.0)",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "softmax",
        .make = make_softmax,
        .text = "Softmax(dim=-1)",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "log_softmax",
        .make = make_log_softmax,
        .text = "LogSoftmax(dim=1)",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "activation",
        .make = make_activation,
        .text = "SiLU()",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
    },
    {
        .name = "dropout",
        .make = make_dropout,
        .text = "Dropout(p=0.5, inplace=False)",
        .in = { 2, { 8, 9 } },
        .out = { 2, { 8, 9 } },
        .modes = RANDOM,
    },
    {
        .name = "sequential",
        .make = make_sequential,
        .text = "Sequential(\n  (0): Linear(in_features=4, out_features=4, bias=True)\n  (1): "
                "Tanh()\n  (2): BatchNorm1d(4,",
        .in = { 2, { 3, 4 } },
        .out = { 2, { 3, 4 } },
        .modes = DIFFERENT,
        .bad = { 2, { 3, 5 } },
        .error = "expected",
        .state = { { "0.weight", { 2, { 4, 4 } }, UNIFORM, 0.5 },
                   { "0.bias", { 1, { 4 } }, UNIFORM, 0.5 },
                   { "2.weight", { 1, { 4 } }, ONES },
                   { "2.bias", { 1, { 4 } }, ZEROS },
                   { "2.running_mean", { 1, { 4 } }, ZEROS, 0, true },
                   { "2.running_var", { 1, { 4 } }, ONES, 0, true },
                   { "2.num_batches_tracked", { 0, { 0 } }, COUNTER, 0, true } },
    },
};

const int layer_n_rows = (int)(sizeof layer_rows / sizeof layer_rows[0]);
