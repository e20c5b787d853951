/* SPDX-License-Identifier: Apache-2.0 */
/* A divided optimizer with uneven inputs: ranks without go on updating their parameters. */
#include <signal.h>

#include "tutti/ddp.h"
#include "tutti/functional.h"
#include "tutti/models.h"
#include "tutti/nn.h"
#include "tutti/schedule.h"
#include "unit/zero/zero_tools.h"

typedef struct training {
    tt_module *m;
    tt_ddp *d;
    tt_zero *zero;     /* or */
    tt_optim *optim;   /* undivided */
    tt_schedule *rate; /* of this rank's */
} training;

static void training_open(training *t, tt_module *m, bool divided)
{
    const tt_adam_options opt = { .lr = 0.02 };
    tt_state_dict *ps = tt_module_params(m, NULL);
    tt_tensor *params[16];
    int n = tt_state_dict_count(ps);

    *t = (training){ .m = m, .d = tt_ddp_new(m, tt_test_pg(), NULL) };
    TT_REQUIRE_NOT_NULL(t->d);
    for (int i = 0; i < n; i++)
        params[i] = tt_state_dict_tensor(ps, i);
    if (divided)
        t->zero = tt_zero_adam_new(tt_test_pg(), params, n, &opt, NULL);
    else
        t->optim = tt_adam_new(params, n, &opt);
    tt_state_dict_free(ps);
    t->rate = tt_exponential_lr_new(divided ? tt_zero_optim(t->zero) : t->optim, 0.8);
    TT_REQUIRE_NOT_NULL(t->rate);
}

static void training_close(training *t)
{
    tt_schedule_free(t->rate);
    tt_zero_free(t->zero);
    tt_optim_free(t->optim);
    tt_ddp_free(t->d);
    tt_module_free(t->m);
}

/* Clips every second time, steps not every time. */
static void train_one(training *t, int i)
{
    TT_SCOPE {
        uint64_t seed = tt_test_seed() + (uint64_t)(16 * i + tt_test_rank());
        tt_tensor *y = tt_ddp_forward(t->d, zt_random(TT_SHAPE(3, 4), TT_F32, seed));
        double total = 0;

        TT_REQUIRE_NOT_NULL(y);
        TT_REQUIRE_OK(tt_backward(tt_mean(tt_mul(y, y))));
        if (i % 2 == 1)
            TT_REQUIRE_OK(t->zero != NULL ? tt_zero_clip_grad_norm(t->zero, 0.1, NULL, &total)
                                          : tt_optim_clip_grad_norm(t->optim, 0.1, NULL, &total));
        if (i % 3 != 2) {
            TT_REQUIRE_OK(t->zero != NULL ? tt_zero_step(t->zero) : tt_optim_step(t->optim));
            TT_REQUIRE_OK(tt_schedule_step(t->rate));
        }
        TT_REQUIRE_OK(t->zero != NULL ? tt_zero_zero_grad(t->zero, true)
                                      : tt_optim_zero_grad(t->optim, true));
    }
}

static void train_uneven(training *t)
{
    tt_joinable list[] = { tt_ddp_joinable(t->d), tt_zero_joinable(t->zero) };
    tt_join *j = tt_join_new(list, t->zero != NULL ? 2 : 1, NULL);

    TT_REQUIRE_NOT_NULL(j);
    for (int i = 0; i < 2 + 3 * tt_test_rank(); i++)
        train_one(t, i);
    TT_REQUIRE_OK(tt_join_finish(j));
    TT_CHECK_EQ(tt_join_last_rank(j), tt_test_size() - 1);
    tt_join_free(j);
}

static void check_same(tt_pg *pg, const tt_module *m)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++)
        TT_SCOPE {
            tt_tensor *mine = tt_detach(tt_state_dict_tensor(ps, i)), *first = tt_clone(mine);

            TT_REQUIRE_OK(tt_pg_broadcast(pg, first, 0, NULL, NULL));
            TT_CHECK(tt_equal(mine, first));
        }
    tt_state_dict_free(ps);
}

/* The last rank's optimizer, if it is whole, has seen everything: what the divided one must come to. */
static void divided_follows_whole(void)
{
    tt_module *m = TT_MLP(TT_ACT_RELU, 4, 9, 7, 2);
    tt_state_dict *as, *bs;
    training a, b;

    training_open(&a, m, true);
    training_open(&b, tt_module_copy(m), false);
    train_uneven(&a);
    train_uneven(&b);
    as = tt_module_params(a.m, NULL);
    bs = tt_module_params(b.m, NULL);
    for (int i = 0; i < tt_state_dict_count(as); i++)
        TT_SCOPE {
            tt_close_report r = { 0 };

            /* Clipping adds up the squares in another order. */
            if (!tt_compare(tt_detach(tt_state_dict_tensor(as, i)),
                            tt_detach(tt_state_dict_tensor(bs, i)),
                            &(tt_close_options){ .rtol = 1e-6, .atol = 1e-6 }, &r))
                TT_FAIL_TEST("%s: %s", tt_state_dict_name(as, i), r.text);
        }
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
    check_same(tt_test_pg(), a.m);
    training_close(&a);
    training_close(&b);
}

TT_TEST_THREADS(3, zero_join, a_divided_optimizer_goes_on_without_inputs)
{
    divided_follows_whole();
}

TT_TEST_RANKS(4, zero_join, a_divided_optimizer_goes_on_over_processes)
{
    divided_follows_whole();
}

/* ---- a rank that dies ------------------------------------------------------------------------------- */

/* Rank 0 has no inputs, rank 1 dies after two steps, rank 2 has many. */
static void survive(void (*train)(training *t, int i, tt_status *st))
{
    training t;
    tt_joinable list[2];
    tt_status st = TT_OK;
    tt_join *j;

    tt_test_expect_exit(1, -SIGKILL);
    training_open(&t, TT_MLP(TT_ACT_RELU, 4, 9, 7, 2), true);
    list[0] = tt_ddp_joinable(t.d);
    list[1] = tt_zero_joinable(t.zero);
    j = tt_join_new(list, 2, NULL);
    TT_REQUIRE_NOT_NULL(j);
    for (int i = 0; st == TT_OK && tt_test_rank() > 0 && i < 1000; i++)
        train(&t, i, &st);
    if (tt_test_rank() == 0)
        st = tt_join_finish(j);
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), "rank 1");
    tt_join_free(j);
    training_close(&t);
}

static void die_between(training *t, int i, tt_status *st)
{
    TT_SCOPE {
        tt_tensor *y = tt_ddp_forward(t->d, zt_random(TT_SHAPE(3, 4), TT_F32, tt_test_seed()));

        *st = y != NULL ? tt_backward(tt_mean(tt_mul(y, y))) : tt_last_status();
        if (*st == TT_OK && i == 2 && tt_test_rank() == 1)
            raise(SIGKILL);
        if (*st == TT_OK)
            *st = tt_zero_step(t->zero);
    }
}

static void die_before(training *t, int i, tt_status *st)
{
    if (i == 2 && tt_test_rank() == 1)
        raise(SIGKILL);
    die_between(t, 0, st);
}

TT_TEST_RANKS(3, zero_join, a_rank_that_dies_before_a_step_is_named)
{
    survive(die_between);
}

TT_TEST_RANKS(3, zero_join, a_rank_that_dies_before_a_forward_is_named)
{
    survive(die_before);
}
