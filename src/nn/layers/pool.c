/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling layers and Flatten. */
#include <stdio.h>

#include "nn/layers/layer.h"

typedef struct pool {
    tt_pool_options opt;
    int64_t out[2]; /* adaptive */
} pool;

static const pool *data(const tt_module *m)
{
    return m->data;
}

static tt_tensor *max1d_forward(tt_module *m, tt_tensor *x)
{
    return tt_max_pool1d(x, &data(m)->opt);
}

static tt_tensor *max2d_forward(tt_module *m, tt_tensor *x)
{
    return tt_max_pool2d(x, &data(m)->opt, NULL);
}

static tt_tensor *avg1d_forward(tt_module *m, tt_tensor *x)
{
    return tt_avg_pool1d(x, &data(m)->opt);
}

static tt_tensor *avg2d_forward(tt_module *m, tt_tensor *x)
{
    return tt_avg_pool2d(x, &data(m)->opt);
}

static tt_tensor *adaptive_avg_forward(tt_module *m, tt_tensor *x)
{
    return tt_adaptive_avg_pool2d(x, data(m)->out[0], data(m)->out[1]);
}

static tt_tensor *adaptive_max_forward(tt_module *m, tt_tensor *x)
{
    return tt_adaptive_max_pool2d(x, data(m)->out[0], data(m)->out[1], NULL);
}

/* "name=3" for a square, "name=(3, 5)" otherwise, and "name=(3,)" with `tuple`. */
static int add_size(char *text, size_t size, const char *name, const int64_t *v, bool tuple)
{
    if (tuple)
        return snprintf(text, size, "%s=(%lld,)", name, (long long)v[0]);
    if (v[0] == v[1])
        return snprintf(text, size, "%s=%lld", name, (long long)v[0]);
    return snprintf(text, size, "%s=(%lld, %lld)", name, (long long)v[0], (long long)v[1]);
}

static int describe_sizes(const tt_module *m, char *text, size_t size, bool tuple)
{
    const tt_pool_options *o = &data(m)->opt;
    int n = add_size(text, size, "kernel_size", o->kernel, tuple);

    n += add_size(text + n, size - (size_t)n, ", stride", o->stride, tuple);
    return n + add_size(text + n, size - (size_t)n, ", padding", o->padding, tuple);
}

static int describe_max(const tt_module *m, char *text, size_t size)
{
    const tt_pool_options *o = &data(m)->opt;
    int64_t dilation[2] = { o->dilation[0] != 0 ? o->dilation[0] : 1,
                            o->dilation[1] != 0 ? o->dilation[1] : 1 };
    int n = describe_sizes(m, text, size, false);

    n += add_size(text + n, size - (size_t)n, ", dilation", dilation, false);
    return n +
           snprintf(text + n, size - (size_t)n, ", ceil_mode=%s", o->ceil_mode ? "True" : "False");
}

static int describe_avg1d(const tt_module *m, char *text, size_t size)
{
    return describe_sizes(m, text, size, true);
}

static int describe_avg2d(const tt_module *m, char *text, size_t size)
{
    return describe_sizes(m, text, size, false);
}

static int describe_adaptive(const tt_module *m, char *text, size_t size)
{
    return snprintf(text, size, "output_size=(%lld, %lld)", (long long)data(m)->out[0],
                    (long long)data(m)->out[1]);
}

static const tt_module_class max1d_class = { .name = "MaxPool1d",
                                             .data_size = sizeof(pool),
                                             .forward = max1d_forward,
                                             .describe = describe_max };
static const tt_module_class max2d_class = { .name = "MaxPool2d",
                                             .data_size = sizeof(pool),
                                             .forward = max2d_forward,
                                             .describe = describe_max };
static const tt_module_class avg1d_class = { .name = "AvgPool1d",
                                             .data_size = sizeof(pool),
                                             .forward = avg1d_forward,
                                             .describe = describe_avg1d };
