/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls above the operators, a row each: layers, losses, gradients, optimizers, data, values
 * and files. The other half of test_bad_input.c. */
#include <string.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

#include "unit/robust/refuses.h"

TT_TEST(bad_input, layers)
{
    tt_conv_layer_options groups = { .groups = 2 };

    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3)), *image = zeros(TT_SHAPE(1, 2, 4, 4));
        tt_module *linear = tt_linear_new(4, 2, NULL), *conv = tt_conv2d_new(3, 2, 3, NULL);
        tt_module *big = tt_conv2d_new(2, 2, 7, NULL), *norm = tt_batch_norm2d_new(5, NULL);
        tt_module *gpt = tt_gpt2(
            &(tt_gpt2_options){ .layers = 1, .heads = 2, .width = 4, .context = 4, .vocab = 5 });
        tt_module *lstm = tt_lstm_new(4, 2, NULL);

        BAD(tt_module_forward(linear, x), TT_ERR_INVALID, "[2, 3]");
        BAD(tt_module_forward(NULL, x), TT_ERR_INVALID, "NULL");
        BAD(tt_module_forward(linear, NULL), TT_ERR_INVALID, "NULL");
        BAD(tt_module_forward(conv, image), TT_ERR_INVALID, "[1, 2, 4, 4]");
        BAD(tt_module_forward(conv, x), TT_ERR_INVALID, "[2, 3]");
        BAD(tt_module_forward(big, image), TT_ERR_INVALID, "7");
        BAD(tt_module_forward(norm, image), TT_ERR_INVALID, "5");
        BAD(tt_module_forward(lstm, x), TT_ERR_INVALID,
            "expected 2 or 3 dimensions, the last of size 4, got [2, 3]");
        BAD(tt_module_forward(gpt, tt_zeros(TT_SHAPE(1, 5), TT_I64, TT_CPU)), TT_ERR_INVALID, "4");
        BAD(tt_module_forward(gpt, x), TT_ERR_INVALID,
            "expected indices of type int64 or int32, got float32");
        BAD(tt_linear_new(-1, 2, NULL), TT_ERR_INVALID, "-1");
        BAD(tt_conv2d_new(3, 4, 3, &groups), TT_ERR_INVALID, "3");
        BAD(tt_conv2d_new(3, 4, 0, NULL), TT_ERR_INVALID, "0");
        BAD(tt_dropout_new(1.5), TT_ERR_INVALID, "1.5");
        BAD(tt_mha_new(10, 3, NULL), TT_ERR_INVALID, "10");
        BAD(tt_group_norm_new(3, 4, NULL), TT_ERR_INVALID, "4");
        BAD(tt_resnet(19, NULL), TT_ERR_INVALID, "19");
        BAD(tt_gpt2(&(tt_gpt2_options){ .heads = 5 }), TT_ERR_INVALID, "768");
        tt_module_free(linear);
        tt_module_free(conv);
        tt_module_free(big);
        tt_module_free(norm);
        tt_module_free(gpt);
        tt_module_free(lstm);
    }
    still_works();
}

TT_TEST(bad_input, names_of_modules)
{
    TT_SCOPE {
        tt_module *m = TT_MLP(TT_ACT_RELU, 4, 2);
        tt_state_dict *sd = tt_state_dict_new();
        tt_tensor *x = zeros(TT_SHAPE(2, 3));

        BAD(tt_module_param(m, "0.nobody"), TT_ERR_NOT_FOUND, "nobody");
        BAD(tt_module_child(m, "7"), TT_ERR_NOT_FOUND, "7");
        BAD(tt_module_buffer(m, ""), TT_ERR_NOT_FOUND, "there is no");
        BAD(tt_module_param(m, NULL), TT_ERR_INVALID, "NULL");
        REFUSED(tt_module_add_param(m, "a.b", x), TT_ERR_INVALID, "a.b");
        REFUSED(tt_module_add_param(m, "", x), TT_ERR_INVALID, "not empty");
        REFUSED(tt_module_add_param(m, "0", x), TT_ERR_INVALID, "0");
        REFUSED(tt_module_add_child(m, "self", m), TT_ERR_INVALID, "cannot be below itself");
        REFUSED(tt_module_set_param(m, "nobody", x), TT_ERR_NOT_FOUND, "nobody");
        REFUSED(tt_module_remove(m, "nobody"), TT_ERR_NOT_FOUND, "nobody");
        REFUSED(tt_module_load_state_dict(m, sd, NULL, NULL), TT_ERR_INVALID, "0.weight");
        TT_CHECK_OK(tt_state_dict_set(sd, "0.weight", x));
        REFUSED(tt_module_load_state_dict(m, sd, NULL, NULL), TT_ERR_INVALID, "[2, 3]");
        REFUSED(tt_module_to_dtype(m, TT_I32), TT_ERR_INVALID, "int32");
        REFUSED(tt_module_to_device(m, (tt_device){ TT_DEVICE_CL, 15 }), TT_ERR_NOT_FOUND, "cl:15");
        REFUSED(tt_module_load(m, "/nowhere/at.all", NULL), TT_ERR_NOT_FOUND, "/nowhere/at.all");
        REFUSED(tt_module_save(m, "/nowhere/at.all"), TT_ERR_NOT_FOUND, "/nowhere/at.all");
        tt_state_dict_free(sd);
        tt_module_free(m);
    }
    still_works();
}

