/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of several steps, futures completed elsewhere, post-local SGD, and memory that runs out. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tutti/ddp_hooks.h"
#include "tutti/layers.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static const tt_ddp_options small_buckets = { .bucket_cap_mb = 0.0005 };

/* Does nothing useful for up to a tenth of a millisecond, on every rank for another time. */
static void dawdle(uint64_t *state)
{
    int64_t end;

    *state = *state * 6364136223846793005u + 1442695040888963407u;
    end = tti_now_ns() + (int64_t)((*state >> 33) % 100000);
    while (tti_now_ns() < end)
        ;
}

/* ---- several collectives in a row ------------------------------------------------------------------ */

typedef struct chain {
    uint64_t random; /* of the thread of backward */
    bool then;       /* collectives in functions of futures, not in steps */
} chain;

typedef struct leg {
    tt_tensor *flat; /* retained */
    tt_pg *pg;
    uint64_t random;
} leg;

static leg *leg_new(const tt_ddp_bucket *b, uint64_t random)
{
    leg *l = malloc(sizeof *l);

    *l = (leg){ tt_tensor_retain(b->flat), b->pg, random };
    return l;
}

static void leg_free(void *ctx)
{
    leg *l = ctx;

    tt_tensor_free(l->flat);
    free(l);
}

/* The mean, then twice the mean of that and of the greatest there is, which are the same for all. */
static tt_value *three_steps(void *ctx, tt_pg *pg)
{
    leg *l = ctx;
    tt_tensor *most;

    dawdle(&l->random);
    if (tt_pg_all_reduce(pg, l->flat, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL) != TT_OK)
        return NULL;
    dawdle(&l->random);
    most = tt_clone(l->flat);
    if (tt_pg_all_reduce(pg, most, &(tt_coll_options){ .op = TT_REDUCE_MAX }, NULL) != TT_OK)
        return NULL;
    tt_mul_scalar_(tt_add_(l->flat, most), 0.5);
    if (tt_pg_all_reduce(pg, l->flat, &(tt_coll_options){ .op = TT_REDUCE_MIN }, NULL) != TT_OK)
        return NULL;
    return tt_value_tensor_new(l->flat);
}

static tt_value *more_steps(void *ctx, tt_future *f)
{
    leg *l = ctx;
    tt_value *v = NULL;

    if (tt_future_value(f) != NULL)
        TT_SCOPE {
            v = three_steps(l, l->pg);
        }
    leg_free(l);
    return v;
}

static tt_future *in_steps(void *ctx, const tt_ddp_bucket *b)
{
    chain *c = ctx;
    tt_future *first, *f;

    dawdle(&c->random);
    if (!c->then)
        return tt_ddp_run_steps(b->pg, three_steps, leg_new(b, c->random), leg_free);
    first = hook_mean(b);
    dawdle(&c->random);
    f = first != NULL ? tt_future_then(first, more_steps, leg_new(b, c->random)) : NULL;
    tt_future_free(first);
    return f;
}

static void compare_chain(bool then)
{
    uint64_t seed = tt_test_seed();
    tt_module *plain = tool_mlp(seed), *m = tool_mlp(seed);
    tt_ddp *a = tool_wrap(plain, &small_buckets), *b = tool_wrap(m, &small_buckets);
    chain c = { .random = seed + (uint64_t)tt_test_rank(), .then = then };

    TT_REQUIRE_OK(tt_ddp_register_hook(b, &(tt_ddp_hook){ .fn = in_steps, .ctx = &c }));
    for (int i = 0; i < 30; i++) {
        hook_step(a, seed + (uint64_t)i);
        hook_step(b, seed + (uint64_t)i);
        hook_check_grads(plain, m, true);
    }
    TT_CHECK_GT(tt_ddp_n_buckets(b), 2);
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(plain);
    tt_module_free(m);
}

