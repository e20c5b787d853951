/* SPDX-License-Identifier: Apache-2.0 */
/* Averages over ranks that are threads; what averagers refuse; the state of the optimizer. */
#include <string.h>

#include "tutti/average.h"
#include "tutti/collective.h"
#include "tutti/nn.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"

static tt_tensor *full(double value, tt_dtype dtype)
{
    return tt_full(TT_SHAPE(3, 2), value, dtype, TT_CPU);
}

static bool is_full(tt_tensor *t, double value)
{
    return tt_equal(tt_detach(t), full(value, tt_tensor_dtype(t)));
}

/* ---- tensors -------------------------------------------------------------------------------------- */

TT_TEST_THREADS(4, average, tensors_of_several_types_and_strides)
{
    double me = tt_test_rank();
    tt_tensor *whole = full(7, TT_F32);
    tt_tensor *ts[] = { tt_require_grad(full(me, TT_F32)), full(me, TT_F64), full(2 * me, TT_BF16),
                        tt_zeros(TT_SHAPE(0, 3), TT_F32, TT_CPU), tt_select(whole, 1, 1) };
    uint64_t version = tt_tensor_version(ts[0]);

    TT_REQUIRE_NOT_NULL(tt_fill_(ts[4], me));
    TT_REQUIRE_OK(tt_average_tensors(ts, 5, tt_test_pg()));
    TT_CHECK(is_full(ts[0], 1.5));
    TT_CHECK(is_full(ts[1], 1.5));
    TT_CHECK(is_full(ts[2], 3));
    TT_CHECK_NEAR(tt_at(whole, (int64_t[]){ 2, 1 }), 1.5, 0);
    TT_CHECK_NEAR(tt_at(whole, (int64_t[]){ 2, 0 }), 7, 0); /* beside the view */
    TT_CHECK(tt_is_leaf(ts[0]));
    TT_CHECK(tt_requires_grad(ts[0]));
    TT_CHECK_GT(tt_tensor_version(ts[0]), version); /* a graph that saved it notices */
}

TT_TEST_THREADS(3, average, is_left_to_the_members)
{
    tt_pg *pair = tt_pg_subgroup(tt_test_pg(), (int[]){ 0, 2 }, 2, NULL);
    tt_tensor *t = full(tt_test_rank(), TT_F32);

    TT_REQUIRE_OK(tt_average_tensors(&t, 1, pair));
    TT_CHECK(is_full(t, 1));
    t = full(tt_test_rank(), TT_F32);
    TT_REQUIRE_OK(tt_average_tensors(&t, tt_test_rank() == 1, pair)); /* nothing, or no member */
    TT_CHECK(is_full(t, tt_test_rank()));
    tt_pg_free(pair);
}

TT_TEST_THREADS(2, average, refuses_missing_tensors)
{
    tt_tensor *t = NULL;

    TT_CHECK_ERR_SAYS(tt_average_tensors(&t, 1, tt_test_pg()), TT_ERR_INVALID, "number 0 is NULL");
    TT_CHECK_ERR(tt_average_tensors(NULL, 2, tt_test_pg()), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_average_tensors(NULL, -1, tt_test_pg()), TT_ERR_INVALID);
    TT_CHECK_OK(tt_average_tensors(NULL, 0, tt_test_pg()));
}

/* ---- averagers -------------------------------------------------------------------------------------- */

static void count(void *ctx, const char *category, const char *message)
{
    (void)message;
    *(int *)ctx += strcmp(category, "average") == 0;
}

TT_TEST_THREADS(4, average, averagers_refuse_what_cannot_be)
{
    tt_pg *pg = tt_test_pg();
    tt_averager_level levels[] = { { 2, 2 }, { 4, 4 } };
    int warnings = 0;

    TT_CHECK_NULL(tt_periodic_averager_new(pg, 0, 1));
    TT_CHECK_CONTAINS(tt_last_error(), "period >= 1, got 0");
    TT_CHECK_NULL(tt_periodic_averager_new(pg, 2, -1));
    TT_CHECK_CONTAINS(tt_last_error(), "warm-up >= 0, got -1");
    TT_CHECK_NULL(tt_hierarchical_averager_new(pg, levels, 0, 0));
    TT_CHECK_CONTAINS(tt_last_error(), "at least one level");
    TT_CHECK_NULL(tt_hierarchical_averager_new(pg, levels, 1, 0));
    TT_CHECK_CONTAINS(tt_last_error(), "whole group of 4 ranks, got 2");
    levels[1].period = 2;
    TT_CHECK_NULL(tt_hierarchical_averager_new(pg, levels, 2, 0));
    TT_CHECK_CONTAINS(tt_last_error(), "ascending periods, got 2 after 2");
    levels[1].period = 4;
    levels[0].group_size = 3;
    TT_CHECK_NULL(tt_hierarchical_averager_new(pg, levels, 2, 0));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_REQUIRE_OK(tt_warnings_push(count, &warnings));
    tt_averager_free(tt_periodic_averager_new(pg, 1, 0));
    tt_warnings_pop();
    TT_CHECK_EQ(warnings, 1);
    tt_averager_free(NULL);
}

