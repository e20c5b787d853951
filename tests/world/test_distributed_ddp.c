/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training: the same as one process, and what profiles show of it. */
#include <stdio.h>
#include <string.h>

#include "tutti/random.h"
#include "world/ddp_models.h"

/* ---- the same as one process ------------------------------------------------------------------ */

static void check_reload(tt_ddp *d)
{
    tt_module *fresh = ddp_net_new();
    char path[512];

    snprintf(path, sizeof path, "%s/net%d.safetensors", tt_test_tmpdir(), tt_test_rank());
    TT_REQUIRE_OK(tt_module_save(tt_ddp_module(d), path));
    TT_REQUIRE_OK(tt_module_load(fresh, path, NULL));
    ddp_check_params(fresh, tt_ddp_module(d), true);
    tt_module_free(fresh);
}

static void train_step(tt_module *m, tt_ddp *d, tt_tensor *x, tt_tensor *y)
{
    tt_tensor *out = d != NULL ? tt_ddp_forward(d, x) : tt_module_forward(m, x);

    TT_REQUIRE_OK(tt_backward(tt_mse_loss(out, y)));
    ddp_update(m);
}

static void train(const dist_group *g, const void *arg)
{
    tt_module *local, *shared = ddp_net_new();
    tt_ddp *d = ddp_new(shared, g->pg, arg);
    tt_tensor *x = ddp_random(TT_SHAPE(2 * g->n, 2), tt_test_seed());
    tt_tensor *y = ddp_random(TT_SHAPE(2 * g->n, 4), tt_test_seed() + 1);
    tt_generator *gen = tt_generator_new(tt_test_seed());

    local = ddp_module(tt_module_copy(shared));
    for (int i = 0; i < 5; i++)
        TT_SCOPE {
            tt_tensor *order = tt_randperm(2 * g->n, dist_device(), gen);
            tt_tensor *in = tt_index_select(x, 0, order);

            train_step(local, NULL, in, y);
            train_step(shared, d, tt_narrow(in, 0, 2 * g->me, 2), tt_narrow(y, 0, 2 * g->me, 2));
            ddp_check_params(local, shared, false);
        }
    check_reload(d);
    for (int i = 0; i < tt_ddp_n_params(d); i++)
        ddp_check_same(g->pg, tt_ddp_param(d, i));
    tt_generator_free(gen);
    tt_ddp_free(d);
    tt_module_free(shared);
    tt_module_free(local);
}

/* Saved and loaded as a module around the module, under its names. */
static void check_wrapper_reload(tt_ddp *d)
{
    tt_module *wrapper = tt_ddp_as_module(d), *copy;
    char path[512];

    snprintf(path, sizeof path, "%s/ddp%d.safetensors", tt_test_tmpdir(), tt_test_rank());
    TT_REQUIRE_OK(tt_module_save(wrapper, path));
    copy = ddp_module(tt_module_copy(wrapper));
    TT_NO_GRAD
    {
        TT_REQUIRE_NOT_NULL(tt_zero_(tt_module_param(copy, "module.fc1.weight")));
    }
    TT_REQUIRE_OK(tt_module_load(copy, path, NULL));
    ddp_check_params(copy, wrapper, true);
    tt_module_free(copy);
}

/* Views or copies, a fixed graph or not, told once or twice. There is one device, the CPU. */
static void train_all(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int k = 0; k < 6; k++) {
        tt_ddp_options opt = { .copy_gradients = k % 2 == 0, .static_graph = k >= 2 };
        tt_module *m = ddp_net_new();
        tt_ddp *d = ddp_new(m, g->pg, &opt);

        check_wrapper_reload(d);
        if (k >= 4)
            TT_REQUIRE_OK(tt_ddp_set_static_graph(d));
        tt_ddp_free(d);
        tt_module_free(m);
        TT_SCOPE {
            train(g, &opt);
        }
    }
}

static const tt_ddp_options copies = { .copy_gradients = true };
static const tt_ddp_options views = { 0 };

/* ---- profiles ----------------------------------------------------------------------------------- */

static int count_events(const tt_prof *p, const char *name, bool async)
{
    int n = 0;

    for (size_t i = 0; i < tt_prof_n_events(p); i++) {
        const tt_prof_event *e = tt_prof_event_at(p, i);

        if (strcmp(e->name, name) != 0)
            continue;
        TT_CHECK_EQ(e->async, async);
        TT_CHECK(!e->failed);
        n++;
    }
    return n;
}

static tt_ddp *linear_ddp(const dist_group *g, const tt_ddp_options *opt)
{
    tt_module *m = ddp_module(tt_linear_new(10, 10, &(tt_linear_options){ .no_bias = true }));
    tt_ddp *d = ddp_new(m, g->pg, opt);

    tt_module_free(m);
    return d;
}

static tt_prof *profiled_steps(tt_ddp *d, const tt_prof_options *opt, int n)
{
    tt_prof *p = tt_prof_start(opt);

    TT_REQUIRE_NOT_NULL(p);
    for (int i = 0; i < n; i++)
        ddp_step(d, ddp_random(TT_SHAPE(3, 10), tt_test_seed()));
    TT_REQUIRE_OK(tt_prof_stop(p));
    return p;
}

static void profiling(const dist_group *g, const void *arg)
{
    tt_ddp *d = linear_ddp(g, NULL);
    tt_prof *p = profiled_steps(d, arg, 6);

    TT_CHECK_EQ(count_events(p, "shm:all_reduce", true), 6);
    TT_CHECK_GE(count_events(p, "shm:broadcast", true), 1);
    TT_CHECK_EQ(count_events(p, "search_unused_parameters", false), 0);
    tt_prof_free(p);
    tt_ddp_free(d);

    d = linear_ddp(g, &(tt_ddp_options){ .find_unused = true });
    tt_prof_free(profiled_steps(d, arg, 3));
    p = profiled_steps(d, arg, 1);
    TT_CHECK_GE(count_events(p, "shm:all_reduce", true), 1);
    TT_CHECK_EQ(count_events(p, "search_unused_parameters", false), 1);
    tt_prof_free(p);
    tt_ddp_free(d);
}

