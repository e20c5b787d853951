/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training of modules of which some parameters get no gradient. */
#include <stdio.h>
#include <string.h>

#include "tutti/testing_tools.h"
#include "world/ddp_models.h"

static const tt_ddp_options search = { .find_unused = true };
static const tt_ddp_options search_copies = { .find_unused = true, .copy_gradients = true };

static tt_tensor *ones(int64_t rows)
{
    return tt_ones(TT_SHAPE(rows, 10), TT_F32, dist_device());
}

static tt_tensor *random_input(const dist_group *g, int i)
{
    return ddp_random(TT_SHAPE(20, 10), tt_test_seed() + (uint64_t)(100 * i + g->me));
}

/* The error that the next forward gives; also in the record. */
static void check_unfinished(tt_ddp *d, tt_tensor *x, const char *index, const char *name)
{
    char error[1100];
    tt_value *log;

    TT_REQUIRE_NULL(tt_ddp_forward(d, x));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    snprintf(error, sizeof error, "%s", tt_last_error());
    TT_CHECK_CONTAINS(error, "reduction of the previous iteration");
    TT_CHECK_CONTAINS(error, "set the option find_unused");
    TT_CHECK_CONTAINS(error, "all outputs of forward take part in the loss");
    TT_CHECK_CONTAINS(error, index);
    if (tt_get_debug_level() == TT_DEBUG_OFF) {
        TT_CHECK_CONTAINS(error, "TUTTI_DISTRIBUTED_DEBUG");
        TT_CHECK(strstr(error, name) == NULL);
    } else {
        TT_CHECK_CONTAINS(error, name);
        TT_CHECK(strstr(error, "\"lin1.weight\"") == NULL);
    }
    TT_CHECK_ERR(tt_ddp_check_finished(d), TT_ERR_INVALID);
    log = tt_ddp_log_value(d);
    TT_REQUIRE_NOT_NULL(log);
    TT_CHECK_EQ(tt_value_as_int(tt_value_map_get(log, "has_error")), 1);
    TT_CHECK_STR(tt_value_as_text(tt_value_map_get(log, "error")), error);
    tt_value_free(log);
}

/* ---- control flow ------------------------------------------------------------------------------- */

typedef struct flow {
    const dist_group *g;
    ddp_branch when;
} flow;

