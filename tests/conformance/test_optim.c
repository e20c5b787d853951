/* SPDX-License-Identifier: Apache-2.0 */
/* Every optimizer with every combination of its options, 50 steps down a quadratic whose gradients come
 * from backward: two groups with rates of their own, a parameter that has no gradient in some
 * steps, against a loop in double; and the same again, saved and loaded half way. */
#include <math.h>
#include <string.h>

#include "tutti/autograd.h"
#include "tutti/nn.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/schedule.h"
#include "tutti/testing.h"

enum { N = 5, PARAMS = 3, STEPS = 50, HALF = 23 };

typedef enum kind { SGD, ADAM, ADAMW, ADAGRAD, RMSPROP, N_KINDS } kind;

/* All numbers an optimizer may have, and switches as bits of `flags`. */
enum { MAXIMIZE = 1, DECAY = 2, MOMENTUM = 4, OTHER = 8, N_FLAGS = 16 };

typedef struct rule {
    kind kind;
    int flags;
    double lr, decay, momentum;
} rule;

typedef struct slot {
    double p[N], a[N], b[N], c[N];
    int step;
} slot;

static const double group_lr[2] = { 0.02, 0.005 };

/* ---- the rules, in double -------------------------------------------------------------------------- */

static void sgd_rule(const rule *r, slot *s, int i, double g)
{
    /* OTHER with momentum: Nesterov; without: nothing. */
    if (r->flags & MOMENTUM) {
        s->a[i] = s->step == 1 ? g : r->momentum * s->a[i] + g;
        g = r->flags & OTHER ? g + r->momentum * s->a[i] : s->a[i];
    }
    s->p[i] -= r->lr * g;
}

static void adam_rule(const rule *r, slot *s, int i, double g)
{
    double b1 = r->flags & MOMENTUM ? 0.7 : 0.9, b2 = 0.95, top;

    s->a[i] = b1 * s->a[i] + (1 - b1) * g;
    s->b[i] = b2 * s->b[i] + (1 - b2) * g * g;
    s->c[i] = fmax(s->c[i], s->b[i]);
    top = r->flags & OTHER ? s->c[i] : s->b[i];
    s->p[i] -=
        r->lr * (s->a[i] / (1 - pow(b1, s->step))) / (sqrt(top / (1 - pow(b2, s->step))) + 1e-8);
}

static void adagrad_rule(const rule *r, slot *s, int i, double g)
{
    double lr = r->lr / (1 + (s->step - 1) * (r->flags & OTHER ? 0.1 : 0));

    if (s->step == 1)
        s->a[i] = r->flags & MOMENTUM ? 0.3 : 0;
    s->a[i] += g * g;
    s->p[i] -= lr * g / (sqrt(s->a[i]) + 1e-10);
}

static void rmsprop_rule(const rule *r, slot *s, int i, double g)
{
    double root;

    s->a[i] = 0.9 * s->a[i] + 0.1 * g * g;
    s->b[i] = 0.9 * s->b[i] + 0.1 * g;
    root = sqrt(s->a[i] - (r->flags & OTHER ? s->b[i] * s->b[i] : 0)) + 1e-6;
    if (r->flags & MOMENTUM) {
        s->c[i] = r->momentum * s->c[i] + g / root;
        s->p[i] -= r->lr * s->c[i];
    } else {
        s->p[i] -= r->lr * g / root;
    }
}

static void apply(const rule *r, slot *s, const double *grad)
{
    s->step++;
    for (int i = 0; i < N; i++) {
        double g = r->flags & MAXIMIZE ? -grad[i] : grad[i];

        if (r->kind == ADAMW)
            s->p[i] *= 1 - r->lr * r->decay;
        else
            g += r->decay * s->p[i];
        if (r->kind == SGD)
            sgd_rule(r, s, i, g);
        else if (r->kind == ADAGRAD)
            adagrad_rule(r, s, i, g);
        else if (r->kind == RMSPROP)
            rmsprop_rule(r, s, i, g);
        else
            adam_rule(r, s, i, g);
    }
}

/* ---- the library's --------------------------------------------------------------------------------- */

