/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient scaler: what it scales, when it skips, how the scale moves, and its state. */
#include <math.h>

#include "tutti/amp.h"
#include "tutti/autograd.h"
#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/nn.h"
#include "tutti/ops.h"
#include "tutti/sparse.h"
#include "tutti/testing_tools.h"

static tt_tensor *full(double value, tt_dtype dtype)
{
    return tt_full(TT_SHAPE(3), value, dtype, TT_CPU);
}

static bool is_full(const tt_tensor *t, double value)
{
    return t != NULL && tt_equal(t, full(value, tt_tensor_dtype(t)));
}

static tt_grad_scaler *scaler_new(const tt_grad_scaler_options *opt)
{
    tt_grad_scaler *s = tt_grad_scaler_new(opt);

    TT_REQUIRE_NOT_NULL(s);
    return s;
}

/* A parameter of zeros with this gradient, and SGD with a rate of 1. */
typedef struct trained {
    tt_tensor *p;
    tt_optim *opt;
} trained;

static trained trained_new(double grad)
{
    trained t = { .p = tt_require_grad(full(0, TT_F32)) };

    t.opt = tt_sgd_new(&t.p, 1, &(tt_sgd_options){ .lr = 1 });
    TT_REQUIRE_NOT_NULL(t.opt);
    TT_REQUIRE_OK(tt_set_grad(t.p, full(grad, TT_F32)));
    return t;
}

/* ---- scaling ---------------------------------------------------------------------------------------- */

TT_TEST(grad_scaler, scales_tensors_of_any_type)
{
    tt_grad_scaler *s = scaler_new(&(tt_grad_scaler_options){ .scale = 2 });
    tt_dtype types[] = { TT_F32, TT_F64, TT_F16, TT_BF16 };
    tt_tensor *x = tt_require_grad(full(4, TT_F32));
    tt_device device;

    TT_CHECK(!tt_grad_scaler_device(s, &device));
    for (int i = 0; i < 4; i++) {
        tt_tensor *y = tt_grad_scaler_scale(s, full(4, types[i]));

        TT_CHECK_EQ(tt_tensor_dtype(y), types[i]);
        TT_CHECK(is_full(y, 8));
    }
    TT_REQUIRE(tt_grad_scaler_device(s, &device));
    TT_CHECK(tt_device_equal(device, TT_CPU));
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_grad_scaler_scale(s, x))));
    TT_CHECK(is_full(tt_grad_of(x), 2));
    TT_CHECK_NULL(tt_grad_scaler_scale(s, NULL));
    tt_grad_scaler_free(s);
    tt_grad_scaler_free(NULL);
}

TT_TEST(grad_scaler, scales_nested_values)
{
    tt_grad_scaler *s = scaler_new(&(tt_grad_scaler_options){ .scale = 2 });
    tt_value *v = tt_value_tuple_new(), *inner = tt_value_list_new(), *out, *at;

    TT_REQUIRE_OK(tt_value_list_give(inner, tt_value_tensor_new(full(4, TT_F32))));
    TT_REQUIRE_OK(tt_value_list_give(inner, tt_value_int_new(5)));
    TT_REQUIRE_OK(tt_value_list_give(v, tt_value_tensor_new(full(4, TT_F32))));
    TT_REQUIRE_OK(tt_value_list_give(v, inner));
    out = tt_grad_scaler_scale_value(s, v);
    TT_REQUIRE_NOT_NULL(out);
    TT_CHECK_EQ(tt_value_kind_of(out), TT_VALUE_TUPLE);
    TT_CHECK(is_full(tt_value_as_tensor(tt_value_at(out, 0)), 8));
    at = tt_value_at(out, 1);
    TT_CHECK_EQ(tt_value_kind_of(at), TT_VALUE_LIST);
    TT_CHECK(is_full(tt_value_as_tensor(tt_value_at(at, 0)), 8));
    TT_CHECK_EQ(tt_value_as_int(tt_value_at(at, 1)), 5);
    tt_value_free(v);
    tt_value_free(out);
    tt_grad_scaler_free(s);
}

