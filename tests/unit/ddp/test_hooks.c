/* SPDX-License-Identifier: Apache-2.0 */
/* Communication hooks on ranks that are threads: what they see, what becomes of what they give, and how their
 * failures look. */
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

/* ---- what hooks see ---------------------------------------------------------------------------- */

typedef struct seen {
    int n_calls, n_done, n_freed, n_params;
    int64_t iteration;
    bool was_last;
} seen;

static tt_future *look(void *ctx, const tt_ddp_bucket *b)
{
    seen *s = ctx;

    s->n_calls++;
    s->was_last = b->is_last;
    s->iteration = b->iteration;
    s->n_params += b->n;
    for (int i = 0; i < b->n; i++) {
        int at = 0;

        while (at < tt_ddp_n_params(b->ddp) && tt_ddp_param(b->ddp, at) != b->params[i])
            at++;
        TT_CHECK_STR(b->names[i], tt_ddp_param_name(b->ddp, at));
        TT_CHECK(tt_shape_equal(tt_tensor_shape(b->grads[i]), tt_tensor_shape(b->params[i])));
    }
    return hook_mean(b);
}

static tt_status count_done(void *ctx, const tt_ddp_bucket *b)
{
    seen *s = ctx;

    for (int i = 0; i < b->n; i++)
        TT_CHECK(tt_equal(b->grads[i], tt_grad_of(b->params[i])));
    s->n_done++;
    return TT_OK;
}

static void count_free(void *ctx)
{
    ((seen *)ctx)->n_freed++;
}

static void train_seen(const tt_ddp_options *opt)
{
    tt_module *m = tool_mlp(tt_test_seed());
    tt_ddp *d = tool_wrap(m, opt);
    seen s = { 0 };

    TT_REQUIRE_OK(tt_ddp_register_hook(
        d,
        &(tt_ddp_hook){
            .name = "look", .fn = look, .done = count_done, .ctx = &s, .free_ctx = count_free }));
    TT_CHECK_STR(tt_ddp_hook_name(d), "look");
    for (int i = 0; i < 3; i++) {
        s.n_calls = s.n_done = s.n_params = 0;
        hook_step(d, tt_test_seed() + (uint64_t)i);
        TT_CHECK_EQ(s.n_calls, tt_ddp_n_buckets(d));
        TT_CHECK_EQ(s.n_done, tt_ddp_n_buckets(d));
        TT_CHECK_EQ(s.n_params, tt_ddp_n_params(d));
        TT_CHECK_EQ(s.iteration, i);
        TT_CHECK(s.was_last);
    }
    TT_CHECK_EQ(s.n_freed, 0);
    tt_ddp_free(d);
    TT_CHECK_EQ(s.n_freed, 1);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_hooks, a_hook_sees_every_bucket_and_its_parameters)
{
    train_seen(NULL);
    train_seen(&(tt_ddp_options){ .bucket_cap_mb = 0.001 });
    train_seen(&(tt_ddp_options){ .bucket_cap_mb = 0.001, .copy_gradients = true });
}

TT_TEST_THREADS(2, ddp_hooks, one_hook_at_most)
{
    tt_module *m = tool_mlp(1);
    tt_ddp *d = tool_wrap(m, NULL);
    seen s = { 0 };
    tt_ddp_hook hook = { .fn = look, .ctx = &s, .free_ctx = count_free };

    TT_CHECK_NULL(tt_ddp_hook_name(d));
    TT_CHECK_EQ(tt_ddp_register_hook(d, &(tt_ddp_hook){ .name = "none" }), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_ddp_register_hook(d, NULL), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_ddp_register_hook(NULL, &hook), TT_ERR_INVALID);
    TT_CHECK_EQ(s.n_freed, 1);
    TT_REQUIRE_OK(tt_ddp_register_hook(d, &hook));
    TT_CHECK_STR(tt_ddp_hook_name(d), "user");
    TT_CHECK_EQ(tt_ddp_register_hook(d, &hook), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), "\"user\" is registered already");
    TT_CHECK_EQ(s.n_freed, 2);
    tt_ddp_free(d);
    TT_CHECK_EQ(s.n_freed, 3);
    tt_module_free(m);
}

