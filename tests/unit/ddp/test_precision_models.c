/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models under tt_ddp in bfloat16 and float16: losses close to those in float32, the same parameters on
 * all ranks. */
#include "tutti/ddp.h"
#include "tutti/functional.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"

typedef struct model {
    tt_module *(*make)(void);
    tt_tensor *(*input)(tt_generator *gen);
    int64_t classes;
    int n_steps;
    double tolerance; /* relative, of the loss */
} model;

static tt_module *gpt_new(void)
{
    return tt_gpt2(
        &(tt_gpt2_options){ .layers = 2, .heads = 2, .width = 32, .context = 16, .vocab = 50 });
}

static tt_tensor *gpt_input(tt_generator *gen)
{
    return tt_randint_(tt_empty(TT_SHAPE(2, 8), TT_I64, TT_CPU), 0, 50, gen);
}

static tt_module *resnet_new(void)
{
    return tt_resnet(18, &(tt_resnet_options){ .classes = 10, .width = 4, .small_images = true });
}

static tt_tensor *resnet_input(tt_generator *gen)
{
    return tt_normal_(tt_empty(TT_SHAPE(8, 3, 16, 16), TT_F32, TT_CPU), 0, 1, gen);
}

static double train(tt_ddp *d, const model *of)
{
    tt_optim *opt = tt_sgd_for(tt_ddp_module(d), &(tt_sgd_options){ .lr = 0.01 });
    double loss = 0;

    for (int i = 0; i < of->n_steps; i++)
        TT_SCOPE {
            tt_generator *gen = tt_generator_new(tt_test_seed() + (uint64_t)tt_test_rank());
            tt_tensor *y = tt_ddp_forward(d, of->input(gen)), *classes, *l;

            if (y == NULL)
                TT_FAIL_TEST("%s", tt_last_error());
            TT_REQUIRE_NOT_NULL(y);
            y = tt_reshape(tt_to_dtype(y, TT_F32), TT_SHAPE(-1, of->classes));
            classes = tt_randint_(tt_empty(TT_SHAPE(tt_tensor_size(y, 0)), TT_I64, TT_CPU), 0,
                                  of->classes, gen);
            l = tt_cross_entropy(y, classes);
            TT_REQUIRE_OK(tt_backward(l));
            TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(tt_optim_zero_grad(opt, true));
            loss = tt_item(l);
            tt_generator_free(gen);
        }
    tt_optim_free(opt);
    return loss;
}

static void check_same(const tt_ddp *d)
{
    for (int i = 0; i < tt_ddp_n_params(d); i++)
        TT_SCOPE {
            tt_tensor *first = tt_clone(tt_detach(tt_ddp_param(d, i)));

            TT_REQUIRE_OK(tt_pg_broadcast(tt_test_pg(), first, 0, NULL, NULL));
            TT_CHECK(tt_equal(first, tt_detach(tt_ddp_param(d, i))));
            TT_CHECK_EQ(tt_tensor_dtype(first), TT_F32);
        }
}

static void close_to_full(const model *of, tt_ddp_precision p)
{
    tt_module *m = of->make(), *full = tt_module_copy(m);
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .precision = p });
    tt_ddp *f = tt_ddp_new(full, tt_test_pg(), NULL);
    double a, b;

    TT_REQUIRE_NOT_NULL(d);
    TT_REQUIRE_NOT_NULL(f);
    a = train(d, of);
    b = train(f, of);
    TT_NOTE("loss %.4f, in float32 %.4f", a, b);
    TT_CHECK_NEAR(a, b, of->tolerance * b);
    check_same(d);
    tt_ddp_free(d);
    tt_ddp_free(f);
    tt_module_free(m);
    tt_module_free(full);
}

static const model gpt = { gpt_new, gpt_input, 50, 6, 0.02 };
/* Batch norm of so few numbers multiplies small differences by ten in each step. */
static const model resnet = { resnet_new, resnet_input, 10, 2, 0.25 };

TT_TEST_THREADS(2, ddp_precision, gpt_in_bfloat16)
{
    close_to_full(&gpt, (tt_ddp_precision){ .params = TT_BF16, .reduce = TT_BF16 });
}

TT_TEST_THREADS(2, ddp_precision, gpt_in_float16)
{
    close_to_full(&gpt, (tt_ddp_precision){ .params = TT_F16 });
}

TT_TEST_THREADS(2, ddp_precision, resnet_in_bfloat16)
{
    close_to_full(&resnet, (tt_ddp_precision){ .params = TT_BF16, .buffers = TT_BF16 });
}

TT_TEST_THREADS(2, ddp_precision, resnet_reduced_in_float16)
{
    close_to_full(&resnet, (tt_ddp_precision){ .reduce = TT_F16 });
}
