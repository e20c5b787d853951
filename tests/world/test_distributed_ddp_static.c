/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training of graphs that do not change; modules with unusual outputs; ignored parameters. */
#include <stdio.h>
#include <string.h>

#include "world/ddp_models.h"

static const tt_ddp_options fixed = { .static_graph = true };
static const tt_linear_options no_bias = { .no_bias = true };

static tt_tensor *ones(void)
{
    return tt_ones(TT_SHAPE(20, 10), TT_F32, dist_device());
}

static void check_logged(tt_ddp *d, const char *words)
{
    tt_value *log = tt_ddp_log_value(d);

    TT_REQUIRE_NOT_NULL(log);
    TT_CHECK_CONTAINS(tt_value_as_text(tt_value_map_get(log, "error")), words);
    tt_value_free(log);
}

/* ---- static graphs -------------------------------------------------------------------------------- */

static void api(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_linear_new(10, 10, NULL));
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    (void)arg;
    ddp_step(d, ones());
    TT_CHECK_ERR_SAYS(tt_ddp_set_static_graph(d), TT_ERR_INVALID, "before the training starts");
    check_logged(d, "before the training starts");
    tt_ddp_free(d);
    d = ddp_new(m, g->pg, NULL);
    TT_CHECK_OK(tt_ddp_set_static_graph(d));
    TT_CHECK_OK(tt_ddp_set_static_graph(d));
    for (int i = 0; i < 3; i++)
        ddp_step(d, ones());
    TT_CHECK_OK(tt_ddp_set_static_graph(d));
    tt_ddp_free(d);
    tt_module_free(m);
}

static void invalid(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_branch_new(DDP_BRANCH_ONES);
    tt_tensor *x = ddp_random(TT_SHAPE(20, 10), tt_test_seed());
    tt_ddp *d = ddp_new(m, g->pg, &fixed);

    (void)arg;
    ddp_step(d, x);
    TT_CHECK_ERR_SAYS(tt_backward(tt_sum(tt_ddp_forward(d, ones()))), TT_ERR_INVALID,
                      "the graph has changed");
    check_logged(d, "the graph has changed");
    tt_ddp_free(d);
    d = ddp_new(m, g->pg, &fixed);
    ddp_step(d, ones());
    ddp_step(d, x);
    TT_CHECK_NULL(tt_ddp_forward(d, x));
    TT_CHECK_CONTAINS(tt_last_error(), "static_graph is set");
    TT_CHECK_CONTAINS(tt_last_error(), "on rank");
    TT_CHECK_CONTAINS(tt_last_error(), ": 1");
    check_logged(d, "static_graph is set");
    tt_ddp_free(d);
    tt_module_free(m);
}

static void train(tt_ddp *d, uint64_t seed)
{
    for (int i = 0; i < 10; i++)
        TT_SCOPE {
            ddp_step(d, i % 2 == 0 ? ones() : ddp_random(TT_SHAPE(20, 10), seed + (uint64_t)i));
            ddp_update(tt_ddp_module(d));
        }
}

/* lin2 only on rank 0. */
static tt_tensor *first_rank_forward(tt_module *m, tt_tensor *x)
{
    x = tt_mul_scalar(tt_module_run(m, "lin1", x), 1e-3);
    return tt_test_rank() == 0 ? tt_module_run(m, "lin2", x) : x;
}

static const tt_module_class first_rank_class = { .name = "FirstRank",
                                                  .forward = first_rank_forward };