TT_TEST_THREADS(4, average, tells_what_is_due)
{
    tt_averager_level levels[] = { { 3, 2 }, { 6, 4 } };
    tt_averager *a = tt_hierarchical_averager_new(tt_test_pg(), levels, 2, 4);
    tt_tensor *t = full(1, TT_F32);

    TT_REQUIRE_NOT_NULL(a);
    for (int step = 0; step < 14; step++) {
        int level = step < 4 ? -1 : step % 6 == 0 ? 1 : step % 3 == 0 ? 0 : -1;
        tt_pg *due = tt_averager_due(a);

        if (level < 0)
            TT_CHECK_NULL(due);
        else
            TT_CHECK_PTR(due, tt_averager_group(a, level));
        TT_REQUIRE_OK(tt_averager_average(a, &t, 1));
    }
    TT_CHECK_EQ(tt_averager_step(a), 14);
    TT_REQUIRE_OK(tt_averager_set_step(a, 6));
    TT_CHECK_PTR(tt_averager_due(a), tt_test_pg());
    TT_CHECK_ERR(tt_averager_set_step(a, -1), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_averager_group(a, 2));
    TT_CHECK_ERR(tt_averager_average(NULL, &t, 1), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_averager_average_optim(a, NULL), TT_ERR_INVALID);
    tt_averager_free(a);
}

TT_TEST_THREADS(2, average, leaves_out_what_has_no_gradient)
{
    double me = tt_test_rank();
    tt_tensor *ts[] = { tt_require_grad(full(me, TT_F32)), tt_require_grad(full(me, TT_F32)) };
    tt_averager *a = tt_periodic_averager_new(tt_test_pg(), 2, 0);

    TT_REQUIRE_OK(tt_averager_average(a, ts, 2)); /* neither has one: nothing is sent */
    TT_CHECK(is_full(ts[0], me));
    TT_REQUIRE_OK(tt_averager_average(a, ts, 2)); /* not due */
    TT_REQUIRE_OK(tt_set_grad(ts[1], full(0, TT_F32)));
    TT_REQUIRE_OK(tt_averager_average(a, ts, 2));
    TT_CHECK(is_full(ts[0], me));
    TT_CHECK(is_full(ts[1], 0.5));
    tt_averager_free(a);
}

/* ---- the optimizer ------------------------------------------------------------------------------------ */

static tt_post_local_sgd *optimizer(tt_tensor *p)
{
    tt_post_local_sgd *o =
        tt_post_local_sgd_new(tt_sgd_new(&p, 1, &(tt_sgd_options){ .lr = 1, .momentum = 0.5 }),
                              tt_periodic_averager_new(tt_test_pg(), 3, 1));

    TT_REQUIRE_NOT_NULL(o);
    return o;
}

/* Rank r's gradient is r + 1: with momentum 0.5 the steps are g, 1.5 g, 1.75 g, ... */
TT_TEST_THREADS(2, average, optimizer_steps_then_averages)
{
    static const double factors[] = { 1, 2.5 };
    double g = tt_test_rank() + 1;
    tt_tensor *p = tt_require_grad(full(0, TT_F32));
    tt_post_local_sgd *o = optimizer(p);

    TT_REQUIRE_OK(tt_set_grad(p, full(g, TT_F32)));
    TT_REQUIRE_OK(tt_post_local_sgd_step(o));
    TT_CHECK(is_full(p, -g * factors[0]));
    TT_REQUIRE_OK(tt_post_local_sgd_step(o)); /* step 1: due */
    TT_CHECK(is_full(p, -1.5 * factors[1]));
    TT_REQUIRE_OK(tt_post_local_sgd_zero_grad(o, true));
    TT_CHECK(is_full(tt_grad_of(p), 0));
    TT_CHECK_STR(tt_optim_name(tt_post_local_sgd_optim(o)), "sgd");
    tt_post_local_sgd_free(o);
}

