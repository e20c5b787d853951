/* SPDX-License-Identifier: Apache-2.0 */
/* Uneven inputs: joinables of one's own, in any order and number; training that goes on afterwards; hooks,
 * static graphs, sparse gradients; ranks that disagree. */
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/functional.h"
#include "tutti/join.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/random.h"
#include "tutti/sparse.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static tt_join *join_all(const tt_joinable *list, int n, const tt_join_options *opt)
{
    tt_join *j = tt_join_new(list, n, opt);

    if (j == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(j);
    return j;
}

static tt_join *join_ddp(tt_ddp *d, const tt_join_options *opt)
{
    tt_joinable list[] = { tt_ddp_joinable(d) };

    return join_all(list, 1, opt);
}

/* ---- joinables of one's own ------------------------------------------------------------------------ */

/* Counts, over all ranks, how often `event` 1 happened with inputs; event 2 does nothing together. */
typedef struct counter {
    tt_pg *pg;
    tt_join *join;
    int n_counted, n_shadowed, n_finished, last_rank;
} counter;

static tt_status count_one(counter *c, int mine)
{
    TT_SCOPE {
        tt_tensor *t = tt_full(TT_SHAPE(1), mine, TT_I32, TT_CPU);

        TT_TRY(tt_pg_all_reduce(c->pg, t, NULL, NULL));
        c->n_counted += (int)tt_item(t);
    }
    return TT_OK;
}

static tt_status count(counter *c, int event)
{
    TT_TRY(tt_join_notify(c->join, c, event));
    return event == 1 ? count_one(c, 1) : TT_OK;
}

static tt_pg *counter_group(void *self)
{
    return ((counter *)self)->pg;
}

static void counter_attach(void *self, tt_join *j)
{
    ((counter *)self)->join = j;
}

static tt_status counter_shadow(void *self, tt_join *j, int event)
{
    counter *c = self;

    TT_CHECK_PTR(j, c->join);
    TT_CHECK(event == 1 || event == 2);
    c->n_shadowed++;
    return event == 1 ? count_one(c, 0) : TT_OK;
}

static tt_status counter_finish(void *self, tt_join *j)
{
    counter *c = self;

    c->n_finished++;
    c->last_rank = tt_join_last_rank(j);
    return TT_OK;
}

static const tt_joinable_ops counter_ops = { .name = "counter",
                                             .group = counter_group,
                                             .attach = counter_attach,
                                             .shadow = counter_shadow,
                                             .finish = counter_finish };

static tt_joinable joinable(counter *c)
{
    return (tt_joinable){ .ops = &counter_ops, .self = c };
}

/* Rank r has 3 r inputs: a counts each one, b every third. */
static void count_uneven(void)
{
    counter a = { .pg = tt_test_pg() }, b = { .pg = tt_test_pg() };
    tt_joinable list[] = { joinable(&a), joinable(&b) };
    int size = tt_test_size(), mine = 3 * tt_test_rank(), most = 3 * (size - 1);
    tt_join *j = join_all(list, 2, NULL);

    TT_CHECK_EQ(tt_join_n_active(j), size);
    for (int i = 0; i < mine; i++) {
        TT_REQUIRE_OK(count(&a, 1 + i % 2));
        if (i % 3 == 0)
            TT_REQUIRE_OK(count(&b, 1));
        TT_CHECK_EQ(tt_join_n_active(j), size - 1 - i / 3);
        TT_CHECK_EQ(tt_join_first_active(j), 1 + i / 3);
    }
    TT_REQUIRE_OK(tt_join_finish(j));
    TT_CHECK_EQ(b.n_counted, size * (size - 1) / 2);
    TT_CHECK_EQ(a.n_shadowed, most - mine);
    TT_CHECK_EQ(b.n_shadowed, (most - mine) / 3);
    TT_CHECK_EQ(a.n_finished, 1);
    TT_CHECK_EQ(a.last_rank, size - 1);
    TT_CHECK_EQ(tt_join_n_active(j), 0);
    TT_CHECK_NULL(a.join);
    TT_CHECK_ERR_SAYS(tt_join_finish(j), TT_ERR_INVALID, "finished before");
    tt_join_free(j);
    TT_CHECK_OK(count(&a, 2)); /* outside of the scope nobody is told */
}

TT_TEST(join, one_rank_is_alone)
{
    count_uneven();
}

TT_TEST_THREADS(2, join, two_threads_shadow_each_other)
{
    count_uneven();
}

TT_TEST_THREADS(4, join, four_threads_shadow_each_other)
{
    count_uneven();
}

TT_TEST_RANKS(3, join, three_processes_shadow_each_other)
{
    count_uneven();
}

TT_TEST_THREADS(3, join, ranks_that_do_different_things_are_told_so)
{
    counter a = { .pg = tt_test_pg() }, b = { .pg = tt_test_pg() };
    tt_joinable list[] = { joinable(&a), joinable(&b) };
    tt_join *j = join_all(list, 2, NULL);
    static const char words[] = "rank 0 is at event 1 of counter, and rank 1 at event 2 of counter";
    int me = tt_test_rank();

    if (me == 2)
        TT_CHECK_ERR_SAYS(tt_join_finish(j), TT_ERR_INVALID, words);
    else
        TT_CHECK_ERR_SAYS(count(me == 0 ? &a : &b, me == 0 ? 1 : 2), TT_ERR_INVALID, words);
    tt_join_free(j);
}

TT_TEST_THREADS(3, join, all_stop_when_the_first_runs_out)
{
    counter a = { .pg = tt_test_pg() };
    tt_joinable list[] = { joinable(&a) };
    tt_join *j = join_all(list, 1, &(tt_join_options){ .throw_on_early_termination = true });
    tt_status st = TT_OK;
    int n = 0;

    for (; n < 2 + (tt_test_rank() > 0) && st == TT_OK; n++)
        st = count(&a, 1);
    if (tt_test_rank() == 0)
        st = tt_join_finish(j);
    TT_CHECK_EQ(st, TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), tt_test_rank() == 0
                                           ? "rank 0 ran out of inputs while 2 of 3 have more"
                                           : "1 of 3 ranks ran out of inputs");
    TT_CHECK_EQ(a.n_counted, 6);
    TT_CHECK_EQ(a.n_shadowed, 0);
    tt_join_free(j);
    /* Even inputs are no reason to fail. */
    j = join_all(list, 1, &(tt_join_options){ .throw_on_early_termination = true });
    TT_CHECK_OK(count(&a, 1));
    TT_CHECK_OK(tt_join_finish(j));
    TT_CHECK_EQ(tt_join_last_rank(j), 2);
    tt_join_free(j);
}

