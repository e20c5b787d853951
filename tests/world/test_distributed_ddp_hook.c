/* SPDX-License-Identifier: Apache-2.0 */
/* Communication hooks: with one a model gets the gradients that it gets without. */
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/optim.h"
#include "world/ddp_models.h"

/* ---- parity ------------------------------------------------------------------------------------ */

/* How one of the two models is hooked, and in how many iterations their gradients are compared. */
typedef struct hooking {
    const char *name;
    void *state; /* borrowed */
    int n_checked;
} hooking;

static tt_ddp *linear_ddp(const dist_group *g)
{
    tt_module *m = ddp_module(tt_linear_new(1, 5, NULL));
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    tt_module_free(m);
    return d;
}

static double first_grad(tt_ddp *d, int me)
{
    tt_tensor *w = tt_ddp_param(d, 0);
    double got;

    tt_module_zero_grad(tt_ddp_module(d));
    ddp_step(d, tt_full(TT_SHAPE(1, 1), me, TT_F32, dist_device()));
    got = tt_at(tt_grad_of(w), (int64_t[]){ 0, 0 });
    return got;
}

static void parity(const dist_group *g, hooking how)
{
    tt_ddp *plain = linear_ddp(g), *hooked = linear_ddp(g);
    double mean = (g->n - 1) / 2.0;

    TT_REQUIRE_OK(tt_ddp_register_named(hooked, how.name, how.state));
    for (int i = 0; i < 100; i++)
        TT_SCOPE {
            double a = first_grad(plain, g->me), b = first_grad(hooked, g->me);

            if (i < how.n_checked) {
                TT_CHECK_NEAR(b, mean, 0);
                TT_CHECK_NEAR(b, a, 0);
            }
        }
    tt_ddp_free(plain);
    tt_ddp_free(hooked);
}

static void parity_allreduce(const dist_group *g, const void *arg)
{
    parity(g, (hooking){ "allreduce_hook", arg != NULL ? g->pg : NULL, 100 });
}

static const int with_group = 1;

static void parity_powersgd(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int warm = 0; warm < 2; warm++) {
        tt_powersgd *s = tt_powersgd_new(
            NULL, &(tt_powersgd_options){ .rank = 1, .start_iter = 2, .no_warm_start = warm == 0 });

        TT_REQUIRE_NOT_NULL(s);
        parity(g, (hooking){ "powerSGD_hook", s, 100 });
        TT_CHECK_EQ(tt_powersgd_ask(s).iter, 100);
        tt_powersgd_free(s);
    }
}

static void parity_post_local(const dist_group *g, const void *arg)
{
    const struct {
        tt_local_sgd_state_options opt;
        int n_checked;
    } cases[] = {
        { { .pg = g->pg, .subgroup = g->pg, .start_iter = 10 }, 100 },
        { { .pg = g->pg, .subgroup = g->pg, .start_iter = 10, .no_gradient_allreduce = true }, 10 },
        { { .pg = g->pg, .start_iter = 10 }, 100 },
        { { .pg = g->pg, .start_iter = 1000 }, 100 },
    };

    (void)arg;
    for (int i = 0; i < 4; i++) {
        tt_local_sgd_state *s = tt_local_sgd_state_new(&cases[i].opt);

        TT_REQUIRE_NOT_NULL(s);
        parity(g, (hooking){ "post_localSGD_hook", s, cases[i].n_checked });
        TT_CHECK_EQ(tt_local_sgd_state_iter(s), 100);
        tt_local_sgd_state_free(s);
    }
}

/* ---- the record ---------------------------------------------------------------------------------- */

static bool record_has(tt_ddp *d, const char *name)
{
    tt_value *v = tt_ddp_log_value(d);
    bool has;

    TT_REQUIRE_NOT_NULL(v);
    has = tt_value_map_has(v, "comm_hook");
    if (has && name != NULL)
        TT_CHECK_STR(tt_value_as_text(tt_value_map_get(v, "comm_hook")), name);
    tt_value_free(v);
    return has;
}

