/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tt_ddp and its hooks share: a small model, its steps, and comparing. */
#include "unit/ddp/tools.h"

#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"

tt_module *tool_mlp(uint64_t seed)
{
    tt_module *m = TT_MLP(TT_ACT_RELU, 6, 40, 40, 3);
    tt_generator *gen = tt_generator_new(seed);
    tt_state_dict *ps;

    TT_REQUIRE_NOT_NULL(m);
    ps = tt_module_params(m, NULL);
    for (int i = 0; i < tt_state_dict_count(ps); i++)
        tt_init_uniform(tt_state_dict_tensor(ps, i), -0.3, 0.3, gen);
    tt_state_dict_free(ps);
    tt_generator_free(gen);
    return m;
}

tt_tensor *tool_numbers(tt_shape shape, uint64_t seed)
{
    tt_generator *gen = tt_generator_new(seed);
    tt_tensor *t = tt_normal_(tt_empty(shape, TT_F32, TT_CPU), 0, 1, gen);

    tt_generator_free(gen);
    TT_REQUIRE_NOT_NULL(t);
    return t;
}

tt_ddp *tool_wrap(tt_module *m, const tt_ddp_options *opt)
{
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), opt);

    if (d == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(d);
    return d;
}

static void drop_grads(const tt_module *m)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++)
        TT_REQUIRE_OK(tt_set_grad(tt_state_dict_tensor(ps, i), NULL));
    tt_state_dict_free(ps);
}

static void step(tt_module *m, tt_ddp *d, uint64_t seed)
{
    int n = tt_test_size(), me = tt_test_rank();

    drop_grads(m);
    TT_SCOPE {
        tt_tensor *x = tool_numbers(TT_SHAPE(4 * n, 6), seed);
        tt_tensor *y = tool_numbers(TT_SHAPE(4 * n, 3), seed + 1000);
        tt_tensor *out;

        if (d != NULL) {
            y = tt_narrow(y, 0, 4 * me, 4);
            out = tt_ddp_forward(d, tt_narrow(x, 0, 4 * me, 4));
        } else {
            out = tt_module_forward(m, x);
        }
        if (out == NULL || tt_backward(tt_mse_loss(out, y)) != TT_OK)
            TT_FAIL_TEST("%s", tt_last_error());
    }
}

void hook_step(tt_ddp *d, uint64_t seed)
{
    step(tt_ddp_module(d), d, seed);
}

void hook_step_alone(tt_module *m, uint64_t seed)
{
    step(m, NULL, seed);
}

double hook_loss(tt_module *m, uint64_t seed)
{
    int n = tt_test_size();
    double loss = 0;

    TT_SCOPE
        TT_NO_GRAD
        {
            tt_tensor *x = tool_numbers(TT_SHAPE(4 * n, 6), seed);
            tt_tensor *y = tool_numbers(TT_SHAPE(4 * n, 3), seed + 1000);

            loss = tt_item(tt_mse_loss(tt_module_forward(m, x), y));
        }
    return loss;
}

static void check(const tt_module *a, const tt_module *b, bool exact, bool grads)
{
    tt_state_dict *as = tt_module_params(a, NULL), *bs = tt_module_params(b, NULL);
    tt_close_options close = { .rtol = exact ? 0 : 1e-5, .atol = exact ? 0 : 1e-5 };

    for (int i = 0; i < tt_state_dict_count(as); i++) {
        tt_tensor *x = tt_state_dict_tensor(as, i), *y = tt_state_dict_tensor(bs, i);
        tt_close_report r = { 0 };

        if (grads) {
            x = tt_grad_of(x);
            y = tt_grad_of(y);
        }
        TT_REQUIRE_NOT_NULL(x);
        TT_REQUIRE_NOT_NULL(y);
        if (exact ? !tt_equal(x, y) : !tt_compare(x, y, &close, &r))
            TT_FAIL_TEST("%s: %s", tt_state_dict_name(as, i), exact ? "other bits" : r.text);
    }
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
}

void hook_check_grads(const tt_module *a, const tt_module *b, bool exact)
{
    check(a, b, exact, true);
}

void hook_check_params(const tt_module *a, const tt_module *b, bool exact)
{
    check(a, b, exact, false);
}

tt_future *hook_mean(const tt_ddp_bucket *b)
{
    tt_work *w;
    tt_future *f;

    if (tt_pg_all_reduce(b->pg, b->flat, &(tt_coll_options){ .op = TT_REDUCE_AVG }, &w) != TT_OK)
        return NULL;
    f = tt_work_future(w);
    tt_work_free(w);
    return f;
}
