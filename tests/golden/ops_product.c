/* SPDX-License-Identifier: Apache-2.0 */
/* Golden operators on matrices: products, convolutions, attention. */
#include "golden/golden.h"

static void addmm(golden_call *c)
{
    c->out[0] = tt_addmm(c->in[0], c->in[1], c->in[2], golden_real(c, "beta", 1),
                         golden_real(c, "alpha", 1));
}

static void baddbmm(golden_call *c)
{
    c->out[0] = tt_baddbmm(c->in[0], c->in[1], c->in[2], golden_real(c, "beta", 1),
                           golden_real(c, "alpha", 1));
}

static void linear(golden_call *c)
{
    c->out[0] = tt_linear(c->in[0], c->in[1], c->in[2]);
}

static tt_conv_options conv_options(const golden_call *c)
{
    tt_conv_options opt = { .groups = golden_int(c, "groups", 0) };
    int64_t list[TT_MAX_DIMS];

    for (int i = golden_ints(c, "stride", list) - 1; i >= 0; i--)
        opt.stride[i] = list[i];
    for (int i = golden_ints(c, "padding", list) - 1; i >= 0; i--)
        opt.padding[i] = list[i];
    for (int i = golden_ints(c, "dilation", list) - 1; i >= 0; i--)
        opt.dilation[i] = list[i];
    for (int i = golden_ints(c, "output_padding", list) - 1; i >= 0; i--)
        opt.output_padding[i] = list[i];
    return opt;
}

static void conv1d(golden_call *c)
{
    tt_conv_options opt = conv_options(c);

    c->out[0] = tt_conv1d(c->in[0], c->in[1], c->in[2], &opt);
}

static void conv2d(golden_call *c)
{
    tt_conv_options opt = conv_options(c);

    c->out[0] = tt_conv2d(c->in[0], c->in[1], c->in[2], &opt);
}

static void conv_transpose2d(golden_call *c)
{
    tt_conv_options opt = conv_options(c);

    c->out[0] = tt_conv_transpose2d(c->in[0], c->in[1], c->in[2], &opt);
}

/* One row of a two-dimensional one: the library has no other. */
static void conv_transpose1d(golden_call *c)
{
    tt_conv_options opt = conv_options(c);

    opt.stride[1] = opt.stride[0], opt.stride[0] = 1;
    opt.padding[1] = opt.padding[0], opt.padding[0] = 0;
    opt.dilation[1] = opt.dilation[0], opt.dilation[0] = 1;
    opt.output_padding[1] = opt.output_padding[0], opt.output_padding[0] = 0;
    c->out[0] = tt_squeeze_dim(
        tt_conv_transpose2d(tt_unsqueeze(c->in[0], -2), tt_unsqueeze(c->in[1], -2), c->in[2], &opt),
        -2);
}

static void attention(golden_call *c)
{
    tt_attention_options opt = { .mask = c->in[3],
                                 .scale = golden_real(c, "scale", 0),
                                 .causal = golden_flag(c, "causal", false) };

    c->out[0] = tt_attention(c->in[0], c->in[1], c->in[2], &opt);
}

const golden_op golden_ops_product[] = {
    { "matmul", .binary = tt_matmul },
    { "bmm", .binary = tt_bmm },
    { "mv", .binary = tt_mv },
    { "dot", .binary = tt_dot },
    { "addmm", .run = addmm },
    { "baddbmm", .run = baddbmm },
    { "linear", .run = linear },
    { "conv1d", .run = conv1d },
    { "conv2d", .run = conv2d },
    { "conv_transpose1d", .run = conv_transpose1d },
    { "conv_transpose2d", .run = conv_transpose2d },
    { "attention", .run = attention },
    { NULL },
};