TT_TEST(grad_scaler, refuses_numbers_that_make_no_sense)
{
    TT_CHECK_NULL(tt_grad_scaler_new(&(tt_grad_scaler_options){ .scale = -1 }));
    TT_CHECK_CONTAINS(tt_last_error(), "scale > 0, got -1");
    TT_CHECK_NULL(tt_grad_scaler_new(&(tt_grad_scaler_options){ .growth_factor = 1 }));
    TT_CHECK_NULL(tt_grad_scaler_new(&(tt_grad_scaler_options){ .backoff_factor = 1 }));
    TT_CHECK_NULL(tt_grad_scaler_new(&(tt_grad_scaler_options){ .growth_interval = -2 }));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
}

/* ---- steps -------------------------------------------------------------------------------------------- */

TT_TEST(grad_scaler, unscales_before_the_step)
{
    tt_grad_scaler *s = scaler_new(NULL);
    trained t = trained_new(65536 * 3);
    bool skipped = true;

    TT_CHECK_NEAR(tt_grad_scaler_get_scale(s), 65536, 0);
    TT_REQUIRE_OK(tt_grad_scaler_unscale(s, t.opt));
    TT_CHECK(is_full(tt_grad_of(t.p), 3)); /* now it can be clipped */
    TT_CHECK_ERR_SAYS(tt_grad_scaler_unscale(s, t.opt), TT_ERR_INVALID, "one call per update");
    TT_REQUIRE_OK(tt_grad_scaler_step(s, t.opt, &skipped));
    TT_CHECK(!skipped);
    TT_CHECK(is_full(tt_grad_of(t.p), 3)); /* not again */
    TT_CHECK(is_full(tt_detach(t.p), -3));
    TT_CHECK_ERR_SAYS(tt_grad_scaler_step(s, t.opt, NULL), TT_ERR_INVALID, "one call per update");
    TT_CHECK_ERR(tt_grad_scaler_unscale(s, t.opt), TT_ERR_INVALID);
    TT_REQUIRE_OK(tt_grad_scaler_update(s));
    TT_CHECK_ERR_SAYS(tt_grad_scaler_update(s), TT_ERR_INVALID, "since the last update");
    TT_CHECK_ERR(tt_grad_scaler_step(s, NULL, NULL), TT_ERR_INVALID);
    tt_optim_free(t.opt);
    tt_grad_scaler_free(s);
}

TT_TEST(grad_scaler, skips_only_the_optimizer_with_an_infinity)
{
    tt_grad_scaler *s = scaler_new(&(tt_grad_scaler_options){ .scale = 4 });
    double bads[] = { INFINITY, -INFINITY, NAN };
    tt_device device;

    for (int i = 0; i < 3; i++) {
        trained good = trained_new(8), bad = trained_new(8);
        double scale = tt_grad_scaler_get_scale(s);
        bool skipped = false;

        ((float *)tt_tensor_data(tt_grad_of(bad.p)))[1] = (float)bads[i];
        TT_REQUIRE_OK(tt_grad_scaler_step(s, bad.opt, &skipped));
        TT_CHECK(skipped);
        TT_REQUIRE_OK(tt_grad_scaler_step(s, good.opt, &skipped));
        TT_CHECK(!skipped);
        TT_CHECK(is_full(tt_detach(bad.p), 0));
        TT_CHECK(is_full(tt_detach(good.p), -8 / scale));
        TT_CHECK_EQ(tt_grad_scaler_n_found(s, bad.opt), 1);
        TT_CHECK_NEAR(tt_grad_scaler_found(s, bad.opt, 0, &device), 1, 0);
        TT_CHECK(tt_device_equal(device, TT_CPU));
        TT_CHECK_NEAR(tt_grad_scaler_found(s, good.opt, 0, NULL), 0, 0);
        TT_CHECK(isnan(tt_grad_scaler_found(s, good.opt, 1, NULL)));
        TT_REQUIRE_OK(tt_grad_scaler_update(s));
        TT_CHECK_NEAR(tt_grad_scaler_get_scale(s), scale / 2, 0);
        TT_CHECK_EQ(tt_grad_scaler_n_found(s, bad.opt), 0);
        tt_optim_free(good.opt);
        tt_optim_free(bad.opt);
    }
    tt_grad_scaler_free(s);
}

