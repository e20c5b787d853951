/* SPDX-License-Identifier: Apache-2.0 */
/* The digits CNN and a small GPT, trained on a device: the losses are those of the CPU. */
#include <math.h>

#include <tutti/layers.h>
#include <tutti/models.h>
#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

enum { STEPS = 30, BATCH = 16, CONTEXT = 16, VOCAB = 64 };

static void check_losses(const double *got, const double *want)
{
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-4 * fabs(want[i])))
            TT_FAIL_TEST("step %d: loss %.9g on the device, %.9g on the CPU", i, got[i], want[i]);
    TT_CHECK(got[STEPS - 1] < 0.8 * got[0]);
}

/* ---- digits ---------------------------------------------------------------------------------- */

static tt_module *digits_net(void)
{
    tt_conv_layer_options same = { .padding = 1 };

    return TT_SEQUENTIAL(tt_conv2d_new(1, 8, 3, &same), tt_batch_norm2d_new(8, NULL), tt_relu_new(),
                         tt_conv2d_new(8, 16, 3, &same), tt_batch_norm2d_new(16, NULL),
                         tt_relu_new(), tt_max_pool2d_new(2, NULL), tt_flatten_new(),
                         tt_dropout_new(0.25), tt_linear_new(16 * 16, 10, NULL));
}

static tt_loader *digits_loader(tt_device device)
{
    tt_loader *loader = NULL;

    TT_SCOPE {
        tt_tensor *rows = tt_csv_read(TT_TESTS_DIR "/../examples/data/digits.csv.gz", NULL);
        tt_tensor *x =
            tt_reshape(tt_div_scalar(tt_narrow(rows, 1, 0, 64), 16), TT_SHAPE(-1, 1, 8, 8));
        tt_tensor *y = tt_to_dtype(tt_select(rows, 1, 64), TT_I64);
        tt_dataset *ds = tt_tensor_dataset_new((tt_tensor *[]){ x, y }, 2);

        loader = tt_loader_new(
            ds, &(tt_loader_options){ .batch_size = BATCH, .shuffle = true, .device = device });
        tt_dataset_free(ds);
    }
    TT_REQUIRE_NOT_NULL(loader);
    return loader;
}

static void train_digits(tt_module *net, tt_device device, double *losses)
{
    tt_loader *loader = digits_loader(device);
    tt_optim *opt;

    TT_REQUIRE_OK(tt_module_to_device(net, device));
    opt = tt_adam_for(net, &(tt_adam_options){ .lr = 2e-3 });
    tt_seed(5); /* dropout draws the same on every device */
    for (int i = 0; i < STEPS; i++)
        TT_SCOPE {
            tt_batch b = tt_loader_next(loader);
            tt_tensor *loss = tt_cross_entropy(tt_module_forward(net, b.x), b.y);

            TT_REQUIRE_NOT_NULL(loss);
            TT_CHECK(tt_device_equal(tt_tensor_device(loss), device));
            TT_REQUIRE_OK(tt_backward(loss));
            TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(tt_optim_zero_grad(opt, false));
            losses[i] = tt_item(loss);
        }
    tt_optim_free(opt);
    tt_loader_free(loader);
}

TT_TEST_LIMIT(device_training, digits_have_the_losses_of_the_cpu, 120)
{
    double here[STEPS], there[STEPS];
    tt_module *net, *copy;

    tt_test_require_devices(1, false);
    tt_seed(1);
    net = digits_net();
    TT_REQUIRE_NOT_NULL(net);
    copy = tt_module_copy(net);
    train_digits(net, TT_CPU, here);
    train_digits(copy, tt_cl(0), there);
    check_losses(there, here);
    tt_module_free(net);
    tt_module_free(copy);
}

/* ---- GPT --------------------------------------------------------------------------------------- */

/* Windows of a sequence that can be learned; y is x one place later. */
static void gpt_batch(int step, tt_device device, tt_tensor **x_p, tt_tensor **y_p)
{
    tt_tensor *at = tt_arange(step * 7, step * 7 + BATCH * (CONTEXT + 1), 1, TT_F64, TT_CPU);
    tt_tensor *text, *all;

    text = tt_floor(tt_mul_scalar(tt_add_scalar(tt_sin(tt_mul_scalar(at, 0.4)), 1), VOCAB / 2 - 1));
    all = tt_to_device(tt_to_dtype(tt_reshape(text, TT_SHAPE(BATCH, CONTEXT + 1)), TT_I64), device);
    *x_p = tt_narrow(all, 1, 0, CONTEXT);
    *y_p = tt_reshape(tt_narrow(all, 1, 1, CONTEXT), TT_SHAPE(-1));
}

static void train_gpt(tt_module *gpt, tt_device device, double *losses)
{
    tt_optim *opt;

    TT_REQUIRE_OK(tt_module_to_device(gpt, device));
    opt = tt_adamw_for(gpt, &(tt_adam_options){ .lr = 3e-3 });
    tt_seed(5);
    for (int i = 0; i < STEPS; i++)
        TT_SCOPE {
            tt_tensor *x, *y, *loss;

            gpt_batch(i, device, &x, &y);
            loss = tt_cross_entropy(tt_reshape(tt_module_forward(gpt, x), TT_SHAPE(-1, VOCAB)), y);
            TT_REQUIRE_NOT_NULL(loss);
            TT_REQUIRE_OK(tt_backward(loss));
            TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(tt_optim_zero_grad(opt, false));
            losses[i] = tt_item(loss);
        }
    tt_optim_free(opt);
}

TT_TEST_LIMIT(device_training, a_small_gpt_has_the_losses_of_the_cpu, 120)
{
    tt_gpt2_options size = {
        .layers = 2, .heads = 4, .width = 64, .context = CONTEXT, .vocab = VOCAB
    };
    double here[STEPS], there[STEPS];
    tt_module *gpt, *copy;

    tt_test_require_devices(1, false);
    tt_seed(2);
    gpt = tt_gpt2(&size);
    TT_REQUIRE_NOT_NULL(gpt);
    copy = tt_module_copy(gpt);
    train_gpt(gpt, TT_CPU, here);
    train_gpt(copy, tt_cl(0), there);
    check_losses(there, here);
    tt_module_free(gpt);
    tt_module_free(copy);
}
