/* SPDX-License-Identifier: Apache-2.0 */
/* Published models: all names of ResNets in torchvision's order with their shapes, and the number of
 * GPT-2's parameters as a formula of its sizes. */
#include <stdio.h>

#include "unit/nn/nn_data.h"

/* A cursor over the entries of a state dictionary that a model is expected to have. */
typedef struct cursor {
    const tt_state_dict *sd;
    int at;
} cursor;

static void expect(cursor *c, const char *prefix, const char *name, tt_shape shape)
{
    char full[128];

    snprintf(full, sizeof full, "%s%s", prefix, name);
    TT_REQUIRE_STR(tt_state_dict_name(c->sd, c->at), full);
    if (!TT_CHECK(tt_shape_equal(tt_tensor_shape(tt_state_dict_tensor(c->sd, c->at)), shape)))
        TT_FAIL_TEST("shape of %s", full);
    c->at++;
}

static void expect_norm(cursor *c, const char *prefix, int64_t channels)
{
    static const char *const names[] = { "weight", "bias", "running_mean", "running_var" };

    for (int i = 0; i < 4; i++)
        expect(c, prefix, names[i], TT_SHAPE(channels));
    expect(c, prefix, "num_batches_tracked", TT_SHAPE_SCALAR);
}

/* One residual block: 3x3 and 3x3, or 1x1, 3x3 and 1x1 four times as wide. */
static void expect_block(cursor *c, const char *prefix, int64_t in, int64_t width, bool deep,
                         bool shortcut)
{
    int n = deep ? 3 : 2;
    int64_t out = deep ? 4 * width : width;
    char name[64];

    for (int i = 1; i <= n; i++) {
        int64_t from = i == 1 ? in : width, to = i == 3 ? out : width;
        int64_t k = deep && i != 2 ? 1 : 3;

        snprintf(name, sizeof name, "%sconv%d.", prefix, i);
        expect(c, name, "weight", TT_SHAPE(to, from, k, k));
        snprintf(name, sizeof name, "%sbn%d.", prefix, i);
        expect_norm(c, name, to);
    }
    if (shortcut) {
        snprintf(name, sizeof name, "%sdownsample.0.", prefix);
        expect(c, name, "weight", TT_SHAPE(out, in, 1, 1));
        snprintf(name, sizeof name, "%sdownsample.1.", prefix);
        expect_norm(c, name, out);
    }
}

static void check_resnet(int depth, const int *blocks, bool deep)
{
    tt_module *m = tt_resnet(depth, &(tt_resnet_options){ .classes = 10, .width = 8 });
    tt_state_dict *sd = tt_module_state_dict(m);
    cursor c = { .sd = sd };
    int64_t in = 8;

    TT_REQUIRE_NOT_NULL(m);
    expect(&c, "conv1.", "weight", TT_SHAPE(8, 3, 7, 7));
    expect_norm(&c, "bn1.", 8);
    for (int stage = 0; stage < 4; stage++) {
        int64_t width = (int64_t)8 << stage, out = deep ? 4 * width : width;

        for (int b = 0; b < blocks[stage]; b++) {
            char prefix[32];

            snprintf(prefix, sizeof prefix, "layer%d.%d.", stage + 1, b);
            expect_block(&c, prefix, in, width, deep, b == 0 && (stage > 0 || deep));
            in = out;
        }
    }
    expect(&c, "fc.", "weight", TT_SHAPE(10, in));
    expect(&c, "fc.", "bias", TT_SHAPE(10));
    TT_CHECK_EQ(tt_state_dict_count(sd), c.at);
    tt_state_dict_free(sd);
    tt_module_free(m);
}

TT_TEST(published_models, resnets_have_all_of_torchvisions_names_in_order)
{
    check_resnet(18, (const int[]){ 2, 2, 2, 2 }, false);
    check_resnet(34, (const int[]){ 3, 4, 6, 3 }, false);
    check_resnet(50, (const int[]){ 3, 4, 6, 3 }, true);
}

static int64_t gpt2_size(int64_t layers, int64_t width, int64_t context, int64_t vocab)
{
    int64_t block = 2 * 2 * width + (3 * width * width + 3 * width) + (width * width + width) +
                    (4 * width * width + 4 * width) + (4 * width * width + width);

    return (vocab + context) * width + layers * block + 2 * width;
}

TT_TEST(published_models, gpt2_has_the_published_number_of_parameters)
{
    static const int64_t sizes[][4] = { { 1, 4, 5, 7 }, { 3, 12, 16, 29 }, { 2, 24, 8, 50 } };

    TT_CHECK_EQ(gpt2_size(12, 768, 1024, 50257), 124439808);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tt_module *m = tt_gpt2(&(tt_gpt2_options){ .layers = (int)sizes[i][0],
                                                   .heads = 2,
                                                   .width = sizes[i][1],
                                                   .context = sizes[i][2],
                                                   .vocab = sizes[i][3] });

        TT_REQUIRE_NOT_NULL(m);
        TT_CHECK_EQ(tt_module_count_params(m),
                    gpt2_size(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]));
        tt_module_free(m);
    }
}

/* From names with and without the prefix comes the same model. */
TT_TEST(published_models, gpt2_gives_the_same_scores_from_both_spellings)
{
    const tt_gpt2_options o = { .layers = 2, .heads = 2, .width = 8, .context = 6, .vocab = 11 };
    tt_module *m = tt_gpt2(&o);
    tt_state_dict *plain = tt_module_state_dict(m), *prefixed = tt_state_dict_new();

    nn_fill_params(m);
    for (int i = 0; i < tt_state_dict_count(plain); i++) {
        char name[128];

        snprintf(name, sizeof name, "transformer.%s", tt_state_dict_name(plain, i));
        TT_CHECK_OK(tt_state_dict_set(prefixed, name, tt_state_dict_tensor(plain, i)));
    }
    for (int with = 0; with < 2; with++) {
        tt_module *n = tt_gpt2(&o);

        TT_REQUIRE_OK(tt_module_load_state_dict(n, with ? prefixed : plain, NULL, NULL));
        TT_SCOPE {
            tt_tensor *x = tt_reshape(TT_INTS(1, 10, 3, 4, 0, 2), TT_SHAPE(2, 3));
            tt_tensor *y = tt_module_forward(m, x);

            TT_REQUIRE_NOT_NULL(y);
            TT_CHECK(tt_equal(y, tt_module_forward(n, x)));
        }
        tt_module_free(n);
    }
    TT_CHECK(tt_state_dict_remove(prefixed, "transformer.ln_f.bias"));
    TT_CHECK_ERR_SAYS(tt_module_load_state_dict(m, prefixed, NULL, NULL), TT_ERR_INVALID,
                      "ln_f.bias");
    tt_state_dict_free(plain);
    tt_state_dict_free(prefixed);
    tt_module_free(m);
}