static void control_flow_level(void *ctx)
{
    const flow *f = ctx;
    tt_module *m = ddp_branch_new(f->when);
    tt_ddp *d = ddp_new(m, f->g->pg, &search);

    for (int i = 0; i < 6; i++)
        TT_SCOPE {
            int users = f->when == DDP_BRANCH_ONES ? f->g->n : 1;

            ddp_step(d, i % 2 == 1 ? ones(20) : random_input(f->g, i));
            TT_CHECK_EQ(tt_ddp_n_users(d, 0), f->g->n);
            TT_CHECK_EQ(tt_ddp_n_users(d, 1), i % 2 == 1 ? users : 0);
            ddp_check_same(f->g->pg, tt_grad_of(tt_ddp_param(d, 0)));
        }
    tt_ddp_free(d);
    tt_module_zero_grad(m);
    d = ddp_new(m, f->g->pg, NULL);
    TT_SCOPE {
        ddp_step(d, random_input(f->g, 7));
        check_unfinished(d, random_input(f->g, 8), " 1", "\"lin2.weight\"");
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

static void control_flow(const dist_group *g, const void *arg)
{
    flow f = { .g = g, .when = *(const ddp_branch *)arg };

    dist_each_debug_level(control_flow_level, &f);
}

static const ddp_branch on_ones = DDP_BRANCH_ONES, on_rank_1 = DDP_BRANCH_ONES_RANK_1;

static void rebuild_exception_level(void *ctx)
{
    const dist_group *g = ctx;
    tt_module *m = ddp_branch_new(DDP_BRANCH_NEVER);
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    TT_SCOPE {
        ddp_step(d, random_input(g, 1));
        check_unfinished(d, random_input(g, 2), " 1", "\"lin2.weight\"");
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

static void rebuild_exception(const dist_group *g, const void *arg)
{
    (void)arg;
    dist_each_debug_level(rebuild_exception_level, (void *)(uintptr_t)g);
}

/* ---- outputs that the loss leaves out ------------------------------------------------------------- */

/* (a(x), b(x)), or {"predictions": (a(x), b(x)), "loss": ...}; c is not used. */
static tt_value *pair_call(tt_module *m, const tt_value *in)
{
    tt_tensor *x = tt_value_as_tensor(in);
    tt_value *pair = tt_value_tuple_new();

    TT_REQUIRE_OK(tt_value_list_give(pair, tt_value_tensor_new(tt_module_run(m, "a", x))));
    TT_REQUIRE_OK(tt_value_list_give(pair, tt_value_tensor_new(tt_module_run(m, "b", x))));
    return pair;
}

static tt_value *map_call(tt_module *m, const tt_value *in)
{
    tt_value *map = tt_value_map_new(), *pair = pair_call(m, in);
    tt_tensor *b = tt_value_as_tensor(tt_value_at(pair, 1));

    TT_REQUIRE_OK(tt_value_map_give(map, "predictions", pair));
    TT_REQUIRE_OK(tt_value_map_give(map, "loss", tt_value_tensor_new(tt_sum(b))));
    return map;
}

static const tt_module_class pair_class = { .name = "Pair", .call = pair_call };
static const tt_module_class map_class = { .name = "Map", .call = map_call };

static tt_module *pair_new(const tt_module_class *cls)
{
    tt_linear_options opt = { .no_bias = true };
    tt_module *m = ddp_module(tt_module_new(cls));

    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, &opt)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(10, 10, &opt)));
    TT_REQUIRE_OK(tt_module_give_child(m, "c", tt_linear_new(5, 5, &opt)));
    return m;
}

static void pair_step(tt_module *m, tt_ddp *d, tt_tensor *x, bool both)
{
    tt_value *in = tt_value_tensor_new(x);
    tt_value *out = d != NULL ? tt_ddp_call(d, in) : tt_module_call(m, in);
    const tt_value *pair = out;
    tt_tensor *a, *b;

    TT_REQUIRE_NOT_NULL(out);
    if (tt_value_kind_of(out) == TT_VALUE_MAP)
        pair = tt_value_map_get(out, "predictions");
    a = tt_value_as_tensor(tt_value_at(pair, 0));
    b = tt_value_as_tensor(tt_value_at(pair, 1));
    TT_REQUIRE_OK(tt_backward(tt_sum(both ? tt_matmul(a, b) : b)));
    tt_value_free(in);
    tt_value_free(out);
}

static void unused_output(const dist_group *g, const tt_module_class *cls,
                          const tt_ddp_options *opt)
{
    tt_module *m = pair_new(cls), *local;
    tt_ddp *d = ddp_new(m, g->pg, opt);
    tt_tensor *x = ddp_random(TT_SHAPE(10, 10), tt_test_seed()), *kept = NULL;

    local = ddp_module(tt_module_copy(m));
    pair_step(local, NULL, x, false);
    pair_step(m, d, x, false);
    TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "a.weight")));
    ddp_check_grads(m, local);
    for (int i = 0; i < 6; i++) {
        pair_step(local, NULL, x, i < 2);
        pair_step(m, d, x, i < 2);
        ddp_check_grads(m, local);
        if (i == 1)
            kept = tt_clone(tt_grad_of(tt_module_param(m, "a.weight")));
        if (i >= 2)
            TT_CHECK(tt_equal(kept, tt_grad_of(tt_module_param(m, "a.weight"))));
    }
    TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "c.weight")));
    tt_ddp_free(d);
    tt_module_free(m);
    tt_module_free(local);
}

static void output_unused(const dist_group *g, const void *arg)
{
    unused_output(g, arg, &search);
    unused_output(g, arg, &search_copies);
}

/* ---- gradients that are undefined ------------------------------------------------------------------ */

