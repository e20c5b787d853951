/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: their parameters, initial values, results by hand, and printed forms. */
#include "unit/nn/nn_data.h"

static void set(tt_module *m, const char *name, const float *values)
{
    tt_tensor *t = tt_module_param(m, name);

    TT_REQUIRE_NOT_NULL(t);
    memcpy(tt_tensor_data(t), values, tt_tensor_bytes(t));
}

TT_TEST(layers, linear_by_hand)
{
    tt_module *m = tt_linear_new(3, 2, NULL), *bare, *empty;

    TT_REQUIRE_NOT_NULL(m);
    nn_check_names(tt_module_params(m, NULL), NN_NAMES("weight", "bias"));
    set(m, "weight", (float[]){ 1, 2, 3, 4, 5, 6 });
    set(m, "bias", (float[]){ 0.5f, -0.5f });
    bare = tt_linear_new(3, 2, &(tt_linear_options){ .no_bias = true });
    nn_check_names(tt_module_params(bare, NULL), NN_NAMES("weight"));
    TT_CHECK_NULL(tt_module_param(bare, "bias"));
    set(bare, "weight", (float[]){ 1, 2, 3, 4, 5, 6 });
    empty = tt_linear_new(3, 0, NULL);
    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(1, 0, -1);

        nn_check_values(tt_module_forward(m, x), (double[]){ -1.5, -2.5 }, 2, 0);
        nn_check_values(tt_module_forward(bare, x), (double[]){ -2, -2 }, 2, 0);
        x = tt_module_forward(empty, tt_ones(TT_SHAPE(4, 3), TT_F32, TT_CPU));
        TT_REQUIRE_NOT_NULL(x);
        TT_CHECK_EQ(tt_tensor_size(x, 1), 0);
    }
    tt_module_free(m);
    tt_module_free(bare);
    tt_module_free(empty);
    TT_CHECK_NULL(tt_linear_new(-1, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "in_features");
}

TT_TEST(layers, bilinear_by_hand)
{
    tt_module *m = tt_bilinear_new(2, 2, 1, NULL);

    TT_REQUIRE_NOT_NULL(m);
    set(m, "weight", (float[]){ 1, 2, 3, 4 });
    set(m, "bias", (float[]){ 10 });
    TT_SCOPE {
        tt_tensor *y = tt_bilinear_forward(m, tt_reshape(TT_FLOATS(1, 2), TT_SHAPE(1, 2)),
                                           tt_reshape(TT_FLOATS(3, 5), TT_SHAPE(1, 2)));

        nn_check_values(y, (double[]){ 10 + 1 * (3 + 10) + 2 * (9 + 20) }, 1, 0);
    }
    tt_module_free(m);
}

static void check_within(const tt_tensor *t, double bound)
{
    double most = 0;

    for (int64_t i = 0; i < tt_tensor_numel(t); i++)
        most = fmax(most, fabs((double)nn_data(t)[i]));
    TT_CHECK(most <= bound);
    TT_CHECK(most > 0.8 * bound);
}

TT_TEST(layers, initial_values_have_the_usual_bounds)
{
    tt_module *l, *c;

    tt_seed(tt_test_seed());
    l = tt_linear_new(64, 50, NULL);
    c = tt_conv2d_new(8, 16, 3, &(tt_conv_layer_options){ .groups = 2 });
    check_within(tt_module_param(l, "weight"), 1 / sqrt(64));
    check_within(tt_module_param(l, "bias"), 1 / sqrt(64));
    check_within(tt_module_param(c, "weight"), 1 / sqrt(4 * 9));
    tt_module_free(l);
    tt_module_free(c);
}

