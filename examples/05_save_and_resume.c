/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a training and going on with it: weights and optimizer state in one safetensors file, which other
 * programs read too. The resumed run repeats the uninterrupted one bit for bit. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tutti/models.h"
#include "tutti/optim.h"
#include "tutti/tutti.h"

static tt_status steps(tt_module *net, tt_optim *opt, int first, int n, double *loss_p)
{
    for (int i = first; i < first + n; i++)
        TT_SCOPE {
            tt_generator *data = tt_generator_new((uint64_t)i); /* the batch of step i */
            tt_tensor *x = tt_normal_(tt_empty(TT_SHAPE(32, 8), TT_F32, TT_CPU), 0, 1, data);
            tt_tensor *y = tt_sum_dim(tt_square(x), 1, true);
            tt_tensor *loss = tt_mse_loss(tt_module_forward(net, x), y);

            tt_generator_free(data);
            TT_TRY(tt_backward(loss));
            TT_TRY(tt_optim_step(opt));
            TT_TRY(tt_optim_zero_grad(opt, false));
            *loss_p = tt_item(loss);
        }
    return TT_OK;
}

static tt_module *network(uint64_t seed)
{
    tt_seed(seed);
    return TT_MLP(TT_ACT_TANH, 8, 32, 1);
}

static tt_status save(tt_module *net, tt_optim *opt, const char *path)
{
    tt_state_dict *all = tt_module_state_dict(net);
    tt_status st = tt_optim_save(opt, all, "optimizer.");

    if (st == TT_OK)
        st = tt_state_dict_save(all, path);
    tt_state_dict_free(all);
    return st;
}

static tt_status load(tt_module *net, tt_optim *opt, const char *path)
{
    tt_state_dict *all = tt_state_dict_load(path);
    tt_status st = all != NULL ? TT_OK : tt_last_status();

    if (st ==
        TT_OK) /* names and shapes are checked; the optimizer's entries are not the network's */
        st = tt_module_load_state_dict(net, all, &(tt_load_options){ .allow_unexpected = true },
                                       NULL);
    if (st == TT_OK)
        st = tt_optim_load(opt, all, "optimizer.");
    tt_state_dict_free(all);
    return st;
}

static tt_status run(const char *path)
{
    tt_module *net = network(1), *again = network(2);
    tt_optim *opt = tt_adam_for(net, NULL), *opt_again = tt_adam_for(again, NULL);
    double loss, resumed;

    TT_TRY(steps(net, opt, 0, 50, &loss));
    TT_TRY(save(net, opt, path));
    printf("saved after 50 steps, loss %.6f\n", loss);
    TT_TRY(steps(net, opt, 50, 50, &loss));

    TT_TRY(load(again, opt_again, path));
    TT_TRY(steps(again, opt_again, 50, 50, &resumed));
    printf("after 100 steps: loss %.9f, resumed %.9f\n", loss, resumed);

    tt_optim_free(opt);
    tt_optim_free(opt_again);
    tt_module_free(net);
    tt_module_free(again);
    return loss == resumed ? TT_OK : tt_fail(TT_ERR_INVALID, "the resumed run differs");
}

int main(void)
{
    char dir[] = "/tmp/tutti-example-XXXXXX", path[64];
    int failed;

    if (mkdtemp(dir) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/training.safetensors", dir);
    failed = run(path) != TT_OK;
    if (failed)
        fprintf(stderr, "failed: %s\n", tt_last_error());
    unlink(path);
    rmdir(dir);
    return failed;
}
