/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers inside of backward: the same parameters as with a step after it. */
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/optim.h"
#include "tutti/random.h"
#include "world/ddp_models.h"

static tt_module *three(int64_t width)
{
    return ddp_module(TT_SEQUENTIAL(tt_linear_new(3, width, NULL),
                                    tt_linear_new(width, width, NULL),
                                    tt_linear_new(width, 3, NULL)));
}

static tt_optim *new_optim(const char *kind, const tt_module *m, double lr)
{
    return strcmp(kind, "sgd") == 0 ? tt_sgd_for(m, &(tt_sgd_options){ .lr = lr })
                                    : tt_adam_for(m, &(tt_adam_options){ .lr = lr });
}

/* ---- at the parameters ------------------------------------------------------------------------------ */

typedef struct set_up {
    const char *kind;
    bool before; /* attached before the module is wrapped */
    bool copies;
    int64_t width;
} set_up;

static void check_released(const tt_module *m)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++)
        TT_CHECK_NULL(tt_grad_of(tt_state_dict_tensor(ps, i)));
    tt_state_dict_free(ps);
}

static void compare(const dist_group *g, set_up how)
{
    tt_ddp_options opt = { .copy_gradients = how.copies };
    tt_module *plain = three(how.width), *m = ddp_module(tt_module_copy(plain));
    tt_optim *a = new_optim(how.kind, plain, 0.03), *b = new_optim(how.kind, m, 0.03);
    tt_in_backward *early = how.before ? tt_in_backward_new(b, NULL) : NULL;
    tt_ddp *da = ddp_new(plain, g->pg, &opt), *db = ddp_new(m, g->pg, &opt);
    tt_in_backward *late = how.before ? NULL : tt_in_backward_new(b, NULL);

    TT_REQUIRE(early != NULL || late != NULL);
    for (int i = 0; i < 8; i++)
        TT_SCOPE {
            tt_tensor *x =
                ddp_random(TT_SHAPE(10, 3), tt_test_seed() + (uint64_t)(100 * i + g->me));

            TT_REQUIRE_OK(tt_optim_zero_grad(a, false));
            ddp_step(da, x);
            TT_REQUIRE_OK(tt_optim_step(a));
            ddp_step(db, x);
            ddp_check_params(plain, m, true);
            check_released(m);
        }
    tt_in_backward_free(early);
    tt_in_backward_free(late);
    tt_optim_free(a);
    tt_optim_free(b);
    tt_ddp_free(da);
    tt_ddp_free(db);
    tt_module_free(plain);
    tt_module_free(m);
}

static void in_backward(const dist_group *g, const void *arg)
{
    bool copies = arg != NULL;

    tt_set_deterministic(true);
    tt_seed(tt_test_seed() + (uint64_t)g->me);
    for (int adam = 0; adam < (copies ? 1 : 2); adam++)
        for (int before = 0; before < 2; before++)
            for (int64_t width = 3; width <= 1024; width += 1021)
                compare(g, (set_up){ adam ? "adam" : "sgd", before == 1, copies, width });
    tt_set_deterministic(false);
}

static const int copies_too = 1;

/* ---- parameters that nobody reduces -------------------------------------------------------------------- */

static tt_tensor *product_forward(tt_module *m, tt_tensor *x)
{
    return tt_matmul(tt_t(tt_module_forward(tt_module_child(m, "a"), x)),
                     tt_module_forward(tt_module_child(m, "b"), x));
}

static const tt_module_class product_class = { .name = "Product", .forward = product_forward };

static void check_ignored(const dist_group *g, tt_module *m)
{
    tt_tensor *w = tt_module_param(m, "a.weight"), *first = tt_clone(tt_detach(w));

    ddp_check_same(g->pg, tt_module_param(m, "b.weight"));
    TT_REQUIRE_OK(tt_pg_broadcast(g->pg, first, 0, NULL, NULL));
    TT_CHECK_EQ(tt_equal(first, tt_detach(w)), g->me == 0);
}

static void ignored(const dist_group *g, const void *arg)
{
    static const char *const names[] = { "a.weight" };
    tt_linear_options no_bias = { .no_bias = true };

    (void)arg;
    for (int before = 0; before < 2; before++) {
        tt_module *m = ddp_module(tt_module_new(&product_class));
        tt_in_backward *in = NULL;
        tt_optim *o;
        tt_ddp *d;

        tt_seed(tt_test_seed()); /* the same on all ranks, to begin with */
        TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, &no_bias)));
        TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(10, 1, &no_bias)));
        o = new_optim("sgd", m, 0.03);
        if (before == 1)
            in = tt_in_backward_new(o, NULL);
        d = ddp_new(m, g->pg, &(tt_ddp_options){ .ignored = names, .n_ignored = 1 });
        if (before == 0)
            in = tt_in_backward_new(o, NULL);
        ddp_step(d, ddp_random(TT_SHAPE(1, 10), tt_test_seed() + 7 + (uint64_t)g->me));
        check_ignored(g, m);
        tt_in_backward_free(in);
        tt_optim_free(o);
        tt_ddp_free(d);
        tt_module_free(m);
    }
}

