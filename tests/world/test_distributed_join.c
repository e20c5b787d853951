/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training with uneven inputs: what the ranks that go on compute, who may fail, and what all
 * have in the end. */
#include <stdio.h>
#include <string.h>

#include "tutti/join.h"
#include "tutti/optim.h"
#include "tutti/random.h"
#include "tutti/syncbn.h"
#include "world/ddp_models.h"

static const tt_linear_options no_bias = { .no_bias = true };

static tt_join *open_join(tt_ddp *d, const tt_join_options *opt)
{
    tt_joinable list[] = { tt_ddp_joinable(d) };
    tt_join *j = tt_join_new(list, 1, opt);

    if (j == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(j);
    return j;
}

static void check_models_same(const dist_group *g, const tt_ddp *d)
{
    tt_state_dict *ps = tt_module_params(tt_ddp_module(d), NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++)
        ddp_check_same(g->pg, tt_state_dict_tensor(ps, i));
    tt_state_dict_free(ps);
}

static tt_ddp *linear_ddp(const dist_group *g, int64_t in, int64_t out)
{
    tt_module *m = ddp_module(tt_linear_new(in, out, &no_bias));
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    tt_module_free(m);
    return d;
}

/* ---- division --------------------------------------------------------------------------------- */

static void divide(const dist_group *g, bool by_active)
{
    tt_ddp *d = linear_ddp(g, 5, 5);
    tt_tensor *x = tt_full(TT_SHAPE(1, 5), 50, TT_F32, dist_device());
    tt_tensor *w = tt_ddp_param(d, 0);
    tt_join *j = open_join(d, &(tt_join_options){ .divide_by_active = by_active });

    for (int i = 0; i < (g->me == 0 ? 3 : 5); i++) {
        double want = by_active || i < 3 ? 50 : 50.0 * (g->n - 1) / g->n;

        ddp_step(d, x);
        DIST_CHECK_FULL(tt_grad_of(w), TT_SHAPE(5, 5), want, 0);
        TT_CHECK_EQ(tt_join_n_active(j), i < 3 ? g->n : g->n - 1);
        TT_CHECK_EQ(tt_join_first_active(j), i < 3 ? 0 : 1);
        TT_REQUIRE_OK(tt_set_grad(w, NULL));
    }
    TT_CHECK_EQ(tt_join_last_rank(j), -1);
    TT_REQUIRE_OK(tt_join_finish(j));
    TT_CHECK_EQ(tt_join_last_rank(j), g->n - 1);
    tt_join_free(j);
    tt_ddp_free(d);
}

static void grad_div(const dist_group *g, const void *arg)
{
    (void)arg;
    divide(g, true);
    divide(g, false);
}

/* ---- the same as one process ------------------------------------------------------------------- */

static void model_equivalence(const dist_group *g, const void *arg)
{
    tt_ddp *d = linear_ddp(g, 10, 10);
    tt_module *m = tt_ddp_module(d), *local = ddp_module(tt_module_copy(m));
    tt_tensor *x = ddp_random(TT_SHAPE(3, 10), tt_test_seed());
    tt_optim *opt = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.03 * g->n });
    tt_optim *alone = tt_sgd_for(local, &(tt_sgd_options){ .lr = 0.03 });
    tt_join *j = open_join(d, NULL);

    (void)arg;
    for (int i = 0; i < 2 * (g->me + 1); i++) {
        TT_REQUIRE_OK(tt_optim_zero_grad(opt, false));
        ddp_step(d, x);
        TT_REQUIRE_OK(tt_optim_step(opt));
    }
    TT_REQUIRE_OK(tt_join_finish(j));
    for (int i = 0; i < g->n * (g->n + 1); i++) {
        TT_REQUIRE_OK(tt_optim_zero_grad(alone, false));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_module_forward(local, x))));
        TT_REQUIRE_OK(tt_optim_step(alone));
    }
    ddp_check_params(local, m, false);
    check_models_same(g, d);
    tt_join_free(j);
    tt_optim_free(opt);
    tt_optim_free(alone);
    tt_ddp_free(d);
    tt_module_free(local);
}

/* ---- disabled, and errors of the user ------------------------------------------------------------ */

static void disabled(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_linear_new(1, 1, &no_bias));
    tt_join *j;
    tt_ddp *d;

    (void)arg;
    TT_NO_GRAD
    {
        TT_REQUIRE_NOT_NULL(tt_fill_(tt_module_param(m, "weight"), 1.5 + g->me));
    }
    d = ddp_new(m, g->pg, NULL);
    j = open_join(d, &(tt_join_options){ .disabled = true });
    TT_CHECK(!tt_join_enabled(j));
    for (int i = 0; i < 5; i++) {
        uint64_t before = tt_pg_seq(g->pg);

        ddp_step(d, tt_full(TT_SHAPE(1, 1), g->me, TT_F32, dist_device()));
        DIST_CHECK_FULL(tt_grad_of(tt_ddp_param(d, 0)), TT_SHAPE(1, 1), (g->n - 1) / 2.0, 0);
        if (i > 1)
            TT_CHECK_EQ(tt_pg_seq(g->pg) - before, 1); /* nothing but the bucket */
        ddp_update(m);
    }
    TT_REQUIRE_OK(tt_join_finish(j));
    TT_CHECK_EQ(tt_join_last_rank(j), -1);
    check_models_same(g, d);
    tt_join_free(j);
    tt_ddp_free(d);
    tt_module_free(m);
}

static tt_tensor *failing_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    (void)x;
    (void)tt_fail(TT_ERR_FORMAT, "the user's own failure");
    return NULL;
}

static const tt_module_class failing_class = { .name = "Failing", .forward = failing_forward };

