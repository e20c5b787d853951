/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training where gradients are missing deep inside of a module; buckets that nobody uses; a
 * rank that misses a gradient which the others have. */
#include <stdio.h>
#include <string.h>

#include "world/ddp_models.h"

static const tt_linear_options no_bias = { .no_bias = true };

/* ---- a module of modules --------------------------------------------------------------------------- */

static tt_tensor *norm_net_forward(tt_module *m, tt_tensor *x)
{
    x = tt_reshape(tt_module_run(m, "fc1", x), TT_SHAPE(-1, 4, 10));
    x = tt_reshape(tt_module_run(m, "bn", x), TT_SHAPE(-1, 40));
    return tt_softmax(tt_module_run(m, "fc2", x), 1);
}

static tt_tensor *deep_forward(tt_module *m, tt_tensor *x)
{
    x = tt_module_run(m, "lin_layer", tt_module_run(m, "bn", x));
    return tt_module_run(m, "lin.a", x);
}

static tt_tensor *outer_forward(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "sub_module", x);
}

static const tt_module_class norm_net_class = { .name = "NormNet", .forward = norm_net_forward };
static const tt_module_class deep_class = { .name = "Deep", .forward = deep_forward };
static const tt_module_class outer_class = { .name = "Outer", .forward = outer_forward };

static void give(tt_module *m, const char *name, tt_module *child)
{
    TT_REQUIRE_OK(tt_module_give_child(m, name, child));
}

/* Unused: lin.b, and all of embedding_net. */
static tt_module *deep_new(void)
{
    tt_module *outer = ddp_module(tt_module_new(&outer_class));
    tt_module *sub = ddp_module(tt_module_new(&deep_class));
    tt_module *unused = ddp_module(tt_sequential_new()), *lin = ddp_module(tt_sequential_new());
    tt_module *net = ddp_module(tt_module_new(&norm_net_class));

    give(unused, "embedding", tt_embedding_new(10, 5, NULL));
    give(unused, "lin", tt_linear_new(5, 1, NULL));
    give(lin, "a", tt_linear_new(10, 10, &no_bias));
    give(lin, "b", tt_linear_new(10, 1, &no_bias));
    give(net, "fc1", tt_linear_new(2, 40, &no_bias));
    give(net, "bn", tt_batch_norm1d_new(4, NULL));
    give(net, "fc2", tt_linear_new(40, 4, &no_bias));
    give(sub, "embedding_net", unused);
    give(sub, "lin", lin);
    give(sub, "bn", net);
    give(sub, "lin_layer", tt_linear_new(4, 10, &no_bias));
    give(outer, "sub_module", sub);
    return outer;
}

static bool is_unused(const char *name)
{
    return strstr(name, "embedding_net") != NULL || strcmp(name, "sub_module.lin.b.weight") == 0;
}

/* Every parameter is where it belongs: unused ones with index and name, the others not at all. */
static void check_error(const tt_ddp *d, const char *error)
{
    const char *list = strstr(error, "did not receive a gradient");
    bool names = tt_get_debug_level() != TT_DEBUG_OFF;
    char text[128];

    TT_REQUIRE_NOT_NULL(list);
    for (int i = 0; i < tt_ddp_n_params(d); i++) {
        const char *name = tt_ddp_param_name(d, i);

        snprintf(text, sizeof text, "\"%s\"", name);
        TT_CHECK_EQ(strstr(list, text) != NULL, names && is_unused(name));
        snprintf(text, sizeof text, " %d", i);
        if (is_unused(name))
            TT_CHECK_CONTAINS(list, text);
    }
    TT_CHECK_NULL(strstr(list, "running_mean"));
}

typedef struct deep_case {
    const dist_group *g;
    bool ignores;
} deep_case;

