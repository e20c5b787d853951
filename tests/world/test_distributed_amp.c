/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed precision with data parallel training: finite gradients, and the same result wherever they live. */
#include "tutti/amp.h"
#include "tutti/random.h"
#include "world/ddp_models.h"

enum { N_STEPS = 20 };

static void check_gradients(const tt_ddp *d, bool there)
{
    for (int i = 0; i < tt_ddp_n_params(d); i++) {
        tt_tensor *grad = tt_grad_of(tt_ddp_param(d, i));

        TT_CHECK_EQ(grad != NULL, there);
        if (grad != NULL)
            TT_SCOPE {
                TT_CHECK(tt_item(tt_all(tt_isfinite(grad))) != 0);
                TT_CHECK_EQ(tt_tensor_dtype(grad), TT_F32);
            }
    }
}

static void amp_step(tt_ddp *d, tt_grad_scaler *scaler, tt_optim *opt, tt_tensor *x, tt_tensor *y)
{
    tt_tensor *out = NULL, *loss = NULL;

    TT_AUTOCAST(TT_DEVICE_CPU, TT_F16)
    {
        out = tt_ddp_forward(d, x);
        TT_REQUIRE_NOT_NULL(out);
        TT_CHECK_EQ(tt_tensor_dtype(out), TT_F32); /* softmax */
        loss = tt_mse_loss(out, y);
    }
    TT_REQUIRE_OK(tt_backward(tt_grad_scaler_scale(scaler, loss)));
    check_gradients(d, true);
    TT_REQUIRE_OK(tt_grad_scaler_step(scaler, opt, NULL));
    TT_REQUIRE_OK(tt_grad_scaler_update(scaler));
    TT_REQUIRE_OK(tt_optim_zero_grad(opt, false));
}

static void train(const dist_group *g, tt_module *m, bool views)
{
    tt_ddp *d = ddp_new(m, g->pg, &(tt_ddp_options){ .copy_gradients = !views });
    tt_optim *opt = ddp_sgd(d);
    tt_grad_scaler *scaler = tt_grad_scaler_new(NULL);
    tt_generator *gen = tt_generator_new(1337);
    tt_tensor *x = ddp_random(TT_SHAPE(2 * g->n, 2), 1), *y = ddp_random(TT_SHAPE(2 * g->n, 4), 2);

    TT_REQUIRE_NOT_NULL(scaler);
    check_gradients(d, false);
    for (int i = 0; i < N_STEPS; i++)
        TT_SCOPE {
            tt_tensor *order = tt_randperm(2 * g->n, dist_device(), gen);

            amp_step(d, scaler, opt, tt_index_select(x, 0, order), tt_index_select(y, 0, order));
        }
    TT_CHECK_EQ(tt_grad_scaler_growth_tracker(scaler), N_STEPS); /* nothing was skipped */
    for (int i = 0; i < tt_ddp_n_params(d); i++)
        ddp_check_same(g->pg, tt_ddp_param(d, i));
    tt_generator_free(gen);
    tt_grad_scaler_free(scaler);
    tt_optim_free(opt);
    tt_ddp_free(d);
}

static void amp(const dist_group *g, const void *arg)
{
    tt_module *first, *copies, *views;

    (void)arg;
    tt_seed(31415);
    first = ddp_net_new();
    copies = ddp_module(tt_module_copy(first));
    views = ddp_module(tt_module_copy(first));
    train(g, copies, false);
    train(g, views, true);
    ddp_check_params(copies, views, true);
    TT_CHECK(!tt_equal(tt_module_param(first, "fc1.weight"), tt_module_param(views, "fc1.weight")));
    tt_module_free(first);
    tt_module_free(copies);
    tt_module_free(views);
}

static const dist_row rows[] = {
    { "test_DistributedDataParallel_with_amp_and_grad_is_view", amp, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