static void different_graphs(const dist_group *g, const void *arg)
{
    tt_module *a = ddp_module(tt_module_new(&first_rank_class)), *b;
    tt_ddp *da, *db;

    (void)arg;
    TT_REQUIRE_OK(tt_module_give_child(a, "lin1", tt_linear_new(10, 10, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(a, "lin2", tt_linear_new(10, 10, &no_bias)));
    da = ddp_new(a, g->pg, &(tt_ddp_options){ .find_unused = true });
    b = ddp_module(tt_module_copy(a));
    db = ddp_new(b, g->pg, &fixed);
    train(da, 31415);
    train(db, 31415);
    TT_CHECK(!tt_ddp_has_rebuilt(da));
    TT_CHECK(tt_ddp_has_rebuilt(db));
    TT_CHECK_EQ(tt_ddp_n_users(db, 1), 1);
    ddp_check_params(a, b, false);
    for (int i = 0; i < 2; i++)
        ddp_check_same(g->pg, tt_ddp_param(db, i));
    tt_ddp_free(da);
    tt_ddp_free(db);
    tt_module_free(a);
    tt_module_free(b);
}

static void multi_forward(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(TT_SEQUENTIAL(tt_linear_new(10, 10, NULL), tt_relu_new())), *local;
    tt_tensor *x = tt_ones(TT_SHAPE(2, 10), TT_F32, dist_device());
    tt_ddp *d = ddp_new(m, g->pg, &fixed);

    (void)arg;
    local = ddp_module(tt_module_copy(m));
    for (int i = 0; i < 3; i++) {
        tt_tensor *once = tt_ddp_forward(d, x), *twice = tt_ddp_forward(d, x);

        TT_REQUIRE_OK(tt_backward(tt_sum(tt_add(once, twice))));
        once = tt_module_forward(local, x);
        twice = tt_module_forward(local, x);
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_add(once, twice))));
        ddp_check_grads(m, local);
    }
    tt_ddp_free(d);
    tt_module_free(m);
    tt_module_free(local);
}

static void actually_static(const dist_group *g, const void *arg)
{
    const tt_ddp_options search = { .find_unused = true };
    tt_module *m = ddp_branch_new(DDP_BRANCH_ONES);
    tt_ddp *never = ddp_new(m, g->pg, &search), *other;
    tt_tensor *x = ddp_random(TT_SHAPE(20, 10), tt_test_seed());

    (void)arg;
    for (int i = 0; i < 6; i++) {
        ddp_step(never, x);
        TT_CHECK(tt_ddp_is_static(never));
    }
    tt_ddp_free(never);
    other = ddp_new(m, g->pg, &search);
    for (int i = 0; i < 6; i++)
        ddp_step(other, i % 2 == 0 ? x : ones());
    TT_CHECK(!tt_ddp_is_static(other));
    tt_ddp_free(other);
    other = ddp_new(m, g->pg, NULL);
    for (int i = 0; i < 6; i++) {
        ddp_step(other, ones());
        TT_CHECK(tt_ddp_is_static(other));
    }
    tt_ddp_free(other);
    tt_module_free(m);
}

/* ---- outputs --------------------------------------------------------------------------------------- */

/* (fc(x), t1, t2, {"tensor": t3}): the last three are made here unless given. */
static tt_value *fresh_call(tt_module *m, const tt_value *in)
{
    tt_value *out = tt_value_tuple_new(), *map = tt_value_map_new();
    tt_tensor *x = tt_value_as_tensor(tt_value_at(in, 0));

    TT_REQUIRE_OK(tt_value_list_give(out, tt_value_tensor_new(tt_module_run(m, "fc", x))));
    for (size_t i = 1; i < 4; i++) {
        tt_tensor *t = tt_value_count(in) > i ? tt_value_as_tensor(tt_value_at(in, i))
                                              : tt_zeros(TT_SHAPE(2), TT_F32, dist_device());

        if (i < 3)
            TT_REQUIRE_OK(tt_value_list_give(out, tt_value_tensor_new(t)));
        else
            TT_REQUIRE_OK(tt_value_map_give(map, "tensor", tt_value_tensor_new(t)));
    }
    TT_REQUIRE_OK(tt_value_list_give(out, map));
    return out;
}

static const tt_module_class fresh_class = { .name = "Fresh", .call = fresh_call };

