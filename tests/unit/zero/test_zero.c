/* SPDX-License-Identifier: Apache-2.0 */
/* The divided optimizer: the same bits as the whole one, less state on every rank, parameters where they should
 * be, groups and schedules, ranks that differ, memory that runs out. */
#include <math.h>

#include "tutti/ddp.h"
#include "tutti/device.h"
#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/nn.h"
#include "tutti/schedule.h"
#include "unit/zero/zero_tools.h"

/* ---- the same bits ------------------------------------------------------------------------------ */

static void follow(void)
{
    for (int kind = 0; kind < ZT_KINDS; kind++)
        for (int copies = 0; copies < 2; copies++) {
            zt_pair p;

            zt_open(&p, tt_test_pg(), (zt_kind)kind, ZT_PARAMS,
                    &(tt_zero_options){ .copy_params = copies });
            zt_train(&p, ZT_PARAMS, 0, 20);
            zt_check_same(&p, ZT_PARAMS);
            zt_close(&p);
        }
}

TT_TEST(zero, one_rank_does_what_an_optimizer_does)
{
    follow();
}

TT_TEST_THREADS(2, zero, two_threads_do_what_an_optimizer_does)
{
    follow();
}

TT_TEST_THREADS(3, zero, three_threads_do_what_an_optimizer_does)
{
    follow();
}

TT_TEST_THREADS(4, zero, four_threads_do_what_an_optimizer_does)
{
    follow();
}

TT_TEST_RANKS(2, zero, two_processes_do_what_an_optimizer_does)
{
    follow();
}

TT_TEST_RANKS(3, zero, three_processes_do_what_an_optimizer_does)
{
    follow();
}

TT_TEST_RANKS(4, zero, four_processes_do_what_an_optimizer_does)
{
    follow();
}

/* More ranks than parameters: some have nothing to update. */
TT_TEST_THREADS(4, zero, ranks_without_parameters_take_part)
{
    zt_pair p;

    zt_open(&p, tt_test_pg(), ZT_ADAM, 2, NULL);
    TT_CHECK_EQ(tt_zero_owner(p.zero, 0, 0), 0);
    TT_CHECK_EQ(tt_zero_owner(p.zero, 0, 1), 1);
    TT_CHECK_EQ(tt_optim_n_params(tt_zero_optim(p.zero), 0), tt_test_rank() < 2 ? 1 : 0);
    zt_train(&p, 2, 0, 5);
    zt_check_same(&p, 2);
    zt_close(&p);
}

/* ---- who has what -------------------------------------------------------------------------------- */

TT_TEST_THREADS(3, zero, large_parameters_go_to_the_rank_with_least)
{
    static const int owners[ZT_PARAMS] = { 2, 1, 1, 1, 2, 2, 0, 2, 2 };
    zt_pair p;

    /* Elements 500, 165, 80, 60, 35, 25, 15, 5, 0 of parameters 6, 2, 4, 8, 0, 3, 5, 1, 7: ranks 0, 1, 2, 2
     * (140), 2 (175), 1 (190), 2 (190), 1 (195), 2. */
    zt_open(&p, tt_test_pg(), ZT_SGD, ZT_PARAMS, NULL);
    TT_CHECK_EQ(tt_zero_n_params(p.zero, 0), ZT_PARAMS);
    TT_CHECK_EQ(tt_zero_n_params(p.zero, 1), -1);
    TT_CHECK_EQ(tt_zero_owner(p.zero, 0, ZT_PARAMS), -1);
    TT_CHECK_EQ(tt_zero_owner(p.zero, 0, -1), -1);
    for (int i = 0; i < ZT_PARAMS; i++)
        TT_CHECK_EQ(tt_zero_owner(p.zero, 0, i), owners[i]);
    zt_close(&p);
}

/* ---- memory -------------------------------------------------------------------------------------- */

static size_t sum_over_ranks(size_t bytes)
{
    double all = (double)bytes;
    size_t sum = 0;

    TT_SCOPE {
        tt_tensor *t = tt_from_data(&all, TT_SHAPE(1), TT_F64);

        TT_REQUIRE_OK(tt_pg_all_reduce(tt_test_pg(), t, NULL, NULL));
        sum = (size_t)tt_item(t);
    }
    return sum;
}