TT_TEST(layers, batch_norm_learns_running_statistics)
{
    tt_module *m = tt_batch_norm1d_new(2, NULL);

    TT_REQUIRE_NOT_NULL(m);
    nn_check_names(tt_module_state_dict(m), NN_NAMES("weight", "bias", "running_mean",
                                                     "running_var", "num_batches_tracked"));
    TT_SCOPE {
        tt_tensor *x = tt_reshape(TT_FLOATS(1, 10, 3, 30), TT_SHAPE(2, 2)), *y;

        y = tt_module_forward(m, x);
        nn_check_values(y, (double[]){ -1, -1, 1, 1 }, 4, 1e-4);
        nn_check_values(tt_module_buffer(m, "running_mean"), (double[]){ 0.2, 2 }, 2, 1e-6);
        nn_check_values(tt_module_buffer(m, "running_var"), (double[]){ 1.1, 20.9 }, 2, 1e-5);
        TT_CHECK_EQ(tt_item_int(tt_module_buffer(m, "num_batches_tracked")), 1);
        tt_module_eval(m);
        y = tt_module_forward(m, x);
        nn_check_values(y,
                        (double[]){ 0.8 / sqrt(1.10001), 8 / sqrt(20.90001), 2.8 / sqrt(1.10001),
                                    28 / sqrt(20.90001) },
                        4, 1e-5);
        TT_CHECK_EQ(tt_item_int(tt_module_buffer(m, "num_batches_tracked")), 1);
        TT_CHECK_NULL(tt_module_forward(m, tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU)));
        TT_CHECK_CONTAINS(tt_last_error(), "expected 2 channels");
    }
    tt_module_free(m);
}

TT_TEST(layers, batch_norm_cumulative_and_without_statistics)
{
    tt_module *all = tt_batch_norm1d_new(1, &(tt_norm_options){ .momentum = -1 });
    tt_module *none =
        tt_batch_norm1d_new(1, &(tt_norm_options){ .no_running_stats = true, .no_affine = true });
    tt_batch_norm_info info;

    TT_SCOPE {
        tt_tensor *a = tt_reshape(TT_FLOATS(1, 3), TT_SHAPE(2, 1));
        tt_tensor *b = tt_reshape(TT_FLOATS(5, 7), TT_SHAPE(2, 1));

        TT_CHECK_NOT_NULL(tt_module_forward(all, a));
        TT_CHECK_NOT_NULL(tt_module_forward(all, b));
        nn_check_values(tt_module_buffer(all, "running_mean"), (double[]){ 4 }, 1, 1e-6);
        TT_CHECK_EQ(tt_state_dict_count(NULL), 0);
        tt_module_eval(none);
        nn_check_values(tt_module_forward(none, b), (double[]){ -1, 1 }, 2, 1e-4);
    }
    nn_check_names(tt_module_state_dict(none), NULL, 0);
    TT_CHECK(tt_module_is_batch_norm(none, &info));
    TT_CHECK_EQ(info.n_dims, 1);
    TT_CHECK(info.options.no_running_stats);
    TT_CHECK(!tt_module_is_batch_norm(NULL, NULL));
    tt_module_free(all);
    tt_module_free(none);
}

TT_TEST(layers, norms_by_hand)
{
    tt_module *ln = tt_layer_norm_new(TT_SHAPE(2), NULL);
    tt_module *rms = tt_rms_norm_new(TT_SHAPE(2), NULL);
    tt_module *gn = tt_group_norm_new(2, 4, NULL);

    nn_check_names(tt_module_params(ln, NULL), NN_NAMES("weight", "bias"));
    nn_check_names(tt_module_params(rms, NULL), NN_NAMES("weight"));
    nn_check_names(tt_module_params(gn, NULL), NN_NAMES("weight", "bias"));
    TT_SCOPE {
        tt_tensor *x = tt_reshape(TT_FLOATS(1, 3, 10, 30), TT_SHAPE(2, 2));
        double r = sqrt(5), s = sqrt(500);

        nn_check_values(tt_module_forward(ln, x), (double[]){ -1, 1, -1, 1 }, 4, 1e-4);
        nn_check_values(tt_module_forward(rms, x), (double[]){ 1 / r, 3 / r, 10 / s, 30 / s }, 4,
                        1e-5);
        x = tt_reshape(x, TT_SHAPE(1, 4, 1));
        nn_check_values(tt_module_forward(gn, x), (double[]){ -1, 1, -1, 1 }, 4, 1e-4);
    }
    TT_CHECK_NULL(tt_group_norm_new(3, 4, NULL));
    tt_module_free(ln);
    tt_module_free(rms);
    tt_module_free(gn);
}

TT_TEST(layers, rms_norm_takes_the_epsilon_of_its_type)
{
    tt_module *m = tt_rms_norm_new(TT_SHAPE(2), NULL);

    TT_REQUIRE_NOT_NULL(m);
    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(1e-6f, 1e-6f);
        double single = 1e-6 / sqrt(1e-12 + 1.1920928955078125e-07);
        double twice = 1e-6 / sqrt(1e-12 + 2.220446049250313e-16);

        nn_check_values(tt_module_forward(m, x), (double[]){ single, single }, 2, 1e-8);
        TT_CHECK_OK(tt_module_to_dtype(m, TT_F64));
        x = tt_to_dtype(tt_module_forward(m, tt_to_dtype(x, TT_F64)), TT_F32);
        nn_check_values(x, (double[]){ twice, twice }, 2, 1e-6);
    }
    tt_module_free(m);
}