static tt_value *fresh_step(tt_ddp *d, const tt_value *before)
{
    tt_value *in = tt_value_list_new(), *out;

    TT_REQUIRE_OK(tt_value_list_give(
        in, tt_value_tensor_new(tt_ones(TT_SHAPE(1, 10), TT_F32, dist_device()))));
    for (size_t i = 1; before != NULL && i < 3; i++)
        TT_REQUIRE_OK(tt_value_list_add(in, tt_value_at(before, i)));
    if (before != NULL)
        TT_REQUIRE_OK(tt_value_list_add(in, tt_value_map_get(tt_value_at(before, 3), "tensor")));
    out = tt_ddp_call(d, in);
    TT_REQUIRE_NOT_NULL(out);
    for (size_t i = 1; i < 3; i++)
        TT_CHECK_NULL(tt_grad_fn_name(tt_value_as_tensor(tt_value_at(out, i))));
    TT_CHECK_NULL(
        tt_grad_fn_name(tt_value_as_tensor(tt_value_map_get(tt_value_at(out, 3), "tensor"))));
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_value_as_tensor(tt_value_at(out, 0)))));
    tt_value_free(in);
    return out;
}

static void new_tensors(const dist_group *g, const void *arg)
{
    const tt_ddp_options *base = arg;

    for (int k = 0; k < 2; k++) {
        tt_ddp_options opt = *base;
        tt_module *m = ddp_module(tt_module_new(&fresh_class));
        tt_value *first, *second;
        tt_ddp *d;

        opt.find_unused = k == 1;
        opt.forward_sync_buffers = TT_DDP_OFF;
        TT_REQUIRE_OK(tt_module_give_child(m, "fc", tt_linear_new(10, 10, &no_bias)));
        d = ddp_new(m, g->pg, &opt);
        first = fresh_step(d, NULL);
        second = fresh_step(d, first);
        tt_value_free(first);
        tt_value_free(second);
        tt_ddp_free(d);
        tt_module_free(m);
    }
}

/* (detached fc1(x), clone of fc2(x)) */
static tt_value *detached_call(tt_module *m, const tt_value *in)
{
    tt_value *out = tt_value_tuple_new();
    tt_tensor *x = tt_module_run(m, "fc", tt_value_as_tensor(in));

    TT_REQUIRE_OK(tt_value_list_give(out, tt_value_tensor_new(tt_detach(x))));
    TT_REQUIRE_OK(tt_value_list_give(out, tt_value_tensor_new(tt_clone(x))));
    return out;
}

static const tt_module_class detached_class = { .name = "Detached", .call = detached_call };

static void no_grad_output(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int k = 0; k < 4; k++) {
        tt_module *m = ddp_module(tt_module_new(&detached_class));
        tt_ddp *d;

        TT_REQUIRE_OK(tt_module_give_child(m, "fc", tt_linear_new(10, 10, &no_bias)));
        d = ddp_new(m, g->pg,
                    &(tt_ddp_options){ .find_unused = k % 2 == 1, .static_graph = k >= 2 });
        for (int i = 0; i < 6; i++)
            TT_SCOPE {
                tt_value *in = tt_value_tensor_new(ones()), *out = tt_ddp_call(d, in);
                tt_tensor *x = tt_value_as_tensor(tt_value_at(out, 0));
                tt_tensor *y = tt_value_as_tensor(tt_value_at(out, 1));

                TT_CHECK(!tt_requires_grad(x));
                TT_REQUIRE_OK(tt_backward(tt_sum(tt_add(x, y))));
                tt_value_free(in);
                tt_value_free(out);
            }
        tt_ddp_free(d);
        tt_module_free(m);
    }
}

/* ---- shared, ignored and replaced parameters --------------------------------------------------------- */

static tt_tensor *shared_forward(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "net2", x);
}

static const tt_module_class shared_class = { .name = "Shared", .forward = shared_forward };