static tt_status same_forward(tt_function_ctx *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                              int n_out)
{
    (void)ctx, (void)n_in, (void)n_out;
    out[0] = tt_clone(in[0]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status no_gradient(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                             tt_tensor **grad_in, int n_in)
{
    (void)ctx, (void)grad_out, (void)n_out, (void)n_in;
    grad_in[0] = NULL;
    return TT_OK;
}

static const tt_function cut = { .name = "cut", .forward = same_forward, .backward = no_gradient };

static void undefined_step(tt_module *m, tt_ddp *d)
{
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1, 2), TT_F32, dist_device());
        tt_tensor *y = d != NULL ? tt_ddp_forward(d, x) : tt_module_forward(m, x), *out;

        TT_REQUIRE_OK(tt_function_apply(&cut, NULL, &y, 1, &out, 1));
        TT_REQUIRE_OK(tt_backward(tt_sum(out)));
    }
}

static void undefined_gradient(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_net_new(), *local;
    tt_ddp *d = ddp_new(m, g->pg, &search);

    (void)arg;
    local = ddp_module(tt_module_copy(m));
    undefined_step(local, NULL);
    undefined_step(m, d);
    ddp_check_grads(m, local);
    for (int i = 0; i < tt_ddp_n_params(d); i++)
        TT_CHECK_NULL(tt_grad_of(tt_ddp_param(d, i)));
    tt_ddp_free(d);
    tt_module_free(m);
    tt_module_free(local);
}

/* ---- marks add up over backwards that do not reduce ------------------------------------------------- */

/* x[0] chooses: rank 0 uses nn1 then nn2, the others nn3 then nn4. */
static tt_tensor *four_forward(tt_module *m, tt_tensor *x)
{
    bool second = tt_item(x) > 1;
    bool first_rank = tt_test_rank() == 0;

    return tt_module_run(m, first_rank ? (second ? "nn2" : "nn1") : (second ? "nn4" : "nn3"), x);
}

static const tt_module_class four_class = { .name = "Four", .forward = four_forward };

static void grads_same_with_no_sync(const dist_group *g, const void *arg)
{
    static const char *const names[] = { "nn1", "nn2", "nn3", "nn4" };
    tt_module *m = ddp_module(tt_module_new(&four_class));
    tt_ddp *d;

    (void)arg;
    for (int i = 0; i < 4; i++)
        TT_REQUIRE_OK(tt_module_give_child(m, names[i], tt_linear_new(1, 1, NULL)));
    d = ddp_new(m, g->pg, &search);
    TT_DDP_NO_SYNC(d)
    {
        ddp_step(d, tt_full(TT_SHAPE(1, 1), 1, TT_F32, dist_device()));
    }
    ddp_step(d, tt_full(TT_SHAPE(1, 1), 2, TT_F32, dist_device()));
    for (int i = 0; i < tt_ddp_n_params(d); i++) {
        ddp_check_same(g->pg, tt_grad_of(tt_ddp_param(d, i)));
        TT_CHECK_EQ(tt_ddp_n_users(d, i), i < 4 ? 1 : g->n - 1);
    }
    /* Weight of nn2: rank 0 alone, with input 2. */
    TT_CHECK_NEAR(tt_item(tt_grad_of(tt_module_param(m, "nn2.weight"))), 2.0 / g->n, 1e-6);
    tt_ddp_free(d);
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_ddp_control_flow_same_across_ranks", control_flow, DIST_WORLD, &on_ones, 0 },
    { "test_ddp_control_flow_different_across_ranks", control_flow, DIST_WORLD, &on_rank_1, 0 },
    { "test_ddp_unused_params_rebuild_buckets_exception", rebuild_exception, DIST_WORLD, NULL, 0 },
    { "test_output_unused_in_loss_tuple_module", output_unused, DIST_WORLD, &pair_class, 0 },
    { "test_output_unused_in_loss_dict_module", output_unused, DIST_WORLD, &map_class, 0 },
    { "test_undefined_grad_parity_unused_parameters", undefined_gradient, DIST_WORLD, NULL, 0 },
    { "test_grads_same_across_ranks_with_no_sync", grads_same_with_no_sync, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
