/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training that goes on with another group. */
#include <stdio.h>

#include "world/ddp_models.h"

/* ---- a module that can fail, and can leave its last layer out -------------------------------------- */

typedef struct three_data {
    bool fails, short_cut;
} three_data;

static tt_tensor *three_forward(tt_module *m, tt_tensor *x);

static const tt_module_class three_class = { .name = "Three",
                                             .data_size = sizeof(three_data),
                                             .forward = three_forward };

static three_data *data_of(tt_module *m)
{
    return tt_module_data(m, &three_class);
}

static tt_tensor *three_forward(tt_module *m, tt_tensor *x)
{
    x = ddp_fuse(tt_module_run(m, "fc1", x), &data_of(m)->fails);
    x = tt_module_run(m, "fc2", x);
    return data_of(m)->short_cut ? x : tt_module_run(m, "fc3", x);
}

static tt_module *three_new(int64_t width)
{
    tt_module *m = ddp_module(tt_module_new(&three_class));

    TT_REQUIRE_OK(tt_module_give_child(m, "fc1", tt_linear_new(width, width, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc2", tt_linear_new(width, width, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc3", tt_linear_new(width, width, NULL)));
    return m;
}

static void good_step(tt_ddp *d, tt_tensor *x)
{
    tt_module_zero_grad(tt_ddp_module(d));
    ddp_step(d, x);
    for (int i = 0; i < tt_ddp_n_params(d); i++)
        ddp_check_same(tt_ddp_group(d), tt_grad_of(tt_ddp_param(d, i)));
}

static void failing_step(tt_ddp *d, tt_tensor *x)
{
    data_of(tt_ddp_module(d))->fails = true;
    TT_SCOPE {
        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(tt_ddp_forward(d, x))), TT_ERR_INVALID,
                          DDP_FUSE_WORDS);
    }
    data_of(tt_ddp_module(d))->fails = false;
}

/* The input of a rank is its number plus one: the bias of the last layer does not see it, its weight does. */
static void both_steps(tt_ddp *d, int64_t width)
{
    TT_SCOPE {
        tt_tensor *x = tt_full(TT_SHAPE(1, width), tt_test_rank() + 1, TT_F32, TT_CPU);

        good_step(d, x);
        failing_step(d, x);
    }
}

static void check_group(tt_ddp *d, tt_pg *pg)
{
    tt_value *log = tt_ddp_log_value(d);

    TT_CHECK_PTR(tt_ddp_group(d), pg);
    TT_REQUIRE_NOT_NULL(log);
    TT_CHECK_EQ(tt_value_as_int(tt_value_map_get(log, "world_size")), tt_pg_size(pg));
    TT_CHECK_EQ(tt_value_as_int(tt_value_map_get(log, "rank")), tt_pg_rank(pg));
    tt_value_free(log);
}

static const tt_ddp_options search = { .find_unused = true, .bucket_cap_mb = 1 };

/* ---- groups of some ranks ---------------------------------------------------------------------------- */

static void with_group(const dist_group *g, tt_ddp *d, const int *ranks, int n, int64_t width)
{
    tt_pg *pg = n > 0 ? tt_pg_subgroup(g->pg, ranks, n, NULL) : tt_pg_retain(g->pg);

    TT_REQUIRE_NOT_NULL(pg);
    if (tt_pg_is_member(pg)) {
        TT_REQUIRE_OK(tt_ddp_set_group(d, pg));
        check_group(d, pg);
        both_steps(d, width);
    } else {
        TT_CHECK_ERR_SAYS(tt_ddp_set_group(d, pg), TT_ERR_INVALID, "no member");
    }
    tt_pg_free(pg);
    dist_meet();
}

static void new_groups(const dist_group *g, const void *arg)
{
    tt_module *m = three_new(1024);
    tt_ddp *d = ddp_new(m, g->pg, &search);

    (void)arg;
    both_steps(d, 1024);
    with_group(g, d, (const int[]){ 0, 1 }, 2, 1024);
    with_group(g, d, (const int[]){ 1, 2, 3 }, 3, 1024);
    with_group(g, d, NULL, 0, 1024);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- a new default group --------------------------------------------------------------------------- */

static void init_again(const char *name, int rank, int size)
{
    char path[512];
    tt_store *store;

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    TT_REQUIRE_OK(tt_pg_init_store(store, rank, size, &(tt_pg_options){ .timeout_ms = 30000 }));
    tt_store_free(store);
}

static void default_group(const dist_group *g, const void *arg)
{
    tt_module *m = three_new(1024);
    tt_ddp *d = ddp_new(m, g->pg, &search);

    (void)arg;
    both_steps(d, 1024);
    TT_REQUIRE_OK(tt_pg_shutdown());
    if (g->me > 0) {
        init_again("three", g->me - 1, 3);
        TT_REQUIRE_OK(tt_ddp_set_group(d, tt_pg_default()));
        check_group(d, tt_pg_default());
        both_steps(d, 1024);
        TT_REQUIRE_OK(tt_pg_shutdown());
    }
    init_again("four", g->me, 4);
    TT_REQUIRE_OK(tt_ddp_set_group(d, tt_pg_default()));
    TT_REQUIRE_OK(tt_ddp_sync_states(d, 0));
    both_steps(d, 1024);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- small ones -------------------------------------------------------------------------------------- */

static void grad_undefined(const dist_group *g, const void *arg)
{
    tt_module *m = three_new(10);
    tt_ddp *d = ddp_new(m, g->pg, &search);
    tt_tensor *x = ddp_random(TT_SHAPE(2, 10), tt_test_seed() + (uint64_t)g->me);

    (void)arg;
    failing_step(d, x);
    TT_REQUIRE_OK(tt_ddp_set_group(d, g->pg));
    tt_module_zero_grad(m);
    data_of(m)->short_cut = true;
    ddp_step(d, x);
    TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "fc3.weight")));
    ddp_check_same(g->pg, tt_grad_of(tt_module_param(m, "fc1.weight")));
    tt_ddp_free(d);
    tt_module_free(m);
}

static void no_find_unused(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_linear_new(10, 10, NULL));
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_tensor *x = ddp_random(TT_SHAPE(2, 10), tt_test_seed() + (uint64_t)g->me), *before;

    (void)arg;
    TT_CHECK_OK(tt_ddp_set_group(d, g->pg));
    for (int i = 0; i < 3; i++)
        ddp_step(d, x);
    TT_CHECK(tt_ddp_has_rebuilt(d));
    before = tt_clone(tt_grad_of(tt_ddp_param(d, 0)));
    TT_CHECK_OK(tt_ddp_set_group(d, g->pg));
    TT_CHECK(!tt_ddp_has_rebuilt(d));
    TT_CHECK(tt_equal(before, tt_grad_of(tt_ddp_param(d, 0))));
    tt_module_zero_grad(m);
    for (int i = 0; i < 3; i++)
        ddp_step(d, x);
    TT_CHECK(tt_allclose(before, tt_grad_of(tt_ddp_param(d, 0)), NULL));
    tt_ddp_free(d);
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_ddp_update_process_group_new_group", new_groups, DIST_WORLD, NULL, 4 },
    { "test_ddp_update_process_group_grad_undefined", grad_undefined, DIST_WORLD, NULL, 4 },
    { "test_ddp_update_process_group_no_find_unused", no_find_unused, DIST_WORLD, NULL, 4 },
};

/* On threads the default group is the harness's. */
static const dist_row process_rows[] = {
    { "test_ddp_update_process_group_default_group", default_group, DIST_WORLD, NULL, 4 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
    DIST_ADD_ROWS(process_rows);
}