TT_TEST(bad_input, losses)
{
    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3)), *far = TT_INTS(0, 3);

        BAD(tt_cross_entropy(x, far), TT_ERR_INVALID, "3");
        BAD(tt_cross_entropy(x, TT_INTS(0, 1, 2)), TT_ERR_INVALID, "[3]");
        BAD(tt_cross_entropy(x, TT_FLOATS(0, 1)), TT_ERR_INVALID, "[2]");
        BAD(tt_cross_entropy(x, TT_FLOATS(0, 1)), TT_ERR_INVALID,
            "classes have an integer type such as int64");
        BAD(tt_nll_loss(x, far, NULL), TT_ERR_INVALID, "3");
        BAD(tt_mse_loss(x, zeros(TT_SHAPE(4))), TT_ERR_INVALID, "[4]");
        BAD(tt_softmax(x, 2), TT_ERR_INVALID, "2");
        BAD(tt_softmax(far, 0), TT_ERR_INVALID, "int64");
        BAD(tt_dropout(x, -1, true, NULL), TT_ERR_INVALID, "-1");
        BAD(tt_layer_norm(x, 3, NULL, NULL, 1e-5), TT_ERR_INVALID, "3");
        BAD(tt_attention(x, zeros(TT_SHAPE(2, 4)), x, NULL), TT_ERR_INVALID, "[2, 4]");
        BAD(tt_max_pool2d(x, NULL, NULL), TT_ERR_INVALID,
            "expected options with a kernel size, got NULL");
    }
    still_works();
}

TT_TEST(bad_input, gradients)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2)), *y = tt_mul_scalar(w, 2);
        tt_tensor *other = tt_require_grad(TT_FLOATS(1, 2)), *g[1];

        REFUSED(tt_backward(y), TT_ERR_INVALID, "[2]");
        REFUSED(tt_backward(NULL), TT_ERR_INVALID, "NULL");
        REFUSED(tt_backward(TT_FLOATS(1)), TT_ERR_INVALID, "does not require a gradient");
        REFUSED(tt_backward_with(y, &(tt_backward_options){ .gradient = zeros(TT_SHAPE(3)) }),
                TT_ERR_INVALID, "[3]");
        REFUSED(tt_set_grad(w, zeros(TT_SHAPE(3))), TT_ERR_INVALID, "[3]");
        REFUSED(tt_set_requires_grad(y, false), TT_ERR_INVALID, "use tt_detach");
        BAD(tt_require_grad(TT_INTS(1)), TT_ERR_INVALID, "int64");
        REFUSED(tt_grad(&y, 1, &w, 1, NULL, g), TT_ERR_INVALID, "[2]");
        REFUSED(tt_on_backward_end(NULL, NULL), TT_ERR_INVALID, "expected a function, got NULL");
        y = tt_sum(tt_exp(y));
        REFUSED(tt_grad(&y, 1, &other, 1, NULL, g), TT_ERR_INVALID, "input 0 was not used");
        TT_CHECK_OK(tt_backward(y));
        REFUSED(tt_backward(y), TT_ERR_INVALID, "pass retain_graph to the first one");
    }
    still_works();
}