TT_TEST(layers, convolutions_have_the_right_shapes)
{
    tt_module *c1 = tt_conv1d_new(2, 4, 3, &(tt_conv_layer_options){ .padding = 1 });
    tt_module *c2 = tt_conv2d_new(
        2, 4, 3, &(tt_conv_layer_options){ .stride = 2, .padding = 1, .kernel_w = 5 });
    tt_module *up = tt_conv_transpose2d_new(
        4, 2, 3, &(tt_conv_layer_options){ .stride = 2, .padding = 1, .output_padding = 1 });

    TT_SCOPE {
        tt_tensor *y = tt_module_forward(c1, nn_tensor(TT_SHAPE(3, 2, 7), 1));

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(3, 4, 7)));
        y = tt_module_forward(c2, nn_tensor(TT_SHAPE(3, 2, 8, 8), 1));
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(3, 4, 4, 3)));
        y = tt_module_forward(up, nn_tensor(TT_SHAPE(3, 4, 4, 4), 1));
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(3, 2, 8, 8)));
    }
    TT_CHECK(tt_shape_equal(tt_tensor_shape(tt_module_param(up, "weight")), TT_SHAPE(4, 2, 3, 3)));
    tt_module_free(c1);
    tt_module_free(c2);
    tt_module_free(up);
}

TT_TEST(layers, embeddings_pick_rows_and_bags_average_them)
{
    TT_SCOPE {
        tt_tensor *w = tt_reshape(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(3, 2));
        tt_module *e = tt_embedding_from(w, NULL), *b = tt_embedding_bag_from(w, NULL);
        tt_module *padded = tt_embedding_new(
            4, 2, &(tt_embedding_options){ .has_padding_idx = true, .padding_idx = -1 });

        TT_CHECK_PTR(tt_module_param(e, "weight"), w);
        nn_check_values(tt_module_forward(e, TT_INTS(2, 0)), (double[]){ 5, 6, 1, 2 }, 4, 0);
        nn_check_values(tt_embedding_bag_forward(b, TT_INTS(0, 1, 2), TT_INTS(0, 2), NULL),
                        (double[]){ 2, 3, 5, 6 }, 4, 1e-6);
        nn_check_values(tt_module_forward(padded, TT_INTS(3)), (double[]){ 0, 0 }, 2, 0);
        tt_module_free(e);
        tt_module_free(b);
        tt_module_free(padded);
    }
}

TT_TEST(layers, sequential_runs_in_order_and_prints)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(2, 3, NULL), tt_relu_new(), tt_dropout_new(0.5),
                                 tt_softmax_new(-1));
    char *text;

    TT_REQUIRE_NOT_NULL(m);
    tt_module_eval(m);
    TT_CHECK_EQ(tt_module_n_children(m), 4);
    TT_SCOPE {
        tt_tensor *y = tt_module_forward(m, nn_tensor(TT_SHAPE(4, 2), 3));

        TT_REQUIRE_NOT_NULL(y);
        nn_check_values(tt_sum_dim(y, 1, false), (double[]){ 1, 1, 1, 1 }, 4, 1e-6);
    }
    text = tt_module_text(m);
    TT_CHECK_STR(text, "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n"
                       "  (1): ReLU()\n  (2): Dropout(p=0.5, inplace=False)\n"
                       "  (3): Softmax(dim=-1)\n)");
    tt_text_free(text);
    tt_module_free(m);
    TT_CHECK_NULL(TT_SEQUENTIAL(tt_relu_new(), tt_linear_new(-1, 1, NULL), tt_relu_new()));
}

/* As PyTorch prints them. */
TT_TEST(layers, norms_without_a_bias_say_so)
{
    tt_norm_options bare = { .no_affine = true };
    tt_module *m =
        TT_SEQUENTIAL(tt_layer_norm_new(TT_SHAPE(4), &(tt_norm_options){ .no_bias = true }),
                      tt_layer_norm_new(TT_SHAPE(4), &bare), tt_group_norm_new(2, 4, &bare),
                      tt_batch_norm2d_new(3, &bare));
    char *text;

    TT_REQUIRE_NOT_NULL(m);
    text = tt_module_text(m);
    TT_CHECK_STR(text, "Sequential(\n"
                       "  (0): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=False)\n"
                       "  (1): LayerNorm((4,), eps=1e-05, elementwise_affine=False, bias=False)\n"
                       "  (2): GroupNorm(2, 4, eps=1e-05, affine=False, bias=False)\n"
                       "  (3): BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, "
                       "track_running_stats=True)\n)");
    tt_text_free(text);
    tt_module_free(m);
}