TT_TEST(join, mistakes_are_errors)
{
    counter a = { .pg = tt_test_pg() }, b = { .pg = tt_pg_subgroup(tt_test_pg(), NULL, 0, NULL) };
    const tt_joinable_ops part = { .name = "part", .group = counter_group };
    tt_joinable twice[] = { joinable(&a), joinable(&a) }, groups[] = { joinable(&a), joinable(&b) };
    tt_joinable none[] = { { 0 } }, partly[] = { { &part, &a } };
    tt_join *j;

    TT_CHECK_NULL(tt_join_new(NULL, 1, NULL));
    TT_CHECK_NULL(tt_join_new(twice, 0, NULL));
    TT_CHECK_NULL(tt_join_new(twice, TT_JOIN_MAX + 1, NULL));
    TT_CHECK_NULL(tt_join_new(none, 1, NULL));
    TT_CHECK_NULL(tt_join_new(twice, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "twice");
    TT_CHECK_NULL(tt_join_new(groups, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "one group");
    TT_CHECK_NULL(tt_join_new(partly, 1, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "shadow");
    TT_CHECK_NULL(a.join);
    TT_CHECK_ERR(tt_join_finish(NULL), TT_ERR_INVALID);
    TT_CHECK_OK(tt_join_notify(NULL, &a, 1));
    j = join_all(twice, 1, NULL);
    TT_CHECK_ERR(tt_join_notify(j, &b, 1), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_join_notify(j, &a, TT_JOIN_MAX_EVENT + 1), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_join_notify(j, &a, -1), TT_ERR_INVALID);
    tt_join_free(j);
    TT_CHECK_NULL(a.join);
    tt_join_free(NULL);
    tt_pg_free(b.pg);
}

static tt_status open_and_close(void *ctx)
{
    tt_joinable list[] = { joinable(ctx) };
    tt_join *j = tt_join_new(list, 1, NULL);
    tt_status st = j != NULL ? tt_join_finish(j) : tt_last_status();

    tt_join_free(j);
    return st;
}

TT_TEST(join, memory_that_runs_out_is_an_error)
{
    counter a = { .pg = tt_test_pg() };

    TT_CHECK_GT(tt_test_fail_allocs(open_and_close, &a), 2);
    TT_CHECK_NULL(a.join);
}

/* ---- training goes on afterwards --------------------------------------------------------------------- */

static void ddp_step(tt_ddp *d, tt_optim *opt, int i)
{
    TT_SCOPE {
        uint64_t seed = tt_test_seed() + (uint64_t)(16 * i + tt_test_rank());
        tt_tensor *y = tt_ddp_forward(d, tool_numbers(TT_SHAPE(3, 4), seed));

        if (y == NULL)
            TT_FAIL_TEST("%s", tt_last_error());
        TT_REQUIRE_NOT_NULL(y);
        TT_REQUIRE_OK(tt_optim_zero_grad(opt, i % 2 == 0));
        TT_REQUIRE_OK(tt_backward(tt_mean(tt_mul(y, y))));
        TT_REQUIRE_OK(tt_optim_step(opt));
    }
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

/* Epochs in which another rank has no inputs at all, and others one more each. */
static void epochs(const tt_ddp_options *opt)
{
    tt_module *m = TT_MLP(TT_ACT_RELU, 4, 9, 7, 2);
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), opt);
    tt_optim *sgd = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.05 });
    int size = tt_test_size();

    TT_REQUIRE_NOT_NULL(d);
    for (int epoch = 0; epoch < size + 1; epoch++) {
        tt_join *j = join_ddp(d, &(tt_join_options){ .divide_by_active = epoch % 2 == 1 });

        for (int i = 0; i < (tt_test_rank() + epoch) % size; i++)
            ddp_step(d, sgd, i);
        TT_REQUIRE_OK(tt_join_finish(j));
        TT_CHECK_EQ(tt_join_last_rank(j), (size - 1 + size - epoch % size) % size);
        check_same(tt_test_pg(), m);
        tt_join_free(j);
        for (int i = 0; i < 2; i++) /* even ones, outside of a scope */
            ddp_step(d, sgd, i);
        check_same(tt_test_pg(), m);
    }
    tt_optim_free(sgd);
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(2, join, epochs_of_two_ranks_follow_each_other)
{
    epochs(NULL);
}

TT_TEST_THREADS(4, join, epochs_follow_each_other)
{
    epochs(NULL);
}

TT_TEST_RANKS(3, join, epochs_follow_each_other_over_processes)
{
    epochs(&(tt_ddp_options){ .bucket_cap_mb = 0.0001 });
}

TT_TEST_THREADS(3, join, a_search_for_unused_parameters_is_shadowed)
{
    epochs(&(tt_ddp_options){ .find_unused = true, .bucket_cap_mb = 0.0001 });
}

TT_TEST_THREADS(3, join, a_static_graph_is_learned_by_those_with_inputs)
{
    epochs(&(tt_ddp_options){ .static_graph = true, .bucket_cap_mb = 0.0001 });
}

TT_TEST_THREADS(3, join, copies_of_gradients_are_shadowed)
{
    epochs(&(tt_ddp_options){ .copy_gradients = true });
}

TT_TEST_THREADS(3, join, buckets_that_nobody_uses_are_skipped_by_all)
{
    epochs(&(tt_ddp_options){
        .find_unused = true, .skip_unused_buckets = true, .bucket_cap_mb = 0.0001 });
}

TT_TEST_THREADS(3, join, gradients_that_travel_in_half_precision_are_shadowed)
{
    epochs(&(tt_ddp_options){ .precision = { .params = TT_BF16, .reduce = TT_BF16 } });
}

/* ---- hooks ---------------------------------------------------------------------------------------- */

static tt_future *mean(void *ctx, const tt_ddp_bucket *b)
{
    tt_future *f;
    tt_work *w;

    TT_CHECK_EQ(b->iteration, *(int *)ctx); /* on all ranks alike */
    ++*(int *)ctx;
    if (tt_pg_all_reduce(b->pg, b->flat, &(tt_coll_options){ .op = TT_REDUCE_AVG }, &w) != TT_OK)
        return NULL;
    f = tt_work_future(w);
    tt_work_free(w);
    return f;
}

TT_TEST_THREADS(4, join, hooks_run_on_ranks_without_inputs)
{
    tt_module *m = tt_linear_new(2, 2, &(tt_linear_options){ .no_bias = true });
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), NULL);
    tt_tensor *x = tt_full(TT_SHAPE(1, 2), 6, TT_F32, TT_CPU), *w = tt_module_param(m, "weight");
    int n_calls = 0;

    TT_REQUIRE_OK(tt_ddp_register_hook(d, &(tt_ddp_hook){ .fn = mean, .ctx = &n_calls }));
    for (int by_active = 0; by_active < 2; by_active++) {
        tt_join *j = join_ddp(d, &(tt_join_options){ .divide_by_active = by_active });

        for (int i = 0; i < tt_test_rank(); i++) {
            double active = 4 - 1 - i;

            TT_REQUIRE_OK(tt_set_grad(w, NULL));
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            TT_CHECK_NEAR(tt_item(tt_select(tt_view(tt_grad_of(w), TT_SHAPE(4)), 0, 0)),
                          by_active ? 6 : 6 * active / 4, 1e-5);
        }
        TT_REQUIRE_OK(tt_join_finish(j));
        TT_CHECK_EQ(n_calls, 3 * (by_active + 1));
        tt_join_free(j);
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- ranks that are not in step ---------------------------------------------------------------------- */

/* Rank 0 accumulates while rank 1 reduces; rank 2 has no inputs. */
TT_TEST_THREADS(3, join, a_reduction_that_others_do_not_make_is_an_error)
{
    static const char words[] = "expected all ranks with inputs to do the same";
    tt_module *m = tt_linear_new(2, 2, NULL);
    tt_ddp *d =
        tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .forward_sync_buffers = TT_DDP_OFF });
    tt_join *j = join_ddp(d, NULL);
    tt_tensor *x = tt_ones(TT_SHAPE(1, 2), TT_F32, TT_CPU), *y;

    if (tt_test_rank() == 2) {
        TT_CHECK_ERR_SAYS(tt_join_finish(j), TT_ERR_INVALID, words);
    } else if (tt_test_rank() == 1) {
        y = tt_ddp_forward(d, x);
        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_INVALID, words);
    } else {
        tt_ddp_set_sync(d, false);
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
        TT_CHECK_NULL(tt_ddp_forward(d, x));
        TT_CHECK_CONTAINS(tt_last_error(), words);
    }
    tt_join_free(j);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- what not every rank uses ------------------------------------------------------------------------ */

