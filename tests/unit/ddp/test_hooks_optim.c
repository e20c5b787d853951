/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers inside of backward, on ranks that are threads and on none. */
#include <stdlib.h>

#include "tutti/ddp_hooks.h"
#include "tutti/layers.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static const tt_sgd_options sgd = { .lr = 0.1, .momentum = 0.9 };

static void check_no_grads(const tt_module *m)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++)
        TT_CHECK_NULL(tt_grad_of(tt_state_dict_tensor(ps, i)));
    tt_state_dict_free(ps);
}

/* ---- without ranks ------------------------------------------------------------------------------------- */

TT_TEST(ddp_hooks, backward_alone_updates_parameters)
{
    uint64_t seed = tt_test_seed();
    tt_module *plain = tool_mlp(seed), *m = tool_mlp(seed);
    tt_optim *a = tt_sgd_for(plain, &sgd), *b = tt_sgd_for(m, &sgd);
    tt_in_backward *in = tt_in_backward_new(b, NULL);

    TT_REQUIRE_NOT_NULL(in);
    for (int i = 0; i < 20; i++) {
        hook_step_alone(plain, seed + (uint64_t)i);
        TT_REQUIRE_OK(tt_optim_step(a));
        hook_step_alone(m, seed + (uint64_t)i);
        hook_check_params(plain, m, true);
        check_no_grads(m);
    }
    tt_in_backward_free(in); /* from now on it does not */
    hook_step_alone(m, seed);
    hook_check_params(plain, m, true);
    TT_CHECK_NOT_NULL(tt_grad_of(tt_optim_param(b, 0, 0)));
    tt_optim_free(a);
    tt_optim_free(b);
    tt_module_free(plain);
    tt_module_free(m);
}

TT_TEST(ddp_hooks, gradients_can_stay)
{
    tt_module *m = tool_mlp(1);
    tt_optim *o = tt_sgd_for(m, &sgd);
    tt_in_backward *in = tt_in_backward_new(o, &(tt_in_backward_options){ .keep_grads = true });

    hook_step_alone(m, 2);
    for (int i = 0; i < tt_optim_n_params(o, 0); i++) {
        TT_CHECK_NOT_NULL(tt_grad_of(tt_optim_param(o, 0, i)));
        TT_CHECK_EQ(tt_optim_param_steps(o, 0, i), 1);
    }
    TT_CHECK_NULL(tt_in_backward_new(o, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), "already");
    TT_CHECK_NULL(tt_in_backward_new(NULL, NULL));
    tt_in_backward_free(in);
    tt_in_backward_free(NULL);
    tt_optim_free(o);
    tt_module_free(m);
}

/* ---- with ranks ------------------------------------------------------------------------------------------ */

typedef enum way { IN_BACKWARD_FIRST, IN_BACKWARD_LAST, FUSED } way;

typedef struct trainee {
    tt_module *m;
    tt_ddp *d;
    tt_optim *o;
    tt_in_backward *in;
} trainee;

static trainee start(way w, uint64_t seed, const tt_ddp_options *opt)
{
    trainee t = { .m = tool_mlp(seed) };
    tt_ddp_hook hook;

    t.o = tt_sgd_for(t.m, &sgd);
    if (w == IN_BACKWARD_FIRST)
        t.in = tt_in_backward_new(t.o, NULL);
    t.d = tool_wrap(t.m, opt);
    if (w == IN_BACKWARD_LAST)
        t.in = tt_in_backward_new(t.o, NULL);
    if (w == FUSED) {
        TT_REQUIRE_OK(tt_ddp_hook_named("allreduce_hook", NULL, &hook));
        TT_REQUIRE_OK(tt_ddp_hook_with_optimizer(&hook, t.o, &hook));
        TT_REQUIRE_OK(tt_ddp_register_hook(t.d, &hook));
        TT_CHECK_STR(tt_ddp_hook_name(t.d), "hook_with_optimizer(allreduce_hook, sgd)");
    }
    return t;
}

static void end(trainee *t)
{
    tt_in_backward_free(t->in);
    tt_ddp_free(t->d);
    tt_optim_free(t->o);
    tt_module_free(t->m);
}

/* The same as one process that steps after backward. */
static void follow(way w, const tt_ddp_options *opt)
{
    uint64_t seed = tt_test_seed();
    tt_module *alone = tool_mlp(seed), *plain = tool_mlp(seed);
    tt_optim *a = tt_sgd_for(alone, &sgd), *p = tt_sgd_for(plain, &sgd);
    tt_ddp *d = tool_wrap(plain, opt);
    trainee t = start(w, seed, opt);

    for (int i = 0; i < 50; i++) {
        hook_step_alone(alone, seed + (uint64_t)i);
        TT_REQUIRE_OK(tt_optim_step(a));
        hook_step(d, seed + (uint64_t)i);
        TT_REQUIRE_OK(tt_optim_step(p));
        hook_step(t.d, seed + (uint64_t)i);
    }
    hook_check_params(plain, t.m, true);
    hook_check_params(alone, t.m, false);
    end(&t);
    tt_ddp_free(d);
    tt_optim_free(a);
    tt_optim_free(p);
    tt_module_free(alone);
    tt_module_free(plain);
}

TT_TEST_THREADS(2, ddp_hooks, updates_in_backward_follow_one_process)
{
    follow(IN_BACKWARD_FIRST, NULL);
    follow(IN_BACKWARD_LAST, &(tt_ddp_options){ .bucket_cap_mb = 0.0005 });
    follow(IN_BACKWARD_LAST, &(tt_ddp_options){ .find_unused = true });
    follow(IN_BACKWARD_FIRST, &(tt_ddp_options){ .static_graph = true, .copy_gradients = true });
}

