/* SPDX-License-Identifier: Apache-2.0 */
/* A network with SyncBatchNorm on N ranks, each with its part of the batch, follows one process with all of it;
 * and two runs give the same bits. */
#include <math.h>

#include "tutti/ddp.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/syncbn.h"
#include "tutti/testing_tools.h"

enum { BATCH = 8, N_STEPS = 50 };

static tt_module *cnn_new(uint64_t seed)
{
    tt_conv_layer_options pad = { .padding = 1, .no_bias = true };
    tt_module *m = TT_SEQUENTIAL(
        tt_conv2d_new(1, 4, 3, &pad), tt_batch_norm2d_new(4, NULL), tt_relu_new(),
        tt_conv2d_new(4, 6, 3, &pad), tt_batch_norm2d_new(6, NULL), tt_relu_new(),
        tt_max_pool2d_new(2, NULL), tt_flatten_new(), tt_linear_new(6 * 3 * 3, 5, NULL));
    tt_generator *gen = tt_generator_new(seed);
    tt_state_dict *ps;

    TT_REQUIRE_NOT_NULL(m);
    ps = tt_module_params(m, NULL);
    for (int i = 0; i < tt_state_dict_count(ps); i++)
        if (tt_tensor_dims(tt_state_dict_tensor(ps, i)) > 1)
            tt_init_uniform(tt_state_dict_tensor(ps, i), -0.3, 0.3, gen);
    tt_init_constant(tt_module_param(m, "8.bias"), 0);
    tt_state_dict_free(ps);
    tt_generator_free(gen);
    return m;
}

/* Batch `step`: the same everywhere. */
static tt_tensor *batch(uint64_t seed, int step, tt_tensor **y_p)
{
    tt_generator *gen = tt_generator_new(seed + (uint64_t)step);
    tt_tensor *x = tt_normal_(tt_empty(TT_SHAPE(BATCH, 1, 6, 6), TT_F32, TT_CPU), 0, 1, gen);

    *y_p = tt_to_dtype(tt_uniform_(tt_empty(TT_SHAPE(BATCH), TT_F32, TT_CPU), 0, 5, gen), TT_I64);
    tt_generator_free(gen);
    return x;
}

static double train_step(tt_module *m, tt_ddp *d, tt_optim *opt, tt_tensor *x, tt_tensor *y)
{
    tt_tensor *loss =
        tt_cross_entropy(d != NULL ? tt_ddp_forward(d, x) : tt_module_forward(m, x), y);

    if (loss == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_OK(tt_backward(loss));
    TT_REQUIRE_OK(tt_optim_step(opt));
    TT_REQUIRE_OK(tt_optim_zero_grad(opt, true));
    return tt_item(loss);
}

static void losses_alone(double *losses, uint64_t seed)
{
    tt_module *m = cnn_new(seed);
    tt_optim *opt = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.02, .momentum = 0.9 });

    for (int i = 0; i < N_STEPS; i++)
        TT_SCOPE {
            tt_tensor *y, *x = batch(seed, i, &y);

            losses[i] = train_step(m, NULL, opt, x, y);
        }
    tt_optim_free(opt);
    tt_module_free(m);
}

/* The mean of the ranks' losses, and the parameters at the end; yours to free. */
static tt_module *losses_of_ranks(double *losses, uint64_t seed)
{
    int n = tt_test_size(), each = BATCH / n, at = each * tt_test_rank();
    tt_module *m = tt_sync_batch_norm_convert(cnn_new(seed), tt_test_pg());
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), NULL);
    tt_optim *opt = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.02, .momentum = 0.9 });

    TT_REQUIRE_NOT_NULL(d);
    for (int i = 0; i < N_STEPS; i++)
        TT_SCOPE {
            tt_tensor *y, *x = batch(seed, i, &y), *sum;

            sum =
                tt_full(TT_SHAPE(1),
                        train_step(m, d, opt, tt_narrow(x, 0, at, each), tt_narrow(y, 0, at, each)),
                        TT_F64, TT_CPU);
            TT_REQUIRE_OK(tt_pg_all_reduce(tt_test_pg(), sum,
                                           &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
            losses[i] = tt_item(sum);
        }
    tt_optim_free(opt);
    tt_ddp_free(d);
    return m;
}

static void check_same_bits(const tt_module *a, const tt_module *b)
{
    tt_state_dict *as = tt_module_state_dict(a), *bs = tt_module_state_dict(b);

    for (int i = 0; i < tt_state_dict_count(as); i++)
        if (!tt_equal(tt_state_dict_tensor(as, i), tt_state_dict_tensor(bs, i)))
            TT_FAIL_TEST("%s differs from run to run", tt_state_dict_name(as, i));
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
}

static void follow(void)
{
    /* Fixed: where two values are almost equal, a bit can decide which is the maximum. */
    static const uint64_t seed = 77;
    double alone[N_STEPS], ranks[N_STEPS], again[N_STEPS];
    tt_module *first, *second;

    losses_alone(alone, seed);
    first = losses_of_ranks(ranks, seed);
    second = losses_of_ranks(again, seed);
    for (int i = 0; i < N_STEPS; i++) {
        TT_CHECK_NEAR(ranks[i], alone[i], 1e-5 * alone[i]);
        TT_CHECK_NEAR(ranks[i], again[i], 0);
    }
    TT_CHECK(alone[N_STEPS - 1] != alone[0]);
    check_same_bits(first, second);
    tt_module_free(first);
    tt_module_free(second);
}

TT_TEST_RANKS(2, syncbn, two_ranks_follow_one_process)
{
    follow();
}

TT_TEST_RANKS(4, syncbn, four_ranks_follow_one_process)
{
    follow();
}

TT_TEST_THREADS(4, syncbn, four_threads_follow_one_process)
{
    follow();
}