TT_TEST_THREADS(2, average, optimizer_state_has_a_step)
{
    tt_tensor *p = tt_require_grad(full(0, TT_F32));
    tt_post_local_sgd *a = optimizer(p), *b = optimizer(p);
    tt_state_dict *sd = tt_state_dict_new();
    int warnings = 0;

    TT_REQUIRE_OK(tt_set_grad(p, full(1, TT_F32)));
    for (int i = 0; i < 5; i++)
        TT_REQUIRE_OK(tt_post_local_sgd_step(a));
    TT_REQUIRE_OK(tt_post_local_sgd_save(a, sd, "opt."));
    TT_CHECK_EQ(tt_item_int(tt_state_dict_get(sd, "opt.step")), 5);
    TT_REQUIRE_OK(tt_warnings_push(count, &warnings));
    TT_REQUIRE_OK(tt_post_local_sgd_load(b, sd, "opt."));
    TT_CHECK_EQ(tt_averager_step(tt_post_local_sgd_averager(b)), 5);
    TT_CHECK(tt_equal(tt_optim_param_state(tt_post_local_sgd_optim(a), 0, 0, "momentum_buffer"),
                      tt_optim_param_state(tt_post_local_sgd_optim(b), 0, 0, "momentum_buffer")));
    TT_CHECK_EQ(warnings, 0);
    TT_REQUIRE_OK(tt_state_dict_set(sd, "opt.step", full(1, TT_F32)));
    TT_CHECK_ERR_SAYS(tt_post_local_sgd_load(b, sd, "opt."), TT_ERR_FORMAT, "opt.step");
    TT_CHECK_EQ(tt_averager_step(tt_post_local_sgd_averager(b)), 5);
    TT_REQUIRE(tt_state_dict_remove(sd, "opt.step"));
    TT_REQUIRE_OK(tt_post_local_sgd_load(b, sd, "opt."));
    tt_warnings_pop();
    TT_CHECK_EQ(warnings, 1);
    TT_CHECK_EQ(tt_averager_step(tt_post_local_sgd_averager(b)), 0);
    TT_CHECK_ERR(tt_post_local_sgd_load(b, sd, NULL), TT_ERR_NOT_FOUND);
    tt_state_dict_free(sd);
    tt_post_local_sgd_free(a);
    tt_post_local_sgd_free(b);
}

TT_TEST_THREADS(2, average, optimizer_refuses_null)
{
    tt_tensor *p = tt_require_grad(full(0, TT_F32));
    tt_averager *a = tt_periodic_averager_new(tt_test_pg(), 2, 0);

    tt_clear_error(); /* making the group may have left one */
    TT_CHECK_NULL(tt_post_local_sgd_new(tt_sgd_new(&p, 1, NULL), NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_post_local_sgd_new(NULL, a));
    TT_CHECK_ERR(tt_post_local_sgd_step(NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_post_local_sgd_zero_grad(NULL, false), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_post_local_sgd_save(NULL, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_post_local_sgd_load(NULL, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_post_local_sgd_averager(NULL));
    tt_post_local_sgd_free(NULL);
}

static tt_status make_and_average(void *ctx)
{
    tt_averager *a = tt_periodic_averager_new(tt_test_pg(), 2, 1);
    tt_post_local_sgd *o;
    tt_tensor *p = ctx;
    tt_status st;

    if (a == NULL)
        return tt_last_status();
    o = tt_post_local_sgd_new(tt_sgd_new(&p, 1, NULL), a);
    if (o == NULL)
        return tt_last_status();
    st = tt_post_local_sgd_step(o); /* not due: this rank alone */
    tt_post_local_sgd_free(o);
    return st;
}

TT_TEST_THREADS(2, average, survives_failing_allocations)
{
    tt_tensor *p = tt_require_grad(full(0, TT_F32));

    TT_REQUIRE_NOT_NULL(tt_test_pg());
    TT_REQUIRE_OK(tt_set_grad(p, full(1, TT_F32)));
    TT_CHECK_GT(tt_test_fail_allocs(make_and_average, p), 3);
}