TT_TEST_THREADS(4, ddp_hooks, updates_behind_a_hook_follow_one_process)
{
    follow(FUSED, NULL);
    follow(FUSED, &(tt_ddp_options){ .bucket_cap_mb = 0.0005, .copy_gradients = true });
    follow(FUSED, &(tt_ddp_options){ .bucket_cap_mb = 0.0005, .find_unused = true });
}

/* Without a reduction nothing is updated: gradients add up, and the next reduction takes the sum. */
TT_TEST_THREADS(2, ddp_hooks, no_update_without_a_reduction)
{
    uint64_t seed = tt_test_seed();
    trainee t = start(IN_BACKWARD_LAST, seed, NULL);
    tt_module *before = tool_mlp(seed);

    TT_DDP_NO_SYNC(t.d)
    {
        hook_step(t.d, seed);
    }
    hook_check_params(before, t.m, true);
    TT_CHECK_NOT_NULL(tt_grad_of(tt_ddp_param(t.d, 0)));
    hook_step(t.d, seed);
    check_no_grads(t.m);
    TT_CHECK(!tt_equal(tt_module_param(before, tt_ddp_param_name(t.d, 0)), tt_ddp_param(t.d, 0)));
    end(&t);
    tt_module_free(before);
}

/* A bucket is used while backward still computes: when the last bucket starts, earlier ones are in place. */
typedef struct watch {
    int n_done_before_last, n_done;
} watch;

static tt_future *watch_call(void *ctx, const tt_ddp_bucket *b)
{
    watch *w = ctx;
    tt_future *f = hook_mean(b);

    TT_CHECK_OK(
        tt_future_wait(f, 0)); /* so that it has certainly arrived when the next one starts */
    if (b->is_last)
        w->n_done_before_last = w->n_done;
    return f;
}

static tt_status watch_done(void *ctx, const tt_ddp_bucket *b)
{
    (void)b;
    ((watch *)ctx)->n_done++;
    return TT_OK;
}

TT_TEST_RANKS(2, ddp_hooks, buckets_are_used_as_they_arrive)
{
    setenv("TUTTI_OVERLAP", "engine", 1); /* otherwise it depends on the cores of the machine */
    tt_module *m = tool_mlp(1);
    tt_ddp *d = tool_wrap(m, &(tt_ddp_options){ .bucket_cap_mb = 0.0005 });
    watch w = { 0 };

    TT_REQUIRE_OK(
        tt_ddp_register_hook(d, &(tt_ddp_hook){ .fn = watch_call, .done = watch_done, .ctx = &w }));
    hook_step(d, 1);
    hook_step(d, 2);
    w = (watch){ 0 };
    hook_step(d, 3);
    TT_CHECK_GT(tt_ddp_n_buckets(d), 2);
    TT_CHECK_EQ(w.n_done, tt_ddp_n_buckets(d));
    TT_CHECK_EQ(w.n_done_before_last, tt_ddp_n_buckets(d) - 1);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- what goes wrong ----------------------------------------------------------------------------------------- */

static tt_status refuse(void *ctx, const tt_ddp_bucket *b)
{
    (void)ctx;
    return tt_fail(TT_ERR_IO, "bucket %d is not to my taste", b->index);
}

TT_TEST_THREADS(2, ddp_hooks, a_failure_after_the_arrival_ends_backward)
{
    tt_module *m = tool_mlp(1);
    tt_ddp *d = tool_wrap(m, NULL);
    tt_tensor *y;

    TT_REQUIRE_OK(tt_ddp_register_hook(
        d, &(tt_ddp_hook){ .name = "picky", .fn = tt_ddp_allreduce_hook, .done = refuse }));
    y = tt_ddp_forward(d, tool_numbers(TT_SHAPE(4, 6), 1));
    TT_CHECK_EQ(tt_backward(tt_sum(y)), TT_ERR_IO);
    TT_CHECK_CONTAINS(tt_last_error(), "hook \"picky\" failed for bucket 0 on rank");
    TT_CHECK_CONTAINS(tt_last_error(), "not to my taste");
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST(ddp_hooks, fused_hooks_need_both_parts)
{
    tt_module *m = tool_mlp(1);
    tt_optim *o = tt_sgd_for(m, &sgd);
    tt_powersgd *s = tt_powersgd_new(NULL, NULL);
    tt_ddp_hook inner, hook;

    TT_REQUIRE_OK(tt_ddp_hook_named("powerSGD_hook", s, &inner));
    TT_CHECK_EQ(tt_ddp_hook_with_optimizer(&inner, NULL, &hook), TT_ERR_INVALID);
    TT_CHECK(hook.fn == NULL);
    TT_CHECK_EQ(tt_ddp_hook_with_optimizer(NULL, o, &hook), TT_ERR_INVALID);
    TT_REQUIRE_OK(tt_ddp_hook_named("powerSGD_hook", s, &inner));
    TT_REQUIRE_OK(tt_ddp_fp16_compress_wrapper(&inner, &inner));
    TT_REQUIRE_OK(tt_ddp_hook_with_optimizer(&inner, o, &hook));
    TT_CHECK_STR(hook.name, "hook_with_optimizer(fp16_compress_wrapper(powerSGD_hook), sgd)");
    tt_ddp_hook_drop(&hook);
    tt_powersgd_free(s);
    tt_optim_free(o);
    tt_module_free(m);
}