/* NULL where a guard, a context or a slot belongs. */
TT_TEST(bad_input, guards_and_contexts)
{
    static const tt_function nothing = { .name = "nothing" };
    double re = 1, im = 1;

    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1), *out[1];
        tt_scope s = tt_scope_open();

        BAD(tt_scope_close_keep(NULL, t), TT_ERR_INVALID, "expected a scope, got NULL");
        BAD(tt_scope_close_keep(&s, NULL), TT_ERR_INVALID, "expected a tensor, got NULL");
        tt_clear_error();
        tt_item_complex(NULL, &re, &im);
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        TT_CHECK(re == 0 && im == 0);
        tt_item_complex(t, NULL, NULL);
        tt_grad_guard_close(NULL);
        TT_CHECK(tt_requires_grad(tt_neg(tt_require_grad(t))));
        BAD(tt_function_user(NULL), TT_ERR_INVALID, "expected a context, got NULL");
        REFUSED(tt_function_save(NULL, t), TT_ERR_INVALID, "expected a context, got NULL");
        BAD(tt_function_saved(NULL, 0), TT_ERR_INVALID, "expected a context, got NULL");
        TT_CHECK(!tt_function_needs_grad(NULL, 0));
        tt_function_mark_non_differentiable(NULL, 0);
        tt_function_keep_undefined(NULL);
        REFUSED(tt_function_apply(NULL, NULL, &t, 1, out, 1), TT_ERR_INVALID, "a forward");
        REFUSED(tt_function_apply(&nothing, NULL, &t, 1, out, 1), TT_ERR_INVALID, "a forward");
        BAD(tt_optim_slot_state(NULL, 0, 0), TT_ERR_INVALID, "expected a slot, got NULL");
    }
    still_works();
}

TT_TEST(bad_input, optimizers)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2)), *i = TT_INTS(1);
        tt_tensor *twice[] = { w, w }, *none[] = { NULL }, *inner[] = { tt_mul_scalar(w, 2) };
        tt_optim *o = tt_sgd_new(&w, 1, NULL);
        tt_state_dict *sd = tt_state_dict_new();

        BAD(tt_sgd_new(twice, 2, NULL), TT_ERR_INVALID, "more than once");
        BAD(tt_sgd_new(none, 1, NULL), TT_ERR_INVALID, "NULL");
        BAD(tt_sgd_new(NULL, 1, NULL), TT_ERR_INVALID, "expected an array of parameters");
        BAD(tt_sgd_new(&i, 1, NULL), TT_ERR_INVALID, "int64");
        BAD(tt_sgd_new(inner, 1, NULL), TT_ERR_INVALID, "parameter 0 is the result of an operator");
        BAD(tt_sgd_new(&w, 1, &(tt_sgd_options){ .lr = -1 }), TT_ERR_INVALID, "-1");
        BAD(tt_sgd_new(&w, 1, &(tt_sgd_options){ .nesterov = true }), TT_ERR_INVALID, "momentum");
        BAD(tt_adam_new(&w, 1, &(tt_adam_options){ .beta1 = 1.5 }), TT_ERR_INVALID, "1.5");
        BAD(tt_adam_new(&w, 1, &(tt_adam_options){ .lr = 0.0 / 0.0 }), TT_ERR_INVALID, "nan");
        REFUSED(tt_optim_set_lr(o, 3, 0.1), TT_ERR_INVALID, "3");
        REFUSED(tt_optim_set_number(o, 0, "speed", 1), TT_ERR_INVALID, "speed");
        REFUSED(tt_optim_load(o, sd, NULL), TT_ERR_NOT_FOUND, "kind");
        REFUSED(tt_optim_step(NULL), TT_ERR_INVALID, "NULL");
        BAD(tt_step_lr_new(o, 0, 0.1), TT_ERR_INVALID, "0");
        BAD(tt_step_lr_new(NULL, 1, 0.1), TT_ERR_INVALID, "NULL");
        tt_state_dict_free(sd);
        tt_optim_free(o);
    }
    still_works();
}

