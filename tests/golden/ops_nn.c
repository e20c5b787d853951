/* SPDX-License-Identifier: Apache-2.0 */
/* Golden operators of networks: normalisation and pooling. */
#include <float.h>

#include "golden/golden.h"

static double eps(const golden_call *c)
{
    return golden_real(c, "eps", 1e-5);
}

static void layer_norm(golden_call *c)
{
    c->out[0] =
        tt_layer_norm(c->in[0], golden_shape(c, "shape").n_dims, c->in[1], c->in[2], eps(c));
}

/* Without an eps PyTorch takes the machine epsilon of the type. */
static void rms_norm(golden_call *c)
{
    double machine = tt_tensor_dtype(c->in[0]) == TT_F64 ? DBL_EPSILON : (double)FLT_EPSILON;

    c->out[0] = tt_rms_norm(c->in[0], golden_shape(c, "shape").n_dims, c->in[1],
                            golden_real(c, "eps", machine));
}

static void group_norm(golden_call *c)
{
    c->out[0] = tt_group_norm(c->in[0], golden_int(c, "groups", 1), c->in[1], c->in[2], eps(c));
}

static void batch_norm(golden_call *c)
{
    double cumulative = 1.0 / ((double)golden_int(c, "batches_tracked", 0) + 1);
    tt_batch_norm_options opt = { .running_mean = c->in[3],
                                  .running_var = c->in[4],
                                  .momentum = golden_real(c, "momentum", cumulative),
                                  .eps = eps(c),
                                  .training = golden_flag(c, "training", false) };

    c->out[0] = tt_batch_norm(c->in[0], c->in[1], c->in[2], &opt);
}

static tt_pool_options pool_options(const golden_call *c)
{
    tt_pool_options opt = { .ceil_mode = golden_flag(c, "ceil_mode", false),
                            .exclude_pad = !golden_flag(c, "count_include_pad", true),
                            .divisor_override = golden_int(c, "divisor", 0) };
    int64_t list[TT_MAX_DIMS];

    for (int i = golden_ints(c, "kernel", list) - 1; i >= 0; i--)
        opt.kernel[i] = list[i];
    for (int i = golden_ints(c, "stride", list) - 1; i >= 0; i--)
        opt.stride[i] = list[i];
    for (int i = golden_ints(c, "padding", list) - 1; i >= 0; i--)
        opt.padding[i] = list[i];
    for (int i = golden_ints(c, "dilation", list) - 1; i >= 0; i--)
        opt.dilation[i] = list[i];
    return opt;
}

/* Ours gives no indices: those are what the pool of a plane with one row finds. */
static void max_pool1d(golden_call *c)
{
    tt_pool_options opt = pool_options(c);
    tt_pool_options row = { .kernel = { 1, opt.kernel[0] },
                            .stride = { 1, opt.stride[0] },
                            .padding = { 0, opt.padding[0] },
                            .dilation = { 1, opt.dilation[0] },
                            .ceil_mode = opt.ceil_mode };

    c->out[0] = tt_max_pool1d(c->in[0], &opt);
    if (tt_max_pool2d(tt_unsqueeze(c->in[0], -2), &row, &c->out[1]) != NULL)
        c->out[1] = tt_squeeze_dim(c->out[1], -2);
}

static void max_pool2d(golden_call *c)
{
    tt_pool_options opt = pool_options(c);

    c->out[0] = tt_max_pool2d(c->in[0], &opt, &c->out[1]);
}

static void avg_pool1d(golden_call *c)
{
    tt_pool_options opt = pool_options(c);

    c->out[0] = tt_avg_pool1d(c->in[0], &opt);
}

static void avg_pool2d(golden_call *c)
{
    tt_pool_options opt = pool_options(c);

    c->out[0] = tt_avg_pool2d(c->in[0], &opt);
}

static void adaptive_avg_pool2d(golden_call *c)
{
    tt_shape out = golden_shape(c, "output");

    c->out[0] = tt_adaptive_avg_pool2d(c->in[0], out.dims[0], out.dims[1]);
}

static void adaptive_max_pool2d(golden_call *c)
{
    tt_shape out = golden_shape(c, "output");

    c->out[0] = tt_adaptive_max_pool2d(c->in[0], out.dims[0], out.dims[1], &c->out[1]);
}

const golden_op golden_ops_nn[] = {
    { "layer_norm", .run = layer_norm },
    { "rms_norm", .run = rms_norm },
    { "group_norm", .run = group_norm },
    { "batch_norm", .run = batch_norm },
    { "max_pool1d", .run = max_pool1d },
    { "max_pool2d", .run = max_pool2d },
    { "avg_pool1d", .run = avg_pool1d },
    { "avg_pool2d", .run = avg_pool2d },
    { "adaptive_avg_pool2d", .run = adaptive_avg_pool2d },
    { "adaptive_max_pool2d", .run = adaptive_max_pool2d },
    { NULL },
};