static void deep_level(void *ctx)
{
    const char *const ignored[] = { "sub_module.embedding_net.embedding.weight" };
    const deep_case *c = ctx;
    tt_module *m = deep_new();
    tt_ddp *d = ddp_new(m, c->g->pg,
                        &(tt_ddp_options){ .ignored = ignored, .n_ignored = c->ignores ? 1 : 0 });

    TT_SCOPE {
        tt_tensor *x = ddp_random(TT_SHAPE(10, 2), tt_test_seed() + (uint64_t)c->g->me);

        ddp_step(d, x);
        TT_CHECK_NULL(tt_ddp_forward(d, x));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        check_error(d, tt_last_error());
        TT_CHECK_EQ(strstr(tt_last_error(), "embedding.weight") != NULL,
                    !c->ignores && tt_get_debug_level() != TT_DEBUG_OFF);
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

static void nested_unused(const dist_group *g, const void *arg)
{
    deep_case c = { .g = g, .ignores = arg != NULL };

    dist_each_debug_level(deep_level, &c);
}

/* ---- buckets that nobody uses ------------------------------------------------------------------------ */

static tt_tensor *first_forward(tt_module *m, tt_tensor *x)
{
    return tt_mul_scalar(tt_module_run(m, "fc1", x), 1e-3);
}

static const tt_module_class first_class = { .name = "First", .forward = first_forward };

static int64_t buckets_reduced(const tt_ddp *d)
{
    tt_value *log = tt_ddp_log_value(d);
    int64_t n;

    TT_REQUIRE_NOT_NULL(log);
    n = tt_value_as_int(tt_value_map_get(log, "num_buckets_reduced"));
    tt_value_free(log);
    return n;
}

static void train_first(const dist_group *g, tt_ddp *d, int64_t n_buckets)
{
    for (int i = 0; i < 10; i++)
        TT_SCOPE {
            ddp_step(d, ddp_random(TT_SHAPE(20, 100), 31415 + (uint64_t)(i * g->n + g->me)));
            ddp_update(tt_ddp_module(d));
            TT_CHECK_EQ(buckets_reduced(d), n_buckets);
        }
}

static void skip_unused(const dist_group *g, const void *arg)
{
    tt_ddp_options opt = { .find_unused = true, .bucket_cap_mb = 1.5 };
    tt_module *a = ddp_module(tt_module_new(&first_class)), *b;
    tt_ddp *plain, *skips;

    (void)arg;
    give(a, "fc1", tt_linear_new(100, 5000, &no_bias));
    give(a, "fc2", tt_linear_new(100, 100, &no_bias));
    plain = ddp_new(a, g->pg, &opt);
    b = ddp_module(tt_module_copy(a));
    opt.skip_unused_buckets = true;
    skips = ddp_new(b, g->pg, &opt);
    train_first(g, plain, 2);
    train_first(g, skips, 1);
    ddp_check_params(a, b, true);
    TT_CHECK_NULL(tt_grad_of(tt_module_param(b, "fc2.weight")));
    tt_ddp_free(plain);
    tt_ddp_free(skips);
    tt_module_free(a);
    tt_module_free(b);
}

static const dist_row rows[] = {
    { "test_ddp_multiple_nested_unused_params_error", nested_unused, DIST_WORLD, NULL, 0 },
    { "test_ddp_multiple_nested_unused_params_err_ignore_params", nested_unused, DIST_WORLD,
      &no_bias, 0 },
    { "test_skip_all_reduce_unused_parameters", skip_unused, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}

/* ---- one rank alone misses a gradient: it says so, and nobody waits for it --------------------------- */

static void one_misses(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_branch_new(DDP_BRANCH_ONES_RANK_1);
    tt_tensor *x = tt_ones(TT_SHAPE(2, 10), TT_F32, dist_device());
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    (void)arg;
    ddp_step(d, x);
    TT_CHECK_EQ(tt_ddp_check_finished(d) == TT_OK, g->me == 1);
    ddp_check_same(g->pg, tt_grad_of(tt_module_param(m, "lin1.weight")));
    if (g->me != 1) {
        TT_CHECK_CONTAINS(tt_last_error(), ": 1");
        TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "lin2.weight")));
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

/* Of very many, some are named and the others counted. */
static void many_miss(const dist_group *g, const void *arg)
{
    tt_debug_level before = tt_get_debug_level();
    tt_module *m = ddp_module(tt_module_new(&first_class));
    char name[64];
    tt_ddp *d;

    (void)arg;
    give(m, "fc1", tt_linear_new(2, 2, &no_bias));
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "a_layer_with_a_long_name_%d", i);
        give(m, name, tt_linear_new(2, 2, &no_bias));
    }
    tt_set_debug_level(TT_DEBUG_INFO);
    d = ddp_new(m, g->pg, NULL);
    ddp_step(d, tt_ones(TT_SHAPE(1, 2), TT_F32, dist_device()));
    TT_CHECK_ERR_SAYS(tt_ddp_check_finished(d), TT_ERR_INVALID,
                      " 23 24 and 76 more, which are \"a_layer_with_a_long_name_0.weight\", ");
    TT_CHECK_CONTAINS(tt_last_error(), "_5.weight\"");
    TT_CHECK_CONTAINS(tt_last_error() + strlen(tt_last_error()) - 12, " and 8");
    TT_CHECK_STR(tt_last_error() + strlen(tt_last_error()) - 5, " more");
    tt_ddp_free(d);
    tt_module_free(m);
    dist_meet();
    tt_set_debug_level(before);
}

static const dist_row own_rows[] = {
    { "many_parameters_miss_a_gradient", many_miss, DIST_WORLD, NULL, 0 },
    { "one_rank_misses_a_gradient", one_misses, DIST_WORLD, NULL, 0 }
};

TT_TEST_TABLE(ddp_missing)
{
    DIST_ADD_ROWS_TWICE(own_rows);
}