TT_TEST(bad_input, data_and_values)
{
    const int64_t far[] = { 9 };
    const char csv[] = "1,2\n3\n", word[] = "1,x\n";
    tt_tensor *fields[2];

    TT_SCOPE {
        tt_tensor *uneven[] = { zeros(TT_SHAPE(2)), zeros(TT_SHAPE(3)) };
        tt_dataset *ds = tt_tensor_dataset_new(uneven, 1);
        tt_value *list = tt_value_list_new();

        BAD(tt_tensor_dataset_new(uneven, 2), TT_ERR_INVALID, "3");
        BAD(tt_tensor_dataset_new(uneven, 99), TT_ERR_INVALID, "99");
        BAD(tt_subset_dataset_new(ds, far, 1), TT_ERR_INVALID, "9");
        REFUSED(tt_dataset_get(ds, (tt_sample_at){ .index = 2 }, fields), TT_ERR_INVALID, "2");
        BAD(tt_loader_new(ds, &(tt_loader_options){ .batch_size = -1 }), TT_ERR_INVALID, "-1");
        BAD(tt_loader_new(NULL, NULL), TT_ERR_INVALID, "NULL");
        BAD(tt_distributed_sampler_new(10, 2, 2, NULL), TT_ERR_INVALID, "2");
        BAD(tt_csv_parse(csv, sizeof csv - 1, NULL), TT_ERR_FORMAT, "line 2");
        BAD(tt_csv_parse(word, sizeof word - 1, NULL), TT_ERR_FORMAT, "x");
        BAD(tt_csv_read("/nowhere/at.all", NULL), TT_ERR_NOT_FOUND, "/nowhere/at.all");
        BAD(tt_idx_parse("\0\0\x08\x03\0\0", 6), TT_ERR_FORMAT, "got 3 and 6 bytes in all");
        BAD(tt_token_dataset_open("/nowhere/at.all", 8, NULL), TT_ERR_NOT_FOUND, "/nowhere/at.all");
        BAD(tt_value_at(list, 0), TT_ERR_INVALID, "0");
        BAD(tt_value_map_get(list, "a"), TT_ERR_INVALID, "list");
        BAD(tt_value_as_text(list), TT_ERR_INVALID, "list");
        REFUSED(tt_value_map_set(list, "a", list), TT_ERR_INVALID, "list");
        tt_value_free(list);
        tt_dataset_free(ds);
    }
    still_works();
}

/* A safetensors header of the length it claims. */
static tt_safetensors *parse(const char *header, size_t n_data)
{
    char bytes[512] = { 0 };
    size_t n = strlen(header);

    bytes[0] = (char)n;
    memcpy(bytes + 8, header, n);
    return tt_safetensors_parse(bytes, 8 + n + n_data);
}

TT_TEST(bad_input, hostile_files)
{
    const char npy[] =
        "\x93NUMPY\1\0\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }";
    const char *huge = "{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
                       "\"data_offsets\":[0,0]}}";

    TT_SCOPE {
        BAD(tt_npy_parse(npy, 5), TT_ERR_FORMAT, "does not begin like a .npy file");
        BAD(tt_npy_parse(npy, sizeof npy), TT_ERR_FORMAT, "ends inside its header");
        BAD(tt_npy_parse("not a file at all", 17), TT_ERR_FORMAT,
            "does not begin like a .npy file");
        BAD(tt_npy_parse(NULL, 5), TT_ERR_INVALID, "NULL");
        BAD(tt_npy_load("/nowhere/at.all"), TT_ERR_NOT_FOUND, "/nowhere/at.all");
        BAD(tt_safetensors_open("/nowhere/at.all"), TT_ERR_NOT_FOUND, "/nowhere/at.all");
        BAD(tt_safetensors_parse("1234", 4), TT_ERR_FORMAT, "4");
        BAD(tt_safetensors_parse("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), TT_ERR_FORMAT,
            "header of 18446744073709551615 bytes");
        BAD(parse("{\"w\":", 0), TT_ERR_FORMAT, "not JSON near byte");
        BAD(parse("[1, 2]", 0), TT_ERR_FORMAT, "does not begin with a brace");
        BAD(parse("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4),
            TT_ERR_FORMAT, "w");
        BAD(parse("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4),
            TT_ERR_FORMAT, "w");
        BAD(parse("{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4),
            TT_ERR_FORMAT, "w");
        BAD(parse(huge, 0), TT_ERR_FORMAT, "w");
        BAD(parse("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8),
            TT_ERR_FORMAT, "w");
        REFUSED(tt_npy_save("/nowhere/at.all", TT_FLOATS(1)), TT_ERR_NOT_FOUND, "/nowhere/at.all");
        BAD(tt_from_dlpack(NULL), TT_ERR_INVALID, "NULL");
    }
    still_works();
}
