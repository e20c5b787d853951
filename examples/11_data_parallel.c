/* SPDX-License-Identifier: Apache-2.0 */
/* The network of 02_train_digits.c on two accelerators of one process: each computes a half of every batch, and the
 * gradients meet on the first.
 *
 * usage: TUTTI_CL_SPLIT=2 11_data_parallel        split: one CPU serves as two devices; leave it out with two GPUs */
#include <stdio.h>

#include "digits.h"
#include "tutti/layers.h"
#include "tutti/tutti.h"

enum { DIGITS = 1797, EPOCHS = 4, BATCH = 64, TRAIN = 1408, STEPS = EPOCHS * TRAIN / BATCH };

typedef struct run {
    tt_tensor *images, *labels;
    tt_module *net, *both; /* both: net on all devices */
    tt_optim *opt;
    tt_loader *loader;
} run;

static tt_status load(run *r)
{
    tt_loader_options batches = { .batch_size = BATCH, .shuffle = true };

    TT_SCOPE {
        tt_tensor *file = digits_read();
        tt_tensor *rows = tt_index_select(file, 0, tt_randperm(DIGITS, TT_CPU, NULL));
        tt_tensor *pixels = tt_div_scalar(tt_narrow(rows, 1, 0, 64), 16.0);
        tt_tensor *x = tt_reshape(pixels, TT_SHAPE(-1, 1, 8, 8));
        tt_tensor *y = tt_to_dtype(tt_select(rows, 1, 64), TT_I64);
        tt_tensor *known[] = { tt_narrow(x, 0, 0, TRAIN), tt_narrow(y, 0, 0, TRAIN) };
        tt_dataset *digits = tt_tensor_dataset_new(known, 2);

        r->images = tt_tensor_retain(x);
        r->labels = tt_tensor_retain(y);
        r->loader = tt_loader_new(digits, &batches);
        tt_dataset_free(digits);
    }
    return r->loader != NULL ? TT_OK : tt_last_status();
}

static tt_status build(run *r, tt_device first, tt_device second)
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

    r->net = tt_sequential_of(layers, (int)(sizeof layers / sizeof layers[0]));
    TT_TRY(tt_module_to_device(r->net, first));
    r->both = tt_data_parallel(r->net, TT_DEVICES(first, second), NULL);
    r->opt = tt_adam_for(r->net, &(tt_adam_options){ .lr = 2e-3 });
    return r->both != NULL && r->opt != NULL ? TT_OK : tt_last_status();
}

static tt_status train(run *r, tt_device first)
{
    tt_progress *bar = tt_progress_new(STEPS, NULL);
    tt_status st = TT_OK;

    for (int step = 0; step < STEPS && st == TT_OK; step++)
        TT_SCOPE {
            tt_batch b = tt_loader_next(r->loader); /* on the host: its halves go to the devices */
            tt_tensor *scores = tt_module_forward(r->both, b.x);
            tt_tensor *loss = tt_cross_entropy(scores, tt_to_device(b.y, first));

            st = tt_backward(loss);
            if (st == TT_OK)
                st = tt_optim_step(r->opt);
            if (st == TT_OK)
                st = tt_optim_zero_grad(r->opt, false);
            if (st == TT_OK)
                tt_progress_set(bar, "loss", tt_item(loss));
            tt_progress_update(bar, 1);
        }
    tt_progress_free(bar);
    return st;
}

static double accuracy(run *r)
{
    double right = 0.0;

    tt_module_eval(r->net);
    TT_SCOPE
        TT_NO_GRAD
        {
            int64_t n = tt_tensor_size(r->images, 0) - TRAIN;
            tt_tensor *scores = tt_module_forward(r->both, tt_narrow(r->images, 0, TRAIN, n));
            tt_tensor *guess = tt_to_device(tt_argmax_dim(scores, 1, false), TT_CPU);
            tt_tensor *hits = tt_eq(guess, tt_narrow(r->labels, 0, TRAIN, n));

            right = tt_item(tt_mean(tt_to_dtype(hits, TT_F32)));
        }
    return right;
}

/* Two devices, or one twice; false when there is none. */
static bool choose(tt_device *first, tt_device *second)
{
    int n = tt_device_count(TT_DEVICE_CL);

    if (n == 0) {
        printf("no device to run on: %s\n", tt_device_missing(TT_DEVICE_CL));
        return false;
    }
    *first = tt_cl(0);
    *second = tt_cl(n > 1 ? 1 : 0);
    if (n == 1)
        printf("there is one device only, so both halves run on it; TUTTI_CL_SPLIT=2 makes two of "
               "a CPU\n");
    return true;
}

int main(void)
{
    static run r;
    tt_device first, second;
    tt_status st;
    double share = 0.0;

    if (!choose(&first, &second))
        return 0;
    tt_seed(1);
    if ((st = load(&r)) == TT_OK && (st = build(&r, first, second)) == TT_OK)
        st = train(&r, first);
    if (st == TT_OK)
        share = accuracy(&r);
    if (st == TT_OK)
        printf("%d steps, accuracy on held-out digits %.1f %%\n", STEPS, 100.0 * share);
    else
        fprintf(stderr, "failed: %s\n", tt_last_error());
    tt_loader_free(r.loader);
    tt_optim_free(r.opt);
    tt_module_free(r.both);
    tt_module_free(r.net);
    tt_tensor_free(r.images);
    tt_tensor_free(r.labels);
    return share >= 0.95 ? 0 : 1;
}