static void exception(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_module_new(&failing_class));
    tt_join *j;
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_add_param(m, "p", tt_ones(TT_SHAPE(1), TT_F32, dist_device())));
    d = ddp_new(m, g->pg, NULL);
    j = open_join(d, NULL);
    TT_CHECK_NULL(tt_ddp_forward(d, tt_ones(TT_SHAPE(1), TT_F32, dist_device())));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    TT_CHECK_STR(tt_last_error(), "the user's own failure");
    tt_join_free(j);
    /* The scope is over: a forward is alone again, and a new scope can be opened. */
    TT_CHECK_NULL(tt_ddp_forward(d, tt_ones(TT_SHAPE(1), TT_F32, dist_device())));
    j = open_join(d, NULL);
    TT_REQUIRE_OK(tt_join_finish(j));
    tt_join_free(j);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- buffers ------------------------------------------------------------------------------------- */

static tt_tensor *buffer_forward(tt_module *m, tt_tensor *x)
{
    return tt_add(tt_module_run(m, "a", x), tt_module_buffer(m, "noise"));
}

static const tt_module_class buffer_class = { .name = "Noisy", .forward = buffer_forward };

static void no_buffer_sync(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_module_new(&buffer_class));
    uint64_t seed = (uint64_t)g->me + 42;
    tt_tensor *before;
    tt_join *j;
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, NULL)));
    TT_REQUIRE_OK(tt_module_add_buffer(m, "noise", ddp_random(TT_SHAPE(10), seed)));
    d = ddp_new(m, g->pg, &(tt_ddp_options){ .forward_sync_buffers = TT_DDP_OFF });
    /* Construction has sent rank 0's; from here on they may differ. */
    TT_NO_GRAD
    {
        TT_REQUIRE_NOT_NULL(tt_add_scalar_(tt_module_buffer(m, "noise"), g->me));
    }
    before = tt_clone(tt_module_buffer(m, "noise"));
    j = open_join(d, NULL);
    for (int i = 0; i < g->me + 1; i++) {
        ddp_step(d, ddp_random(TT_SHAPE(2, 10), seed + (uint64_t)i));
        ddp_update(m);
    }
    TT_REQUIRE_OK(tt_join_finish(j));
    TT_CHECK(tt_equal(before, tt_module_buffer(m, "noise")));
    check_models_same(g, d);
    tt_join_free(j);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- modules that communicate in forward ---------------------------------------------------------- */

static tt_module *sync_norm_net(const dist_group *g)
{
    tt_module *m =
        ddp_module(TT_SEQUENTIAL(tt_linear_new(2, 40, &no_bias), tt_batch_norm1d_new(40, NULL),
                                 tt_linear_new(40, 4, &no_bias)));

    return ddp_module(tt_sync_batch_norm_convert(m, g->pg));
}

/* x, then the sum over all ranks of something that needs no gradient. */
static tt_tensor *talking_forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *t = tt_ones(TT_SHAPE(1), TT_F32, dist_device());

    if (tt_pg_all_reduce(dist_world(), t, NULL, NULL) != TT_OK)
        return NULL;
    TT_CHECK_NEAR(tt_item(t), tt_test_size(), 0);
    return tt_module_run(m, "a", x);
}

static const tt_module_class talking_class = { .name = "Talking", .forward = talking_forward };

static tt_module *talking_net(const dist_group *g)
{
    tt_module *m = ddp_module(tt_module_new(&talking_class));

    (void)g;
    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(2, 2, NULL)));
    return m;
}

static void stop_together(const dist_group *g, tt_module *m)
{
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_join *j = open_join(d, &(tt_join_options){ .throw_on_early_termination = true });
    tt_tensor *x = ddp_random(TT_SHAPE(10, 2), tt_test_seed() + (uint64_t)g->me);
    int n = g->me == 0 ? 10 : 5, done = 0;
    tt_status st = TT_OK;
    char own[64];

    for (int i = 0; st == TT_OK && i < n; i++)
        TT_SCOPE {
            tt_tensor *y = tt_ddp_forward(d, x);

            st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
            if (st == TT_OK) {
                ddp_update(m);
                done++;
            }
        }
    if (st == TT_OK)
        st = tt_join_finish(j);
    snprintf(own, sizeof own, "rank %d ran out of inputs", g->me);
    TT_CHECK_EQ(st, TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), g->me == 0 ? "ranks ran out of inputs" : own);
    TT_CHECK_EQ(done, 5);
    tt_join_free(j);
    check_models_same(g, d);
    tt_ddp_free(d);
    tt_module_free(m);
}

static void stop_iteration(const dist_group *g, const void *arg)
{
    tt_module *m = sync_norm_net(g);
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_joinable list[] = { tt_ddp_joinable(d) };

    (void)arg;
    TT_CHECK_NULL(tt_join_new(list, 1, NULL)); /* it could not be shadowed */
    TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
    TT_CHECK_CONTAINS(tt_last_error(), "throw_on_early_termination");
    tt_ddp_free(d);
    tt_module_free(m);
    stop_together(g, sync_norm_net(g));
    stop_together(g, talking_net(g));
}

static const dist_row rows[] = {
    { "test_ddp_grad_div_uneven_inputs", grad_div, DIST_WORLD, NULL, 0 },
    { "test_ddp_join_model_equivalence", model_equivalence, DIST_WORLD, NULL, 0 },
    { "test_ddp_uneven_input_join_disable", disabled, DIST_WORLD, NULL, 0 },
    { "test_ddp_uneven_input_exception", exception, DIST_WORLD, NULL, 0 },
    { "test_ddp_uneven_inputs_stop_iteration_sync_bn", stop_iteration, DIST_WORLD, NULL, 0 },
    { "test_ddp_join_respects_forward_sync_buffers_false", no_buffer_sync, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
