/* SPDX-License-Identifier: Apache-2.0 */
/* A gradient scaler with a divided optimizer: as with a whole one, whoever has the gradient that is not finite. */
#include <math.h>

#include "unit/zero/zero_tools.h"

typedef struct scalers {
    tt_grad_scaler *divided, *whole;
} scalers;

static scalers scalers_new(void)
{
    const tt_grad_scaler_options opt = { .scale = 8, .growth_interval = 2 };
    scalers s = { tt_grad_scaler_new(&opt), tt_grad_scaler_new(&opt) };

    TT_REQUIRE_NOT_NULL(s.divided);
    TT_REQUIRE_NOT_NULL(s.whole);
    return s;
}

static void scalers_free(scalers *s)
{
    tt_grad_scaler_free(s->divided);
    tt_grad_scaler_free(s->whole);
}

/* Gradients times the scale; that of parameter `bad` gets an infinity. */
static void give_scaled(zt_pair *p, int step, double scale, int bad)
{
    zt_give_grads(p, ZT_PARAMS, step);
    for (int i = 0; i < ZT_PARAMS; i++) {
        tt_tensor *g[] = { tt_grad_of(p->divided[i]), tt_grad_of(p->whole[i]) };

        for (int k = 0; k < 2 && g[k] != NULL; k++) {
            TT_REQUIRE_NOT_NULL(tt_mul_scalar_(g[k], scale));
            if (i == bad)
                TT_REQUIRE_NOT_NULL(tt_fill_(tt_select(g[k], 0, 0), INFINITY));
        }
    }
}

static void follow(void)
{
    scalers s = scalers_new();
    zt_pair p;

    zt_open(&p, tt_test_pg(), ZT_ADAM, ZT_PARAMS, NULL);
    for (int step = 0; step < 12; step++)
        TT_SCOPE {
            double scale = tt_grad_scaler_get_scale(s.whole), a = 0, b = 0;
            bool skipped = false, want = false;

            TT_CHECK_NEAR(tt_grad_scaler_get_scale(s.divided), scale, 0);
            give_scaled(&p, step, scale, step % 3 == 2 ? step % 5 : -1);
            if (step % 2 == 1) { /* to clip */
                TT_REQUIRE_OK(tt_zero_unscale(p.zero, s.divided));
                TT_REQUIRE_OK(tt_grad_scaler_unscale(s.whole, p.optim));
                TT_REQUIRE_OK(tt_zero_clip_grad_norm(p.zero, 1e9, NULL, &a));
                TT_REQUIRE_OK(tt_optim_clip_grad_norm(p.optim, 1e9, NULL, &b));
                TT_CHECK(isinf(a) ? isinf(b) : fabs(a - b) < 1e-6 * b);
            }
            TT_REQUIRE_OK(tt_zero_scaler_step(p.zero, s.divided, &skipped));
            TT_REQUIRE_OK(tt_grad_scaler_step(s.whole, p.optim, &want));
            TT_CHECK_EQ(skipped, want);
            TT_REQUIRE_OK(tt_grad_scaler_update(s.divided));
            TT_REQUIRE_OK(tt_grad_scaler_update(s.whole));
        }
    zt_check_same(&p, ZT_PARAMS);
    zt_close(&p);
    scalers_free(&s);
}

TT_TEST(zero_scaler, one_rank_does_what_a_whole_one_does)
{
    follow();
}

TT_TEST_THREADS(3, zero_scaler, threads_do_what_a_whole_one_does)
{
    follow();
}

TT_TEST_RANKS(4, zero_scaler, processes_do_what_a_whole_one_does)
{
    follow();
}

/* Rank 1 has no parameter, and so no gradient. */
TT_TEST_THREADS(2, zero_scaler, a_rank_without_gradients_skips_with_the_others)
{
    scalers s = scalers_new();
    bool skipped = false;
    zt_pair p;

    zt_open(&p, tt_test_pg(), ZT_SGD, 1, NULL);
    for (int step = 0; step < 2; step++) {
        give_scaled(&p, step, tt_grad_scaler_get_scale(s.divided), step == 1 ? 0 : -1);
        TT_REQUIRE_OK(tt_zero_scaler_step(p.zero, s.divided, &skipped));
        TT_CHECK_EQ(skipped, step == 1);
        TT_REQUIRE_OK(tt_grad_scaler_update(s.divided));
    }
    TT_CHECK_NEAR(tt_grad_scaler_get_scale(s.divided), 4, 0);
    TT_CHECK_ERR(tt_zero_unscale(NULL, s.divided), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_zero_scaler_step(p.zero, NULL, NULL), TT_ERR_INVALID);
    zt_close(&p);
    scalers_free(&s);
}

/* The second time, as nobody has updated the scaler: on all ranks, whoever has gradients. */
TT_TEST_THREADS(2, zero_scaler, mistakes_are_errors)
{
    scalers s = scalers_new();
    tt_grad_scaler *off = tt_grad_scaler_new(&(tt_grad_scaler_options){ .disabled = true });
    tt_joinable list[1];
    tt_join *j;
    zt_pair p;

    zt_open(&p, tt_test_pg(), ZT_SGD, ZT_PARAMS, NULL);
    give_scaled(&p, 0, 8, -1);
    TT_REQUIRE_OK(tt_zero_unscale(p.zero, s.divided));
    TT_CHECK_ERR_SAYS(tt_zero_unscale(p.zero, s.divided), TT_ERR_INVALID, "one call per update");
    TT_CHECK_OK(tt_zero_unscale(p.zero, off));
    TT_CHECK_OK(tt_zero_scaler_step(p.zero, off, NULL));
    list[0] = tt_zero_joinable(p.zero);
    j = tt_join_new(list, 1, NULL);
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_ERR_SAYS(tt_zero_unscale(p.zero, s.divided), TT_ERR_UNSUPPORTED, "uneven inputs");
    tt_join_free(j);
    tt_grad_scaler_free(off);
    zt_close(&p);
    scalers_free(&s);
}
