/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules over many steps against their closed forms, and what goes wrong. */
#include <math.h>

#include "tutti/schedule.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

#define PI 3.14159265358979323846

typedef double (*form)(int64_t step); /* of base rate 0.5 */

static void follow(tt_optim *o, tt_schedule *s, form f, int64_t steps)
{
    TT_REQUIRE_NOT_NULL(s);
    for (int64_t i = 0; i <= steps; i++) {
        if (!TT_CHECK_NEAR(tt_optim_get_lr(o, 0), f(i), 1e-12) ||
            !TT_CHECK_NEAR(tt_optim_get_lr(o, 1), f(i) * 2, 1e-12)) {
            TT_FAIL_TEST("in step %lld", (long long)i);
            break;
        }
        TT_CHECK_EQ(tt_schedule_steps(s), i);
        TT_REQUIRE_OK(tt_schedule_step(s));
    }
    tt_schedule_free(s);
    tt_optim_free(o);
}

/* Two groups without parameters, with rates 0.5 and 1. */
static tt_optim *rates(void)
{
    tt_optim *o = tt_sgd_new(NULL, 0, &(tt_sgd_options){ .lr = 0.5, .momentum = 0.9 });

    TT_REQUIRE_NOT_NULL(o);
    TT_REQUIRE_OK(tt_optim_add_group(o, NULL, 0, &(tt_group_options){ .lr = 1 }));
    return o;
}

static double step_form(int64_t s)
{
    return 0.5 * pow(0.3, (double)(s / 7));
}

static double multi_form(int64_t s)
{
    return 0.5 * (s >= 3 ? 0.1 : 1) * (s >= 10 ? 0.01 : 1);
}

static double exponential_form(int64_t s)
{
    return 0.5 * pow(0.9, (double)s);
}

static double cosine_form(int64_t s)
{
    return 0.5 * (1 + cos(PI * (double)s / 13)) / 2;
}

static double constant_form(int64_t s)
{
    return s < 4 ? 0.125 : 0.5;
}

static double linear_form(int64_t s)
{
    return 0.5 * (s < 8 ? 0.1 + (double)s / 8 * 0.8 : 0.9);
}

static double warmup_form(int64_t s)
{
    if (s < 5)
        return 0.5 * (double)(s + 1) / 5;
    if (s >= 20)
        return 0.05;
    return 0.5 * (0.1 + 0.9 * (1 + cos(PI * (double)(s - 5) / 15)) / 2);
}

static double lambda_form(int64_t s)
{
    return 0.5 / (double)(s + 1);
}

static double one_over(void *ctx, int64_t step)
{
    (*(int *)ctx)++;
    return 1.0 / (double)(step + 1);
}

TT_TEST(optim, schedules_follow_their_closed_forms)
{
    const int64_t milestones[] = { 3, 10, 10 };
    int calls = 0;
    tt_optim *o = rates();

    follow(o, tt_step_lr_new(o, 7, 0.3), step_form, 50);
    o = rates();
    follow(o, tt_multi_step_lr_new(o, milestones, 3, 0), multi_form, 30);
    o = rates();
    follow(o, tt_exponential_lr_new(o, 0.9), exponential_form, 100);
    o = rates();
    follow(o, tt_cosine_lr_new(o, 13, 0), cosine_form, 60);
    o = rates();
    follow(o, tt_constant_lr_new(o, 0.25, 4), constant_form, 20);
    o = rates();
    follow(o, tt_linear_lr_new(o, &(tt_linear_lr_options){ 0.1, 0.9, 8 }), linear_form, 30);
    o = rates();
    follow(o, tt_warmup_cosine_lr_new(o, 5, 20, &(tt_warmup_cosine_options){ 0.1 }), warmup_form,
           40);
    o = rates();
    follow(o, tt_lambda_lr_new(o, one_over, &calls), lambda_form, 20);
    TT_CHECK_EQ(calls, 2 * 22);
}

/* Values of PyTorch's OneCycleLR(max_lr=1, total_steps=10) on SGD with momentum. */
TT_TEST(optim, one_cycle_moves_rate_and_momentum)
{
    tt_optim *o = rates();
    tt_schedule *s = tt_one_cycle_lr_new(o, 1.0, 10, NULL);
    double first = 1.0 / 25, last = first / 1e4;

    TT_REQUIRE_NOT_NULL(s);
    for (int i = 0; i < 10; i++) {
        double share = i <= 2 ? i / 2.0 : (i - 2) / 7.0, up = (1 + cos(PI * share)) / 2;
        double lr = i <= 2 ? 1 + (first - 1) * up : last + (1 - last) * up;
        double momentum = i <= 2 ? 0.85 + 0.1 * up : 0.95 - 0.1 * up;

        TT_CHECK_NEAR(tt_optim_get_lr(o, 0), lr, 1e-12);
        TT_CHECK_NEAR(tt_optim_get_number(o, 1, "momentum"), momentum, 1e-12);
        TT_REQUIRE_OK(tt_schedule_step(s));
    }
    TT_CHECK_ERR_SAYS(tt_schedule_step(s), TT_ERR_INVALID, "beyond");
    TT_CHECK_EQ(tt_schedule_steps(s), 10);
    tt_schedule_free(s);
    tt_optim_free(o);
}

TT_TEST(optim, chained_schedules_multiply)
{
    tt_optim *o = rates();
    tt_schedule *parts[2] = { tt_constant_lr_new(o, 0.1, 2), tt_exponential_lr_new(o, 0.9) };
    tt_schedule *s = tt_chained_lr_new(parts, 2);

    TT_REQUIRE_NOT_NULL(s);
    for (int i = 0; i < 6; i++) {
        TT_CHECK_NEAR(tt_optim_get_lr(o, 0), 0.5 * (i < 2 ? 0.1 : 1) * pow(0.9, i), 1e-12);
        TT_REQUIRE_OK(tt_schedule_step(s));
    }
    tt_schedule_free(s);
    tt_schedule_free(parts[0]);
    tt_schedule_free(parts[1]);
    tt_optim_free(o);
}

TT_TEST(optim, schedules_refuse_what_makes_no_sense)
{
    tt_optim *o = rates(), *plain = tt_adagrad_new(NULL, 0, NULL);

    TT_CHECK_NULL(tt_step_lr_new(o, 0, 0));
    TT_CHECK_CONTAINS(tt_last_error(), "step size >= 1, got 0");
    TT_CHECK_NULL(tt_step_lr_new(NULL, 1, 0));
    TT_CHECK_NULL(tt_cosine_lr_new(o, 0, 0));
    TT_CHECK_NULL(tt_constant_lr_new(o, 2, 0));
    TT_CHECK_NULL(tt_warmup_cosine_lr_new(o, 10, 10, NULL));
    TT_CHECK_NULL(tt_one_cycle_lr_new(plain, 1, 10, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "adagrad has no momentum");
    TT_CHECK_NULL(tt_chained_lr_new(NULL, 0));
    TT_CHECK_ERR(tt_schedule_step(NULL), TT_ERR_INVALID);
    tt_optim_free(o);
    tt_optim_free(plain);
}