TT_TEST_THREADS(4, ddp_hooks, steps_keep_their_order_on_threads)
{
    compare_chain(false);
}

TT_TEST_RANKS(4, ddp_hooks, steps_keep_their_order)
{
    compare_chain(false);
}

TT_TEST_RANKS(3, ddp_hooks, steps_keep_their_order_in_detail_mode)
{
    tt_set_debug_level(TT_DEBUG_DETAIL);
    compare_chain(false);
    tt_set_debug_level(TT_DEBUG_DEFAULT);
}

TT_TEST_RANKS(4, ddp_hooks, collectives_in_functions_of_futures_keep_their_order)
{
    compare_chain(true);
}

/* ---- steps that go wrong ------------------------------------------------------------------------------ */

static tt_value *no_steps(void *ctx, tt_pg *pg)
{
    (void)pg;
    if (ctx != NULL)
        tt_fail(TT_ERR_IO, "%s", (const char *)ctx);
    return NULL;
}

static int n_freed;

static void count_free(void *ctx)
{
    (void)ctx;
    n_freed++;
}

static void expect_failure(void *ctx, tt_status want, const char *words)
{
    tt_future *f = tt_ddp_run_steps(tt_test_pg(), no_steps, ctx, count_free);

    TT_REQUIRE_NOT_NULL(f);
    TT_CHECK_EQ(tt_future_wait(f, 0), want);
    TT_CHECK_CONTAINS(tt_last_error(), words);
    tt_future_free(f);
}

TT_TEST_THREADS(1, ddp_hooks, steps_that_fail_fail_the_future)
{
    char words[] = "the pen broke";

    n_freed = 0;
    expect_failure(words, TT_ERR_IO, "the pen broke");
    expect_failure(NULL, TT_ERR_INVALID, "gave no value");
    TT_CHECK_NULL(tt_ddp_run_steps(NULL, no_steps, NULL, count_free));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_ddp_run_steps(tt_test_pg(), NULL, NULL, count_free));
    TT_CHECK_EQ(n_freed, 4);
}

/* ---- futures that others complete ------------------------------------------------------------------------ */

typedef struct errand {
    tt_future *f; /* a reference */
    tt_tensor *flat;
    pthread_t thread;
    bool started;
} errand;

static void *run_errand(void *arg)
{
    errand *e = arg;

    TT_SCOPE {
        tt_value *v = tt_value_tensor_new(tt_mul_scalar_(e->flat, 3));

        tt_future_set(e->f, v);
        tt_value_free(v);
    }
    tt_future_free(e->f);
    return NULL;
}

static tt_future *send_out(void *ctx, const tt_ddp_bucket *b)
{
    errand *e = (errand *)ctx + b->index;
    tt_future *f = tt_future_new();

    if (e->started)
        pthread_join(e->thread, NULL);
    *e = (errand){ .f = tt_future_retain(f), .flat = b->flat };
    e->started = pthread_create(&e->thread, NULL, run_errand, e) == 0;
    return f;
}

TT_TEST_THREADS(2, ddp_hooks, other_threads_may_complete_the_future)
{
    uint64_t seed = tt_test_seed();
    tt_module *own = tool_mlp(seed), *m = tool_mlp(seed);
    tt_ddp *a = tool_wrap(own, NULL), *b = tool_wrap(m, &small_buckets);
    errand errands[16] = { 0 };

    TT_REQUIRE_OK(tt_ddp_register_hook(b, &(tt_ddp_hook){ .fn = send_out, .ctx = errands }));
    for (int i = 0; i < 5; i++) {
        TT_DDP_NO_SYNC(a)
        {
            hook_step(a, seed + (uint64_t)i);
        }
        hook_step(b, seed + (uint64_t)i);
    }
    TT_REQUIRE_LE(tt_ddp_n_buckets(b), 16);
    for (int i = 0; i < tt_ddp_n_params(a); i++)
        TT_CHECK(tt_allclose(tt_mul_scalar(tt_grad_of(tt_ddp_param(a, i)), 3),
                             tt_grad_of(tt_ddp_param(b, i)), NULL));
    for (int i = 0; i < 16; i++)
        if (errands[i].started)
            pthread_join(errands[i].thread, NULL);
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(own);
    tt_module_free(m);
}