/* ---- what they give ----------------------------------------------------------------------------- */

typedef enum gift { NOTHING, NUMBER, TOO_SMALL, FAILURE, LATE_FAILURE, HALVES } gift;

static tt_tensor *result_of(gift g, const tt_ddp_bucket *b)
{
    if (g == HALVES)
        return tt_full(TT_SHAPE(tt_tensor_numel(b->flat)), 0.5, TT_F64, TT_CPU);
    return tt_zeros(TT_SHAPE(1), TT_F32, TT_CPU);
}

static tt_future *give(void *ctx, const tt_ddp_bucket *b)
{
    gift g = *(const gift *)ctx;
    tt_future *f;
    tt_value *v;

    if (g == NOTHING)
        return NULL;
    if (g == FAILURE) {
        tt_fail(TT_ERR_IO, "no paper left");
        return NULL;
    }
    f = tt_future_new();
    if (g == LATE_FAILURE) {
        tt_future_fail(f, TT_ERR_TIMEOUT, "the ink is dry");
        return f;
    }
    v = g == NUMBER ? tt_value_int_new(7) : tt_value_tensor_new(result_of(g, b));
    tt_future_set(f, v);
    tt_value_free(v);
    return f;
}

static tt_status give_and_step(tt_ddp *d)
{
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *y = tt_ddp_forward(d, tool_numbers(TT_SHAPE(4, 6), 3));

        if (y == NULL)
            TT_FAIL_TEST("%s", tt_last_error());
        st = tt_backward(tt_sum(y));
    }
    return st;
}

static void expect_failure(gift g, tt_status want, const char *words)
{
    tt_module *m = tool_mlp(1);
    tt_ddp *d = tool_wrap(m, NULL);
    char who[64];

    TT_REQUIRE_OK(
        tt_ddp_register_hook(d, &(tt_ddp_hook){ .name = "giver", .fn = give, .ctx = &g }));
    snprintf(who, sizeof who, "hook \"giver\" failed for bucket 0 on rank %d", tt_test_rank());
    for (int i = 0; i < 2; i++) {
        TT_CHECK_EQ(give_and_step(d), want);
        TT_CHECK_CONTAINS(tt_last_error(), who);
        TT_CHECK_CONTAINS(tt_last_error(), words);
    }
    g = HALVES; /* and it goes on */
    TT_REQUIRE_OK(give_and_step(d));
    TT_CHECK_NEAR(tt_item(tt_max(tt_grad_of(tt_ddp_param(d, 0)))), 0.5, 0);
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_hooks, failures_name_the_hook_and_the_rank)
{
    expect_failure(NOTHING, TT_ERR_INVALID, "gave no future");
    expect_failure(FAILURE, TT_ERR_IO, "no paper left");
    expect_failure(LATE_FAILURE, TT_ERR_TIMEOUT, "the ink is dry");
    expect_failure(NUMBER, TT_ERR_INVALID, "got int");
    expect_failure(TOO_SMALL, TT_ERR_INVALID, "elements, got 1");
}

TT_TEST_THREADS(2, ddp_hooks, a_result_of_another_type_is_converted)
{
    gift g = HALVES;
    tt_module *m = tool_mlp(1);
    tt_ddp *d = tool_wrap(m, &(tt_ddp_options){ .copy_gradients = true });

    TT_REQUIRE_OK(tt_ddp_register_hook(d, &(tt_ddp_hook){ .fn = give, .ctx = &g }));
    TT_REQUIRE_OK(give_and_step(d));
    for (int i = 0; i < tt_ddp_n_params(d); i++) {
        TT_CHECK_NEAR(tt_item(tt_max(tt_grad_of(tt_ddp_param(d, i)))), 0.5, 0);
        TT_CHECK_NEAR(tt_item(tt_min(tt_grad_of(tt_ddp_param(d, i)))), 0.5, 0);
    }
    tt_ddp_free(d);
    tt_module_free(m);
}