TT_TEST(layers, sequential_does_not_keep_what_nobody_needs)
{
    tt_module *m = TT_SEQUENTIAL(tt_relu_new(), tt_tanh_new(), tt_relu_new(), tt_tanh_new(),
                                 tt_relu_new(), tt_tanh_new());

    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(1000, 100), 1), *y = NULL;
        uint64_t before = tt_memory_stats_get(TT_CPU).current;

        tt_memory_reset_peak(TT_CPU);
        y = tt_module_forward(m, x);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_LE(tt_memory_stats_get(TT_CPU).peak - before, 2 * tt_tensor_bytes(x) + 4096);
        TT_CHECK_LE(tt_memory_stats_get(TT_CPU).current - before, tt_tensor_bytes(x) + 4096);
    }
    tt_module_free(m);
}

TT_TEST(layers, dropout_is_off_in_eval_mode)
{
    tt_module *m = tt_dropout_new(0.5);

    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1000), TT_F32, TT_CPU), *y = tt_module_forward(m, x);
        int zeros = 0;

        TT_REQUIRE_NOT_NULL(y);
        for (int i = 0; i < 1000; i++)
            zeros += nn_data(y)[i] < 1;
        TT_CHECK(zeros > 300 && zeros < 700);
        tt_module_eval(m);
        nn_check_values(tt_sum(tt_module_forward(m, x)), (double[]){ 1000 }, 1, 0);
    }
    tt_module_free(m);
    TT_CHECK_NULL(tt_dropout_new(1.5));
}

TT_TEST(layers, initialisers_by_name)
{
    TT_SCOPE {
        tt_tensor *t = tt_require_grad(tt_empty(TT_SHAPE(64, 32), TT_F32, TT_CPU)), *p;
        double bound = 0;

        TT_CHECK_PTR(tt_init_kaiming_uniform(t, NULL), t);
        check_within(t, sqrt(6.0 / 32));
        tt_init_xavier_uniform(t, NULL);
        check_within(t, sqrt(6.0 / 96));
        tt_init_trunc_normal(t, 1, 2, 0, 3, NULL);
        for (int i = 0; i < 64 * 32; i++)
            bound = fmax(bound, fabs((double)nn_data(t)[i] - 1.5));
        TT_CHECK(bound <= 1.5 && bound > 1.4);
        tt_init_orthogonal(t, &(tt_init_options){ .gain = 2 });
        TT_NO_GRAD
        {
            p = tt_matmul(tt_t(t), t);
            TT_CHECK(tt_allclose(p, tt_mul_scalar(tt_eye(32, TT_F32, TT_CPU), 4),
                                 &(tt_close_options){ .rtol = 1e-5, .atol = 1e-5 }));
        }
        TT_CHECK(tt_requires_grad(t) && tt_is_leaf(t));
        TT_CHECK_NULL(tt_init_xavier_normal(TT_FLOATS(1), NULL));
    }
}

static tt_status build_and_run(void *ctx)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(4, 6, NULL), tt_batch_norm1d_new(6, NULL),
                                 tt_gelu_new(), tt_layer_norm_new(TT_SHAPE(6), NULL));
    tt_status st = m != NULL ? TT_OK : tt_last_status();
    char *text = NULL;

    (void)ctx;
    TT_SCOPE {
        tt_tensor *x = st == TT_OK ? tt_ones(TT_SHAPE(3, 4), TT_F32, TT_CPU) : NULL;
        tt_tensor *y = x != NULL ? tt_module_forward(m, x) : NULL;

        if (y == NULL)
            st = tt_last_status();
        if (st == TT_OK && (text = tt_module_text(m)) == NULL)
            st = tt_last_status();
    }
    tt_text_free(text);
    tt_module_free(m);
    return st;
}

TT_TEST(layers, survive_every_failed_allocation)
{
    TT_CHECK_GT(tt_test_fail_allocs(build_and_run, NULL), 30);
}