/* Rows of "e", which has sparse gradients; "w" counts on odd ranks only, "never" on none. */
static tt_tensor *mixed_forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *y = tt_module_run(m, "e", x);

    return tt_test_rank() % 2 == 1 ? tt_mul(y, tt_module_param(m, "w")) : y;
}

static const tt_module_class mixed_class = { .name = "Mixed", .forward = mixed_forward };

static tt_status mean_of_buffers(void *ctx, tt_ddp *d, const tt_state_dict *buffers,
                                 tt_future **future_p)
{
    tt_tensor *t = tt_state_dict_tensor(buffers, 0);
    tt_work *w;

    ++*(int *)ctx;
    TT_TRY(tt_pg_all_reduce(tt_ddp_group(d), t, &(tt_coll_options){ .op = TT_REDUCE_MAX }, &w));
    *future_p = tt_work_future(w);
    tt_work_free(w);
    return *future_p != NULL ? TT_OK : tt_last_status();
}

static tt_module *mixed_new(void)
{
    tt_module *m = tt_module_new(&mixed_class);

    TT_REQUIRE_OK(tt_module_give_child(
        m, "e", tt_embedding_new(6, 2, &(tt_embedding_options){ .sparse_grad = true })));
    TT_REQUIRE_OK(tt_module_add_param(m, "w", tt_ones(TT_SHAPE(2), TT_F32, TT_CPU)));
    TT_REQUIRE_OK(tt_module_add_param(m, "never", tt_ones(TT_SHAPE(2), TT_F32, TT_CPU)));
    TT_REQUIRE_OK(
        tt_module_add_buffer(m, "b", tt_full(TT_SHAPE(1), tt_test_rank(), TT_F32, TT_CPU)));
    return m;
}