static void logging(const dist_group *g, const void *arg)
{
    static const char *const names[] = {
        "allreduce_hook",
        "fp16_compress_hook",
        "powerSGD_hook",
        "batched_powerSGD_hook",
        "quantization_pertensor_hook",
        "quantization_perchannel_hook",
        "ALLREDUCE",
        "FP16_COMPRESS",
    };
    tt_module *m = ddp_module(tt_linear_new(1, 1, NULL));
    tt_ddp *d;

    (void)arg;
    for (int i = 0; i < 8; i++) {
        d = ddp_new(m, g->pg, NULL);
        TT_CHECK(!record_has(d, NULL));
        TT_REQUIRE_OK(tt_ddp_register_named(d, names[i], NULL));
        TT_CHECK(record_has(d, names[i]));
        tt_ddp_free(d);
    }
    d = ddp_new(m, g->pg, NULL);
    for (int i = 0; i < 2; i++)
        ddp_step(d, tt_ones(TT_SHAPE(1, 1), TT_F32, dist_device()));
    TT_CHECK(!record_has(d, NULL));
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- gradients that add up -------------------------------------------------------------------------- */

/* The sum of bucket / W. */
static tt_future *scaled(void *ctx, const tt_ddp_bucket *b)
{
    tt_work *w = NULL;
    tt_future *f;

    (void)ctx;
    if (tt_pg_all_reduce(b->pg, tt_div_scalar_(b->flat, tt_pg_size(b->pg)), NULL, &w) != TT_OK)
        return NULL;
    f = tt_work_future(w);
    tt_work_free(w);
    return f;
}

static tt_value *times_two(void *ctx, tt_future *f)
{
    tt_value *v = tt_future_value(f), *out = NULL;

    (void)ctx;
    TT_SCOPE {
        out = tt_value_tensor_new(tt_mul_scalar(tt_value_as_tensor(tt_value_at(v, 0)), 2));
    }
    return out;
}

static tt_value *divided(void *ctx, tt_future *f)
{
    int size = *(const int *)ctx;
    tt_value *out = NULL;

    TT_SCOPE {
        out =
            tt_value_tensor_new(tt_div_scalar(tt_value_as_tensor(tt_future_value(f)), 2.0 * size));
    }
    return out;
}

/* The sum, times 2, divided by 2 W. */
static tt_future *chained(void *ctx, const tt_ddp_bucket *b)
{
    tt_work *w = NULL;
    tt_future *sum, *twice, *mean;

    if (tt_pg_all_reduce(b->pg, b->flat, NULL, &w) != TT_OK)
        return NULL;
    sum = tt_work_future(w);
    twice = tt_future_then(sum, times_two, NULL);
    mean = tt_future_then(twice, divided, ctx);
    tt_work_free(w);
    tt_future_free(sum);
    tt_future_free(twice);
    return mean;
}

static void loss_backward(tt_module *m, tt_ddp *d, tt_tensor *x, tt_tensor *y)
{
    TT_SCOPE {
        tt_tensor *out = d != NULL ? tt_ddp_forward(d, x) : tt_module_forward(m, x);

        if (out == NULL || tt_backward(tt_mse_loss(out, y)) != TT_OK)
            TT_FAIL_TEST("%s", tt_last_error());
    }
}

static int n_equal_grads(const tt_module *m, const tt_ddp *d)
{
    int n = 0;

    for (int i = 0; i < tt_ddp_n_params(d); i++)
        n += tt_allclose(tt_grad_of(tt_module_param(m, tt_ddp_param_name(d, i))),
                         tt_grad_of(tt_ddp_param(d, i)), NULL);
    return n;
}

static void accumulate(const dist_group *g, const void *arg)
{
    int size = g->n;
    tt_ddp_hook hook = { .name = "mine", .fn = arg != NULL ? chained : scaled, .ctx = &size };
    tt_module *m = ddp_net_new(), *local;
    tt_ddp *d = ddp_new(m, g->pg, &(tt_ddp_options){ .bucket_cap_mb = 0.001 });
    tt_tensor *x = ddp_random(TT_SHAPE(g->n, 2), tt_test_seed());
    tt_tensor *y = ddp_random(TT_SHAPE(g->n, 4), tt_test_seed() + 1);
    tt_tensor *my_x = tt_narrow(x, 0, g->me, 1), *my_y = tt_narrow(y, 0, g->me, 1);

    TT_REQUIRE_OK(tt_ddp_register_hook(d, &hook));
    local = ddp_module(tt_module_copy(m));
    TT_NO_GRAD TT_DDP_NO_SYNC(d)
    {
        TT_CHECK_NOT_NULL(tt_ddp_forward(d, my_x));
    }
    for (int i = 0; i < 4; i++) {
        bool was = tt_ddp_set_sync(d, i % 2 == 1);

        loss_backward(local, NULL, x, y);
        loss_backward(m, d, my_x, my_y);
        tt_ddp_set_sync(d, was);
        TT_CHECK_EQ(n_equal_grads(local, d), i % 2 == 1 ? tt_ddp_n_params(d) : 0);
        if (i % 2 == 1) {
            tt_module_zero_grad(m);
            tt_module_zero_grad(local);
        }
    }
    TT_CHECK_GE(tt_ddp_n_buckets(d), 2);
    tt_ddp_free(d);
    tt_module_free(m);
    tt_module_free(local);
}

/* ---- saving ------------------------------------------------------------------------------------------ */

static void count_note(void *ctx, const char *category, const char *message)
{
    int *n = ctx;

    TT_CHECK_STR(category, "powersgd");
    TT_CHECK_CONTAINS(message, "process group");
    ++*n;
}

static void train(tt_ddp *d, int me)
{
    tt_optim *sgd = tt_sgd_for(tt_ddp_module(d), &(tt_sgd_options){ .lr = 0.01 });

    for (int i = 0; i < 10; i++)
        TT_SCOPE {
            tt_tensor *x = ddp_random(TT_SHAPE(7, 1), tt_test_seed() + (uint64_t)(10 * i + me));

            TT_REQUIRE_OK(tt_optim_zero_grad(sgd, false));
            ddp_step(d, x);
            TT_REQUIRE_OK(tt_optim_step(sgd));
        }
    tt_optim_free(sgd);
}

/* Rank 0's model, hook and state, as everybody gets them. */
static tt_value *checkpoint(const dist_group *g, tt_ddp *d, tt_powersgd *s)
{
    tt_value *v = tt_value_map_new();
    tt_module *m = tt_ddp_module(d);
    int n = 0;

    TT_REQUIRE_OK(tt_warnings_push(count_note, &n));
    if (g->me == 0) {
        TT_REQUIRE_OK(tt_value_map_give(v, "hook", tt_value_text_new(tt_ddp_hook_name(d))));
        TT_REQUIRE_OK(tt_value_map_give(v, "state", tt_powersgd_save(s)));
        TT_REQUIRE_OK(tt_value_map_give(
            v, "weight", tt_value_tensor_new(tt_detach(tt_module_param(m, "weight")))));
        TT_REQUIRE_OK(tt_value_map_give(
            v, "bias", tt_value_tensor_new(tt_detach(tt_module_param(m, "bias")))));
        TT_CHECK_EQ(n, 1);
    }
    tt_warnings_pop();
    TT_REQUIRE_OK(tt_pg_broadcast_objects(g->pg, &v, 1, 0, NULL));
    return v;
}

static tt_powersgd *loaded_state(const tt_value *v)
{
    tt_powersgd *s;
    int n = 0;

    TT_REQUIRE_OK(tt_warnings_push(count_note, &n));
    s = tt_powersgd_load(tt_value_map_get(v, "state"));
    tt_warnings_pop();
    TT_REQUIRE_NOT_NULL(s);
    TT_CHECK_EQ(n, 1);
    return s;
}

static tt_ddp *restored(const dist_group *g, const tt_value *v, tt_powersgd *s)
{
    tt_module *m = ddp_module(tt_linear_new(1, 5, NULL));
    tt_ddp *d;

    TT_NO_GRAD
    {
        TT_REQUIRE_NOT_NULL(tt_copy_(tt_module_param(m, "weight"),
                                     tt_value_as_tensor(tt_value_map_get(v, "weight"))));
        TT_REQUIRE_NOT_NULL(
            tt_copy_(tt_module_param(m, "bias"), tt_value_as_tensor(tt_value_map_get(v, "bias"))));
    }
    d = ddp_new(m, g->pg, NULL);
    TT_REQUIRE_OK(tt_ddp_register_named(d, tt_value_as_text(tt_value_map_get(v, "hook")), s));
    tt_module_free(m);
    return d;
}

static void check_states(const tt_powersgd *a, const tt_powersgd *b)
{
    tt_powersgd_info x = tt_powersgd_ask(a), y = tt_powersgd_ask(b);

    TT_CHECK_EQ(x.options.rank, y.options.rank);
    TT_CHECK_EQ(x.options.start_iter, y.options.start_iter);
    TT_CHECK_NEAR(x.options.min_compression_rate, y.options.min_compression_rate, 0);
    TT_CHECK_NEAR(x.options.orthogonalization_epsilon, y.options.orthogonalization_epsilon, 0);
    TT_CHECK_EQ(x.options.no_error_feedback, y.options.no_error_feedback);
    TT_CHECK_EQ(x.options.no_warm_start, y.options.no_warm_start);
    TT_CHECK_EQ(x.iter, y.iter);
    TT_CHECK_EQ(x.numel_before, y.numel_before);
    TT_CHECK_EQ(x.numel_after, y.numel_after);
    TT_CHECK_EQ(x.generator_seed, y.generator_seed);
    TT_CHECK_EQ(x.generator_offset, y.generator_offset);
    TT_CHECK_PTR(y.pg, tt_pg_default());
}

static void pickling(const dist_group *g, const void *arg)
{
    tt_powersgd *s = tt_powersgd_new(g->pg, &(tt_powersgd_options){ .rank = 1, .start_iter = 4 });
    tt_powersgd *again;
    tt_ddp *d = linear_ddp(g), *copy;
    tt_value *v;

    (void)arg;
    TT_REQUIRE_OK(tt_ddp_register_named(d, "powerSGD_hook", s));
    train(d, g->me);
    v = checkpoint(g, d, s);
    again = loaded_state(v);
    check_states(s, again);
    copy = restored(g, v, again);
    TT_CHECK_STR(tt_ddp_hook_name(copy), tt_ddp_hook_name(d));
    for (int i = 0; i < 2; i++)
        train(i == 0 ? d : copy, g->me);
    ddp_check_grads(tt_ddp_module(d), tt_ddp_module(copy));
    ddp_check_params(tt_ddp_module(d), tt_ddp_module(copy), true);
    tt_ddp_free(d);
    tt_ddp_free(copy);
    tt_powersgd_free(s);
    tt_powersgd_free(again);
    tt_value_free(v);
}

static const dist_row rows[] = {
    { "test_ddp_comm_hook_logging", logging, DIST_WORLD, NULL, 0 },
    { "test_ddp_hook_parity_allreduce", parity_allreduce, DIST_WORLD, NULL, 0 },
    { "test_ddp_hook_parity_allreduce_process_group", parity_allreduce, DIST_FULL, &with_group, 0 },
    { "test_ddp_hook_parity_powerSGD", parity_powersgd, DIST_WORLD, NULL, 0 },
    { "test_ddp_hook_parity_post_localSGD", parity_post_local, DIST_WORLD, NULL, 0 },
    { "test_accumulate_gradients_no_sync_allreduce_hook", accumulate, DIST_WORLD, NULL, 0 },
    { "test_accumulate_gradients_no_sync_allreduce_with_then_hook", accumulate, DIST_WORLD,
      &with_group, 0 },
    { "test_ddp_hook_pickling_powerSGD", pickling, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
