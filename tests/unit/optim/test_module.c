/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers for all parameters of a module, and clipping through an optimizer. */
#include "tutti/nn.h"
#include "tutti/optim.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

static tt_tensor *forward(tt_module *m, tt_tensor *x)
{
    return tt_mul(x, tt_module_param_at(m, 0));
}

TT_TEST(optim, modules_give_their_parameters_once)
{
    static const tt_module_class cls = { .name = "Scale", .forward = forward };

    TT_SCOPE {
        tt_module *outer = tt_module_new(&cls), *inner = tt_module_new(&cls);
        tt_tensor *shared = TT_FLOATS(1, 2), *own = TT_FLOATS(3);
        tt_optim *o[5];
        double total = 0;

        TT_REQUIRE_OK(tt_module_add_param(outer, "a", shared));
        TT_REQUIRE_OK(tt_module_add_child(outer, "inner", inner));
        TT_REQUIRE_OK(tt_module_add_param(inner, "a", shared));
        TT_REQUIRE_OK(tt_module_add_param(inner, "b", own));
        o[0] = tt_sgd_for(outer, &(tt_sgd_options){ .lr = 0.5 });
        o[1] = tt_adam_for(outer, NULL);
        o[2] = tt_adamw_for(outer, NULL);
        o[3] = tt_adagrad_for(outer, NULL);
        o[4] = tt_rmsprop_for(outer, NULL);
        for (int i = 0; i < 5; i++) {
            TT_REQUIRE_NOT_NULL(o[i]);
            TT_CHECK_EQ(tt_optim_n_params(o[i], 0), 2);
            TT_CHECK_PTR(tt_optim_param(o[i], 0, 0), shared);
            TT_CHECK_PTR(tt_optim_param(o[i], 0, 1), own);
        }
        TT_CHECK_STR(tt_optim_name(o[4]), "rmsprop");
        TT_REQUIRE_OK(tt_set_grad(shared, TT_FLOATS(3, 0)));
        TT_REQUIRE_OK(tt_set_grad(own, TT_FLOATS(4)));
        TT_CHECK_OK(tt_optim_clip_grad_norm(o[0], 2.5, NULL, &total));
        TT_CHECK_NEAR(total, 5, 1e-12);
        TT_CHECK_OK(tt_optim_step(o[0]));
        TT_CHECK_NEAR(*(float *)tt_tensor_data(shared), 1 - 0.5 * 1.5, 1e-6);
        TT_CHECK_NEAR(*(float *)tt_tensor_data(own), 3 - 0.5 * 2, 1e-6);
        tt_module_free(outer);
        tt_module_free(inner);
        TT_CHECK_OK(tt_optim_step(o[0])); /* the optimizer keeps the parameters */
        for (int i = 0; i < 5; i++)
            tt_optim_free(o[i]);
    }
    TT_CHECK_NULL(tt_sgd_for(NULL, NULL));
}