TT_TEST(grad_scaler, grows_after_an_interval_without)
{
    tt_grad_scaler *s = scaler_new(&(tt_grad_scaler_options){ .scale = 8, .growth_interval = 3 });
    static const double grads[] = { 1, 1, 1, 1, 1, INFINITY, 1, 1, 1 };
    static const double scales[] = { 8, 8, 16, 16, 16, 8, 8, 8, 16 };
    tt_tensor *x = full(1, TT_F32);

    for (int i = 0; i < 9; i++) {
        trained t = trained_new(grads[i]);

        TT_REQUIRE_OK(tt_grad_scaler_step(s, t.opt, NULL));
        TT_REQUIRE_OK(tt_grad_scaler_update(s));
        TT_CHECK_NEAR(tt_grad_scaler_get_scale(s), scales[i], 0);
        TT_CHECK(is_full(tt_grad_scaler_scale(s, x), scales[i]));
        tt_optim_free(t.opt);
    }
    TT_REQUIRE_OK(tt_grad_scaler_update_to(s, 3));
    TT_CHECK(is_full(tt_grad_scaler_scale(s, x), 3));
    TT_CHECK_ERR(tt_grad_scaler_update_to(s, 0), TT_ERR_INVALID);
    tt_grad_scaler_free(s);
}

TT_TEST(grad_scaler, does_not_grow_beyond_the_type)
{
    tt_grad_scaler *s =
        scaler_new(&(tt_grad_scaler_options){ .scale = 3e38, .growth_interval = 1 });
    trained t = trained_new(1);

    TT_REQUIRE_OK(tt_grad_scaler_step(s, t.opt, NULL));
    TT_REQUIRE_OK(tt_grad_scaler_update(s));
    TT_CHECK_NEAR(tt_grad_scaler_get_scale(s), 3e38, 0);
    tt_optim_free(t.opt);
    tt_grad_scaler_free(s);
}

/* An update between a forward and its backward does not change what the graph has. */
TT_TEST(grad_scaler, graphs_keep_their_scale)
{
    tt_grad_scaler *s = scaler_new(&(tt_grad_scaler_options){ .scale = 4 });
    tt_tensor *x = tt_require_grad(full(1, TT_F32));
    tt_tensor *y = tt_sum(tt_grad_scaler_scale(s, x));

    TT_REQUIRE_OK(tt_grad_scaler_update_to(s, 16));
    TT_REQUIRE_OK(tt_backward(y));
    TT_CHECK(is_full(tt_grad_of(x), 4));
    tt_grad_scaler_free(s);
}

TT_TEST(grad_scaler, takes_sparse_strided_and_large_gradients)
{
    tt_grad_scaler *s = scaler_new(&(tt_grad_scaler_options){ .scale = 2 });
    int64_t n = 400000, row = 1;
    tt_tensor *ps[3] = { tt_require_grad(tt_zeros(TT_SHAPE(4, 2), TT_F32, TT_CPU)),
                         tt_require_grad(tt_zeros(TT_SHAPE(3, 3), TT_F32, TT_CPU)),
                         tt_require_grad(tt_zeros(TT_SHAPE(n), TT_F32, TT_CPU)) };
    tt_optim *opt = tt_sgd_new(ps, 3, &(tt_sgd_options){ .lr = 1 });
    tt_tensor *large = tt_full(TT_SHAPE(n), 6, TT_F32, TT_CPU);
    bool skipped;

    TT_REQUIRE_OK(tt_set_grad(ps[0], tt_sparse_coo(tt_from_data(&row, TT_SHAPE(1, 1), TT_I64),
                                                   tt_full(TT_SHAPE(1, 2), 4, TT_F32, TT_CPU),
                                                   TT_SHAPE(4, 2))));
    TT_REQUIRE_OK(tt_set_grad(ps[1], tt_t(tt_full(TT_SHAPE(3, 3), 8, TT_F32, TT_CPU))));
    TT_REQUIRE_OK(tt_set_grad(ps[2], large));
    TT_REQUIRE_OK(tt_grad_scaler_step(s, opt, &skipped));
    TT_CHECK(!skipped);
    TT_CHECK_NEAR(tt_at(ps[0], (int64_t[]){ 1, 1 }), -2, 0);
    TT_CHECK_NEAR(tt_at(ps[0], (int64_t[]){ 2, 1 }), 0, 0);
    TT_CHECK_NEAR(tt_at(ps[1], (int64_t[]){ 2, 1 }), -4, 0);
    TT_CHECK_NEAR(tt_item(tt_sum(ps[2])), -3.0 * (double)n, 0);
    TT_REQUIRE_OK(tt_grad_scaler_update(s));
    ((float *)tt_tensor_data(large))[n - 3] = INFINITY; /* in the part of the last thread */
    TT_REQUIRE_OK(tt_grad_scaler_step(s, opt, &skipped));
    TT_CHECK(skipped);
    tt_optim_free(opt);
    tt_grad_scaler_free(s);
}

