/* SPDX-License-Identifier: Apache-2.0 */
/* ResNet-18, 34 and 50 with torchvision's names: conv1, bn1, layer1.0.conv1 ..., fc. */
#include <stdio.h>

#include "nn/layers/layer.h"
#include "tutti/models.h"

/* ---- blocks ------------------------------------------------------------------------------ */

/* conv1 bn1 relu conv2 bn2 (relu conv3 bn3), plus the input, projected when the shape changes. */
static tt_tensor *block_forward(tt_module *m, tt_tensor *x)
{
    static const char *const names[][2] = { { "conv1", "bn1" },
                                            { "conv2", "bn2" },
                                            { "conv3", "bn3" } };
    int n = tt_module_has(m, "conv3") ? 3 : 2;
    tt_tensor *y = x;

    for (int i = 0; y != NULL && i < n; i++) {
        if (i > 0)
            y = tt_relu(y);
        y = tt_module_run(m, names[i][0], y);
        y = y != NULL ? tt_module_run(m, names[i][1], y) : NULL;
    }
    if (y != NULL && tt_module_has(m, "downsample"))
        x = tt_module_run(m, "downsample", x);
    return tt_relu(tt_add(y, x));
}

static const tt_module_class basic_class = { .name = "BasicBlock", .forward = block_forward };
static const tt_module_class bottleneck_class = { .name = "Bottleneck", .forward = block_forward };

/* Weights as torchvision draws them: normal, by the number of outputs. */
static tt_module *conv(int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    tt_module *m = tt_conv2d_new(
        in, out, kernel,
        &(tt_conv_layer_options){ .stride = stride, .padding = kernel / 2, .no_bias = true });
    tt_init_options by_outputs = { .fan_out = true };

    if (m == NULL || tt_init_kaiming_normal(tt_module_param_at(m, 0), &by_outputs) != NULL)
        return m;
    tt_module_free(m);
    return NULL;
}

static tt_status add_conv(tt_module *m, int i, tt_module *c, int64_t channels)
{
    char name[16];

    snprintf(name, sizeof name, "conv%d", i);
    TT_TRY(tt_module_give_child(m, name, c));
    snprintf(name, sizeof name, "bn%d", i);
    return tt_module_give_child(m, name, tt_batch_norm2d_new(channels, NULL));
}

typedef struct plan {
    bool bottleneck, zero_last;
    int blocks[4];
} plan;

static tt_status fill_block(tt_module *m, const plan *p, int64_t in, int64_t width, int64_t stride)
{
    int64_t out = p->bottleneck ? 4 * width : width;
    tt_module *last;

    if (p->bottleneck) {
        TT_TRY(add_conv(m, 1, conv(in, width, 1, 1), width));
        TT_TRY(add_conv(m, 2, conv(width, width, 3, stride), width));
        TT_TRY(add_conv(m, 3, conv(width, out, 1, 1), out));
    } else {
        TT_TRY(add_conv(m, 1, conv(in, width, 3, stride), width));
        TT_TRY(add_conv(m, 2, conv(width, out, 3, 1), out));
    }
    last = tt_module_child(m, p->bottleneck ? "bn3" : "bn2");
    if (p->zero_last && tt_init_constant(tt_module_param_at(last, 0), 0) == NULL)
        return tt_last_status();
    if (stride == 1 && in == out)
        return TT_OK;
    return tt_module_give_child(
        m, "downsample", TT_SEQUENTIAL(conv(in, out, 1, stride), tt_batch_norm2d_new(out, NULL)));
}

static tt_status add_stage(tt_module *m, const plan *p, int stage, int64_t *channels, int64_t width)
{
    char name[16];
    tt_module *blocks;

    snprintf(name, sizeof name, "layer%d", stage + 1);
    TT_TRY(tt_module_give_child(m, name, tt_sequential_new()));
    blocks = tt_module_child(m, name);
    for (int i = 0; i < p->blocks[stage]; i++) {
        int64_t stride = i == 0 && stage > 0 ? 2 : 1;

        TT_TRY(tt_module_append(blocks,
                                tt_module_new(p->bottleneck ? &bottleneck_class : &basic_class)));
        TT_TRY(fill_block(tt_module_child_at(blocks, i), p, *channels, width, stride));
        *channels = p->bottleneck ? 4 * width : width;
    }
    return TT_OK;
}

/* ---- the network ------------------------------------------------------------------------- */

static tt_tensor *resnet_forward(tt_module *m, tt_tensor *x)
{
    x = tt_module_run(m, "conv1", x);
    x = tt_relu(x != NULL ? tt_module_run(m, "bn1", x) : NULL);
    if (x != NULL && tt_module_has(m, "maxpool"))
        x = tt_module_run(m, "maxpool", x);
    for (int i = 0; x != NULL && i < 4; i++)
        x = tt_module_run(m, (const char *const[]){ "layer1", "layer2", "layer3", "layer4" }[i], x);
    x = tt_flatten(tt_adaptive_avg_pool2d(x, 1, 1), 1, -1);
    return x != NULL ? tt_module_run(m, "fc", x) : NULL;
}

static const tt_module_class resnet_class = { .name = "ResNet", .forward = resnet_forward };

static tt_status fill_resnet(tt_module *m, const plan *p, const tt_resnet_options *o)
{
    int64_t channels = o->width;

    TT_TRY(add_conv(m, 1,
                    conv(o->channels, o->width, o->small_images ? 3 : 7, o->small_images ? 1 : 2),
                    o->width));
    if (!o->small_images)
        TT_TRY(tt_module_give_child(
            m, "maxpool",
            tt_max_pool2d_new(3, &(tt_pool_layer_options){ .stride = 2, .padding = 1 })));
    for (int i = 0; i < 4; i++)
        TT_TRY(add_stage(m, p, i, &channels, o->width << i));
    return tt_module_give_child(m, "fc", tt_linear_new(channels, o->classes, NULL));
}

tt_module *tt_resnet(int depth, const tt_resnet_options *opt)
{
    tt_resnet_options o = opt != NULL ? *opt : (tt_resnet_options){ 0 };
    plan p = { .bottleneck = depth == 50, .zero_last = o.zero_last, .blocks = { 3, 4, 6, 3 } };
    tt_module *m;

    if (depth != 18 && depth != 34 && depth != 50)
        return TT_FAIL_NULL(TT_ERR_INVALID, "resnet: expected depth 18, 34 or 50, got %d", depth);
    if (depth == 18)
        p = (plan){ .zero_last = o.zero_last, .blocks = { 2, 2, 2, 2 } };
    o.classes = o.classes != 0 ? o.classes : 1000;
    o.channels = o.channels != 0 ? o.channels : 3;
    o.width = o.width != 0 ? o.width : 64;
    m = tt_module_new(&resnet_class);
    return m != NULL ? tti_layer_done(m, fill_resnet(m, &p, &o)) : NULL;
}