static void shared_unused(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int k = 0; k < 2; k++) {
        tt_module *m = ddp_module(tt_module_new(&shared_class));
        tt_ddp *d;

        TT_REQUIRE_OK(tt_module_give_child(m, "net1", tt_linear_new(10, 5, NULL)));
        TT_REQUIRE_OK(tt_module_add_param(m, "bias", tt_module_param(m, "net1.bias")));
        TT_REQUIRE_OK(tt_module_give_child(m, "net2", tt_linear_new(10, 5, NULL)));
        d = ddp_new(m, g->pg, &(tt_ddp_options){ .find_unused = true, .static_graph = k == 1 });
        for (int i = 0; i < 6; i++)
            TT_SCOPE {
                tt_tensor *y = tt_ddp_forward(d, ddp_random(TT_SHAPE(20, 10), tt_test_seed()));

                TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul_scalar_(y, 0.1))));
            }
        TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "bias")));
        TT_CHECK_NOT_NULL(tt_grad_of(tt_module_param(m, "net2.bias")));
        tt_ddp_free(d);
        tt_module_free(m);
    }
}

static tt_module *chain_new(const dist_group *g)
{
    tt_module *m = ddp_module(tt_sequential_new());

    TT_REQUIRE_OK(tt_module_give_child(m, "fc1", tt_linear_new(1, 1, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc2", tt_linear_new(1, g->me + 1, NULL)));
    TT_REQUIRE_OK(
        tt_module_add_buffer(m, "ragged", tt_zeros(TT_SHAPE(g->me + 1), TT_F32, dist_device())));
    return m;
}

static void ignore_params(const dist_group *g, const void *arg)
{
    const char *const ignored[] = { "fc2.weight", "fc2.bias", "ragged" };

    (void)arg;
    for (int k = 0; k < 8; k++) {
        tt_module *m = chain_new(g), *fc2 = ddp_module(tt_linear_new(1, 1, NULL)), *local;
        tt_tensor *old = tt_tensor_retain(tt_module_param(m, "fc2.weight"));
        tt_ddp *d = ddp_new(
            m, g->pg,
            &(tt_ddp_options){ .ignored = ignored,
                               .n_ignored = 3,
                               .static_graph = k % 2 == 1,
                               .find_unused = k / 2 % 2 == 1,
                               .forward_sync_buffers = k / 4 == 1 ? TT_DDP_OFF : TT_DDP_DEFAULT });

        TT_REQUIRE_OK(tt_module_set_child(m, "fc2", fc2));
        local = ddp_module(tt_module_copy(m));
        for (int i = 0; i < 6; i++)
            TT_SCOPE {
                tt_tensor *x = tt_full(TT_SHAPE(1, 1), g->me + 1, TT_F32, dist_device());

                ddp_step(d, x);
                TT_REQUIRE_OK(tt_backward(tt_sum(tt_module_forward(local, x))));
                TT_CHECK(tt_allclose(tt_grad_of(tt_module_param(m, "fc2.bias")),
                                     tt_grad_of(tt_module_param(local, "fc2.bias")), NULL));
                ddp_check_same(g->pg, tt_grad_of(tt_module_param(m, "fc1.weight")));
                TT_CHECK(!tt_equal(tt_grad_of(tt_module_param(m, "fc1.weight")),
                                   tt_grad_of(tt_module_param(local, "fc1.weight"))));
                TT_CHECK_NULL(tt_grad_of(old));
                tt_module_zero_grad(m);
                tt_module_zero_grad(local);
            }
        tt_tensor_free(old);
        tt_ddp_free(d);
        tt_module_free(fc2);
        tt_module_free(m);
        tt_module_free(local);
    }
}

/* The check after a layer was replaced, by one of another shape on every rank but the first. */
static void verify(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_sequential_new()), *other;
    tt_tensor *failed;
    tt_ddp *d;

    TT_REQUIRE_OK(tt_module_give_child(m, "lin", tt_linear_new(10, 1, NULL)));
    d = ddp_new(m, g->pg, NULL);
    TT_CHECK_OK(tt_ddp_verify(d));
    other = ddp_module(tt_linear_new(g->me == 0 ? 100 : 10, 1, NULL));
    TT_REQUIRE_OK(tt_module_set_child(m, "lin", other));
    TT_CHECK_ERR_SAYS(tt_ddp_verify(d), TT_ERR_INVALID, "lin.weight");
    failed = tt_full(TT_SHAPE(1), tt_last_status() != TT_OK, TT_I32, dist_device());
    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, failed, NULL, NULL));
    TT_CHECK_EQ(tt_item_int(failed), g->n);
    if (arg != NULL)
        check_logged(d, "lin.weight");
    tt_ddp_free(d);
    tt_module_free(other);
    tt_module_free(m);
}