TT_TEST(grad_scaler, refuses_float16_gradients_and_none)
{
    tt_grad_scaler *s = scaler_new(NULL);
    tt_tensor *p = tt_require_grad(full(0, TT_F16)), *b = tt_require_grad(full(0, TT_BF16));
    tt_optim *half = tt_sgd_new(&p, 1, NULL), *brain = tt_sgd_new(&b, 1, NULL);

    TT_CHECK_ERR_SAYS(tt_grad_scaler_step(s, half, NULL), TT_ERR_INVALID, "got none");
    TT_REQUIRE_OK(tt_set_grad(p, full(1, TT_F16)));
    TT_CHECK_ERR_SAYS(tt_grad_scaler_unscale(s, half), TT_ERR_INVALID, "got float16");
    TT_REQUIRE_OK(tt_set_grad(b, full(65536, TT_BF16)));
    TT_REQUIRE_OK(tt_grad_scaler_unscale(s, brain));
    TT_CHECK(is_full(tt_grad_of(b), 1));
    tt_optim_free(half);
    tt_optim_free(brain);
    tt_grad_scaler_free(s);
}

static tt_status count_call(void *ctx)
{
    ++*(int *)ctx;
    return TT_OK;
}

TT_TEST(grad_scaler, steps_with_what_wraps_an_optimizer)
{
    tt_grad_scaler *s = scaler_new(NULL);
    trained good = trained_new(1), bad = trained_new(NAN);
    int calls = 0;

    TT_REQUIRE_OK(tt_grad_scaler_step_with(s, good.opt, count_call, &calls, NULL));
    TT_REQUIRE_OK(tt_grad_scaler_step_with(s, bad.opt, count_call, &calls, NULL));
    TT_CHECK_EQ(calls, 1);
    TT_CHECK(is_full(tt_detach(good.p), 0)); /* the function did nothing to it */
    TT_CHECK_ERR(tt_grad_scaler_step_with(s, good.opt, NULL, NULL, NULL), TT_ERR_INVALID);
    tt_optim_free(good.opt);
    tt_optim_free(bad.opt);
    tt_grad_scaler_free(s);
}

TT_TEST(grad_scaler, disabled_is_transparent)
{
    tt_grad_scaler *s = scaler_new(&(tt_grad_scaler_options){ .disabled = true });
    tt_state_dict *sd = tt_state_dict_new();
    trained t = trained_new(2);
    tt_tensor *x = full(1, TT_F32);

    TT_CHECK(!tt_grad_scaler_is_enabled(s));
    TT_CHECK_PTR(tt_grad_scaler_scale(s, x), x);
    TT_CHECK_NEAR(tt_grad_scaler_get_scale(s), 1, 0);
    TT_REQUIRE_OK(tt_grad_scaler_unscale(s, t.opt));
    TT_CHECK(is_full(tt_grad_of(t.p), 2));
    TT_REQUIRE_OK(tt_grad_scaler_step(s, t.opt, NULL));
    TT_CHECK(is_full(tt_detach(t.p), -2));
    TT_REQUIRE_OK(tt_grad_scaler_update(s));
    TT_REQUIRE_OK(tt_grad_scaler_save(s, sd, NULL));
    TT_CHECK_EQ(tt_state_dict_count(sd), 0);
    TT_REQUIRE_OK(tt_grad_scaler_load(s, sd, NULL));
    tt_state_dict_free(sd);
    tt_optim_free(t.opt);
    tt_grad_scaler_free(s);
}

