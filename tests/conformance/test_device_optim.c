/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers on a device do what they do on the CPU: every kind with its options, sparse gradients, clipping,
 * and parameters that move to the device after some steps. */
#include <math.h>

#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

enum { PARAMS = 2, STEPS = 6, ROWS = 7, WIDTH = 5 };

typedef tt_optim *(*make_fn)(tt_tensor *const *params, int variant);

static tt_optim *sgd(tt_tensor *const *params, int v)
{
    return tt_sgd_new(params, PARAMS,
                      &(tt_sgd_options){ .lr = 0.1,
                                         .momentum = v > 0 ? 0.9 : 0,
                                         .nesterov = v > 1,
                                         .weight_decay = v > 0 ? 0.01 : 0,
                                         .maximize = v > 2 });
}

static tt_optim *adam(tt_tensor *const *params, int v)
{
    tt_adam_options o = { .lr = 0.1, .amsgrad = v == 1, .weight_decay = 0.05, .maximize = v == 3 };

    return v >= 2 ? tt_adamw_new(params, PARAMS, &o) : tt_adam_new(params, PARAMS, &o);
}

static tt_optim *adagrad(tt_tensor *const *params, int v)
{
    return tt_adagrad_new(params, PARAMS,
                          &(tt_adagrad_options){ .lr = 0.1,
                                                 .lr_decay = v > 0 ? 0.1 : 0,
                                                 .weight_decay = v > 1 ? 0.1 : 0,
                                                 .initial_accumulator_value = v > 2 ? 0.3 : 0 });
}

static tt_optim *rmsprop(tt_tensor *const *params, int v)
{
    return tt_rmsprop_new(params, PARAMS,
                          &(tt_rmsprop_options){ .lr = 0.05,
                                                 .momentum = v > 0 ? 0.8 : 0,
                                                 .centered = v > 1,
                                                 .weight_decay = v > 2 ? 0.1 : 0 });
}

/* Numbers that depend on what they are for alone. */
static tt_tensor *numbers(int salt, tt_dtype dtype, tt_device device)
{
    tt_tensor *t = tt_sin(tt_mul_scalar(
        tt_add_scalar(tt_arange(0, ROWS * WIDTH, 1, TT_F64, TT_CPU), 3.7 * salt), 1.3));

    return tt_to_device(tt_to_dtype(tt_reshape(t, TT_SHAPE(ROWS, WIDTH)), dtype), device);
}

static void begin(tt_tensor **params, tt_dtype dtype, tt_device device)
{
    for (int p = 0; p < PARAMS; p++)
        params[p] = tt_require_grad(numbers(p, dtype, device));
}

/* Rows 5, 1 and 5 again of a gradient. */
static tt_tensor *sparse_grad(int salt, tt_dtype dtype, tt_device device)
{
    tt_tensor *rows = tt_to_device(tt_reshape(TT_INTS(5, 1, 5), TT_SHAPE(1, 3)), device);
    tt_tensor *values = tt_narrow(numbers(salt, dtype, device), 0, 0, 3);

    return tt_sparse_coo(rows, values, TT_SHAPE(ROWS, WIDTH));
}

static void step(tt_optim *o, tt_tensor **params, int number, bool sparse)
{
    TT_SCOPE {
        for (int p = 0; p < PARAMS; p++) {
            int salt = 10 * number + p + 100;
            tt_device d = tt_tensor_device(params[p]);
            tt_dtype dtype = tt_tensor_dtype(params[p]);

            TT_REQUIRE_OK(tt_set_grad(params[p], sparse ? sparse_grad(salt, dtype, d)
                                                        : numbers(salt, dtype, d)));
        }
        if (!sparse && number % 2 == 0)
            TT_REQUIRE_OK(tt_clip_grad_norm(params, PARAMS, 1.5, NULL, NULL));
        TT_REQUIRE_OK(tt_optim_step(o));
        TT_REQUIRE_OK(tt_optim_zero_grad(o, false));
    }
}

