/* SPDX-License-Identifier: Apache-2.0 */
/* Modules on several devices at once: the same numbers as on one, whatever the batch, and modes, streams and errors
 * that pass between the threads. */
#include <string.h>
#include <tutti/layers.h>

#include "devices.h"
#include "harness/check_tensor.h"

static const tt_close_options near = { .rtol = 1e-5, .atol = 1e-6 };

static tt_module *small_net(void)
{
    return TT_MLP(TT_ACT_TANH, 6, 8, 3);
}

static tt_module *on_first(tt_module *m)
{
    TT_REQUIRE_NOT_NULL(m);
    TT_REQUIRE_OK(tt_module_to_device(m, tt_cl(0)));
    return m;
}

/* Gradients of all parameters of two modules. */
static void check_grads(const tt_module *a, const tt_module *b)
{
    tt_state_dict *pa = tt_module_params(a, NULL), *pb = tt_module_params(b, NULL);

    TT_REQUIRE_EQ(tt_state_dict_count(pa), tt_state_dict_count(pb));
    for (int i = 0; i < tt_state_dict_count(pa); i++) {
        tt_tensor *ga = tt_grad_of(tt_state_dict_tensor(pa, i));
        tt_tensor *gb = tt_grad_of(tt_state_dict_tensor(pb, i));

        TT_REQUIRE_NOT_NULL(ga);
        TT_CHECK(is_on(ga, 0));
        if (!TT_CHECK(tt_allclose(host(ga), gb, &near)))
            TT_NOTE("%s", tt_state_dict_name(pa, i));
    }
    tt_state_dict_free(pa);
    tt_state_dict_free(pb);
}

/* ---- the same numbers ------------------------------------------------------------------------------ */

static void same_as_on_cpu(int64_t batch, int n_devices)
{
    const tt_device devices[3] = { tt_cl(0), tt_cl(1), tt_cl(2) };

    TT_SCOPE {
        tt_module *cpu = small_net(), *net = on_first(tt_module_copy(cpu));
        tt_targets to = { .devices = devices, .n_devices = n_devices };
        tt_module *dp = tt_data_parallel(net, &to, NULL);
        tt_tensor *x = tt_randn(TT_SHAPE(batch, 6), TT_F32, TT_CPU);
        tt_tensor *want = tt_module_forward(cpu, x), *got;

        TT_REQUIRE_NOT_NULL(dp);
        got = tt_module_forward(dp, x);
        if (!TT_CHECK_NOT_NULL(got))
            TT_FAIL_TEST("%s", tt_last_error());
        TT_CHECK(is_on(got, 0));
        TT_CHECK(tt_allclose(host(got), want, &near));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(want, want))));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(got, got))));
        check_grads(net, cpu);
        tt_module_free(dp);
        tt_module_free(net);
        tt_module_free(cpu);
    }
}

TT_TEST(data_parallel, even_uneven_and_few_samples)
{
    need_devices(3);
    tt_seed(tt_test_seed());
    same_as_on_cpu(8, 2);
    same_as_on_cpu(5, 2);
    same_as_on_cpu(7, 3);
    same_as_on_cpu(4, 3); /* two pieces */
    same_as_on_cpu(1, 3); /* one piece */
    same_as_on_cpu(3, 1);
}

TT_TEST(data_parallel, small_buffers_and_other_outputs)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_module *net = on_first(small_net());
        tt_device last = tt_cl(1);
        tt_data_parallel_options o = { .output_device = &last, .buffer_bytes = 40 };
        tt_module *dp = tt_data_parallel(net, TT_DEVICES(tt_cl(0), tt_cl(1)), &o);
        tt_tensor *x = tt_require_grad(tt_randn(TT_SHAPE(4, 6), TT_F32, TT_CPU));
        tt_tensor *y = tt_module_forward(dp, x);

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(is_on(y, 1));
        TT_CHECK(tt_allclose(host(y), host(tt_module_forward(net, on(x, 0))), &near));
        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
        TT_CHECK_SHAPE(tt_grad_of(x), 4, 6); /* through the scatter */
        tt_module_free(dp);
        tt_module_free(net);
    }
}

