/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and helpers for tests of data parallel training. */
#include "world/ddp_models.h"

#include <string.h>

#include "tutti/random.h"

static const tt_linear_options no_bias = { .no_bias = true };

/* ---- modules -------------------------------------------------------------------------------- */

static tt_tensor *net_forward(tt_module *m, tt_tensor *x)
{
    x = tt_relu(tt_module_run(m, "fc1", x));
    x = tt_relu(tt_module_run(m, "fc2", x));
    return tt_softmax(tt_module_run(m, "fc3", x), 1);
}

static const tt_module_class net_class = { .name = "Net", .forward = net_forward };

tt_module *ddp_net_new(void)
{
    tt_module *m = ddp_module(tt_module_new(&net_class));

    TT_REQUIRE_OK(tt_module_give_child(m, "fc1", tt_linear_new(2, 10, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc2", tt_linear_new(10, 50, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc3", tt_linear_new(50, 4, &no_bias)));
    TT_REQUIRE_OK(tt_set_requires_grad(tt_module_param(m, "fc2.bias"), false));
    TT_SCOPE {
        TT_REQUIRE_OK(tt_module_add_param(m, "no_grad_param",
                                          tt_full(TT_SHAPE(2, 2), 7, TT_I64, dist_device())));
    }
    return ddp_module(m);
}

typedef struct branch_data {
    ddp_branch when;
} branch_data;

static tt_tensor *branch_forward(tt_module *m, tt_tensor *x);

static const tt_module_class branch_class = { .name = "Branch",
                                              .forward = branch_forward,
                                              .data_size = sizeof(branch_data) };

static tt_tensor *branch_forward(tt_module *m, tt_tensor *x)
{
    const branch_data *data = tt_module_data(m, &branch_class);
    bool ones = tt_equal(x, tt_ones(tt_tensor_shape(x), TT_F32, dist_device()));

    x = tt_relu(tt_module_run(m, "lin1", x));
    if (ones && (data->when == DDP_BRANCH_ONES ||
                 (data->when == DDP_BRANCH_ONES_RANK_1 && tt_test_rank() == 1)))
        x = tt_module_run(m, "lin2", x);
    return x;
}

tt_module *ddp_branch_new(ddp_branch when)
{
    tt_module *m = ddp_module(tt_module_new(&branch_class));

    ((branch_data *)tt_module_data(m, &branch_class))->when = when;
    TT_REQUIRE_OK(tt_module_give_child(m, "lin1", tt_linear_new(10, 10, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "lin2", tt_linear_new(10, 10, &no_bias)));
    return ddp_module(m);
}

/* ---- failures ------------------------------------------------------------------------------- */

static tt_status fuse_forward(tt_function_ctx *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                              int n_out)
{
    (void)ctx, (void)n_in, (void)n_out;
    out[0] = tt_clone(in[0]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status fuse_backward(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                               tt_tensor **grad_in, int n_in)
{
    (void)n_out, (void)n_in;
    if (*(const bool *)tt_function_user(ctx))
        return tt_fail(TT_ERR_INVALID, DDP_FUSE_WORDS);
    grad_in[0] = grad_out[0];
    return TT_OK;
}

static const tt_function fuse = { .name = "fuse",
                                  .forward = fuse_forward,
                                  .backward = fuse_backward };

tt_tensor *ddp_fuse(tt_tensor *x, bool *blown)
{
    tt_tensor *out = NULL;

    return tt_function_apply(&fuse, blown, &x, 1, &out, 1) == TT_OK ? out : NULL;
}

/* ---- helpers -------------------------------------------------------------------------------- */

tt_tensor *ddp_random(tt_shape shape, uint64_t seed)
{
    tt_generator *gen = tt_generator_new(seed);
    tt_tensor *t = tt_normal_(tt_empty(shape, TT_F32, dist_device()), 0, 1, gen);

    tt_generator_free(gen);
    TT_REQUIRE_NOT_NULL(t);
    return t;
}

tt_module *ddp_module(tt_module *m)
{
    if (m == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(m);
    TT_REQUIRE_OK(tt_module_to_device(m, dist_device()));
    return m;
}

tt_ddp *ddp_new(tt_module *m, tt_pg *pg, const tt_ddp_options *opt)
{
    tt_ddp *d;

    TT_REQUIRE_OK(tt_module_to_device(m, dist_device()));
    d = tt_ddp_new(m, pg, opt);
    if (d == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(d);
    return d;
}

void ddp_step(tt_ddp *d, tt_tensor *x)
{
    TT_SCOPE {
        tt_tensor *y = tt_ddp_forward(d, x);

        if (y == NULL)
            TT_FAIL_TEST("%s", tt_last_error());
        TT_REQUIRE_NOT_NULL(y);
        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
    }
}

static void check_close(const char *name, tt_tensor *a, tt_tensor *b, bool exact)
{
    tt_close_report report = { 0 };

    if (a == NULL && b == NULL)
        return;
    if (a == NULL || b == NULL)
        TT_FAIL_TEST("%s: one of them is missing", name);
    else if (!tt_compare(a, b, &(tt_close_options){ .exact = exact }, &report))
        TT_FAIL_TEST("%s: %s", name, report.text);
}

static void check_lists(const tt_module *a, const tt_module *b, bool grads, bool exact)
{
    tt_state_dict *as = tt_module_params(a, NULL), *bs = tt_module_params(b, NULL);

    TT_REQUIRE_EQ(tt_state_dict_count(as), tt_state_dict_count(bs));
    for (int i = 0; i < tt_state_dict_count(as); i++) {
        tt_tensor *x = tt_state_dict_tensor(as, i), *y = tt_state_dict_tensor(bs, i);

        check_close(tt_state_dict_name(as, i), grads ? tt_grad_of(x) : x, grads ? tt_grad_of(y) : y,
                    exact);
    }
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
}

void ddp_check_params(const tt_module *a, const tt_module *b, bool exact)
{
    check_lists(a, b, false, exact);
}

void ddp_check_grads(const tt_module *a, const tt_module *b)
{
    check_lists(a, b, true, false);
}

void ddp_check_same(tt_pg *pg, tt_tensor *t)
{
    TT_SCOPE {
        tt_tensor *first;

        TT_REQUIRE_NOT_NULL(t);
        first = tt_clone(tt_detach(t));
        TT_REQUIRE_OK(tt_pg_broadcast(pg, first, 0, NULL, NULL));
        TT_CHECK(tt_equal(first, tt_detach(t)));
    }
}

void ddp_update(tt_module *m)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    TT_SCOPE
        TT_NO_GRAD for (int i = 0; i < tt_state_dict_count(ps); i++)
        {
            tt_tensor *p = tt_state_dict_tensor(ps, i);

            if (tt_grad_of(p) == NULL)
                continue;
            TT_REQUIRE_NOT_NULL(tt_add_(p, tt_grad_of(p)));
            TT_REQUIRE_NOT_NULL(tt_zero_(tt_grad_of(p)));
        }
    tt_state_dict_free(ps);
}

tt_optim *ddp_sgd(const tt_ddp *d)
{
    tt_tensor *params[8];
    tt_optim *o;

    TT_REQUIRE_LE(tt_ddp_n_params(d), 8);
    for (int i = 0; i < tt_ddp_n_params(d); i++)
        params[i] = tt_ddp_param(d, i);
    o = tt_sgd_new(params, tt_ddp_n_params(d), &(tt_sgd_options){ .lr = 0.03 });
    TT_REQUIRE_NOT_NULL(o);
    return o;
}
