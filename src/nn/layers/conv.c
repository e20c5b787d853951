/* SPDX-License-Identifier: Apache-2.0 */
/* Conv1d, Conv2d and ConvTranspose2d. */
#include <stdio.h>

#include "nn/layers/layer.h"

typedef struct conv {
    int64_t in, out, kernel[2];
    tt_conv_options opt;
    bool no_bias;
} conv;

static tt_tensor *weight(const tt_module *m)
{
    return tt_module_param_at(m, 0);
}

static tt_tensor *bias(const tt_module *m)
{
    return tt_module_param_at(m, 1);
}

static tt_tensor *conv1d_forward(tt_module *m, tt_tensor *x)
{
    return tt_conv1d(x, weight(m), bias(m), &((const conv *)m->data)->opt);
}

static tt_tensor *conv2d_forward(tt_module *m, tt_tensor *x)
{
    return tt_conv2d(x, weight(m), bias(m), &((const conv *)m->data)->opt);
}

static tt_tensor *transpose_forward(tt_module *m, tt_tensor *x)
{
    return tt_conv_transpose2d(x, weight(m), bias(m), &((const conv *)m->data)->opt);
}

/* ", padding=(1, 2)" when it is not what it is by default. */
static int add_pair(char *text, size_t size, const char *name, const int64_t *v, int n,
                    int64_t usual)
{
    if (v[0] == usual && (n == 1 || v[1] == usual))
        return 0;
    if (n == 1)
        return snprintf(text, size, ", %s=(%lld,)", name, (long long)v[0]);
    return snprintf(text, size, ", %s=(%lld, %lld)", name, (long long)v[0], (long long)v[1]);
}

static int describe(const tt_module *m, int n_dims, char *text, size_t size)
{
    const conv *c = m->data;
    int n = snprintf(text, size, "%lld, %lld", (long long)c->in, (long long)c->out);

    n += add_pair(text + n, size - (size_t)n, "kernel_size", c->kernel, n_dims, -1);
    n += add_pair(text + n, size - (size_t)n, "stride", c->opt.stride, n_dims, -1);
    n += add_pair(text + n, size - (size_t)n, "padding", c->opt.padding, n_dims, 0);
    n += add_pair(text + n, size - (size_t)n, "dilation", c->opt.dilation, n_dims, 1);
    n += add_pair(text + n, size - (size_t)n, "output_padding", c->opt.output_padding, n_dims, 0);
    if (c->opt.groups != 1)
        n += snprintf(text + n, size - (size_t)n, ", groups=%lld", (long long)c->opt.groups);
    if (c->no_bias)
        n += snprintf(text + n, size - (size_t)n, ", bias=False");
    return n;
}

static int describe1(const tt_module *m, char *text, size_t size)
{
    return describe(m, 1, text, size);
}

static int describe2(const tt_module *m, char *text, size_t size)
{
    return describe(m, 2, text, size);
}

static const tt_module_class conv1d_class = {
    .name = "Conv1d", .data_size = sizeof(conv), .forward = conv1d_forward, .describe = describe1
};
static const tt_module_class conv2d_class = {
    .name = "Conv2d", .data_size = sizeof(conv), .forward = conv2d_forward, .describe = describe2
};
static const tt_module_class transpose_class = { .name = "ConvTranspose2d",
                                                 .data_size = sizeof(conv),
                                                 .forward = transpose_forward,
                                                 .describe = describe2 };

/* first[0] is for the height; `second` 0: the same, -1: none. */
static void set_pair(int64_t *pair, int64_t first, int64_t second, int64_t usual)
{
    pair[0] = first != 0 ? first : usual;
    pair[1] = second == 0 ? pair[0] : second < 0 ? usual : second;
}

static conv resolve(int64_t in, int64_t out, int64_t kernel, const tt_conv_layer_options *opt)
{
    tt_conv_layer_options o = opt != NULL ? *opt : (tt_conv_layer_options){ 0 };
    conv c = { .in = in, .out = out, .no_bias = o.no_bias };

    c.kernel[0] = kernel;
    c.kernel[1] = o.kernel_w != 0 ? o.kernel_w : kernel;
    set_pair(c.opt.stride, o.stride, o.stride_w, 1);
    set_pair(c.opt.padding, o.padding, o.padding_w, 0);
    set_pair(c.opt.dilation, o.dilation, o.dilation_w, 1);
    set_pair(c.opt.output_padding, o.output_padding, o.output_padding_w, 0);
    c.opt.groups = o.groups != 0 ? o.groups : 1;
    return c;
}

static tt_status check(const char *name, const conv *c)
{
    TT_TRY(tti_layer_check(name, "in_channels", c->in, 1));
    TT_TRY(tti_layer_check(name, "out_channels", c->out, 1));
    TT_TRY(tti_layer_check(name, "kernel_size", c->kernel[0], 1));
    TT_TRY(tti_layer_check(name, "kernel_size", c->kernel[1], 1));
    TT_TRY(tti_layer_check(name, "groups", c->opt.groups, 1));
    if (c->in % c->opt.groups != 0 || c->out % c->opt.groups != 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected channels that %lld groups divide, got %lld and %lld", name,
                       (long long)c->opt.groups, (long long)c->in, (long long)c->out);
    return TT_OK;
}

static tt_module *conv_new(const tt_module_class *cls, const conv *c, tt_shape shape)
{
    double fan_in = (double)shape.dims[1];
    tt_module *m;
    tt_status st;

    if (check(cls->name, c) != TT_OK)
        return NULL;
    for (int i = 2; i < shape.n_dims; i++)
        fan_in *= (double)shape.dims[i];
    m = tt_module_new(cls);
    if (m == NULL)
        return NULL;
    *(conv *)m->data = *c;
    st = tti_layer_uniform(m, "weight", shape, tti_layer_bound(fan_in));
    if (st == TT_OK)
        st = c->no_bias ? tt_module_add_no_param(m, "bias")
                        : tti_layer_uniform(m, "bias", TT_SHAPE(c->out), tti_layer_bound(fan_in));
    return tti_layer_done(m, st);
}

tt_module *tt_conv1d_new(int64_t in, int64_t out, int64_t kernel, const tt_conv_layer_options *opt)
{
    conv c = resolve(in, out, kernel, opt);

    c.kernel[1] = 1;
    return conv_new(&conv1d_class, &c, TT_SHAPE(out, in / c.opt.groups, kernel));
}

tt_module *tt_conv2d_new(int64_t in, int64_t out, int64_t kernel, const tt_conv_layer_options *opt)
{
    conv c = resolve(in, out, kernel, opt);

    return conv_new(&conv2d_class, &c, TT_SHAPE(out, in / c.opt.groups, c.kernel[0], c.kernel[1]));
}

tt_module *tt_conv_transpose2d_new(int64_t in, int64_t out, int64_t kernel,
                                   const tt_conv_layer_options *opt)
{
    conv c = resolve(in, out, kernel, opt);

    return conv_new(&transpose_class, &c,
                    TT_SHAPE(in, out / c.opt.groups, c.kernel[0], c.kernel[1]));
}