TT_TEST(data_parallel, samples_along_another_dimension)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_module *act = tt_relu_new();
        tt_module *dp = tt_data_parallel(act, TT_DEVICES(tt_cl(0), tt_cl(1)),
                                         &(tt_data_parallel_options){ .dim = 1 });
        tt_tensor *x = tt_randn(TT_SHAPE(2, 5), TT_F32, TT_CPU);

        TT_CHECK(same_bits(tt_module_forward(dp, x), tt_relu(x)));
        tt_module_free(dp);
        tt_module_free(act);
    }
}

/* A weight that two children share is one on every device, and its gradient comes from both uses. */
TT_TEST(data_parallel, shared_parameters_stay_shared)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_module *one = tt_linear_new(4, 4, NULL);
        tt_module *cpu = tt_sequential_of((tt_module *[]){ tt_module_retain(one), one }, 2);
        tt_module *net = on_first(tt_module_copy(cpu));
        tt_module *dp = tt_data_parallel(net, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
        tt_tensor *x = tt_randn(TT_SHAPE(4, 4), TT_F32, TT_CPU);

        TT_REQUIRE_OK(tt_backward(tt_sum(tt_module_forward(cpu, x))));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_module_forward(dp, x))));
        check_grads(net, cpu);
        tt_module_free(dp);
        tt_module_free(net);
        tt_module_free(cpu);
    }
}

/* Every replica normalises its own samples; the buffers learn those of the first. */
static void statistics_of_the_first(tt_device second)
{
    TT_SCOPE {
        tt_module *cpu = tt_batch_norm1d_new(3, NULL), *net = on_first(tt_module_copy(cpu));
        tt_module *dp = tt_data_parallel(net, TT_DEVICES(tt_cl(0), second), NULL);
        tt_tensor *x = tt_randn(TT_SHAPE(8, 3), TT_F32, TT_CPU), *halves[2];

        for (int i = 0; i < 2; i++) {
            tt_module *fresh = tt_module_copy(cpu);

            halves[i] = tt_module_forward(i == 0 ? cpu : fresh, tt_narrow(x, 0, 4 * i, 4));
            tt_module_free(fresh);
        }
        TT_CHECK(tt_allclose(host(tt_module_forward(dp, x)), tt_cat(halves, 2, 0), &near));
        TT_CHECK(tt_allclose(host(tt_module_buffer(net, "running_mean")),
                             tt_module_buffer(cpu, "running_mean"), &near));
        tt_module_free(dp);
        tt_module_free(net);
        tt_module_free(cpu);
    }
}

TT_TEST(data_parallel, batch_norm_keeps_the_first_devices_statistics)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    statistics_of_the_first(tt_cl(1));
}

TT_TEST(data_parallel, a_device_listed_twice_has_buffers_of_its_own)
{
    need_devices(1);
    tt_seed(tt_test_seed());
    statistics_of_the_first(tt_cl(0));
}

/* ---- what passes between threads ---------------------------------------------------------------- */

/* A module that looks around, and fails where it is told to. */
typedef struct seen {
    tt_device device[4]; /* by the device of the input */
    tt_stream *stream[4];
    bool grad[4], cast[4];
    int fail_on; /* 0: nowhere */
} seen;

typedef struct looker {
    seen *to;
} looker;

static tt_tensor *look_forward(tt_module *m, tt_tensor *x);

static const tt_module_class look_class = { .name = "Look",
                                            .data_size = sizeof(looker),
                                            .forward = look_forward };