/* 8 parameters of 64 KiB: Adam has twice as much state. */
TT_TEST_RANKS(4, zero, every_rank_has_its_part_of_the_state)
{
    enum { N = 8, ELEMENTS = 16384 };
    tt_tensor *params[N];
    size_t before, whole = 2 * N * ELEMENTS * sizeof(float);
    tt_zero *z;

    for (int i = 0; i < N; i++)
        TT_SCOPE {
            params[i] = tt_tensor_retain(tt_ones(TT_SHAPE(ELEMENTS), TT_F32, TT_CPU));
            TT_REQUIRE_OK(tt_set_requires_grad(params[i], true));
            TT_REQUIRE_OK(tt_set_grad(params[i], tt_ones(TT_SHAPE(ELEMENTS), TT_F32, TT_CPU)));
        }
    z = zt_zero(tt_test_pg(), ZT_ADAM, params, N, NULL);
    TT_CHECK_EQ(tt_zero_state_bytes(z), 0);
    before = tt_memory_stats_get(TT_CPU).current;
    TT_REQUIRE_OK(tt_zero_step(z));
    TT_CHECK_EQ(tt_zero_state_bytes(z), whole / 4);
    TT_CHECK_EQ(sum_over_ranks(tt_zero_state_bytes(z)), whole);
    TT_CHECK_LE(tt_memory_stats_get(TT_CPU).current - before, whole / 4 + 8192);
    TT_REQUIRE_OK(tt_zero_step(z));
    TT_CHECK_EQ(tt_zero_state_bytes(z), whole / 4);
    tt_zero_free(z);
    for (int i = 0; i < N; i++)
        tt_tensor_free(params[i]);
}

TT_TEST_THREADS(2, zero, parameters_live_in_one_block_unless_shared)
{
    zt_pair p;
    tt_tensor *other;
    tt_zero *z;

    zt_open(&p, tt_test_pg(), ZT_SGD, 3, NULL);
    TT_CHECK(tt_tensor_shares_storage(p.divided[0], p.divided[1]));
    TT_CHECK(tt_tensor_shares_storage(p.divided[0], p.divided[2]));
    zt_close(&p);

    zt_open(&p, tt_test_pg(), ZT_SGD, 3, &(tt_zero_options){ .copy_params = true });
    TT_CHECK(!tt_tensor_shares_storage(p.divided[0], p.divided[1]));
    zt_close(&p);

    zt_open(&p, tt_test_pg(), ZT_SGD, 1, NULL);
    other = tt_detach(p.divided[3]); /* sees the memory: it has to stay */
    z = zt_zero(tt_test_pg(), ZT_SGD, &p.divided[3], 3, NULL);
    TT_CHECK(tt_tensor_shares_storage(other, p.divided[3]));
    TT_CHECK(!tt_tensor_shares_storage(p.divided[4], p.divided[3])); /* not contiguous */
    for (int i = 3; i < 6; i++)
        TT_REQUIRE_OK(tt_set_grad(p.divided[i], tt_ones(tt_tensor_shape(p.divided[i]),
                                                        tt_tensor_dtype(p.divided[i]), TT_CPU)));
    TT_REQUIRE_OK(tt_zero_step(z));
    for (int i = 3; i < 6; i++) {
        TT_NO_GRAD
        {
            tt_tensor *want = tt_sub_scalar(tt_detach(p.whole[i]), 0.1);

            TT_CHECK(tt_allclose(tt_detach(p.divided[i]), want, NULL));
        }
    }
    TT_CHECK(tt_equal(other, tt_detach(p.divided[3])));
    tt_zero_free(z);
    zt_close(&p);
}

/* ---- groups and schedules ------------------------------------------------------------------------ */

static void groups(void)
{
    const tt_group_options second = { .lr = 0.003, .weight_decay = TT_OPTIM_ZERO };
    tt_schedule *a, *b;
    zt_pair p;

    zt_open(&p, tt_test_pg(), ZT_ADAMW, 4, NULL);
    a = tt_exponential_lr_new(tt_zero_optim(p.zero), 0.9);
    b = tt_exponential_lr_new(p.optim, 0.9);
    for (int i = 0; i < 12; i++) {
        if (i == 5) { /* in the middle of training */
            TT_REQUIRE_OK(tt_zero_add_group(p.zero, &p.divided[4], ZT_PARAMS - 4, &second));
            TT_REQUIRE_OK(tt_optim_add_group(p.optim, &p.whole[4], ZT_PARAMS - 4, &second));
            TT_CHECK_EQ(tt_zero_n_params(p.zero, 1), ZT_PARAMS - 4);
        }
        zt_train(&p, i < 5 ? 4 : ZT_PARAMS, i, i + 1);
        TT_REQUIRE_OK(tt_schedule_step(a));
        TT_REQUIRE_OK(tt_schedule_step(b));
        TT_CHECK(tt_optim_get_lr(tt_zero_optim(p.zero), 0) == tt_optim_get_lr(p.optim, 0));
    }
    zt_check_same(&p, ZT_PARAMS);
    TT_CHECK_ERR_SAYS(tt_zero_add_group(p.zero, p.divided, -1, NULL), TT_ERR_INVALID, "-1");
    TT_REQUIRE_OK(tt_zero_zero_grad(p.zero, true));
    for (int i = 0; i < ZT_PARAMS; i++) {
        tt_tensor *g = tt_grad_of(p.divided[i]);

        TT_CHECK(g == NULL || tt_tensor_numel(g) == 0 || tt_item(tt_sum(tt_abs(g))) == 0);
    }
    TT_REQUIRE_OK(tt_zero_zero_grad(p.zero, false));
    for (int i = 0; i < ZT_PARAMS; i++)
        TT_CHECK_NULL(tt_grad_of(p.divided[i]));
    tt_schedule_free(a);
    tt_schedule_free(b);
    zt_close(&p);
}