static const tt_module_class avg2d_class = { .name = "AvgPool2d",
                                             .data_size = sizeof(pool),
                                             .forward = avg2d_forward,
                                             .describe = describe_avg2d };
static const tt_module_class adaptive_avg_class = { .name = "AdaptiveAvgPool2d",
                                                    .data_size = sizeof(pool),
                                                    .forward = adaptive_avg_forward,
                                                    .describe = describe_adaptive };
static const tt_module_class adaptive_max_class = { .name = "AdaptiveMaxPool2d",
                                                    .data_size = sizeof(pool),
                                                    .forward = adaptive_max_forward,
                                                    .describe = describe_adaptive };

static tt_module *pool_new(const tt_module_class *cls, int64_t kernel,
                           const tt_pool_layer_options *opt)
{
    tt_pool_layer_options o = opt != NULL ? *opt : (tt_pool_layer_options){ 0 };
    int64_t kernel_w = o.kernel_w != 0 ? o.kernel_w : kernel;
    tt_module *m;

    if (tti_layer_check(cls->name, "kernel_size", kernel, 1) != TT_OK)
        return NULL;
    m = tt_module_new(cls);
    if (m == NULL)
        return NULL;
    ((pool *)m->data)->opt = (tt_pool_options){
        .kernel = { kernel, kernel_w },
        .stride = { o.stride != 0 ? o.stride : kernel, o.stride_w != 0 ? o.stride_w
                                                       : o.stride != 0 ? o.stride
                                                                       : kernel_w },
        .padding = { o.padding, o.padding_w == 0  ? o.padding
                                : o.padding_w < 0 ? 0
                                                  : o.padding_w },
        .dilation = { o.dilation, o.dilation_w != 0 ? o.dilation_w : o.dilation },
        .ceil_mode = o.ceil_mode,
        .exclude_pad = o.exclude_pad,
        .divisor_override = o.divisor_override,
    };
    return m;
}

tt_module *tt_max_pool1d_new(int64_t kernel, const tt_pool_layer_options *opt)
{
    return pool_new(&max1d_class, kernel, opt);
}

tt_module *tt_max_pool2d_new(int64_t kernel, const tt_pool_layer_options *opt)
{
    return pool_new(&max2d_class, kernel, opt);
}

tt_module *tt_avg_pool1d_new(int64_t kernel, const tt_pool_layer_options *opt)
{
    return pool_new(&avg1d_class, kernel, opt);
}

tt_module *tt_avg_pool2d_new(int64_t kernel, const tt_pool_layer_options *opt)
{
    return pool_new(&avg2d_class, kernel, opt);
}

static tt_module *adaptive_new(const tt_module_class *cls, int64_t out_h, int64_t out_w)
{
    tt_module *m;

    if (tti_layer_check(cls->name, "output_size", out_h, 1) != TT_OK ||
        tti_layer_check(cls->name, "output_size", out_w, 1) != TT_OK)
        return NULL;
    m = tt_module_new(cls);
    if (m != NULL)
        *(pool *)m->data = (pool){ .out = { out_h, out_w } };
    return m;
}

tt_module *tt_adaptive_avg_pool2d_new(int64_t out_h, int64_t out_w)
{
    return adaptive_new(&adaptive_avg_class, out_h, out_w);
}

tt_module *tt_adaptive_max_pool2d_new(int64_t out_h, int64_t out_w)
{
    return adaptive_new(&adaptive_max_class, out_h, out_w);
}

static tt_tensor *flatten_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_flatten(x, 1, -1);
}

static int describe_flatten(const tt_module *m, char *text, size_t size)
{
    (void)m;
    return snprintf(text, size, "start_dim=1, end_dim=-1");
}

static const tt_module_class flatten_class = { .name = "Flatten",
                                               .forward = flatten_forward,
                                               .describe = describe_flatten };

tt_module *tt_flatten_new(void)
{
    return tt_module_new(&flatten_class);
}
