/* SPDX-License-Identifier: Apache-2.0 */
/* The models of the golden trainings as modules of ours: classes with a forward, made of layers.
 * Names and order of the parameters are those of models.py. */
#include <string.h>

#include "golden/training.h"

typedef struct part {
    const char *name;
    tt_module *module;
} part;

/* A module of this class with these children, which it takes over; NULL when anything failed. */
static tt_module *assemble(const tt_module_class *cls, const part *parts, int n)
{
    tt_module *m = tt_module_new(cls);
    bool ok = m != NULL;

    for (int i = 0; i < n; i++) {
        if (m == NULL)
            tt_module_free(parts[i].module);
        else if (tt_module_give_child(m, parts[i].name, parts[i].module) != TT_OK)
            ok = false;
    }
    if (!ok) {
        tt_module_free(m);
        return NULL;
    }
    return m;
}

#define ASSEMBLE(cls, ...) \
    assemble(cls, (part[]){ __VA_ARGS__ }, (int)(sizeof((part[]){ __VA_ARGS__ }) / sizeof(part)))

static int64_t setting(const cJSON *config, const char *name, int64_t absent)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, name);

    if (cJSON_IsBool(item))
        return cJSON_IsTrue(item) ? 1 : 0;
    return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : absent;
}

static tt_tensor *classify(tt_module *m, tt_tensor *const *batch)
{
    return tt_cross_entropy(tt_module_forward(m, batch[0]), batch[1]);
}

/* ---- mlp ---------------------------------------------------------------------------------- */

static tt_tensor *mlp_forward(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "net", x);
}

static const tt_module_class mlp_class = { .name = "Mlp", .forward = mlp_forward };

static tt_module *build_mlp(const cJSON *config)
{
    (void)config;
    return ASSEMBLE(&mlp_class, { "net", TT_SEQUENTIAL(tt_linear_new(20, 32, NULL), tt_relu_new(),
                                                       tt_linear_new(32, 16, NULL), tt_tanh_new(),
                                                       tt_linear_new(16, 5, NULL)) });
}

/* ---- cnn ---------------------------------------------------------------------------------- */

static tt_tensor *cnn_forward(tt_module *m, tt_tensor *x)
{
    tt_pool_options pool = { .kernel = { 2, 2 } };

    x = tt_relu(tt_module_run(m, "bn1", tt_module_run(m, "conv1", x)));
    x = tt_max_pool2d(x, &pool, NULL);
    x = tt_relu(tt_module_run(m, "bn2", tt_module_run(m, "conv2", x)));
    x = tt_max_pool2d(x, &pool, NULL);
    return tt_module_run(m, "fc", tt_flatten(x, 1, -1));
}

static const tt_module_class cnn_class = { .name = "Cnn", .forward = cnn_forward };

static tt_module *build_cnn(const cJSON *config)
{
    tt_conv_layer_options same = { .padding = 1, .no_bias = true };
    tt_conv_layer_options half = { .padding = 1, .stride = 2, .no_bias = true };

    (void)config;
    return ASSEMBLE(
        &cnn_class, { "conv1", tt_conv2d_new(3, 8, 3, &same) },
        { "bn1", tt_batch_norm2d_new(8, NULL) }, { "conv2", tt_conv2d_new(8, 16, 3, &half) },
        { "bn2", tt_batch_norm2d_new(16, NULL) }, { "fc", tt_linear_new(64, 10, NULL) });
}

static tt_module *build_resnet18(const cJSON *config)
{
    tt_resnet_options opt = { .classes = 10 };

    (void)config;
    return tt_resnet(18, &opt);
}

/* ---- gpt2: tokens [B, T + 1] give both inputs and targets --------------------------------------- */

static tt_module *build_gpt2(const cJSON *config)
{
    tt_gpt2_options opt = { .layers = (int)setting(config, "layers", 2),
                            .heads = (int)setting(config, "heads", 4),
                            .width = setting(config, "width", 64),
                            .context = setting(config, "context", 32),
                            .vocab = setting(config, "vocab", 128) };

    return tt_gpt2(&opt);
}

static tt_tensor *gpt2_loss(tt_module *m, tt_tensor *const *batch)
{
    int64_t length = tt_tensor_size(batch[0], 1) - 1;
    tt_tensor *scores = tt_module_forward(m, tt_narrow(batch[0], 1, 0, length));
    tt_tensor *targets = tt_narrow(batch[0], 1, 1, length);

    return tt_cross_entropy(tt_flatten(scores, 0, 1), tt_flatten(targets, 0, -1));
}

/* ---- recurrent ------------------------------------------------------------------------------ */

static tt_tensor *recurrent_forward(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "fc", tt_select(tt_module_run(m, "rnn", x), 1, -1));
}

static const tt_module_class recurrent_class = { .name = "Recurrent",
                                                 .forward = recurrent_forward };