TT_TEST_THREADS(3, zero, groups_and_schedules_work_as_on_an_optimizer)
{
    groups();
}

TT_TEST_RANKS(2, zero, groups_and_schedules_work_over_processes)
{
    groups();
}

/* ---- with a tt_ddp -------------------------------------------------------------------------------- */

static int params_of(const tt_module *m, tt_tensor **params)
{
    tt_state_dict *ps = tt_module_params(m, NULL);
    int n = tt_state_dict_count(ps);

    for (int i = 0; i < n; i++)
        params[i] = tt_state_dict_tensor(ps, i);
    tt_state_dict_free(ps);
    return n;
}

static void ddp_step(tt_ddp *d, tt_tensor *x)
{
    TT_SCOPE {
        tt_tensor *y = tt_ddp_forward(d, x);

        TT_REQUIRE_NOT_NULL(y);
        TT_REQUIRE_OK(tt_backward(tt_mean(tt_mul(y, y))));
    }
}

TT_TEST_RANKS(3, zero, training_with_a_ddp_gives_the_same_bits)
{
    tt_module *m = TT_MLP(TT_ACT_RELU, 6, 40, 40, 3), *n;
    tt_tensor *params[8];
    tt_ddp *a = tt_ddp_new(m, tt_test_pg(), NULL), *b;
    tt_optim *opt;
    tt_zero *z;

    TT_REQUIRE_NOT_NULL(a);
    n = tt_module_copy(m);
    b = tt_ddp_new(n, tt_test_pg(), NULL);
    opt = tt_adamw_for(n, &(tt_adam_options){ .lr = 0.01, .weight_decay = 0.02 });
    z = zt_zero(tt_test_pg(), ZT_ADAMW, params, params_of(m, params), NULL);
    for (int i = 0; i < 20; i++)
        TT_SCOPE {
            tt_tensor *x = zt_random(TT_SHAPE(4, 6), TT_F32,
                                     tt_test_seed() + (uint64_t)(8 * i + tt_test_rank()));

            ddp_step(a, x);
            ddp_step(b, x);
            TT_REQUIRE_OK(tt_zero_step(z));
            TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(tt_zero_zero_grad(z, true));
            TT_REQUIRE_OK(tt_optim_zero_grad(opt, true));
        }
    for (int i = 0; i < params_of(m, params); i++)
        TT_SCOPE {
            tt_tensor *mine = params[i], *other[8];

            params_of(n, other);
            TT_CHECK(tt_equal(tt_detach(mine), tt_detach(other[i])));
        }
    tt_zero_free(z);
    tt_optim_free(opt);
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(m);
    tt_module_free(n);
}

/* ---- mistakes ------------------------------------------------------------------------------------- */