/* ---- behind a hook ----------------------------------------------------------------------------------------- */

typedef struct fused_case {
    const char *kind;
    bool copies, static_graph, subset;
} fused_case;

static tt_optim *fused_optim(const char *kind, tt_module *m, bool subset)
{
    tt_adam_options adam = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6 };
    tt_sgd_options sgd = { .lr = 0.01, .momentum = 0.9, .weight_decay = 0.01 };
    tt_tensor *first = tt_module_param(m, "0.weight");

    if (strcmp(kind, "sgd") == 0)
        return subset ? tt_sgd_new(&first, 1, &sgd) : tt_sgd_for(m, &sgd);
    if (strcmp(kind, "adam") == 0)
        return subset ? tt_adam_new(&first, 1, &adam) : tt_adam_for(m, &adam);
    return subset ? tt_adamw_new(&first, 1, &adam) : tt_adamw_for(m, &adam);
}

static void check_moved(const tt_module *before, const tt_module *after, bool subset)
{
    tt_state_dict *as = tt_module_params(before, NULL), *bs = tt_module_params(after, NULL);

    for (int i = 0; i < tt_state_dict_count(as); i++)
        TT_CHECK_EQ(tt_equal(tt_state_dict_tensor(as, i), tt_state_dict_tensor(bs, i)),
                    subset && i > 0);
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
}

static void compare_fused(const dist_group *g, fused_case c)
{
    tt_ddp_options opt = { .copy_gradients = c.copies, .static_graph = c.static_graph };
    tt_module *plain =
        ddp_module(TT_SEQUENTIAL(tt_linear_new(1000, 2000, NULL), tt_linear_new(2000, 500, NULL)));
    tt_ddp *da = ddp_new(plain, g->pg, &opt), *db;
    tt_module *m = ddp_module(tt_module_copy(plain)), *start = ddp_module(tt_module_copy(plain));
    tt_optim *a = fused_optim(c.kind, plain, c.subset), *b = fused_optim(c.kind, m, c.subset);
    tt_ddp_hook hook;

    db = ddp_new(m, g->pg, &opt);
    TT_REQUIRE_OK(tt_ddp_hook_named("allreduce_hook", NULL, &hook));
    TT_REQUIRE_OK(tt_ddp_hook_with_optimizer(&hook, b, &hook));
    TT_REQUIRE_OK(tt_ddp_register_hook(db, &hook));
    for (int i = 0; i < 6; i++)
        TT_SCOPE {
            tt_tensor *x =
                ddp_random(TT_SHAPE(1, 1000), tt_test_seed() + (uint64_t)(9 * i + g->me));

            tt_module_zero_grad(plain);
            tt_module_zero_grad(m);
            ddp_step(da, x);
            TT_REQUIRE_OK(tt_optim_step(a));
            ddp_step(db, x);
        }
    ddp_check_params(plain, m, true);
    check_moved(start, m, c.subset);
    tt_ddp_free(da);
    tt_ddp_free(db);
    tt_optim_free(a);
    tt_optim_free(b);
    tt_module_free(plain);
    tt_module_free(m);
    tt_module_free(start);
}

static void fused(const dist_group *g, const void *arg)
{
    bool all = strcmp(arg, "adamw") == 0;

    tt_seed(tt_test_seed() + (uint64_t)g->me);
    for (int subset = 0; subset < 2; subset++)
        for (int copies = 0; copies < (all ? 2 : 1); copies++)
            for (int fixed = 0; fixed < (all ? 2 : 1); fixed++)
                compare_fused(g, (fused_case){ arg, copies == 1, fixed == 1, subset == 1 });
}

static const dist_row rows[] = {
    { "test_ddp_apply_optim_in_backward", in_backward, DIST_WORLD, NULL, 2 },
    { "test_ddp_apply_optim_in_backward_grad_as_bucket_view_false", in_backward, DIST_WORLD,
      &copies_too, 2 },
    { "test_ddp_apply_optim_in_backward_ignored_params", ignored, DIST_WORLD, NULL, 0 },
    { "test_ddp_hook_with_optimizer_parity_adam", fused, DIST_WORLD, "adam", 2 },
    { "test_ddp_hook_with_optimizer_parity_adamw", fused, DIST_WORLD, "adamw", 2 },
    { "test_ddp_hook_with_optimizer_parity_sgd", fused, DIST_WORLD, "sgd", 2 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