static void frozen_names(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_sequential_new());
    tt_ddp *d;

    (void)arg;
    tt_set_debug_level(TT_DEBUG_INFO);
    TT_REQUIRE_OK(tt_module_give_child(m, "lin", tt_linear_new(10, 10, NULL)));
    TT_REQUIRE_OK(tt_set_requires_grad(tt_module_param(m, "lin.bias"), false));
    d = ddp_new(m, g->pg, NULL);
    TT_CHECK_EQ(tt_ddp_n_params(d), 1);
    TT_CHECK_STR(tt_ddp_param_name(d, 0), "lin.weight");
    tt_set_debug_level(TT_DEBUG_DEFAULT);
    tt_ddp_free(d);
    tt_module_free(m);
}

static void meshes(const dist_group *g, const void *arg)
{
    tt_mesh *line = tt_mesh_new(g->pg, &g->n, 1, NULL);
    tt_mesh *grid = tt_mesh_new(g->pg, (const int[]){ 2, g->n / 2 }, 2, NULL);
    tt_module *m = ddp_module(tt_linear_new(2, 2, NULL));
    tt_ddp *d = ddp_new(m, NULL, &(tt_ddp_options){ .mesh = line });

    (void)arg;
    TT_CHECK_PTR(tt_ddp_group(d), tt_mesh_group(line, 0));
    ddp_step(d, tt_ones(TT_SHAPE(1, 2), TT_F32, dist_device()));
    tt_ddp_free(d);
    TT_CHECK_NULL(tt_ddp_new(m, g->pg, &(tt_ddp_options){ .mesh = line }));
    TT_CHECK_CONTAINS(tt_last_error(), "got both");
    TT_CHECK_NULL(tt_ddp_new(m, NULL, &(tt_ddp_options){ .mesh = grid }));
    TT_CHECK_CONTAINS(tt_last_error(), "only a mesh of one dimension is supported");
    tt_module_free(m);
    dist_meet();
    tt_mesh_free(line);
    tt_mesh_free(grid);
}

static const tt_ddp_options changing = { 0 };
static const bool logged = true;

static const dist_row rows[] = {
    { "test_static_graph_api_cpu", api, DIST_WORLD, NULL, 0 },
    { "test_invalid_static_graph", invalid, DIST_WORLD, NULL, 0 },
    { "test_different_graph_across_ranks", different_graphs, DIST_WORLD, NULL, 0 },
    { "test_static_graph_multi_forward", multi_forward, DIST_WORLD, NULL, 0 },
    { "test_detect_ddp_is_actually_static", actually_static, DIST_WORLD, NULL, 0 },
    { "test_ddp_new_tensor_in_fwd", new_tensors, DIST_WORLD, &changing, 0 },
    { "test_ddp_new_tensor_in_fwd_static_graph", new_tensors, DIST_WORLD, &fixed, 0 },
    { "test_ddp_returns_tensor_with_no_grad", no_grad_output, DIST_WORLD, NULL, 0 },
    { "test_ddp_shared_grad_acc_unused_params", shared_unused, DIST_WORLD, NULL, 0 },
    { "test_ddp_ignore_params_arg", ignore_params, DIST_WORLD, NULL, 0 },
    { "test_verify_model_across_rank_with_logger", verify, DIST_WORLD, &logged, 0 },
    { "test_verify_model_across_rank_without_logger", verify, DIST_WORLD, NULL, 0 },
    { "test_ddp_build_debug_param_to_name_mapping_requires_grad", frozen_names, DIST_WORLD, NULL,
      0 },
    { "test_ddp_device_mesh_initialization", meshes, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