static void check_params(const char *what, tt_tensor **there, tt_tensor **here, double tol)
{
    tt_close_options opt = { .rtol = tol, .atol = tol };

    for (int p = 0; p < PARAMS; p++) {
        tt_close_report report;

        TT_CHECK_EQ(tt_tensor_device(there[p]).kind, TT_DEVICE_CL);
        if (!tt_compare(tt_to_device(tt_detach(there[p]), TT_CPU), tt_detach(here[p]), &opt,
                        &report))
            TT_FAIL_TEST("%s: parameter %d: %s", what, p, report.text);
    }
}

static void follow(const char *what, make_fn make, int variant, tt_dtype dtype, bool sparse)
{
    TT_SCOPE {
        tt_tensor *here[PARAMS], *there[PARAMS];
        tt_optim *a, *b;

        begin(here, dtype, TT_CPU);
        begin(there, dtype, tt_cl(0));
        a = make(here, variant);
        b = make(there, variant);
        TT_REQUIRE(a != NULL && b != NULL);
        for (int i = 0; i < STEPS; i++) {
            step(a, here, i, sparse);
            step(b, there, i, sparse);
        }
        check_params(what, there, here, dtype == TT_F64 ? 1e-11 : dtype == TT_F32 ? 1e-5 : 2e-2);
        tt_optim_free(a);
        tt_optim_free(b);
    }
}

static void every_variant(const char *what, make_fn make)
{
    tt_test_require_devices(1, false);
    for (int v = 0; v < 4; v++)
        follow(what, make, v, TT_F32, false);
    follow(what, make, 1, TT_F64, false);
    follow(what, make, 1, TT_BF16, false);
}

TT_TEST(device_optim, sgd)
{
    every_variant("sgd", sgd);
}

TT_TEST(device_optim, adam_and_adamw)
{
    every_variant("adam", adam);
}

TT_TEST(device_optim, adagrad)
{
    every_variant("adagrad", adagrad);
}

TT_TEST(device_optim, rmsprop)
{
    every_variant("rmsprop", rmsprop);
}

static tt_optim *sparse_adam(tt_tensor *const *params, int v)
{
    (void)v;
    return tt_sparse_adam_new(params, PARAMS, &(tt_adam_options){ .lr = 0.1 });
}

TT_TEST(device_optim, sparse_gradients)
{
    tt_test_require_devices(1, false);
    follow("sgd", sgd, 0, TT_F32, true);
    follow("adagrad", adagrad, 0, TT_F32, true);
    follow("sparse_adam", sparse_adam, 0, TT_F32, true);
}

/* Two steps on the CPU, the others on the device; the state comes along, also through a dictionary. */
TT_TEST(device_optim, state_follows_the_parameters)
{
    tt_test_require_devices(1, false);
    for (int through = 0; through < 2; through++) {
        tt_module *here = tt_linear_new(WIDTH, ROWS, NULL), *there = tt_module_copy(here);
        tt_optim *a = tt_adam_for(here, NULL), *b = tt_adam_for(there, NULL);
        tt_state_dict *sd = tt_state_dict_new();

        for (int i = 0; i < 4; i++)
            TT_SCOPE {
                tt_tensor *x = numbers(i, TT_F32, TT_CPU);

                if (i == 2) {
                    TT_REQUIRE_OK(tt_module_to_device(there, tt_cl(0)));
                    if (through == 1) {
                        TT_REQUIRE_OK(tt_optim_save(b, sd, NULL));
                        TT_REQUIRE_OK(tt_optim_load(b, sd, NULL));
                    }
                }
                TT_REQUIRE_OK(tt_backward(tt_sum(tt_square(tt_module_forward(here, x)))));
                TT_REQUIRE_OK(tt_optim_step(a));
                x = tt_to_device(x, i < 2 ? TT_CPU : tt_cl(0));
                TT_REQUIRE_OK(tt_backward(tt_sum(tt_square(tt_module_forward(there, x)))));
                TT_REQUIRE_OK(tt_optim_step(b));
            }
        TT_SCOPE
            TT_NO_GRAD
            {
                tt_close_options opt = { .rtol = 1e-5, .atol = 1e-6 };

                TT_CHECK(tt_allclose(tt_to_device(tt_module_param(there, "weight"), TT_CPU),
                                     tt_module_param(here, "weight"), &opt));
            }
        tt_state_dict_free(sd);
        tt_optim_free(a);
        tt_optim_free(b);
        tt_module_free(here);
        tt_module_free(there);
    }
}