/* ---- state -------------------------------------------------------------------------------------------- */

TT_TEST(grad_scaler, state_is_saved_and_loaded)
{
    tt_grad_scaler *a = scaler_new(&(tt_grad_scaler_options){
        .scale = 8, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 5 });
    tt_grad_scaler *b = scaler_new(NULL);
    tt_state_dict *sd = tt_state_dict_new();

    for (int i = 0; i < 3; i++) {
        trained t = trained_new(1);

        TT_REQUIRE_OK(tt_grad_scaler_step(a, t.opt, NULL));
        TT_REQUIRE_OK(tt_grad_scaler_update(a));
        tt_optim_free(t.opt);
    }
    TT_REQUIRE_OK(tt_grad_scaler_save(a, sd, "amp."));
    TT_CHECK_EQ(tt_state_dict_count(sd), 5);
    TT_CHECK(is_full(tt_grad_scaler_scale(b, full(1, TT_F32)), 65536));
    TT_REQUIRE_OK(tt_grad_scaler_load(b, sd, "amp."));
    TT_CHECK_EQ(tt_grad_scaler_growth_tracker(b), 3);
    TT_CHECK(is_full(tt_grad_scaler_scale(b, full(1, TT_F32)), 8));
    for (int i = 0; i < 2; i++) {
        trained t = trained_new(1);

        TT_REQUIRE_OK(tt_grad_scaler_step(b, t.opt, NULL));
        TT_REQUIRE_OK(tt_grad_scaler_update(b));
        tt_optim_free(t.opt);
    }
    TT_CHECK_NEAR(tt_grad_scaler_get_scale(b), 32, 0);
    TT_CHECK_ERR(tt_grad_scaler_load(b, sd, NULL), TT_ERR_NOT_FOUND);
    TT_REQUIRE_OK(tt_state_dict_set(sd, "amp.growth_factor", full(1, TT_F64)));
    TT_CHECK_ERR_SAYS(tt_grad_scaler_load(b, sd, "amp."), TT_ERR_FORMAT, "amp.growth_factor");
    TT_REQUIRE_OK(
        tt_state_dict_set(sd, "amp.growth_factor", tt_full(TT_SHAPE_SCALAR, 0.5, TT_F64, TT_CPU)));
    TT_CHECK_ERR_SAYS(tt_grad_scaler_load(b, sd, "amp."), TT_ERR_INVALID, "growth factor > 1");
    TT_CHECK_NEAR(tt_grad_scaler_get_scale(b), 32, 0);
    tt_state_dict_free(sd);
    tt_grad_scaler_free(a);
    tt_grad_scaler_free(b);
}

/* ---- two optimizers over several steps --------------------------------------------------------------------- */

/* Scaled and plain copies of two models whose losses mix their outputs; in step 2 a gradient of the second
 * is made infinite, and only its step is left out. */
typedef struct pair {
    tt_module *m[2];
    tt_optim *opt[2];
} pair;

static pair pair_new(const pair *like)
{
    pair p;

    for (int i = 0; i < 2; i++) {
        p.m[i] = like != NULL ? tt_module_copy(like->m[i])
                              : TT_SEQUENTIAL(tt_linear_new(8, 8, NULL), tt_linear_new(8, 8, NULL));
        p.opt[i] = tt_sgd_for(p.m[i], &(tt_sgd_options){ .lr = 1 });
        TT_REQUIRE_NOT_NULL(p.opt[i]);
    }
    return p;
}

static void pair_free(pair *p)
{
    for (int i = 0; i < 2; i++) {
        tt_optim_free(p->opt[i]);
        tt_module_free(p->m[i]);
    }
}

