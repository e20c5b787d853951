/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training in float16: forward, buffers and the reduction; parameters and gradients stay
 * float32. */
#include "world/ddp_models.h"

static const tt_ddp_precision half = { .params = TT_F16, .reduce = TT_F16, .buffers = TT_F16 };

/* ---- a module that looks at its types ---------------------------------------------------------------- */

static tt_tensor *looking_forward(tt_module *m, tt_tensor *x)
{
    TT_CHECK_EQ(tt_tensor_dtype(x), TT_F16);
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_param(m, "m.weight")), TT_F16);
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_param(m, "m.bias")), TT_F16);
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_param(m, "p")), TT_F16);
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_buffer(m, "buffer")), TT_F16);
    return tt_add(tt_module_run(m, "m", x), tt_module_param(m, "p"));
}

static const tt_module_class looking_class = { .name = "Looking", .forward = looking_forward };

static tt_module *looking_new(void)
{
    tt_module *m = ddp_module(tt_module_new(&looking_class));

    TT_REQUIRE_OK(tt_module_give_child(m, "m", tt_linear_new(1, 5, NULL)));
    TT_REQUIRE_OK(tt_module_add_param(m, "p", ddp_random(TT_SHAPE(10, 5), 3)));
    TT_REQUIRE_OK(tt_set_requires_grad(tt_module_param(m, "p"), false));
    TT_REQUIRE_OK(
        tt_module_add_buffer(m, "buffer", tt_ones(TT_SHAPE(1, 2), TT_F32, dist_device())));
    return m;
}

static void check_twins(tt_ddp *d, const char *name)
{
    tt_tensor *low = tt_ddp_low_precision(d, name), *full = tt_ddp_full_precision(d, name);

    TT_REQUIRE_NOT_NULL(low);
    TT_REQUIRE_NOT_NULL(full);
    TT_CHECK_EQ(tt_tensor_dtype(low), TT_F16);
    TT_CHECK_EQ(tt_tensor_dtype(full), TT_F32);
    TT_CHECK_PTR(full, tt_module_param(tt_ddp_module(d), name));
}

static void check_params(const dist_group *g, tt_ddp *d)
{
    static const char *const names[] = { "m.weight", "m.bias", "p" };

    for (int i = 0; i < 3; i++) {
        tt_tensor *t = tt_module_param(tt_ddp_module(d), names[i]), *grad = tt_grad_of(t);

        check_twins(d, names[i]);
        TT_CHECK_EQ(tt_tensor_dtype(t), TT_F32);
        if (i == 2) {
            TT_CHECK_NULL(grad);
            continue;
        }
        TT_REQUIRE_NOT_NULL(grad);
        TT_CHECK_EQ(tt_tensor_dtype(grad), TT_F32);
        ddp_check_same(g->pg, grad);
    }
}

/* The gradient of the bias of a sum is known: ten rows each on every rank. */
static void check_values(const dist_group *g, tt_ddp *d, tt_tensor *x)
{
    tt_tensor *sum = tt_to_dtype(tt_to_dtype(tt_sum(x), TT_F16), TT_F32), *w;

    DIST_CHECK_FULL(tt_grad_of(tt_module_param(tt_ddp_module(d), "m.bias")), TT_SHAPE(5), 10, 0);
    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, sum, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
    w = tt_grad_of(tt_module_param(tt_ddp_module(d), "m.weight"));
    TT_CHECK_NEAR(tt_item(tt_select(w, 0, 0)), tt_item(sum), 0.02);
}

typedef struct half_case {
    bool copies, drop;
} half_case;

static void train_half(const dist_group *g, const half_case *c)
{
    tt_module *m = looking_new();
    tt_ddp *d =
        ddp_new(m, g->pg, &(tt_ddp_options){ .precision = half, .copy_gradients = c->copies });

    TT_CHECK_EQ(tt_tensor_dtype(tt_module_buffer(m, "buffer")), TT_F16);
    for (int i = 0; i < 6; i++)
        TT_SCOPE {
            tt_tensor *x =
                ddp_random(TT_SHAPE(10, 1), tt_test_seed() + (uint64_t)(i * g->n + g->me));

            ddp_step(d, x);
            check_params(g, d);
            check_values(g, d, x);
            if (c->drop)
                tt_module_zero_grad(m);
            else
                TT_REQUIRE_OK(tt_module_zero_grad_keep(m));
        }
    tt_ddp_free(d);
    tt_module_free(m);
}

static void native(const dist_group *g, const void *arg)
{
    train_half(g, arg);
}

/* The name says copies, the source of the behaviour has views: both. */
static void native_both(const dist_group *g, const void *arg)
{
    const half_case *c = arg;

    train_half(g, c);
    train_half(g, &(half_case){ .copies = !c->copies, .drop = c->drop });
}

static const half_case copies_kept = { true, false }, copies_dropped = { true, true };
static const half_case views_kept = { false, false }, views_dropped = { false, true };

/* ---- ignored ones -------------------------------------------------------------------------------------- */

static void ignored_params(const dist_group *g, const void *arg)
{
    static const tt_linear_options no_bias = { .no_bias = true };
    const char *const ignored[] = { "a.weight", "buffer" };
    tt_module *m = ddp_module(tt_sequential_new());
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(10, 1, &no_bias)));
    TT_REQUIRE_OK(tt_module_add_buffer(m, "buffer", tt_ones(TT_SHAPE(5), TT_F32, dist_device())));
    d = ddp_new(m, g->pg,
                &(tt_ddp_options){ .precision = half, .ignored = ignored, .n_ignored = 2 });
    for (int i = 0; i < 2; i++) {
        TT_CHECK_NULL(tt_ddp_low_precision(d, ignored[i]));
        TT_CHECK_NULL(tt_ddp_full_precision(d, ignored[i]));
    }
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_buffer(m, "buffer")), TT_F32);
    check_twins(d, "b.weight");
    tt_ddp_free(d);
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_ddp_native_mixed_precision_ignored_params", ignored_params, DIST_WORLD, NULL, 0 },
    { "test_ddp_native_mixed_precision_no_grad_as_bucket_view_no_set_grad_none", native, DIST_WORLD,
      &copies_kept, 0 },
    { "test_ddp_native_mixed_precision_grad_as_bucket_view_no_set_grad_none", native, DIST_WORLD,
      &views_kept, 0 },
    { "test_ddp_native_mixed_precision_grad_as_bucket_view_set_grad_to_none", native, DIST_WORLD,
      &views_dropped, 0 },
    { "test_ddp_native_mixed_precision_no_grad_as_bucket_view_set_grad_to_none", native_both,
      DIST_WORLD, &copies_dropped, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
