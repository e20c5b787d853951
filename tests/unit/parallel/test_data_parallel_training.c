/* SPDX-License-Identifier: Apache-2.0 */
/* The digits CNN and a small GPT learn on two devices as they do on the CPU: a few steps, the same losses. */
#include <math.h>
#include <tutti/layers.h>
#include <tutti/models.h>

#include "devices.h"

enum { STEPS = 5 };

typedef struct task {
    tt_module *net; /* on the CPU */
    /* The loss of one step; `forward` is a module of the net's input, `device` where its output is. */
    tt_tensor *(*loss)(tt_module *forward, int step, tt_device device);
    double lr;
} task;

static void train(const task *t, tt_module *net, tt_module *forward, tt_device device,
                  double *losses)
{
    tt_optim *opt = tt_adam_for(net, &(tt_adam_options){ .lr = t->lr });

    TT_REQUIRE_NOT_NULL(opt);
    for (int step = 0; step < STEPS; step++) {
        TT_SCOPE {
            tt_tensor *loss = t->loss(forward, step, device);

            if (loss == NULL)
                TT_FAIL_TEST("%s", tt_last_error());
            TT_REQUIRE_OK(tt_backward(loss));
            TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(tt_optim_zero_grad(opt, false));
            losses[step] = tt_item(loss);
        }
    }
    tt_optim_free(opt);
}

/* What data_parallel computes, on the CPU: both halves of the batch by the same module, one after the other. */
static tt_tensor *halves_forward(tt_module *m, tt_tensor *x)
{
    int64_t half = tt_tensor_size(x, 0) / 2;
    tt_tensor *y[2];

    for (int i = 0; i < 2; i++)
        y[i] = tt_module_forward(tt_module_child_at(m, 0), tt_narrow(x, 0, i * half, half));
    return tt_cat(y, 2, 0);
}

static const tt_module_class halves_class = { .name = "Halves", .forward = halves_forward };

static void same_losses(const task *t)
{
    tt_module *there = tt_module_copy(t->net), *halves = tt_module_new(&halves_class), *dp;
    double want[STEPS], got[STEPS];

    TT_REQUIRE_OK(tt_module_to_device(there, tt_cl(0)));
    TT_REQUIRE_OK(tt_module_add_child(halves, "module", t->net));
    dp = tt_data_parallel(there, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
    TT_REQUIRE_NOT_NULL(dp);
    train(t, t->net, halves, TT_CPU, want);
    train(t, there, dp, tt_cl(0), got);
    for (int i = 0; i < STEPS; i++)
        TT_CHECK_NEAR(got[i], want[i], 1e-4 * fabs(want[i]));
    TT_CHECK(want[STEPS - 1] < want[0]); /* it did learn */
    tt_module_free(dp);
    tt_module_free(halves);
    tt_module_free(there);
}

/* ---- digits ---------------------------------------------------------------------------------- */

enum { BATCH = 32 };

static tt_tensor *digits; /* rows of 64 pixels and the digit */

static tt_tensor *digits_loss(tt_module *forward, int step, tt_device device)
{
    tt_tensor *rows = tt_narrow(digits, 0, step * BATCH, BATCH);
    tt_tensor *x = tt_div_scalar(tt_narrow(rows, 1, 0, 64), 16.0);
    tt_tensor *y = tt_to_dtype(tt_select(rows, 1, 64), TT_I64);

    return tt_cross_entropy(tt_module_forward(forward, tt_reshape(x, TT_SHAPE(-1, 1, 8, 8))),
                            tt_to_device(y, device));
}

/* That of examples/02_train_digits.c without its dropout, whose numbers depend on the size of a batch. */
static tt_module *digits_net(void)
{
    tt_conv_layer_options same = { .padding = 1 };
    tt_module *layers[] = { tt_conv2d_new(1, 32, 3, &same),
                            tt_batch_norm2d_new(32, NULL),
                            tt_relu_new(),
                            tt_conv2d_new(32, 64, 3, &same),
                            tt_batch_norm2d_new(64, NULL),
                            tt_relu_new(),
                            tt_max_pool2d_new(2, NULL),
                            tt_flatten_new(),
                            tt_linear_new(64 * 16, 10, NULL) };

    return tt_sequential_of(layers, (int)(sizeof layers / sizeof layers[0]));
}

TT_TEST_LIMIT(data_parallel_training, digits_cnn, 240)
{
    task t = { .loss = digits_loss, .lr = 2e-3 };

    need_devices(2);
    tt_seed(1);
    TT_SCOPE {
        digits = tt_csv_read(TT_TESTS_DIR "/../examples/data/digits.csv.gz", NULL);
        TT_REQUIRE_NOT_NULL(digits);
        t.net = digits_net();
        same_losses(&t);
        tt_module_free(t.net);
    }
}

/* ---- GPT ------------------------------------------------------------------------------------- */

enum { CONTEXT = 16, VOCAB = 48, SEQUENCES = 4 };

/* Counting texts: each token follows from the one before, so there is something to learn. */
static tt_tensor *gpt_loss(tt_module *forward, int step, tt_device device)
{
    int64_t tokens[SEQUENCES][CONTEXT + 1];
    tt_tensor *all, *scores;

    for (int s = 0; s < SEQUENCES; s++)
        for (int i = 0; i <= CONTEXT; i++)
            tokens[s][i] = (step * 7 + s * 5 + i * 3) % VOCAB;
    all = tt_from_data(tokens, TT_SHAPE(SEQUENCES, CONTEXT + 1), TT_I64);
    scores = tt_module_forward(forward, tt_narrow(all, 1, 0, CONTEXT));
    return tt_cross_entropy(
        tt_reshape(scores, TT_SHAPE(-1, VOCAB)),
        tt_to_device(tt_reshape(tt_narrow(all, 1, 1, CONTEXT), TT_SHAPE(-1)), device));
}

TT_TEST_LIMIT(data_parallel_training, small_gpt, 240)
{
    task t = { .loss = gpt_loss, .lr = 1e-3 };

    need_devices(2);
    tt_seed(1);
    TT_SCOPE {
        t.net = tt_gpt2(&(tt_gpt2_options){
            .layers = 2, .heads = 4, .width = 32, .context = CONTEXT, .vocab = VOCAB });
        TT_REQUIRE_NOT_NULL(t.net);
        same_losses(&t);
        tt_module_free(t.net);
    }
}
