/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps of the examples' networks on a device, timed one by one, with moving the batch there and reading the
 * loss. The protocol of train.c: "ready" after the first step; for every line "N" on standard input N steps and
 * their times in milliseconds on one line.
 *
 * usage: device_train cnn|gpt DEVICE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/optim.h"
#include "tutti/tutti.h"

enum { IMAGES = 32, CONTEXT = 64, TEXTS = 16, VOCAB = 128 };

typedef struct task {
    tt_device device;
    tt_module *net;
    tt_optim *opt;
    tt_tensor *x, *y; /* on the host */
    tt_shape scores;
} task;

/* examples/02_train_digits.c */
static void cnn(task *t)
{
    tt_conv_layer_options same = { .padding = 1 };
    tt_module *block1[] = { tt_conv2d_new(1, 32, 3, &same), tt_batch_norm2d_new(32, NULL) };
    tt_module *block2[] = { tt_conv2d_new(32, 64, 3, &same), tt_batch_norm2d_new(64, NULL) };
    tt_module *layers[] = { tt_sequential_of(block1, 2), tt_relu_new(),
                            tt_sequential_of(block2, 2), tt_relu_new(),
                            tt_max_pool2d_new(2, NULL),  tt_flatten_new(),
                            tt_dropout_new(0.25),        tt_linear_new(64 * 16, 10, NULL) };

    t->net = tt_sequential_of(layers, (int)(sizeof layers / sizeof layers[0]));
    if (tt_module_to_device(t->net, t->device) == TT_OK)
        t->opt = tt_adam_for(t->net, &(tt_adam_options){ .lr = 2e-3 });
    t->x = tt_tensor_retain(tt_rand(TT_SHAPE(IMAGES, 1, 8, 8), TT_F32, TT_CPU));
    t->y = tt_tensor_retain(tt_randint(0, 10, TT_SHAPE(IMAGES), TT_CPU));
    t->scores = TT_SHAPE(-1, 10);
}

/* examples/03_gpt_characters.c */
static void gpt(task *t)
{
    t->net = tt_gpt2(&(tt_gpt2_options){
        .layers = 2, .heads = 4, .width = 128, .context = CONTEXT, .vocab = VOCAB });
    if (tt_module_to_device(t->net, t->device) == TT_OK)
        t->opt = tt_adamw_for(t->net, &(tt_adam_options){ .lr = 3e-3 });
    t->x = tt_tensor_retain(tt_randint(0, VOCAB, TT_SHAPE(TEXTS, CONTEXT), TT_CPU));
    t->y = tt_tensor_retain(tt_randint(0, VOCAB, TT_SHAPE(TEXTS * CONTEXT), TT_CPU));
    t->scores = TT_SHAPE(-1, VOCAB);
}

static tt_status step(task *t)
{
    TT_SCOPE {
        tt_tensor *x = tt_to_device(t->x, t->device), *y = tt_to_device(t->y, t->device);
        tt_tensor *loss = tt_cross_entropy(tt_reshape(tt_module_forward(t->net, x), t->scores), y);
        double value;

        TT_TRY(tt_backward(loss));
        TT_TRY(tt_optim_step(t->opt));
        TT_TRY(tt_optim_zero_grad(t->opt, false));
        value = tt_item(loss);
        if (!(value > 0.0 && value < 100.0))
            return tt_fail(TT_ERR_FORMAT, "the loss is %g: %s", value, tt_last_error());
    }
    return TT_OK;
}

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static tt_status run_steps(task *t, long n)
{
    for (long i = 0; i < n; i++) {
        double start = now_ms();

        TT_TRY(step(t));
        printf("%s%.6f", i > 0 ? " " : "", now_ms() - start);
    }
    printf("\n");
    fflush(stdout);
    return TT_OK;
}

static tt_status run(const char *name, const char *device)
{
    task t = { 0 };
    char line[64];

    TT_TRY(tt_device_parse(device, &t.device));
    tt_seed(1);
    TT_SCOPE(strcmp(name, "gpt") == 0 ? gpt : cnn)
        (&t);
    if (t.opt == NULL)
        return tt_last_status();
    TT_TRY(step(&t));
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL)
        TT_TRY(run_steps(&t, strtol(line, NULL, 10)));
    return TT_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: device_train cnn|gpt DEVICE\n");
        return 2;
    }
    if (run(argv[1], argv[2]) == TT_OK)
        return 0;
    fprintf(stderr, "device_train: %s\n", tt_last_error());
    return 1;
}
