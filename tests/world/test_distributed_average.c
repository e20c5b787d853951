/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging parameters: which steps, which groups, and the optimizer that does it. */
#include <string.h>

#include "tutti/average.h"
#include "world/ddp_models.h"

/* ---- averaging once ------------------------------------------------------------------------------ */

static void fill(tt_module *m, double value, bool grads)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    TT_SCOPE {
        TT_NO_GRAD
        {
            for (int i = 0; i < tt_state_dict_count(ps); i++) {
                tt_tensor *p = tt_state_dict_tensor(ps, i);

                TT_REQUIRE_NOT_NULL(tt_fill_(p, value));
                if (grads)
                    TT_REQUIRE_OK(tt_set_grad(p, tt_zeros_like(p)));
            }
        }
    }
    tt_state_dict_free(ps);
}

static void check_filled(tt_module *m, double value)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++) {
        tt_tensor *p = tt_state_dict_tensor(ps, i);

        DIST_CHECK_FULL(tt_detach(p), tt_tensor_shape(p), value, 0);
    }
    tt_state_dict_free(ps);
}

static void average(tt_module *m, tt_pg *pg)
{
    tt_state_dict *ps = tt_module_params(m, NULL);
    tt_tensor *list[8];
    int n = tt_state_dict_count(ps);

    TT_REQUIRE_LE(n, 8);
    for (int i = 0; i < n; i++)
        list[i] = tt_state_dict_tensor(ps, i);
    TT_REQUIRE_OK(tt_average_tensors(list, n, pg));
    tt_state_dict_free(ps);
}

static void average_parameters(const dist_group *g, const void *arg)
{
    const int two[] = { 0, 1 };
    tt_pg *pair = tt_pg_subgroup(g->pg, two, 2, NULL);
    tt_module *m = ddp_module(
        TT_SEQUENTIAL(tt_conv2d_new(3, 3, 3, &(tt_conv_layer_options){ .padding = 1 }),
                      tt_relu_new(), tt_linear_new(1, 5, &(tt_linear_options){ .no_bias = true })));

    (void)arg;
    TT_REQUIRE_NOT_NULL(pair);
    fill(m, 1, false);
    average(m, NULL);
    check_filled(m, 1);
    fill(m, g->me, false);
    average(m, pair);
    check_filled(m, g->me < 2 ? 0.5 : g->me);
    tt_module_free(m);
    tt_pg_free(pair);
}

/* ---- averagers -------------------------------------------------------------------------------------- */

static tt_module *small_new(void)
{
    return ddp_module(tt_linear_new(1, 5, &(tt_linear_options){ .no_bias = true }));
}

static void step_list(tt_averager *a, tt_module *m)
{
    tt_tensor *w = tt_module_param(m, "weight");

    TT_REQUIRE_OK(tt_averager_average(a, &w, 1));
}

/* 20 steps with the weight reset to the rank; a step that averages leaves the mean. */
static void check_periodic(const dist_group *g, tt_averager *a, int warmup, bool by_optim)
{
    tt_module *m = small_new();
    tt_optim *opt = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.1 });

    TT_REQUIRE_NOT_NULL(a);
    for (int step = 0; step < 20; step++) {
        bool due = step >= warmup && (step - warmup) % 4 == 0;

        fill(m, g->me, true);
        TT_CHECK_EQ(tt_averager_step(a), step);
        if (by_optim)
            TT_REQUIRE_OK(tt_averager_average_optim(a, opt));
        else
            step_list(a, m);
        check_filled(m, due ? (g->n - 1) / 2.0 : g->me);
    }
    tt_optim_free(opt);
    tt_module_free(m);
    tt_averager_free(a);
}

static void periodic(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int warmup = 12; warmup <= 15; warmup++)
        check_periodic(g, tt_periodic_averager_new(NULL, 4, warmup), warmup, false);
}

/* A parameter without a gradient, in a group of its own, is left out. */
static void check_left_out(const dist_group *g)
{
    tt_module *with = small_new(), *without = small_new();
    tt_tensor *other = tt_module_param(without, "weight");
    tt_optim *opt = tt_sgd_for(with, &(tt_sgd_options){ .lr = 0.1 });
    tt_averager *a = tt_periodic_averager_new(g->pg, 2, 0);

    TT_REQUIRE_OK(tt_optim_add_group(opt, &other, 1, NULL));
    fill(with, g->me, true);
    fill(without, g->me, false);
    TT_REQUIRE_OK(tt_averager_average_optim(a, opt));
    check_filled(with, (g->n - 1) / 2.0);
    check_filled(without, g->me);
    tt_averager_free(a);
    tt_optim_free(opt);
    tt_module_free(with);
    tt_module_free(without);
}

static void periodic_groups(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int warmup = 12; warmup <= 15; warmup++)
        check_periodic(g, tt_periodic_averager_new(NULL, 4, warmup), warmup, true);
    check_left_out(g);
}