/* Rank r has r inputs, all of row 2. */
TT_TEST_THREADS(4, join, sparse_and_unused_gradients_and_hooks_of_buffers)
{
    tt_module *m = mixed_new();
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .find_unused = true });
    const int64_t row = 2;
    int n_hooks = 0;
    tt_join *j;

    TT_REQUIRE_NOT_NULL(d);
    TT_REQUIRE_OK(tt_ddp_set_buffer_hook(d, TT_DDP_AFTER_FORWARD, mean_of_buffers, &n_hooks));
    j = join_ddp(d, &(tt_join_options){ .divide_by_active = true });
    TT_CHECK_NULL(tt_join_new(&(tt_joinable){ tt_ddp_joinable(d).ops, d }, 1, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "in a scope already");
    TT_CHECK_ERR_SAYS(tt_ddp_set_group(d, tt_test_pg()), TT_ERR_INVALID, "uneven inputs");
    for (int i = 0; i < tt_test_rank(); i++)
        TT_SCOPE {
            tt_tensor *x = tt_from_data(&row, TT_SHAPE(1), TT_I64), *e, *g;
            int active = 3 - i, users = active > 2 ? 2 : 1; /* odd ranks among i + 1 .. 3 */

            tt_module_zero_grad(m);
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            e = tt_grad_of(tt_module_param(m, "e.weight"));
            TT_REQUIRE_NOT_NULL(e);
            g = tt_to_dense(e);
            TT_CHECK_NEAR(tt_item(tt_select(tt_select(g, 0, row), 0, 0)), 1, 1e-6);
            TT_CHECK_NEAR(tt_item(tt_sum(g)), 2, 1e-6);
            TT_CHECK_EQ(tt_ddp_n_users(d, 1), 0);
            TT_CHECK_EQ(tt_ddp_n_users(d, 2), active);
            TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "never")));
            TT_CHECK(tt_grad_of(tt_module_param(m, "w")) != NULL);
            TT_CHECK_EQ(tt_ddp_n_users(d, 0), users);
        }
    TT_REQUIRE_OK(tt_join_finish(j));
    TT_CHECK_EQ(n_hooks, 3);
    tt_join_free(j);
    check_same(tt_test_pg(), m);
    tt_ddp_free(d);
    tt_module_free(m);
}