static tt_optim *make(const rule *r, tt_tensor *const *params, int n)
{
    bool maximize = r->flags & MAXIMIZE, momentum = r->flags & MOMENTUM, other = r->flags & OTHER;
    double lr = group_lr[0], decay = r->decay != 0 ? r->decay : TT_OPTIM_ZERO;
    tt_adam_options adam = { .lr = lr,
                             .beta1 = momentum ? 0.7 : 0.9,
                             .beta2 = 0.95,
                             .weight_decay = decay,
                             .amsgrad = other,
                             .maximize = maximize };

    switch (r->kind) {
    case SGD:
        return tt_sgd_new(params, n,
                          &(tt_sgd_options){ .lr = lr,
                                             .momentum = momentum ? r->momentum : 0,
                                             .weight_decay = r->decay,
                                             .nesterov = momentum && other,
                                             .maximize = maximize });
    case ADAM:
        return tt_adam_new(params, n, &adam);
    case ADAMW:
        return tt_adamw_new(params, n, &adam);
    case ADAGRAD:
        return tt_adagrad_new(
            params, n,
            &(tt_adagrad_options){ .lr = lr,
                                   .lr_decay = other ? 0.1 : 0,
                                   .weight_decay = r->decay,
                                   .initial_accumulator_value = momentum ? 0.3 : 0,
                                   .maximize = maximize });
    default:
        return tt_rmsprop_new(params, n,
                              &(tt_rmsprop_options){ .lr = lr,
                                                     .alpha = 0.9,
                                                     .eps = 1e-6,
                                                     .weight_decay = r->decay,
                                                     .momentum = momentum ? r->momentum : 0,
                                                     .centered = other,
                                                     .maximize = maximize });
    }
}

static double target(int p, int i)
{
    return sin(2.0 * p + i);
}

static double curve(int p, int i)
{
    return 0.5 + 0.3 * ((p + i) % 4);
}

/* Parameter 1 takes part in two steps of three only. */
static bool takes_part(int p, int step)
{
    return p != 1 || step % 3 != 0;
}

static tt_tensor *vector(double (*fn)(int, int), int p)
{
    double v[N];

    for (int i = 0; i < N; i++)
        v[i] = fn(p, i);
    return tt_from_data(v, TT_SHAPE(N), TT_F64);
}

static double beginning(int p, int i)
{
    return cos(3.0 * i + p) + 2;
}

/* sum of curve * (x - target)^2 over the parameters that take part. */
static void one_step(tt_optim *o, tt_tensor *const *params, int step)
{
    TT_SCOPE {
        tt_tensor *loss = tt_zeros(TT_SHAPE_SCALAR, TT_F64, TT_CPU);

        for (int p = 0; p < PARAMS; p++)
            if (takes_part(p, step))
                loss = tt_add(loss, tt_sum(tt_mul(tt_square(tt_sub(params[p], vector(target, p))),
                                                  vector(curve, p))));
        TT_REQUIRE_OK(tt_backward(loss));
        TT_REQUIRE_OK(tt_optim_step(o));
        TT_REQUIRE_OK(tt_optim_zero_grad(o, false));
    }
}

static tt_optim *begin(const rule *r, tt_tensor **params)
{
    tt_optim *o;

    for (int p = 0; p < PARAMS; p++)
        params[p] = tt_require_grad(vector(beginning, p));
    o = make(r, params, PARAMS - 1);
    TT_REQUIRE_NOT_NULL(o);
    TT_REQUIRE_OK(
        tt_optim_add_group(o, params + PARAMS - 1, 1, &(tt_group_options){ .lr = group_lr[1] }));
    return o;
}

static void follow(rule r)
{
    slot s[PARAMS] = { 0 };
    tt_tensor *params[PARAMS];
    tt_optim *o = begin(&r, params);

    for (int p = 0; p < PARAMS; p++)
        for (int i = 0; i < N; i++)
            s[p].p[i] = beginning(p, i);
    for (int step = 0; step < STEPS; step++) {
        one_step(o, params, step);
        for (int p = 0; p < PARAMS; p++) {
            const double *got = tt_tensor_data(params[p]);
            double grad[N];

            for (int i = 0; i < N; i++)
                grad[i] = 2 * curve(p, i) * (s[p].p[i] - target(p, i));
            r.lr = group_lr[p == PARAMS - 1];
            if (takes_part(p, step))
                apply(&r, &s[p], grad);
            for (int i = 0; i < N; i++)
                TT_REQUIRE_NEAR(got[i], s[p].p[i], 1e-8 * fmax(1, fabs(s[p].p[i])));
        }
    }
    for (int p = 0; p < PARAMS; p++)
        TT_CHECK_EQ(tt_optim_param_steps(o, p == PARAMS - 1, p % (PARAMS - 1)), s[p].step);
    tt_optim_free(o);
}

