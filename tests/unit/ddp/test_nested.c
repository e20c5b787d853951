/* SPDX-License-Identifier: Apache-2.0 */
/* tt_ddp as a module: several in one graph, one inside another, checkpoints inside. */
#include "tutti/ddp.h"
#include "tutti/layers.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static tt_tensor *ranked(tt_shape shape)
{
    return tool_numbers(shape, tt_test_seed() + (uint64_t)tt_test_rank());
}

static void step(tt_module *m, tt_tensor *x)
{
    tt_tensor *y = tt_module_forward(m, x);

    if (y == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, y))));
}

/* The gradients of `local`, a copy that ran alone with the same input, averaged over ranks, are those of m
 * where `reduced`, and those of this rank elsewhere. */
static void check_grads(tt_module *local, tt_module *m, bool (*reduced)(const char *name))
{
    tt_state_dict *ps = tt_module_params(local, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++) {
        const char *name = tt_state_dict_name(ps, i);
        tt_tensor *want = tt_clone(tt_grad_of(tt_state_dict_tensor(ps, i)));
        tt_close_report r = { 0 };

        TT_REQUIRE_OK(
            tt_pg_all_reduce(tt_test_pg(), want, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
        if (!reduced(name))
            want = tt_grad_of(tt_state_dict_tensor(ps, i));
        if (!tt_compare(tt_grad_of(tt_module_param(m, name)), want,
                        &(tt_close_options){ .rtol = 1e-5, .atol = 1e-5 }, &r))
            TT_FAIL_TEST("%s: %s", name, r.text);
    }
    tt_state_dict_free(ps);
}

static bool all(const char *name)
{
    (void)name;
    return true;
}

static bool not_the_second(const char *name)
{
    return name[0] != '1';
}

static void train_as_alone(tt_module *m, bool (*reduced)(const char *name))
{
    tt_module *local = tt_module_copy(m);

    TT_REQUIRE_NOT_NULL(local);
    for (int i = 0; i < 4; i++)
        TT_SCOPE {
            tt_tensor *x = ranked(TT_SHAPE(3, 6));

            tt_module_zero_grad(local);
            if (i % 2 == 0)
                tt_module_zero_grad(m);
            else
                TT_REQUIRE_OK(tt_module_zero_grad_keep(m));
            step(m, x);
            step(local, x);
            check_grads(local, m, reduced);
        }
    tt_module_free(local);
}

/* ---- several in one graph ------------------------------------------------------------------------------ */

TT_TEST_THREADS(3, ddp_nested, several_in_one_graph)
{
    tt_module *first = tt_linear_new(6, 6, NULL), *last = tt_linear_new(6, 6, NULL);
    tt_ddp *a = tool_wrap(first, NULL),
           *b = tool_wrap(last, &(tt_ddp_options){ .bucket_cap_mb = 1e-5 });
    tt_module *net = tt_sequential_new();

    TT_REQUIRE_OK(tt_module_add_child(net, "0", tt_ddp_as_module(a)));
    TT_REQUIRE_OK(tt_module_give_child(net, "1", tt_linear_new(6, 6, NULL)));
    TT_REQUIRE_OK(tt_module_add_child(net, "2", tt_ddp_as_module(b)));
    TT_CHECK(tt_module_has(net, "2.module.weight"));
    train_as_alone(net, not_the_second);
    tt_ddp_free(a);
    tt_ddp_free(b);
    TT_SCOPE {
        TT_CHECK_NULL(tt_module_forward(net, ranked(TT_SHAPE(3, 6))));
        TT_CHECK_CONTAINS(tt_last_error(), "has been freed");
    }
    tt_module_free(net);
    tt_module_free(first);
    tt_module_free(last);
}

/* ---- one inside another ---------------------------------------------------------------------------------- */

TT_TEST_THREADS(3, ddp_nested, the_outer_one_reduces_for_the_inner_one)
{
    tt_module *inside = tt_linear_new(6, 6, NULL), *net = tt_sequential_new();
    tt_ddp *inner = tool_wrap(inside, &(tt_ddp_options){ .find_unused = true }), *outer;

    TT_REQUIRE_OK(tt_module_give_child(net, "0", tt_linear_new(6, 6, NULL)));
    TT_REQUIRE_OK(tt_module_add_child(net, "1", tt_ddp_as_module(inner)));
    outer = tool_wrap(net, NULL);
    train_as_alone(tt_ddp_as_module(outer), all);
    TT_DDP_NO_SYNC(outer)
    {
        tt_module_zero_grad(net);
        step(tt_ddp_as_module(outer), ranked(TT_SHAPE(3, 6))); /* nobody reduces */
    }
    TT_CHECK(!tt_equal(tt_grad_of(tt_module_param(inside, "weight")),
                       tt_zeros(TT_SHAPE(6, 6), TT_F32, TT_CPU)));
    tt_ddp_remove_hooks(outer);
    tt_module_zero_grad(net);
    train_as_alone(tt_ddp_as_module(inner), all); /* now alone */
    tt_ddp_free(outer);
    tt_ddp_free(inner);
    tt_module_free(net);
    tt_module_free(inside);
}

TT_TEST_THREADS(2, ddp_nested, shares_all_parameters_or_none)
{
    const char *const ignored[] = { "module.bias" };
    tt_module *m = tt_linear_new(6, 6, NULL);
    tt_ddp *inner = tool_wrap(m, NULL);
    tt_ddp *outer =
        tool_wrap(tt_ddp_as_module(inner), &(tt_ddp_options){ .ignored = ignored, .n_ignored = 1 });

    TT_CHECK_NULL(tt_ddp_forward(outer, ranked(TT_SHAPE(3, 6))));
    TT_CHECK_CONTAINS(tt_last_error(), "1 of the 2 parameters");
    tt_ddp_free(outer);
    train_as_alone(tt_ddp_as_module(inner), all);
    tt_ddp_free(inner);
    tt_module_free(m);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------- */

static tt_status run_inner(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)n_in, (void)n_out;
    out[0] = tt_relu(tt_module_run(ctx, "inner", in[0]));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_tensor *checkpointed_forward(tt_module *m, tt_tensor *x);

static const tt_module_class checkpointed_class = { .name = "Checkpointed",
                                                    .data_size = sizeof(tt_checkpoint_options),
                                                    .forward = checkpointed_forward };

static tt_tensor *checkpointed_forward(tt_module *m, tt_tensor *x)
{
    const tt_checkpoint_options *opt = tt_module_data(m, &checkpointed_class);
    tt_tensor *h = tt_module_run(m, "first", x), *y = NULL;

    if (tt_checkpoint(run_inner, m, &h, 1, &y, 1, opt) != TT_OK)
        return NULL;
    return tt_module_run(m, "last", y);
}

static void checkpointed(const tt_ddp_options *opt, bool reentrant)
{
    tt_module *m = tt_module_new(&checkpointed_class);
    tt_ddp *d;

    ((tt_checkpoint_options *)tt_module_data(m, &checkpointed_class))->reentrant = reentrant;
    TT_REQUIRE_OK(tt_module_give_child(m, "first", tt_linear_new(6, 6, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "inner", tt_linear_new(6, 6, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "last", tt_linear_new(6, 6, NULL)));
    d = tool_wrap(m, opt);
    train_as_alone(tt_ddp_as_module(d), all);
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_nested, checkpoints_inside)
{
    for (int k = 0; k < 2; k++) {
        checkpointed(NULL, k == 1);
        checkpointed(&(tt_ddp_options){ .static_graph = true }, k == 1);
        checkpointed(&(tt_ddp_options){ .bucket_cap_mb = 1e-5, .copy_gradients = true }, k == 1);
    }
    checkpointed(&(tt_ddp_options){ .find_unused = true, .bucket_cap_mb = 1e-5 }, false);
}