static const tt_prof_options op_profiler = { .this_thread_only = true };
static const tt_prof_options tracing_profiler = { .shapes = true };

/* ---- construction -------------------------------------------------------------------------------- */

static void requires_grad(const dist_group *g, const void *arg)
{
    tt_module *empty = ddp_module(tt_sequential_new());
    tt_module *frozen = ddp_module(tt_linear_new(2, 2, NULL));

    (void)arg;
    TT_CHECK_NULL(tt_ddp_new(empty, g->pg, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), "requires a gradient");
    TT_REQUIRE_OK(tt_module_set_requires_grad(frozen, false));
    TT_CHECK_NULL(tt_ddp_new(frozen, g->pg, NULL));
    tt_module_free(empty);
    tt_module_free(frozen);
}

static void zero_output_features(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(
        TT_SEQUENTIAL(tt_linear_new(10, 10, NULL), tt_relu_new(), tt_linear_new(10, 0, NULL)));
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    (void)arg;
    TT_CHECK_EQ(tt_ddp_n_params(d), 4);
    tt_ddp_free(d);
    tt_module_free(m);
}

static tt_module *two_layers(void)
{
    tt_linear_options no_bias = { .no_bias = true };
    tt_module *m = ddp_module(tt_sequential_new());

    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(10, 10, &no_bias)));
    return ddp_module(m);
}

static void data_parallel_params(const dist_group *g, const void *arg)
{
    const char *const ignored[] = { "a.weight" };
    tt_module *m = two_layers();
    tt_ddp *d = ddp_new(m, g->pg, &(tt_ddp_options){ .ignored = ignored, .n_ignored = 1 });

    (void)arg;
    TT_CHECK_EQ(tt_ddp_n_params(d), 1);
    TT_CHECK_STR(tt_ddp_param_name(d, 0), "b.weight");
    TT_CHECK_PTR(tt_ddp_param(d, 0), tt_module_param(m, "b.weight"));
    TT_CHECK_NULL(tt_ddp_param_name(d, 1));
    tt_ddp_free(d);
    tt_module_free(m);
}

static void sync_module_states(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_linear_new(2, 2, &(tt_linear_options){ .no_bias = true }));
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_tensor *w = tt_module_param(m, "weight"), *mine;

    (void)arg;
    ddp_check_same(g->pg, w);
    TT_NO_GRAD
    {
        TT_REQUIRE_NOT_NULL(tt_fill_(w, 3.25 + g->me));
    }
    mine = tt_clone(tt_detach(w));
    TT_REQUIRE_OK(tt_ddp_sync_states(d, 1));
    DIST_CHECK_FULL(tt_detach(w), TT_SHAPE(2, 2), 4.25, 0);
    TT_CHECK_EQ(tt_equal(mine, tt_detach(w)), g->me == 1);
    tt_ddp_free(d);
    tt_module_free(m);
}

static void create_graph(const dist_group *g, const void *arg);

static const dist_row rows[] = {
    { "test_DistributedDataParallel", train_all, DIST_WORLD, NULL, 0 },
    { "test_DistributedDataParallelCPU", train, DIST_WORLD, &copies, 0 },
    { "test_DistributedDataParallelCPU_grad_is_view", train, DIST_WORLD, &views, 0 },
    { "test_DistributedDataParallel_requires_grad", requires_grad, DIST_WORLD, NULL, 0 },
    { "test_ddp_zero_output_features", zero_output_features, DIST_WORLD, NULL, 0 },
    { "test_get_data_parallel_params", data_parallel_params, DIST_WORLD, NULL, 0 },
    { "test_ddp_sync_module_states", sync_module_states, DIST_WORLD, NULL, 0 },
    { "test_ddp_create_graph", create_graph, DIST_WORLD, NULL, 0 },
};

/* Threads share what is profiled. */
static const dist_row process_rows[] = {
    { "test_ddp_profiling_autograd_profiler", profiling, DIST_WORLD, &op_profiler, 0 },
    { "test_ddp_profiling_torch_profiler", profiling, DIST_WORLD, &tracing_profiler, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
    DIST_ADD_ROWS(process_rows);
}

/* ---- gradients of gradients ------------------------------------------------------------------------ */

static tt_tensor *square_forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *p = tt_module_param_at(m, 0);

    (void)x;
    return tt_mul(p, p);
}

static const tt_module_class square_class = { .name = "Square", .forward = square_forward };

static void create_graph(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_module_new(&square_class));
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_add_param(m, "p", tt_full(TT_SHAPE(1), 1, TT_F32, dist_device())));
    d = ddp_new(m, g->pg, NULL);
    for (int i = 0; i < 6; i++)
        TT_SCOPE {
            tt_tensor *loss =
                tt_sum(tt_ddp_forward(d, tt_ones(TT_SHAPE(1), TT_F32, dist_device())));

            TT_REQUIRE_OK(tt_backward_with(loss, &(tt_backward_options){ .create_graph = true }));
            TT_CHECK(tt_requires_grad(tt_module_param_at(m, 0)));
            TT_CHECK_NEAR(tt_item(tt_grad_of(tt_module_param_at(m, 0))), 2 * (i + 1), 1e-6);
        }
    tt_ddp_free(d);
    tt_module_free(m);
}
