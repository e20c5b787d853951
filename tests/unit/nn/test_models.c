/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models: names, numbers of parameters, shapes, files. */
#include <stdio.h>

#include "unit/nn/nn_data.h"

TT_TEST(models, mlp_has_activations_between_its_layers)
{
    tt_module *m = TT_MLP(TT_ACT_TANH, 20, 32, 5);

    TT_REQUIRE_NOT_NULL(m);
    nn_check_names(tt_module_params(m, NULL), NN_NAMES("0.weight", "0.bias", "2.weight", "2.bias"));
    TT_CHECK_EQ(tt_module_count_params(m), 20 * 32 + 32 + 32 * 5 + 5);
    TT_CHECK_NULL(tt_mlp((int64_t[]){ 1 }, 1, TT_ACT_RELU));
    tt_module_free(m);
}

TT_TEST(models, resnets_have_the_published_sizes_and_names)
{
    static const struct {
        int depth;
        int64_t params;
        int n;
    } rows[] = { { 18, 11689512, 62 }, { 34, 21797672, 110 }, { 50, 25557032, 161 } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tt_module *m = tt_resnet(rows[i].depth, NULL);
        tt_state_dict *all = tt_module_params(m, NULL);

        TT_CHECK_EQ(tt_module_count_params(m), rows[i].params);
        TT_CHECK_EQ(tt_state_dict_count(all), rows[i].n);
        TT_CHECK_STR(tt_state_dict_name(all, 0), "conv1.weight");
        TT_CHECK_STR(tt_state_dict_name(all, rows[i].n - 1), "fc.bias");
        TT_CHECK(tt_module_has(m, "layer2.0.downsample.1.running_mean"));
        tt_state_dict_free(all);
        tt_module_free(m);
    }
    TT_CHECK_NULL(tt_resnet(20, NULL));
}

TT_TEST(models, small_resnet_trains_a_step)
{
    tt_module *m = tt_resnet(18, &(tt_resnet_options){ .classes = 4, .width = 4 });

    TT_REQUIRE_NOT_NULL(m);
    TT_SCOPE {
        tt_tensor *y = tt_module_forward(m, nn_tensor(TT_SHAPE(2, 3, 32, 32), 1));

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(2, 4)));
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_NOT_NULL(tt_grad_of(tt_module_param(m, "layer4.1.conv2.weight")));
        TT_CHECK_NOT_NULL(tt_grad_of(tt_module_param(m, "conv1.weight")));
    }
    tt_module_free(m);
}

static tt_module *small_gpt(void)
{
    return tt_gpt2(
        &(tt_gpt2_options){ .layers = 2, .heads = 2, .width = 8, .context = 6, .vocab = 11 });
}

TT_TEST(models, gpt2_has_the_published_names)
{
    tt_module *m = small_gpt();

    TT_REQUIRE_NOT_NULL(m);
    nn_check_names(
        tt_module_params(m, NULL),
        NN_NAMES("wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias",
                 "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight",
                 "h.0.attn.c_proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias", "h.0.mlp.c_fc.weight",
                 "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight", "h.0.mlp.c_proj.bias",
                 "h.1.ln_1.weight", "h.1.ln_1.bias", "h.1.attn.c_attn.weight",
                 "h.1.attn.c_attn.bias", "h.1.attn.c_proj.weight", "h.1.attn.c_proj.bias",
                 "h.1.ln_2.weight", "h.1.ln_2.bias", "h.1.mlp.c_fc.weight", "h.1.mlp.c_fc.bias",
                 "h.1.mlp.c_proj.weight", "h.1.mlp.c_proj.bias", "ln_f.weight", "ln_f.bias"));
    TT_CHECK(tt_shape_equal(tt_tensor_shape(tt_module_param(m, "h.0.attn.c_attn.weight")),
                            TT_SHAPE(8, 24)));
    tt_module_free(m);
}