static tt_tensor *look_forward(tt_module *m, tt_tensor *x)
{
    seen *s = ((looker *)tt_module_data(m, &look_class))->to;
    int i = tt_tensor_device(x).index;

    s->device[i] = tt_device_current(TT_DEVICE_CL);
    s->stream[i] = tt_stream_current(tt_cl(i));
    s->grad[i] = tt_grad_mode_get() == TT_GRAD_ON;
    s->cast[i] = tt_autocast_is_on(TT_DEVICE_CL);
    if (s->fail_on == i && i != 0) {
        tt_fail(TT_ERR_UNSUPPORTED, "it is too dark");
        return NULL;
    }
    return tt_mul_scalar(x, 2);
}

static tt_module *look_new(seen *s)
{
    tt_module *m = tt_module_new(&look_class);

    ((looker *)tt_module_data(m, &look_class))->to = s;
    return m;
}

TT_TEST(data_parallel, threads_take_over_modes_and_streams)
{
    need_devices(2);
    TT_SCOPE {
        static seen s;
        tt_module *m = look_new(&s);
        tt_module *dp = tt_data_parallel(m, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
        tt_stream *side = tt_stream_new(tt_cl(1), NULL);
        tt_tensor *x = TT_FLOATS(1, 2, 3, 4), *y = NULL;

        TT_STREAM_SCOPE(side)
        TT_NO_GRAD TT_AUTOCAST(TT_DEVICE_CL, TT_BF16) y = tt_module_forward(dp, x);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_PTR(s.stream[1], side);
        TT_CHECK_PTR(s.stream[0], tt_stream_default(tt_cl(0)));
        for (int i = 0; i < 2; i++) {
            TT_CHECK_EQ(s.device[i].index, i);
            TT_CHECK(!s.grad[i]);
            TT_CHECK(s.cast[i]);
        }
        TT_CHECK_VALUES(host(y), 2, 4, 6, 8);
        TT_REQUIRE_NOT_NULL(tt_module_forward(dp, x));
        for (int i = 0; i < 2; i++)
            TT_CHECK(s.grad[i] && !s.cast[i]);
        tt_stream_free(side);
        tt_module_free(dp);
        tt_module_free(m);
    }
}

TT_TEST(data_parallel, errors_name_the_device)
{
    need_devices(2);
    TT_SCOPE {
        static seen s = { .fail_on = 1 };
        tt_module *m = look_new(&s), *net = small_net();
        tt_module *dp = tt_data_parallel(m, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);

        TT_CHECK_NULL(tt_module_forward(dp, TT_FLOATS(1, 2)));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
        TT_CHECK_CONTAINS(tt_last_error(), "data_parallel: on cl:1: it is too dark");
        s.fail_on = 0;
        tt_clear_error();
        TT_CHECK_VALUES(host(tt_module_forward(dp, TT_FLOATS(1, 2))), 2, 4);
        tt_module_free(dp);
        dp = tt_data_parallel(net, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
        TT_CHECK_NULL(tt_module_forward(dp, tt_ones(TT_SHAPE(2, 6), TT_F32, TT_CPU)));
        TT_CHECK_CONTAINS(tt_last_error(), "weight\" on the first device, cl:0, got it on cpu");
        tt_module_free(dp);
        tt_module_free(net);
        tt_module_free(m);
    }
}

TT_TEST(data_parallel, arguments_are_checked)
{
    need_devices(1);
    TT_SCOPE {
        tt_module *m = tt_relu_new();

        TT_CHECK_NULL(tt_data_parallel(NULL, TT_DEVICES(tt_cl(0)), NULL));
        TT_CHECK_NULL(tt_data_parallel(m, NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "a list of devices");
        TT_CHECK_NULL(tt_data_parallel(m, &(tt_targets){ 0 }, NULL));
        TT_CHECK_NULL(tt_data_parallel(m, TT_DEVICES(TT_CPU), NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "device 0 to be an accelerator");
        TT_CHECK_NULL(tt_data_parallel(m, TT_DEVICES(tt_cl(0), tt_cl(99)), NULL));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
        tt_module_free(m);
    }
}

/* ---- values, names ------------------------------------------------------------------------------- */

static tt_value *pair_call(tt_module *m, const tt_value *in)
{
    tt_tensor *x = tt_value_as_tensor(tt_value_map_get(in, "x"));
    tt_tensor *y = tt_value_as_tensor(tt_value_map_get(in, "y"));
    tt_value *out = tt_value_tuple_new();

    (void)m;
    if (tt_value_list_give(out, tt_value_tensor_new(tt_add(x, y))) != TT_OK ||
        tt_value_list_give(out, tt_value_tensor_new(tt_sum(x))) != TT_OK ||
        tt_value_list_add(out, tt_value_map_get(in, "name")) != TT_OK) {
        tt_value_free(out);
        return NULL;
    }
    return out;
}

static const tt_module_class pair_class = { .name = "Pair", .call = pair_call };

static void count_warning(void *ctx, const char *category, const char *message)
{
    TT_CHECK_STR(category, "gather");
    TT_CHECK_CONTAINS(message, "vector");
    ++*(int *)ctx;
}

TT_TEST(data_parallel, nested_inputs_and_outputs)
{
    need_devices(2);
    TT_SCOPE {
        tt_module *m = tt_module_new(&pair_class);
        tt_module *dp = tt_data_parallel(m, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
        tt_value *in = tt_value_map_new(), *out;
        int warnings = 0;

        TT_REQUIRE_OK(tt_value_map_give(in, "x", tt_value_tensor_new(TT_FLOATS(1, 2, 3))));
        TT_REQUIRE_OK(tt_value_map_give(in, "y", tt_value_tensor_new(TT_FLOATS(10, 20, 30))));
        TT_REQUIRE_OK(tt_value_map_give(in, "name", tt_value_text_new("sum")));
        TT_REQUIRE_OK(tt_warnings_push(count_warning, &warnings));
        out = tt_module_call(dp, in);
        tt_warnings_pop();
        TT_REQUIRE_NOT_NULL(out);
        TT_CHECK_EQ(warnings, 1);
        TT_CHECK_VALUES(host(tt_value_as_tensor(tt_value_at(out, 0))), 11, 22, 33);
        TT_CHECK_VALUES(host(tt_value_as_tensor(tt_value_at(out, 1))), 3, 3);
        TT_CHECK_STR(tt_value_as_text(tt_value_at(out, 2)), "sum");
        tt_value_free(out);
        tt_value_free(in);
        tt_module_free(dp);
        tt_module_free(m);
    }
}

TT_TEST(data_parallel, it_is_a_module)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_module *net = on_first(tt_linear_new(2, 2, NULL)), *copy;
        tt_module *dp = tt_data_parallel(net, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
        char *text = tt_module_text(dp);
        tt_tensor *x = tt_randn(TT_SHAPE(4, 2), TT_F32, TT_CPU);

        TT_CHECK_CONTAINS(text, "DataParallel(cl:0, cl:1");
        TT_CHECK_PTR(tt_module_param(dp, "module.weight"), tt_module_param(net, "weight"));
        tt_text_free(text);
        copy = tt_module_copy(dp);
        TT_CHECK(same_bits(tt_module_forward(copy, x), tt_module_forward(dp, x)));
        tt_module_free(copy);
        tt_module_free(dp);
        tt_module_free(net);
    }
}

/* What threads make outlives them, and nothing else does. */
TT_TEST(data_parallel, nothing_is_left_behind)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_module *net = on_first(small_net());
        tt_module *dp = tt_data_parallel(net, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
        uint64_t before[2];

        for (int step = 0; step < 6; step++) {
            TT_SCOPE {
                tt_tensor *x = tt_randn(TT_SHAPE(6, 6), TT_F32, TT_CPU);

                TT_REQUIRE_OK(tt_backward(tt_sum(tt_module_forward(dp, x))));
            }
            for (int d = 0; d < 2; d++) {
                uint64_t now = tt_memory_stats_get(tt_cl(d)).current;

                if (step == 1)
                    before[d] = now;
                else if (step > 1)
                    TT_CHECK_EQ(now, before[d]);
            }
        }
        tt_module_free(dp);
        tt_module_free(net);
    }
}