TT_TEST_THREADS(2, zero, ranks_that_differ_are_told_so)
{
    int64_t mine = tt_test_rank() + 2;
    tt_tensor *odd[] = { tt_ones(TT_SHAPE(mine), TT_F32, TT_CPU),
                         tt_ones(TT_SHAPE(1), TT_F32, TT_CPU) };

    TT_CHECK_NULL(tt_zero_sgd_new(tt_test_pg(), odd, 2, NULL, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(),
                      "parameter 0 is float32 [2] on rank 0, but float32 [3] on rank 1");
    TT_CHECK_NULL(tt_zero_sgd_new(tt_test_pg(), &odd[1], tt_test_rank(), NULL, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "rank 0 has 0 parameters, but rank 1 has 1");
}

TT_TEST(zero, mistakes_are_errors)
{
    tt_tensor *x = tt_require_grad(tt_ones(TT_SHAPE(2), TT_F32, TT_CPU)), *bad[] = { x, NULL };
    tt_tensor *made = tt_mul(x, x);

    TT_CHECK_NULL(tt_zero_sgd_new(NULL, &x, 1, NULL, NULL));
    TT_CHECK_NULL(tt_zero_new(tt_test_pg(), &x, 1, NULL, NULL, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "expected a group and a function");
    TT_CHECK_NULL(tt_zero_sgd_new(tt_test_pg(), bad, 2, NULL, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "parameter 1 is NULL");
    bad[1] = x;
    TT_CHECK_NULL(tt_zero_sgd_new(tt_test_pg(), bad, 2, NULL, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "more than once");
    TT_CHECK_NULL(tt_zero_sgd_new(tt_test_pg(), &made, 1, NULL, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "dense leaves");
    TT_CHECK_NULL(tt_zero_sgd_new(tt_test_pg(), &x, 1, &(tt_sgd_options){ .lr = -1 }, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "lr");
    TT_CHECK_ERR(tt_zero_step(NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_zero_zero_grad(NULL, true), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_zero_add_group(NULL, &x, 1, NULL), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_zero_optim(NULL));
    TT_CHECK_EQ(tt_zero_state_bytes(NULL), 0);
    tt_zero_free(NULL);
}

static tt_status update_or_fail(tt_optim_slot *slot, const double *numbers)
{
    if (tt_item(slot->grad) > 1)
        return tt_fail(TT_ERR_UNSUPPORTED, "too much");
    return tt_sub_(slot->param, tt_mul_scalar(slot->grad, numbers[0])) != NULL ? TT_OK
                                                                               : tt_last_status();
}

static const char *const rate_only[] = { "lr", NULL }, *const no_state[] = { NULL };
static const tt_optim_ops strict_ops = {
    .name = "strict", .numbers = rate_only, .states = no_state, .update = update_or_fail
};

static tt_optim *strict_new(tt_tensor *const *params, int n, const void *ctx)
{
    return tt_optim_new(&strict_ops, NULL, params, n, ctx);
}

/* Any optimizer will do. When that of one rank fails, the others are not left waiting. */
TT_TEST_THREADS(3, zero, a_rank_that_fails_to_step_takes_part)
{
    const double rate = 0.5;
    tt_tensor *params[3];
    tt_zero *z;

    TT_SCOPE {
        for (int i = 0; i < 3; i++)
            params[i] = tt_tensor_retain(tt_require_grad(tt_ones(TT_SHAPE(1), TT_F32, TT_CPU)));
        z = tt_zero_new(tt_test_pg(), params, 3, strict_new, &rate, NULL);
        TT_REQUIRE_NOT_NULL(z);
        for (int step = 0; step < 2; step++) {
            for (int i = 0; i < 3; i++)
                TT_REQUIRE_OK(tt_set_grad(
                    params[i], tt_full(TT_SHAPE(1), step == 0 && i == 1 ? 2 : 1, TT_F32, TT_CPU)));
            if (step == 0 && tt_test_rank() == tt_zero_owner(z, 0, 1))
                TT_CHECK_ERR_SAYS(tt_zero_step(z), TT_ERR_UNSUPPORTED, "too much");
            else
                TT_CHECK_OK(tt_zero_step(z));
        }
        for (int i = 0; i < 3; i++)
            TT_CHECK_NEAR(tt_item(params[i]), i == 1 ? 0.5 : 0, 0);
        tt_zero_free(z);
        for (int i = 0; i < 3; i++)
            tt_tensor_free(params[i]);
    }
}

static tt_status make_and_step(void *ctx)
{
    tt_tensor **params = ctx;
    tt_zero *z = tt_zero_adam_new(tt_test_pg(), params, 2, NULL, NULL);
    tt_status st = z != NULL ? tt_zero_step(z) : tt_last_status();

    tt_zero_free(z);
    return st;
}

TT_TEST(zero, memory_that_runs_out_is_an_error)
{
    tt_tensor *params[2];

    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            params[i] = tt_tensor_retain(tt_ones(TT_SHAPE(3), TT_F32, TT_CPU));
            TT_REQUIRE_OK(tt_set_requires_grad(params[i], true));
            TT_REQUIRE_OK(tt_set_grad(params[i], tt_ones(TT_SHAPE(3), TT_F32, TT_CPU)));
        }
    (void)tt_test_pg();
    TT_CHECK_GT(tt_test_fail_allocs(make_and_step, params), 10);
    tt_tensor_free(params[0]);
    tt_tensor_free(params[1]);
}