/* The same bits with and without an optimizer of its own for the second half. */
static void resume(const rule *r)
{
    tt_tensor *whole[PARAMS], *parted[PARAMS];
    tt_optim *a = begin(r, whole), *b = begin(r, parted), *c;
    tt_state_dict *sd = tt_state_dict_new();

    for (int step = 0; step < STEPS; step++)
        one_step(a, whole, step);
    for (int step = 0; step < HALF; step++)
        one_step(b, parted, step);
    TT_REQUIRE_OK(tt_optim_save(b, sd, "half."));
    tt_optim_free(b);
    c = make(r, parted, PARAMS - 1);
    TT_REQUIRE_OK(tt_optim_add_group(c, parted + PARAMS - 1, 1, NULL));
    TT_REQUIRE_OK(tt_optim_load(c, sd, "half."));
    for (int step = HALF; step < STEPS; step++)
        one_step(c, parted, step);
    for (int p = 0; p < PARAMS; p++)
        TT_CHECK_MEM(tt_tensor_data(whole[p]), tt_tensor_data(parted[p]), N * sizeof(double));
    tt_state_dict_free(sd);
    tt_optim_free(a);
    tt_optim_free(c);
}

static void every_option(kind k)
{
    for (int flags = 0; flags < N_FLAGS; flags++) {
        rule r = { .kind = k, .flags = flags, .decay = flags & DECAY ? 0.05 : 0, .momentum = 0.6 };

        TT_SCOPE {
            follow(r);
            resume(&r);
        }
        if (tt_test_failures() > 0) {
            TT_FAIL_TEST("with flags %d", flags);
            return;
        }
    }
}

TT_TEST(optim_rules, sgd_with_every_option)
{
    every_option(SGD);
}

TT_TEST(optim_rules, adam_with_every_option)
{
    every_option(ADAM);
}

TT_TEST(optim_rules, adamw_with_every_option)
{
    every_option(ADAMW);
}

TT_TEST(optim_rules, adagrad_with_every_option)
{
    every_option(ADAGRAD);
}

TT_TEST(optim_rules, rmsprop_with_every_option)
{
    every_option(RMSPROP);
}

/* ---- one cycle, all shapes ------------------------------------------------------------------------- */

static double between(double from, double to, double share, bool linear)
{
    return linear ? from + (to - from) * share
                  : to + (from - to) / 2 * (1 + cos(3.14159265358979323846 * share));
}

/* The rate at a step: up to 2, down to 0.2 (three phases) and to 0.002. */
static double cycle(int step, int total, bool linear, bool three)
{
    const double first = 0.2, top = 2, last = 0.002;
    double up = 0.25 * total - 1, down = three ? 2 * 0.25 * total - 2 : total - 1;

    if (step <= up)
        return between(first, top, step / up, linear);
    if (step <= down || !three)
        return between(top, three ? first : last, (step - up) / (down - up), linear);
    return between(first, last, (step - down) / (total - 1 - down), linear);
}

TT_TEST(optim_rules, one_cycle_in_lines_and_cosines_of_two_and_three_phases)
{
    for (int shape = 0; shape < 4; shape++) {
        tt_one_cycle_options o = { .pct_start = 0.25,
                                   .div_factor = 10,
                                   .final_div_factor = 100,
                                   .linear = shape & 1,
                                   .three_phase = shape & 2,
                                   .keep_momentum = true };
        tt_optim *opt = tt_sgd_new(NULL, 0, &(tt_sgd_options){ .lr = 1, .momentum = 0.5 });
        tt_schedule *s = tt_one_cycle_lr_new(opt, 2, 60, &o);

        TT_REQUIRE_NOT_NULL(s);
        for (int step = 0; step < 60; step++) {
            TT_CHECK_NEAR(tt_optim_get_lr(opt, 0), cycle(step, 60, o.linear, o.three_phase), 1e-12);
            TT_CHECK_NEAR(tt_optim_get_number(opt, 0, "momentum"), 0.5, 0);
            if (step < 59)
                TT_REQUIRE_OK(tt_schedule_step(s));
        }
        tt_schedule_free(s);
        tt_optim_free(opt);
    }
}

TT_TEST(optim_rules, cosine_comes_back_from_a_floor)
{
    tt_optim *opt = tt_sgd_new(NULL, 0, &(tt_sgd_options){ .lr = 0.8 });
    tt_schedule *s = tt_cosine_lr_new(opt, 12, 0.1);

    TT_REQUIRE_NOT_NULL(s);
    for (int step = 0; step < 60; step++) {
        double want = 0.1 + 0.35 * (1 + cos(3.14159265358979323846 * step / 12));

        TT_CHECK_NEAR(tt_optim_get_lr(opt, 0), want, 1e-11);
        TT_REQUIRE_OK(tt_schedule_step(s));
    }
    tt_schedule_free(s);
    tt_optim_free(opt);
}