static void one_level(const dist_group *g, const void *arg)
{
    tt_averager_level world = { 4, g->n };

    (void)arg;
    for (int warmup = 12; warmup <= 15; warmup++) {
        check_periodic(g, tt_periodic_averager_new(g->pg, 4, warmup), warmup, false);
        check_periodic(g, tt_hierarchical_averager_new(g->pg, &world, 1, warmup), warmup, false);
    }
}

static void check_members(tt_pg *pg, int size)
{
    int first = tt_test_rank() / size * size;

    TT_REQUIRE_EQ(tt_pg_size(pg), size);
    for (int i = 0; i < size; i++)
        TT_CHECK_EQ(tt_pg_global_rank(pg, i), first + i);
}

static void three_levels(const dist_group *g, const void *arg)
{
    tt_averager_level levels[] = { { 2, 2 }, { 4, 4 }, { 8, g->n } };
    tt_averager *a = tt_hierarchical_averager_new(NULL, levels, 3, 10);
    tt_module *m = small_new();

    (void)arg;
    TT_REQUIRE_NOT_NULL(a);
    TT_CHECK_EQ(tt_averager_n_levels(a), 3);
    if (!dist_on_threads()) /* which all have theirs in one process */
        TT_CHECK_EQ(tt_pg_count(), 3);
    check_members(tt_averager_group(a, 0), 2);
    check_members(tt_averager_group(a, 1), 4);
    TT_CHECK_PTR(tt_averager_group(a, 2), tt_pg_default());
    for (int step = 0; step < 25; step++) {
        int size = step < 10 ? 1 : step % 8 == 0 ? g->n : step % 4 == 0 ? 4 : step % 2 == 0 ? 2 : 1;

        fill(m, g->me, true);
        step_list(a, m);
        check_filled(m, g->me / size * size + (size - 1) / 2.0);
    }
    tt_module_free(m);
    tt_averager_free(a);
}

/* ---- the optimizer ------------------------------------------------------------------------------------ */

typedef struct parity {
    bool views, hierarchical;
} parity;

static tt_averager *averager_for(const dist_group *g, const parity *p)
{
    tt_averager_level levels[] = { { 2, 2 }, { 4, g->n } };
    tt_averager *a = p->hierarchical ? tt_hierarchical_averager_new(NULL, levels, 2, 4)
                                     : tt_periodic_averager_new(NULL, 4, 10);

    TT_REQUIRE_NOT_NULL(a);
    return a;
}

static void loss_step(tt_ddp *d, tt_tensor *x, tt_tensor *y)
{
    TT_REQUIRE_OK(tt_backward(tt_mse_loss(tt_ddp_forward(d, x), y)));
}

static void compare_steps(const dist_group *g, const void *arg)
{
    const parity *p = arg;
    tt_ddp_options o = { .copy_gradients = !p->views };
    tt_module *m = ddp_net_new(), *n = ddp_module(tt_module_copy(m));
    tt_ddp *a = ddp_new(m, g->pg, &o), *b = ddp_new(n, g->pg, &o);
    tt_optim *sgd = ddp_sgd(a);
    tt_averager *averager = averager_for(g, p);
    tt_post_local_sgd *opt = tt_post_local_sgd_new(ddp_sgd(b), averager_for(g, p));

    TT_REQUIRE_NOT_NULL(opt);
    ddp_check_params(m, n, true);
    for (uint64_t i = 0; i < 20; i++)
        TT_SCOPE {
            /* another input on every rank, and only own gradients: the average has something to do */
            tt_tensor *x = ddp_random(TT_SHAPE(2 * g->n, 2), 100 * i + (uint64_t)g->me);
            tt_tensor *y = ddp_random(TT_SHAPE(2 * g->n, 4), 100 * i + 50 + (uint64_t)g->me);
            bool world = tt_averager_due(averager) == tt_pg_default();

            (void)tt_ddp_set_sync(a, i % 4 == 0);
            (void)tt_ddp_set_sync(b, i % 4 == 0);
            loss_step(a, x, y);
            TT_REQUIRE_OK(tt_optim_step(sgd));
            TT_REQUIRE_OK(tt_averager_average_optim(averager, sgd));
            TT_REQUIRE_OK(tt_optim_zero_grad(sgd, false));
            loss_step(b, x, y);
            TT_REQUIRE_OK(tt_post_local_sgd_step(opt));
            TT_REQUIRE_OK(tt_post_local_sgd_zero_grad(opt, false));
            ddp_check_params(m, n, true);
            if (world)
                ddp_check_same(g->pg, tt_ddp_param(b, 0));
        }
    TT_CHECK_EQ(tt_averager_step(averager), 20);
    TT_CHECK_EQ(tt_averager_step(tt_post_local_sgd_averager(opt)), 20);
    tt_post_local_sgd_free(opt);
    tt_averager_free(averager);
    tt_optim_free(sgd);
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(m);
    tt_module_free(n);
}