/* ---- post-local SGD ---------------------------------------------------------------------------------------- */

/* After the start the mean is over pairs, {0, 1} and {2, 3}. */
TT_TEST_THREADS(4, ddp_hooks, post_local_sgd_turns_to_the_subgroup)
{
    tt_pg *pair = tt_pg_split(tt_test_pg(), tt_test_rank() / 2, tt_test_rank(), NULL);
    tt_local_sgd_state *s =
        tt_local_sgd_state_new(&(tt_local_sgd_state_options){ .subgroup = pair, .start_iter = 2 });
    tt_module *m = tt_linear_new(1, 1, NULL);
    tt_ddp *d = tool_wrap(m, NULL);
    double want[] = { 1.5, 1.5, tt_test_rank() / 2 == 0 ? 0.5 : 2.5,
                      tt_test_rank() / 2 == 0 ? 0.5 : 2.5 };

    TT_REQUIRE_OK(tt_ddp_register_named(d, "post_localSGD_hook", s));
    for (int i = 0; i < 4; i++)
        TT_SCOPE {
            tt_tensor *x = tt_full(TT_SHAPE(1, 1), tt_test_rank(), TT_F32, TT_CPU);

            tt_module_zero_grad(m);
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            TT_CHECK_NEAR(tt_item(tt_grad_of(tt_module_param(m, "weight"))), want[i], 0);
        }
    TT_CHECK_EQ(tt_local_sgd_state_iter(s), 4);
    TT_CHECK_EQ(tt_local_sgd_state_iter(NULL), -1);
    TT_CHECK_NULL(tt_local_sgd_state_new(&(tt_local_sgd_state_options){ .start_iter = -1 }));
    tt_local_sgd_state_free(s);
    tt_ddp_free(d);
    tt_module_free(m);
    tt_pg_free(pair);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static tt_status hooked_life(tt_module *m, const char *name)
{
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), NULL);
    tt_powersgd *s =
        tt_powersgd_new(NULL, &(tt_powersgd_options){ .start_iter = TT_POWERSGD_AT_ONCE,
                                                      .no_error_feedback = true,
                                                      .no_warm_start = true });
    tt_status st = d != NULL && s != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tt_ddp_register_named(d, name, strstr(name, "powerSGD") != NULL ? s : NULL);
    TT_SCOPE
        if (st == TT_OK) {
            tt_tensor *y = tt_ddp_forward(d, tt_ones(TT_SHAPE(2, 12), TT_F32, TT_CPU));

            st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
        }
    tt_ddp_free(d);
    tt_powersgd_free(s);
    tt_module_zero_grad(m);
    return st;
}

typedef struct life {
    tt_module *m;
    const char *name;
} life;

static tt_status whole_life(void *arg)
{
    const life *l = arg;

    return hooked_life(l->m, l->name);
}

TT_TEST_THREADS(1, ddp_hooks, hooks_survive_every_failed_allocation)
{
    tt_module *m = tt_linear_new(12, 12, NULL);

    (void)tt_test_pg();
    for (int i = 0; tt_ddp_hook_list(i) != NULL; i++) {
        life l = { m, tt_ddp_hook_list(i) };

        if (strcmp(l.name, "post_localSGD_hook") != 0)
            TT_CHECK_GT(tt_test_fail_allocs(whole_life, &l), 20);
    }
    TT_CHECK_GT(
        tt_test_fail_allocs(whole_life, &(life){ m, "bf16_compress_wrapper(powerSGD_hook)" }), 20);
    tt_module_free(m);
}