TT_TEST(models, gpt2_sees_only_the_past)
{
    tt_module *m = small_gpt();

    nn_fill_params(m);
    TT_SCOPE {
        tt_tensor *a = tt_module_forward(m, tt_reshape(TT_INTS(1, 2, 3, 4), TT_SHAPE(1, 4)));
        tt_tensor *b = tt_module_forward(m, tt_reshape(TT_INTS(1, 2, 3, 9), TT_SHAPE(1, 4)));

        TT_REQUIRE(a != NULL && b != NULL);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(a), TT_SHAPE(1, 4, 11)));
        TT_CHECK(tt_allclose(tt_narrow(a, 1, 0, 3), tt_narrow(b, 1, 0, 3), NULL));
        TT_CHECK(!tt_allclose(tt_narrow(a, 1, 3, 1), tt_narrow(b, 1, 3, 1), NULL));
        TT_CHECK_NULL(tt_module_forward(m, tt_zeros(TT_SHAPE(1, 7), TT_I64, TT_CPU)));
        TT_CHECK_CONTAINS(tt_last_error(), "T up to 6");
    }
    tt_module_free(m);
}

TT_TEST(models, gpt2_loads_files_with_the_usual_extras)
{
    tt_module *m = small_gpt(), *n = small_gpt();
    tt_state_dict *sd = tt_module_state_dict(m), *file = tt_state_dict_new();
    char path[512], name[128];

    nn_fill_params(m);
    TT_SCOPE {
        for (int i = 0; i < tt_state_dict_count(sd); i++) {
            snprintf(name, sizeof name, "transformer.%s", tt_state_dict_name(sd, i));
            TT_CHECK_OK(tt_state_dict_set(file, name, tt_state_dict_tensor(sd, i)));
        }
        TT_CHECK_OK(tt_state_dict_set(file, "transformer.h.0.attn.bias", TT_FLOATS(1)));
        TT_CHECK_OK(tt_state_dict_set(file, "transformer.h.0.attn.masked_bias", TT_FLOATS(1)));
        TT_CHECK_OK(tt_state_dict_set(file, "lm_head.weight", tt_module_param(m, "wte.weight")));
    }
    snprintf(path, sizeof path, "%s/gpt2.safetensors", tt_test_tmpdir());
    TT_REQUIRE_OK(tt_state_dict_save(file, path));
    TT_REQUIRE_OK(tt_module_load(n, path, NULL));
    TT_CHECK(tt_equal(tt_module_param(n, "h.1.mlp.c_proj.weight"),
                      tt_module_param(m, "h.1.mlp.c_proj.weight")));
    TT_CHECK(tt_equal(tt_module_param(n, "wte.weight"), tt_module_param(m, "wte.weight")));
    tt_state_dict_free(sd);
    tt_state_dict_free(file);
    tt_module_free(m);
    tt_module_free(n);
}

TT_TEST(models, save_and_load_a_file)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(3, 4, NULL), tt_batch_norm1d_new(4, NULL));
    tt_module *n = tt_module_copy(m), *other = tt_linear_new(3, 4, NULL);
    char path[512];

    nn_fill_params(m);
    snprintf(path, sizeof path, "%s/net.safetensors", tt_test_tmpdir());
    TT_REQUIRE_OK(tt_module_save(m, path));
    TT_REQUIRE_OK(tt_module_load(n, path, NULL));
    TT_CHECK(tt_equal(tt_module_param(n, "0.weight"), tt_module_param(m, "0.weight")));
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_buffer(n, "1.num_batches_tracked")), TT_I64);
    TT_CHECK_ERR_SAYS(tt_module_load(other, path, NULL), TT_ERR_INVALID, "missing: weight, bias");
    TT_CHECK_OK(tt_module_load(other, path, &(tt_load_options){ .prefix = "0." }));
    TT_CHECK(tt_module_load(n, "/nonexistent/file", NULL) != TT_OK);
    tt_module_free(m);
    tt_module_free(n);
    tt_module_free(other);
}

static tt_status build_gpt(void *ctx)
{
    tt_module *m = tt_gpt2(
        &(tt_gpt2_options){ .layers = 1, .heads = 1, .width = 2, .context = 3, .vocab = 3 });
    tt_status st = m != NULL ? TT_OK : tt_last_status();

    (void)ctx;
    TT_SCOPE {
        tt_tensor *t = m != NULL ? tt_zeros(TT_SHAPE(1, 3), TT_I64, TT_CPU) : NULL;

        if (st == TT_OK && (t == NULL || tt_module_forward(m, t) == NULL))
            st = tt_last_status();
    }
    tt_module_free(m);
    return st;
}

TT_TEST(models, survive_every_failed_allocation)
{
    TT_CHECK_GT(tt_test_fail_allocs(build_gpt, NULL), 50);
}
