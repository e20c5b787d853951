/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: convolution and pooling. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *conv1d_row(tt_tensor *const *in)
{
    return tt_conv1d(in[0], in[1], in[2], NULL);
}

static tt_tensor *conv2d_row(tt_tensor *const *in)
{
    return tt_conv2d(in[0], in[1], in[2],
                     &(tt_conv_options){ .stride = { 2, 1 }, .padding = { 1, 1 } });
}

static tt_tensor *conv2d_groups_row(tt_tensor *const *in)
{
    return tt_conv2d(in[0], in[1], in[2], &(tt_conv_options){ .groups = 2, .dilation = { 2, 1 } });
}

static tt_tensor *conv_transpose2d_row(tt_tensor *const *in)
{
    return tt_conv_transpose2d(in[0], in[1], in[2],
                               &(tt_conv_options){ .stride = { 2, 1 }, .padding = { 1, 1 } });
}

static tt_tensor *max_pool1d_row(tt_tensor *const *in)
{
    return tt_max_pool1d(in[0],
                         &(tt_pool_options){ .kernel = { 3 }, .stride = { 2 }, .padding = { 1 } });
}

static tt_tensor *max_pool2d_row(tt_tensor *const *in)
{
    return tt_max_pool2d(
        in[0], &(tt_pool_options){ .kernel = { 2, 3 }, .stride = { 1, 2 }, .padding = { 1, 1 } },
        NULL);
}

static tt_tensor *avg_pool1d_row(tt_tensor *const *in)
{
    return tt_avg_pool1d(in[0],
                         &(tt_pool_options){ .kernel = { 3 }, .stride = { 2 }, .padding = { 1 } });
}

static tt_tensor *avg_pool2d_row(tt_tensor *const *in)
{
    return tt_avg_pool2d(
        in[0], &(tt_pool_options){ .kernel = { 2, 3 }, .stride = { 1, 2 }, .padding = { 1, 1 } });
}

static tt_tensor *adaptive_avg_pool2d_row(tt_tensor *const *in)
{
    return tt_adaptive_avg_pool2d(in[0], 2, 3);
}

static tt_tensor *adaptive_max_pool2d_row(tt_tensor *const *in)
{
    return tt_adaptive_max_pool2d(in[0], 2, 3, NULL);
}

static tt_tensor *conv1d_stride_row(tt_tensor *const *in)
{
    return tt_conv1d(in[0], in[1], in[2], &(tt_conv_options){ .stride = { 2 }, .padding = { 1 } });
}

static tt_tensor *conv2d_one_by_one_row(tt_tensor *const *in)
{
    return tt_conv2d(in[0], in[1], in[2], NULL);
}

static tt_tensor *max_pool2d_ceil_row(tt_tensor *const *in)
{
    return tt_max_pool2d(
        in[0], &(tt_pool_options){ .kernel = { 2, 2 }, .stride = { 2, 2 }, .ceil_mode = true },
        NULL);
}

static tt_tensor *avg_pool2d_exclude_pad_row(tt_tensor *const *in)
{
    return tt_avg_pool2d(
        in[0], &(tt_pool_options){ .kernel = { 2, 2 }, .padding = { 1, 1 }, .exclude_pad = true });
}

static const conform_row rows[] = {
    { "conv1d", conv1d_row, "fNx2x6 f3x2x3 f3?", 0, 2003 },
    { "conv2d", conv2d_row, "fNx2x4x3 f2x2x3x2 f2?", 0, 257 },
    { "conv2d.groups", conv2d_groups_row, "fNx2x4x3 f2x1x2x2 f2?", 0, 257 },
    { "conv_transpose2d", conv_transpose2d_row, "fNx2x3x2 f2x2x3x2 f2?", 0, 257 },
    { "max_pool1d", max_pool1d_row, "fNx2x6", 0, 2003 },
    { "max_pool2d", max_pool2d_row, "fNx2x4x4", 0, 997 },
    { "avg_pool1d", avg_pool1d_row, "fNx2x6", 0, 2003 },
    { "avg_pool2d", avg_pool2d_row, "fNx2x4x4", 0, 997 },
    { "adaptive_avg_pool2d", adaptive_avg_pool2d_row, "fNx2x4x4", 0, 997 },
    { "adaptive_max_pool2d", adaptive_max_pool2d_row, "fNx2x4x4", 0, 997 },
    { "conv1d.stride", conv1d_stride_row, "fNx2x6 f3x2x3 f3?", 0, 997 },
    { "conv2d.one_by_one", conv2d_one_by_one_row, "fNx3x2x2 f2x3x1x1 f2?", 0, 997 },
    { "max_pool2d.ceil", max_pool2d_ceil_row, "fNx2x3x5", 0, 997 },
    { "avg_pool2d.exclude_pad", avg_pool2d_exclude_pad_row, "fNx2x3x5", 0, 997 },
};

TT_TEST_TABLE(conformance_conv_pool)
{
    conform_add("conv_pool", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