static const parity plain = { 0 };
static const parity views = { .views = true };
static const parity levels = { .hierarchical = true };
static const parity levels_views = { .views = true, .hierarchical = true };

/* The state as bytes of rank 0, sent to all; yours to free. */
static tt_state_dict *send_state(const dist_group *g, const tt_state_dict *sd)
{
    tt_value *map = tt_value_map_new(), *bytes = NULL, *back;
    tt_state_dict *out = tt_state_dict_new();
    const void *data;
    void *encoded;
    size_t size;

    for (int i = 0; sd != NULL && i < tt_state_dict_count(sd); i++)
        TT_REQUIRE_OK(tt_value_map_give(map, tt_state_dict_name(sd, i),
                                        tt_value_tensor_new(tt_state_dict_tensor(sd, i))));
    if (g->me == 0) {
        TT_REQUIRE_OK(tt_value_encode(map, &encoded, &size));
        bytes = tt_value_bytes_new(encoded, size);
        tt_bytes_free(encoded);
    }
    TT_REQUIRE_OK(tt_pg_broadcast_objects(g->pg, &bytes, 1, 0, NULL));
    data = tt_value_as_bytes(bytes, &size);
    back = tt_value_decode(data, size);
    TT_REQUIRE_NOT_NULL(back);
    for (size_t i = 0; i < tt_value_count(back); i++)
        TT_REQUIRE_OK(tt_state_dict_set(out, tt_value_name_at(back, i),
                                        tt_value_as_tensor(tt_value_at(back, i))));
    tt_value_free(map);
    tt_value_free(bytes);
    tt_value_free(back);
    return out;
}

static tt_post_local_sgd *local_sgd(const tt_ddp *d)
{
    tt_post_local_sgd *p = tt_post_local_sgd_new(ddp_sgd(d), tt_periodic_averager_new(NULL, 4, 10));

    TT_REQUIRE_NOT_NULL(p);
    return p;
}

static void count_warning(void *ctx, const char *category, const char *message)
{
    if (strcmp(category, "average") == 0 && strstr(message, "step") != NULL)
        (*(int *)ctx)++;
}

static void step_reload(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_net_new();
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_post_local_sgd *opt = local_sgd(d), *other = local_sgd(d);
    tt_averager *a = tt_post_local_sgd_averager(other);
    tt_state_dict *state = tt_state_dict_new(), *sent;
    int warnings = 0;

    (void)arg;
    for (uint64_t i = 0; i < 20; i++)
        TT_SCOPE {
            loss_step(d, ddp_random(TT_SHAPE(8, 2), i), ddp_random(TT_SHAPE(8, 4), i + 1));
            TT_REQUIRE_OK(tt_post_local_sgd_step(opt));
        }
    if (g->me == 0)
        TT_REQUIRE_OK(tt_post_local_sgd_save(opt, state, NULL));
    sent = send_state(g, state);
    TT_REQUIRE_OK(tt_warnings_push(count_warning, &warnings));
    TT_REQUIRE_OK(tt_post_local_sgd_load(other, sent, NULL));
    TT_CHECK_EQ(tt_averager_step(a), 20);
    TT_CHECK_EQ(tt_averager_step(a), tt_averager_step(tt_post_local_sgd_averager(opt)));
    TT_CHECK_EQ(warnings, 0);
    TT_REQUIRE(tt_state_dict_remove(sent, "step"));
    TT_REQUIRE_OK(tt_post_local_sgd_load(other, sent, NULL));
    tt_warnings_pop();
    TT_CHECK_EQ(warnings, 1);
    TT_CHECK_EQ(tt_averager_step(a), 0);
    tt_state_dict_free(state);
    tt_state_dict_free(sent);
    tt_post_local_sgd_free(opt);
    tt_post_local_sgd_free(other);
    tt_ddp_free(d);
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_average_parameters", average_parameters, DIST_WORLD, NULL, 0 },
    { "test_periodic_model_averager", periodic, DIST_WORLD, NULL, 0 },
    { "test_periodic_model_averager_param_group", periodic_groups, DIST_WORLD, NULL, 0 },
    { "test_1_level_hierarchical_model_averager_equivalent_to_periodic_model_averager", one_level,
      DIST_WORLD, NULL, 0 },
    { "test_3_level_hierarchical_model_averager", three_levels, DIST_WORLD, NULL, 4 },
    { "test_post_localSGD_optimizer_parity", compare_steps, DIST_WORLD, &plain, 0 },
    { "test_post_localSGD_optimizer_parity_grad_is_view", compare_steps, DIST_WORLD, &views, 0 },
    { "test_post_localSGD_optimizer_parity_with_hierarchical_sgd", compare_steps, DIST_WORLD,
      &levels, 4 },
    { "test_post_localSGD_optimizer_parity_with_hierarchical_sgd_grad_is_view", compare_steps,
      DIST_WORLD, &levels_views, 4 },
    { "test_post_localSGD_optimizer_step_reload", step_reload, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
