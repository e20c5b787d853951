/* SPDX-License-Identifier: Apache-2.0 */
/* A small convolutional network learns handwritten digits: real data, 1,797 images of 8x8 pixels.
 *
 * usage: 02_train_digits [PLOT.svg [DEVICE]]
 *
 * DEVICE is cpu, or cl:0 for the first OpenCL device; a PLOT.svg of "-" is none. */
#include <stdio.h>
#include <string.h>

#include "digits.h"
#include "plot.h"
#include "tutti/layers.h"
#include "tutti/tutti.h"

enum { DIGITS = 1797, EPOCHS = 8, BATCH = 32, TRAIN = 1440, STEPS = EPOCHS * TRAIN / BATCH };

typedef struct run {
    tt_device device;
    tt_tensor *images, *labels; /* all of them: [1797, 1, 8, 8] and [1797] */
    tt_module *net;
    tt_optim *opt;
    tt_loader *loader;
    double losses[STEPS];
} run;

/* Rows of 64 pixels from 0 to 16, then the digit; shuffled, so that the last ones can be held out. */
static tt_status load(run *r)
{
    TT_SCOPE {
        tt_tensor *file = digits_read();
        tt_tensor *order = tt_randperm(DIGITS, TT_CPU, NULL);
        tt_tensor *rows = tt_index_select(file, 0, order);
        tt_tensor *pixels = tt_div_scalar(tt_narrow(rows, 1, 0, 64), 16.0);

        r->images = tt_tensor_retain(tt_reshape(pixels, TT_SHAPE(-1, 1, 8, 8)));
        r->labels = tt_tensor_retain(tt_to_dtype(tt_select(rows, 1, 64), TT_I64));
    }
    return r->images != NULL && r->labels != NULL ? TT_OK : tt_last_status();
}

static tt_status build(run *r)
{
    tt_conv_layer_options same = { .padding = 1 };
    tt_module *block1[] = { tt_conv2d_new(1, 32, 3, &same), tt_batch_norm2d_new(32, NULL) };
    tt_module *block2[] = { tt_conv2d_new(32, 64, 3, &same), tt_batch_norm2d_new(64, NULL) };
    tt_module *layers[] = { tt_sequential_of(block1, 2), tt_relu_new(),
                            tt_sequential_of(block2, 2), tt_relu_new(),
                            tt_max_pool2d_new(2, NULL),  tt_flatten_new(),
                            tt_dropout_new(0.25),        tt_linear_new(64 * 16, 10, NULL) };
    tt_loader_options batches = { .batch_size = BATCH, .shuffle = true, .device = r->device };

    r->net = tt_sequential_of(layers, (int)(sizeof layers / sizeof layers[0]));
    TT_TRY(tt_module_to_device(r->net, r->device));
    r->opt = tt_adam_for(r->net, &(tt_adam_options){ .lr = 2e-3 });
    TT_SCOPE {
        tt_tensor *x = tt_narrow(r->images, 0, 0, TRAIN), *y = tt_narrow(r->labels, 0, 0, TRAIN);
        tt_dataset *digits = tt_tensor_dataset_new((tt_tensor *[]){ x, y }, 2);

        r->loader = tt_loader_new(digits, &batches);
        tt_dataset_free(digits); /* the loader keeps it */
    }
    return r->opt != NULL && r->loader != NULL ? TT_OK : tt_last_status();
}

static tt_status train(run *r, tt_progress *bar)
{
    for (int step = 0; step < STEPS; step++)
        TT_SCOPE {
            tt_batch b = tt_loader_next(r->loader);
            tt_tensor *loss = tt_cross_entropy(tt_module_forward(r->net, b.x), b.y);

            TT_TRY(tt_backward(loss));
            TT_TRY(tt_optim_step(r->opt));
            TT_TRY(tt_optim_zero_grad(r->opt, false));
            r->losses[step] = tt_item(loss);
            tt_progress_set(bar, "loss", r->losses[step]);
            tt_progress_update(bar, 1);
        }
    return TT_OK;
}

/* The share of the held-out digits that the network names correctly. */
static double accuracy(run *r)
{
    double right = 0.0;

    tt_module_eval(r->net);
    TT_SCOPE
        TT_NO_GRAD
        {
            int64_t n = tt_tensor_size(r->images, 0) - TRAIN;
            tt_tensor *x = tt_to_device(tt_narrow(r->images, 0, TRAIN, n), r->device);
            tt_tensor *y = tt_to_device(tt_narrow(r->labels, 0, TRAIN, n), r->device);
            tt_tensor *hits = tt_eq(tt_argmax_dim(tt_module_forward(r->net, x), 1, false), y);

            right = tt_item(tt_mean(tt_to_dtype(hits, TT_F32)));
        }
    return right;
}

int main(int argc, char **argv)
{
    static run r;
    tt_progress *bar = tt_progress_new(STEPS, NULL);
    tt_status st;
    double share;

    tt_seed(1);
    st = tt_device_parse(argc > 2 ? argv[2] : "cpu", &r.device);
    if (st == TT_OK && (st = load(&r)) == TT_OK && (st = build(&r)) == TT_OK)
        st = train(&r, bar);
    tt_progress_free(bar);
    share = st == TT_OK ? accuracy(&r) : 0.0;
    if (st == TT_OK)
        printf("%d steps, accuracy on held-out digits %.1f %%\n", STEPS, 100.0 * share);
    else
        fprintf(stderr, "failed: %s\n", tt_last_error());
    if (argc > 1 && strcmp(argv[1], "-") != 0 &&
        plot_svg(argv[1], "Digits: training loss", r.losses, STEPS) == 0)
        printf("the loss curve is in %s\n", argv[1]);
    tt_loader_free(r.loader);
    tt_optim_free(r.opt);
    tt_module_free(r.net);
    tt_tensor_free(r.images);
    tt_tensor_free(r.labels);
    return share >= 0.97 ? 0 : 1;
}
