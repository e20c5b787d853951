/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping by the norm of gradients that are divided among ranks: as if one rank had them all. */
#include <math.h>

#include "unit/zero/zero_tools.h"

static const double types[] = { 2, 1, 3, INFINITY };
static const double limits[] = { 0.5, 1e6 };

/* The gradients of this rank's parameters are scaled like those of the whole; the others stay. */
static void check_grads(const zt_pair *p, double factor)
{
    for (int i = 0; i < ZT_PARAMS; i++)
        TT_SCOPE {
            tt_tensor *g = tt_grad_of(p->divided[i]), *w = tt_grad_of(p->whole[i]);
            bool own = tt_zero_owner(p->zero, 0, i) == tt_test_rank();
            tt_close_report r = { 0 };

            if (g == NULL)
                continue;
            if (!own && factor < 1)
                w = tt_div_scalar(w, factor);
            if (!tt_compare(g, w, &(tt_close_options){ .rtol = 1e-5, .atol = 1e-7 }, &r))
                TT_FAIL_TEST("parameter %d, own %d: %s", i, own, r.text);
        }
}

static void clip_like_a_whole_one(void)
{
    zt_pair p;

    zt_open(&p, tt_test_pg(), ZT_SGD, ZT_PARAMS, NULL);
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < 2; l++) {
            tt_clip_options opt = { .norm_type = types[t] };
            double got = 0, want = 0;

            zt_give_grads(&p, ZT_PARAMS, t);
            TT_REQUIRE_OK(tt_zero_clip_grad_norm(p.zero, limits[l], &opt, &got));
            TT_REQUIRE_OK(tt_optim_clip_grad_norm(p.optim, limits[l], &opt, &want));
            TT_CHECK_NEAR(got, want, 1e-9 * want);
            check_grads(&p, limits[l] / (want + 1e-6));
        }
    zt_close(&p);
}

TT_TEST(zero_clip, one_rank_clips_like_an_optimizer)
{
    clip_like_a_whole_one();
}

TT_TEST_THREADS(3, zero_clip, threads_clip_like_an_optimizer)
{
    clip_like_a_whole_one();
}

TT_TEST_RANKS(4, zero_clip, processes_clip_like_an_optimizer)
{
    clip_like_a_whole_one();
}

/* ---- lists of tensors ------------------------------------------------------------------------------- */

/* Rank r has r gradients of 3s and one of 4s. */
TT_TEST_THREADS(4, zero_clip, every_rank_counts_its_own_list)
{
    tt_tensor *params[4];
    double total = 0, want = 0;
    int me = tt_test_rank();

    for (int i = 0; i <= me; i++) {
        params[i] = tt_require_grad(tt_ones(TT_SHAPE(2), TT_F64, TT_CPU));
        TT_REQUIRE_OK(tt_set_grad(params[i], tt_full(TT_SHAPE(2), i < me ? 3 : 4, TT_F64, TT_CPU)));
    }
    for (int r = 0; r < tt_test_size(); r++)
        want += 2 * (9 * r + 16);
    TT_REQUIRE_OK(tt_pg_clip_grad_norm(tt_test_pg(), params, me + 1, 1, NULL, &total));
    TT_CHECK_NEAR(total, sqrt(want), 1e-12);
    TT_CHECK_NEAR(tt_item(tt_select(tt_grad_of(params[me]), 0, 0)), 4 / sqrt(want), 1e-6);
    /* Again: the norm is now the limit. A rank may have none at all. */
    TT_REQUIRE_OK(tt_pg_clip_grad_norm(tt_test_pg(), params, me + 1, 5, NULL, &total));
    TT_CHECK_NEAR(total, 1, 1e-6);
    TT_REQUIRE_OK(tt_pg_clip_grad_norm(tt_test_pg(), params, me == 0, 5, NULL, &total));
    TT_CHECK_NEAR(total, 4 * sqrt(2 / want), 1e-6);
}

TT_TEST_THREADS(3, zero_clip, what_is_not_finite_fails_on_all_ranks)
{
    tt_tensor *p = tt_require_grad(tt_ones(TT_SHAPE(1), TT_F32, TT_CPU));
    const tt_clip_options strict = { .error_if_nonfinite = true };
    const tt_clip_options greatest = { .norm_type = INFINITY };
    double value = tt_test_rank() == 1 ? NAN : 2, total = 0;

    TT_REQUIRE_OK(tt_set_grad(p, tt_full(TT_SHAPE(1), value, TT_F32, TT_CPU)));
    TT_CHECK_ERR_SAYS(tt_pg_clip_grad_norm(tt_test_pg(), &p, 1, 1, &strict, NULL), TT_ERR_INVALID,
                      "finite");
    if (tt_test_rank() != 1)
        TT_CHECK_NEAR(tt_item(tt_grad_of(p)), 2, 0);
    TT_REQUIRE_OK(tt_pg_clip_grad_norm(tt_test_pg(), &p, 1, 1, &greatest, &total));
    TT_CHECK(isnan(total));
}

TT_TEST_THREADS(2, zero_clip, a_failure_of_one_rank_is_told_to_the_other)
{
    tt_tensor *p = tt_require_grad(tt_ones(TT_SHAPE(1), TT_F32, TT_CPU));
    tt_tensor *bad[] = { tt_test_rank() == 0 ? p : NULL };

    TT_REQUIRE_OK(tt_set_grad(p, tt_ones(TT_SHAPE(1), TT_F32, TT_CPU)));
    if (tt_test_rank() == 0)
        TT_CHECK_ERR_SAYS(tt_pg_clip_grad_norm(tt_test_pg(), bad, 1, 0.1, NULL, NULL), TT_ERR_PEER,
                          "another rank");
    else
        TT_CHECK_ERR_SAYS(tt_pg_clip_grad_norm(tt_test_pg(), bad, 1, 0.1, NULL, NULL),
                          TT_ERR_INVALID, "parameter 0 is NULL");
    TT_CHECK_NEAR(tt_item(tt_grad_of(p)), 1, 0);
    tt_clear_error();
    TT_CHECK_ERR(tt_pg_clip_grad_norm(NULL, &p, 1, 1, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_zero_clip_grad_norm(NULL, 1, NULL, NULL), TT_ERR_INVALID);
}