static void pair_step(pair *p, tt_grad_scaler *s, tt_tensor *x, tt_tensor *y, bool bad)
{
    tt_tensor *a = tt_module_forward(p->m[0], x), *b = tt_module_forward(p->m[1], x), *loss[2];

    loss[0] = tt_mse_loss(tt_add_scaled(tt_mul_scalar(a, 0.3), b, 0.7), y);
    loss[1] = tt_mse_loss(tt_add_scaled(tt_mul_scalar(a, 0.6), b, -0.4), y);
    for (int i = 0; i < 2; i++) {
        tt_tensor *root = s != NULL ? tt_grad_scaler_scale(s, loss[i]) : loss[i];

        TT_REQUIRE_OK(tt_backward_with(root, &(tt_backward_options){ .retain_graph = i == 0 }));
    }
    if (s == NULL) {
        TT_REQUIRE_OK(tt_optim_step(p->opt[0]));
        if (!bad)
            TT_REQUIRE_OK(tt_optim_step(p->opt[1]));
    } else {
        if (bad)
            ((float *)tt_tensor_data(tt_grad_of(tt_module_param(p->m[1], "1.weight"))))[0] =
                INFINITY;
        TT_REQUIRE_OK(tt_grad_scaler_unscale(s, p->opt[0]));
        for (int i = 0; i < 2; i++)
            TT_REQUIRE_OK(tt_grad_scaler_step(s, p->opt[i], NULL));
        for (int i = 0; tt_grad_scaler_is_enabled(s) && i < 2; i++) {
            TT_CHECK_EQ(tt_grad_scaler_n_found(s, p->opt[i]), 1);
            TT_CHECK_NEAR(tt_grad_scaler_found(s, p->opt[i], 0, NULL), i == 1 && bad, 0);
        }
        TT_REQUIRE_OK(tt_grad_scaler_update(s));
    }
    for (int i = 0; i < 2; i++)
        TT_REQUIRE_OK(tt_optim_zero_grad(p->opt[i], false));
}

TT_TEST(grad_scaler, follows_training_without_it)
{
    for (int disabled = 0; disabled < 2; disabled++) {
        tt_grad_scaler *s = scaler_new(
            &(tt_grad_scaler_options){ .scale = 128, .growth_interval = 1, .disabled = disabled });
        pair control = pair_new(NULL), scaled = pair_new(&control);

        for (int i = 0; i < 4; i++)
            TT_SCOPE {
                tt_tensor *x = tt_randn(TT_SHAPE(8, 8), TT_F32, TT_CPU);
                tt_tensor *y = tt_randn(TT_SHAPE(8, 8), TT_F32, TT_CPU);

                pair_step(&control, NULL, x, y, i == 2 && !disabled);
                pair_step(&scaled, s, x, y, i == 2 && !disabled);
            }
        TT_CHECK_NEAR(tt_grad_scaler_get_scale(s), disabled ? 1 : 512, 0);
        for (int i = 0; i < 2; i++)
            TT_CHECK(tt_allclose(tt_module_param(control.m[i], "1.weight"),
                                 tt_module_param(scaled.m[i], "1.weight"),
                                 &(tt_close_options){ .rtol = 1e-5, .atol = 1e-6 }));
        pair_free(&control);
        pair_free(&scaled);
        tt_grad_scaler_free(s);
    }
}

/* ---- memory that runs out ------------------------------------------------------------------------------- */

static tt_status scaler_life(void *ctx)
{
    tt_grad_scaler *s = tt_grad_scaler_new(NULL);
    tt_state_dict *sd = tt_state_dict_new();
    tt_status st = s != NULL && sd != NULL ? TT_OK : TT_ERR_NOMEM;

    TT_SCOPE {
        trained *t = ctx;

        if (st == TT_OK && tt_grad_scaler_scale(s, t->p) == NULL)
            st = tt_last_status();
        if (st == TT_OK)
            st = tt_grad_scaler_unscale(s, t->opt);
        if (st == TT_OK)
            st = tt_grad_scaler_update_to(s, 2);
        if (st == TT_OK)
            st = tt_grad_scaler_save(s, sd, NULL);
    }
    tt_state_dict_free(sd);
    tt_grad_scaler_free(s);
    return st;
}

TT_TEST(grad_scaler, survives_failing_allocations)
{
    trained t = trained_new(1);

    TT_CHECK_GT(tt_test_fail_allocs(scaler_life, &t), 3);
    tt_optim_free(t.opt);
}
