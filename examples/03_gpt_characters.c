/* SPDX-License-Identifier: Apache-2.0 */
/* A small GPT learns to write, character by character, like the text it is given.
 *
 * usage: 03_gpt_characters [TEXT_FILE [STEPS [DEVICE]]]     LICENSE, 150 steps and cpu if left out */
#include <stdio.h>
#include <stdlib.h>

#include "tutti/models.h"
#include "tutti/optim.h"
#include "tutti/progress.h"
#include "tutti/tutti.h"

static tt_device device; /* the CPU, or cl:0 for the first OpenCL device */

enum { CONTEXT = 64, BATCH = 16, VOCAB = 128 };

/* The text as int64 character codes; what is not plain ASCII becomes a space. */
static tt_tensor *read_text(const char *path)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(text, 1, sizeof text, f) : 0;

    if (f != NULL)
        fclose(f);
    if (n <= CONTEXT + 1) {
        tt_fail(TT_ERR_IO, "%s: expected a text of more than %d characters", path, CONTEXT + 1);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        text[i] = (signed char)text[i] < 0 ? ' ' : text[i];
    return tt_to_dtype(tt_from_data(text, TT_SHAPE((int64_t)n), TT_U8), TT_I64);
}

/* Windows at random places: x is a piece of text, y the same one character later. */
static void draw_batch(tt_tensor *text, tt_tensor **x_p, tt_tensor **y_p)
{
    tt_tensor *x[BATCH], *y[BATCH];
    int64_t last = tt_tensor_numel(text) - CONTEXT - 1;
    tt_tensor *at = tt_randint(0, last, TT_SHAPE(BATCH), TT_CPU);

    for (int i = 0; i < BATCH; i++) {
        int64_t start = tt_item_int(tt_select(at, 0, i));

        x[i] = tt_narrow(text, 0, start, CONTEXT);
        y[i] = tt_narrow(text, 0, start + 1, CONTEXT);
    }
    *x_p = tt_to_device(tt_stack(x, BATCH, 0), device);
    *y_p = tt_to_device(tt_reshape(tt_stack(y, BATCH, 0), TT_SHAPE(-1)), device);
}

static tt_status train(tt_module *gpt, tt_optim *opt, tt_tensor *text, int steps, double *loss_p)
{
    tt_progress *bar = tt_progress_new(steps, NULL);
    tt_status st = TT_OK;

    for (int i = 0; i < steps && st == TT_OK; i++) {
        TT_SCOPE {
            tt_tensor *x, *y, *loss;

            draw_batch(text, &x, &y);
            loss = tt_cross_entropy(tt_reshape(tt_module_forward(gpt, x), TT_SHAPE(-1, VOCAB)), y);
            st = tt_backward(loss);
            st = st == TT_OK ? tt_optim_step(opt) : st;
            st = st == TT_OK ? tt_optim_zero_grad(opt, false) : st;
            *loss_p = st == TT_OK ? tt_item(loss) : 0.0;
            tt_progress_set(bar, "loss", *loss_p);
            tt_progress_update(bar, 1);
        }
    }
    tt_progress_free(bar);
    return st;
}

/* Let the network continue the text, drawing each character from what it thinks likely. */
static void write_some(tt_module *gpt, int n)
{
    int64_t seen[CONTEXT];

    for (int i = 0; i < CONTEXT; i++)
        seen[i] = i == CONTEXT - 1 ? '\n' : ' ';
    for (int i = 0; i < n; i++) {
        TT_SCOPE
            TT_NO_GRAD
            {
                tt_tensor *x = tt_from_data(seen, TT_SHAPE(1, CONTEXT), TT_I64);
                tt_tensor *y = tt_module_forward(gpt, tt_to_device(x, device));
                tt_tensor *scores = tt_select(tt_select(y, 1, -1), 0, 0);
                tt_tensor *likely = tt_softmax(tt_mul_scalar(scores, 1.4), 0);

                for (int j = 1; j < CONTEXT; j++)
                    seen[j - 1] = seen[j];
                seen[CONTEXT - 1] = tt_item_int(tt_multinomial(likely, 1, false, NULL));
            }
        putchar((int)seen[CONTEXT - 1]);
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 150;
    double loss = 0.0;
    tt_tensor *text = tt_tensor_retain(read_text(argc > 1 ? argv[1] : "LICENSE"));
    tt_module *gpt = tt_gpt2(&(tt_gpt2_options){
        .layers = 2, .heads = 4, .width = 128, .context = CONTEXT, .vocab = VOCAB });
    tt_optim *opt = tt_adamw_for(gpt, &(tt_adam_options){ .lr = 3e-3 });
    tt_status st = tt_device_parse(argc > 3 ? argv[3] : "cpu", &device);

    if (st == TT_OK)
        st = tt_module_to_device(gpt, device);
    if (st == TT_OK)
        st = text != NULL && opt != NULL ? train(gpt, opt, text, steps, &loss) : tt_last_status();
    if (st == TT_OK) {
        printf("after %d steps the loss is %.3f; the network writes:\n", steps, loss);
        write_some(gpt, 300);
    } else {
        fprintf(stderr, "failed: %s\n", tt_last_error());
    }
    tt_optim_free(opt);
    tt_module_free(gpt);
    tt_tensor_free(text);
    return st == TT_OK && (steps < 150 || loss < 2.6) ? 0 : 1;
}