static tt_module *build_recurrent(const cJSON *config, bool lstm)
{
    tt_rnn_options opt = { .layers = (int)setting(config, "layers", 2), .batch_first = true };
    int64_t in = setting(config, "input", 6), hidden = setting(config, "hidden", 12);

    return ASSEMBLE(&recurrent_class,
                    { "rnn", lstm ? tt_lstm_new(in, hidden, &opt) : tt_gru_new(in, hidden, &opt) },
                    { "fc", tt_linear_new(hidden, 4, NULL) });
}

static tt_module *build_lstm(const cJSON *config)
{
    return build_recurrent(config, true);
}

static tt_module *build_gru(const cJSON *config)
{
    return build_recurrent(config, false);
}

/* ---- bag: five bags over the words, with sparse gradients ------------------------------------- */

static tt_tensor *bag_forward(tt_module *m, tt_tensor *words)
{
    tt_tensor *bags =
        tt_embedding_bag_forward(tt_module_child(m, "bag"), words, TT_INTS(0, 3, 4, 8, 10), NULL);

    return tt_module_run(m, "fc", bags);
}

static const tt_module_class bag_class = { .name = "Bag", .forward = bag_forward };

static tt_module *build_bag(const cJSON *config)
{
    tt_bag_options opt = { .mode = TT_BAG_MEAN, .sparse_grad = true };
    int64_t width = setting(config, "width", 8);

    return ASSEMBLE(&bag_class,
                    { "bag", tt_embedding_bag_new(setting(config, "rows", 40), width, &opt) },
                    { "fc", tt_linear_new(width, 3, NULL) });
}

/* ---- encoder -------------------------------------------------------------------------------- */

static tt_tensor *encoder_forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *y = tt_module_run(m, "encoder", tt_module_run(m, "embed", x));

    return tt_module_run(m, "fc", tt_mean_dim(y, 1, false));
}

static const tt_module_class encoder_class = { .name = "Encoder", .forward = encoder_forward };

static tt_module *build_encoder(const cJSON *config)
{
    tt_transformer_options opt = { .feedforward = setting(config, "feedforward", 32),
                                   .dropout = -1,
                                   .batch_first = true,
                                   .norm_first = setting(config, "norm_first", 0) != 0 };
    int64_t width = setting(config, "width", 16);
    tt_module *layer =
        tt_transformer_encoder_layer_new(width, (int)setting(config, "heads", 4), &opt);
    tt_module *stack = tt_transformer_encoder_new(layer, (int)setting(config, "layers", 2), NULL);

    tt_module_free(layer);
    return ASSEMBLE(&encoder_class, { "embed", tt_linear_new(6, width, NULL) },
                    { "encoder", stack }, { "fc", tt_linear_new(width, 5, NULL) });
}

/* ---- autoencoder ------------------------------------------------------------------------------ */

static tt_tensor *autoencoder_forward(tt_module *m, tt_tensor *x)
{
    x = tt_silu(tt_module_run(m, "norm1", tt_module_run(m, "down1", x)));
    x = tt_silu(tt_module_run(m, "norm2", tt_module_run(m, "down2", x)));
    x = tt_silu(tt_module_run(m, "norm3", tt_module_run(m, "up1", x)));
    return tt_module_run(m, "up2", x);
}

static const tt_module_class autoencoder_class = { .name = "Autoencoder",
                                                   .forward = autoencoder_forward };

static tt_module *build_autoencoder(const cJSON *config)
{
    tt_conv_layer_options half = { .stride = 2, .padding = 1 };
    tt_conv_layer_options twice = { .stride = 2, .padding = 1, .output_padding = 1 };

    (void)config;
    return ASSEMBLE(&autoencoder_class, { "down1", tt_conv2d_new(3, 8, 3, &half) },
                    { "norm1", tt_group_norm_new(2, 8, NULL) },
                    { "down2", tt_conv2d_new(8, 12, 3, &half) },
                    { "norm2", tt_group_norm_new(3, 12, NULL) },
                    { "up1", tt_conv_transpose2d_new(12, 8, 3, &twice) },
                    { "norm3", tt_group_norm_new(2, 8, NULL) },
                    { "up2", tt_conv_transpose2d_new(8, 3, 4, &half) });
}

static tt_tensor *autoencoder_loss(tt_module *m, tt_tensor *const *batch)
{
    return tt_mse_loss(tt_module_forward(m, batch[0]), batch[0]);
}

/* ---- by name -------------------------------------------------------------------------------- */

static const golden_model models[] = {
    { "mlp", build_mlp, classify },
    { "cnn", build_cnn, classify },
    { "resnet18", build_resnet18, classify },
    { "gpt2", build_gpt2, gpt2_loss },
    { "lstm", build_lstm, classify },
    { "gru", build_gru, classify },
    { "embedding_bag", build_bag, classify },
    { "encoder", build_encoder, classify },
    { "autoencoder", build_autoencoder, autoencoder_loss },
};

const golden_model *golden_find_model(const char *training)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strncmp(training, models[i].name, strlen(models[i].name)) == 0)
            return &models[i];
    }
    return NULL;
}
