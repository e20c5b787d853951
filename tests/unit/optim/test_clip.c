/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient clipping by norm and by value. */
#include <math.h>

#include "tutti/optim.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

static void set_two(tt_tensor **p, float a, float b, float c)
{
    TT_REQUIRE_OK(tt_set_grad(p[0], TT_FLOATS(a, b)));
    TT_REQUIRE_OK(tt_set_grad(p[2], TT_FLOATS(c)));
}

static float grad_at(tt_tensor *p, int i)
{
    return ((float *)tt_tensor_data(tt_grad_of(p)))[i];
}

TT_TEST(optim, clip_by_norm_scales_all_gradients_together)
{
    TT_SCOPE {
        tt_tensor *p[3] = { TT_FLOATS(0, 0), TT_FLOATS(0), TT_FLOATS(0) };
        double total = 0;

        set_two(p, 3, -4, 12);
        TT_CHECK_OK(tt_clip_grad_norm(p, 3, 100, NULL, &total));
        TT_CHECK_NEAR(total, 13, 1e-12);
        TT_CHECK_NEAR(grad_at(p[0], 1), -4, 0);
        TT_CHECK_OK(tt_clip_grad_norm(p, 3, 1.3, NULL, &total));
        TT_CHECK_NEAR(grad_at(p[0], 0), 0.3, 1e-6);
        TT_CHECK_NEAR(grad_at(p[0], 1), -0.4, 1e-6);
        TT_CHECK_NEAR(grad_at(p[2], 0), 1.2, 1e-6);

        set_two(p, 3, -4, 12);
        TT_CHECK_OK(
            tt_clip_grad_norm(p, 3, 6, &(tt_clip_options){ .norm_type = INFINITY }, &total));
        TT_CHECK_NEAR(total, 12, 0);
        TT_CHECK_NEAR(grad_at(p[0], 1), -2, 1e-6);
        set_two(p, 3, -4, 12);
        TT_CHECK_OK(tt_clip_grad_norm(p, 3, 1.9, &(tt_clip_options){ .norm_type = 1 }, &total));
        TT_CHECK_NEAR(total, 19, 1e-12);
        TT_CHECK_NEAR(grad_at(p[2], 0), 1.2, 1e-6);
        set_two(p, 3, -4, 12);
        TT_CHECK_OK(tt_clip_grad_norm(p, 3, 1e9, &(tt_clip_options){ .norm_type = 3 }, &total));
        TT_CHECK_NEAR(total, cbrt(27.0 + 64 + 1728), 1e-9);
    }
}

TT_TEST(optim, clip_can_refuse_gradients_that_are_not_finite)
{
    TT_SCOPE {
        tt_tensor *p[3] = { TT_FLOATS(0, 0), TT_FLOATS(0), TT_FLOATS(0) };
        const tt_clip_options strict = { .error_if_nonfinite = true };
        double total = 0;

        set_two(p, 3, NAN, 12);
        TT_CHECK_ERR_SAYS(tt_clip_grad_norm(p, 3, 1, &strict, &total), TT_ERR_INVALID, "finite");
        TT_CHECK_NEAR(grad_at(p[0], 0), 3, 0);
        TT_CHECK_OK(tt_clip_grad_norm(p, 3, 1, NULL, &total));
        TT_CHECK(isnan(total));
        TT_CHECK(isnan(grad_at(p[2], 0)));
        set_two(p, 3, INFINITY, 12);
        TT_CHECK_OK(tt_clip_grad_norm(p, 3, 1, NULL, &total));
        TT_CHECK(isinf(total));
        TT_CHECK_NEAR(grad_at(p[2], 0), 0, 0);
        set_two(p, NAN, 1, 12);
        TT_CHECK_OK(
            tt_clip_grad_norm(p, 3, 1, &(tt_clip_options){ .norm_type = INFINITY }, &total));
        TT_CHECK(isnan(total));
    }
}

TT_TEST(optim, clip_by_value_bounds_every_element)
{
    TT_SCOPE {
        tt_tensor *p[3] = { TT_FLOATS(0, 0), TT_FLOATS(0), TT_FLOATS(0) };

        set_two(p, 3, -4, 0.5f);
        TT_CHECK_OK(tt_clip_grad_value(p, 3, 1));
        TT_CHECK_NEAR(grad_at(p[0], 0), 1, 0);
        TT_CHECK_NEAR(grad_at(p[0], 1), -1, 0);
        TT_CHECK_NEAR(grad_at(p[2], 0), 0.5, 0);
        TT_CHECK_ERR(tt_clip_grad_value(p, 3, -1), TT_ERR_INVALID);
    }
}

TT_TEST(optim, the_norm_of_many_elements_does_not_depend_on_threads)
{
    enum { LARGE = 5000003 };
    double totals[2], sum = 0;

    TT_SCOPE {
        tt_tensor *p = tt_empty(TT_SHAPE(LARGE), TT_F32, TT_CPU);
        tt_tensor *g = tt_empty(TT_SHAPE(LARGE), TT_F32, TT_CPU);
        float *x = tt_tensor_data(g);

        TT_REQUIRE_NOT_NULL(p);
        for (int i = 0; i < LARGE; i++) {
            x[i] = (float)(i % 1009) * 1e-3f;
            sum += (double)x[i] * (double)x[i];
        }
        TT_REQUIRE_OK(tt_set_grad(p, g));
        for (int k = 0; k < 2; k++) {
            TT_REQUIRE_OK(tt_set_num_threads(1 + 2 * k));
            TT_REQUIRE_OK(tt_clip_grad_norm(&p, 1, INFINITY, NULL, &totals[k]));
        }
        TT_CHECK_MEM(&totals[0], &totals[1], sizeof totals[0]);
        TT_CHECK_NEAR(totals[0], sqrt(sum), 1e-9 * sqrt(sum));
    }
}
