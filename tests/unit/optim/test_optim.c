/* SPDX-License-Identifier: Apache-2.0 */
/* Every optimizer against a loop in double written here from its formulas, over several steps, types,
 * layouts and option sets. */
#include <math.h>
#include <string.h>

#include "harness/check_tensor.h"
#include "tutti/tutti.h"
#include "tutti/optim.h"
#include "tutti/testing.h"

#define N 67 /* not a multiple of any vector */
#define STEPS 12

typedef struct reference {
    double p[N], g[N], a[N], b[N], c[N];
    int step;
} reference;

static double number(int i, int step)
{
    return sin(1.0 + 0.7 * i + 1.3 * step) + 0.05 * cos(11.0 * i);
}

static void fill(reference *r)
{
    *r = (reference){ 0 };
    for (int i = 0; i < N; i++)
        r->p[i] = number(i, 100);
}

static tt_tensor *new_param(const double *values, tt_dtype dtype)
{
    tt_tensor *t = tt_empty(TT_SHAPE(N), dtype, TT_CPU);

    TT_REQUIRE_NOT_NULL(t);
    for (int i = 0; i < N; i++) {
        if (dtype == TT_F64)
            ((double *)tt_tensor_data(t))[i] = values[i];
        else
            ((float *)tt_tensor_data(t))[i] = (float)values[i];
    }
    return tt_require_grad(t);
}

static double value(const tt_tensor *t, int i)
{
    return tt_tensor_dtype(t) == TT_F64 ? ((double *)tt_tensor_data(t))[i]
                                        : (double)((float *)tt_tensor_data(t))[i];
}

typedef void (*reference_fn)(reference *r, const void *options);

/* Train a parameter with `opt` and the reference with fn on the same gradients. */
static void compare(tt_optim *opt, tt_tensor *p, reference_fn fn, const void *options, double tol)
{
    reference r;

    fill(&r);
    TT_REQUIRE_NOT_NULL(opt);
    for (int step = 0; step < STEPS; step++) {
        TT_SCOPE {
            tt_tensor *g;

            for (int i = 0; i < N; i++)
                r.g[i] = number(i, step);
            g = new_param(r.g, tt_tensor_dtype(p));
            TT_REQUIRE_OK(tt_set_grad(p, g));
        }
        r.step++;
        fn(&r, options);
        TT_REQUIRE_OK(tt_optim_step(opt));
        for (int i = 0; i < N; i++)
            if (!TT_CHECK_NEAR(value(p, i), r.p[i], tol * fmax(1, fabs(r.p[i]))))
                return;
    }
    TT_CHECK_EQ(tt_optim_param_steps(opt, 0, 0), STEPS);
}

/* ---- sgd --------------------------------------------------------------------------------------- */

static void sgd_reference(reference *r, const void *options)
{
    const tt_sgd_options *o = options;

    for (int i = 0; i < N; i++) {
        double d = (o->maximize ? -r->g[i] : r->g[i]) + o->weight_decay * r->p[i];

        if (o->momentum != 0) {
            r->a[i] = r->step == 1 ? d : o->momentum * r->a[i] + (1 - o->dampening) * d;
            d = o->nesterov ? d + o->momentum * r->a[i] : r->a[i];
        }
        r->p[i] -= o->lr * d;
    }
}

TT_TEST(optim, sgd_follows_its_formula)
{
    const tt_sgd_options sets[] = {
        { .lr = 0.1 },
        { .lr = 0.1, .weight_decay = 0.3 },
        { .lr = 0.1, .momentum = 0.9 },
        { .lr = 0.1, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1, .maximize = true },
        { .lr = 0.1, .momentum = 0.8, .nesterov = true, .weight_decay = 0.05 },
    };

    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        TT_SCOPE {
            reference r;
            tt_tensor *p32, *p64;
            tt_optim *o32, *o64;

            fill(&r);
            p32 = new_param(r.p, TT_F32);
            p64 = new_param(r.p, TT_F64);
            o32 = tt_sgd_new(&p32, 1, &sets[i]);
            o64 = tt_sgd_new(&p64, 1, &sets[i]);
            compare(o32, p32, sgd_reference, &sets[i], 1e-5);
            compare(o64, p64, sgd_reference, &sets[i], 1e-13);
            tt_optim_free(o32);
            tt_optim_free(o64);
        }
    }
}

/* ---- adam, adamw ------------------------------------------------------------------------------- */

typedef struct adam_case {
    tt_adam_options o;
    bool decoupled;
} adam_case;

static void adam_reference(reference *r, const void *options)
{
    const adam_case *c = options;
    const tt_adam_options *o = &c->o;

    for (int i = 0; i < N; i++) {
        double d = o->maximize ? -r->g[i] : r->g[i], top;

        if (c->decoupled)
            r->p[i] *= 1 - o->lr * o->weight_decay;
        else
            d += o->weight_decay * r->p[i];
        r->a[i] = o->beta1 * r->a[i] + (1 - o->beta1) * d;
        r->b[i] = o->beta2 * r->b[i] + (1 - o->beta2) * d * d;
        r->c[i] = fmax(r->c[i], r->b[i]);
        top = o->amsgrad ? r->c[i] : r->b[i];
        r->p[i] -= o->lr / (1 - pow(o->beta1, r->step)) * r->a[i] /
                   (sqrt(top) / sqrt(1 - pow(o->beta2, r->step)) + o->eps);
    }
}

TT_TEST(optim, adam_and_adamw_follow_their_formulas)
{
    const tt_adam_options sets[] = {
        { .lr = 0.05, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
        { .lr = 0.05, .beta1 = 0.3, .beta2 = 0.8, .eps = 1e-3, .weight_decay = 0.2 },
        { .lr = 0.05, .beta1 = 0.9, .beta2 = 0.5, .eps = 1e-8, .amsgrad = true },
        { .lr = 0.05,
          .beta1 = 0.9,
          .beta2 = 0.9,
          .eps = 1e-8,
          .weight_decay = 0.1,
          .maximize = true },
    };

    for (size_t i = 0; i < 2 * sizeof sets / sizeof sets[0]; i++) {
        adam_case c = { sets[i / 2], i % 2 == 1 };

        TT_SCOPE {
            reference r;
            tt_tensor *p32, *p64;
            tt_optim *o32, *o64;

            fill(&r);
            p32 = new_param(r.p, TT_F32);
            p64 = new_param(r.p, TT_F64);
            if (c.decoupled && c.o.weight_decay == 0)
                c.o.weight_decay = TT_OPTIM_ZERO;
            o32 = c.decoupled ? tt_adamw_new(&p32, 1, &c.o) : tt_adam_new(&p32, 1, &c.o);
            o64 = c.decoupled ? tt_adamw_new(&p64, 1, &c.o) : tt_adam_new(&p64, 1, &c.o);
            compare(o32, p32, adam_reference, &c, 2e-5);
            compare(o64, p64, adam_reference, &c, 1e-13);
            tt_optim_free(o32);
            tt_optim_free(o64);
        }
    }
}

/* ---- adagrad ----------------------------------------------------------------------------------- */

static void adagrad_reference(reference *r, const void *options)
{
    const tt_adagrad_options *o = options;

    for (int i = 0; i < N; i++) {
        double d = (o->maximize ? -r->g[i] : r->g[i]) + o->weight_decay * r->p[i];

        if (r->step == 1)
            r->a[i] = o->initial_accumulator_value;
        r->a[i] += d * d;
        r->p[i] -= o->lr / (1 + (r->step - 1) * o->lr_decay) * d / (sqrt(r->a[i]) + o->eps);
    }
}

TT_TEST(optim, adagrad_follows_its_formula)
{
    const tt_adagrad_options sets[] = {
        { .lr = 0.1, .eps = 1e-10 },
        { .lr = 0.1, .eps = 1e-3, .lr_decay = 0.2, .initial_accumulator_value = 0.5 },
        { .lr = 0.1, .eps = 1e-10, .weight_decay = 0.1, .maximize = true },
    };

    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        TT_SCOPE {
            reference r;
            tt_tensor *p32, *p64;
            tt_optim *o32, *o64;

            fill(&r);
            p32 = new_param(r.p, TT_F32);
            p64 = new_param(r.p, TT_F64);
            o32 = tt_adagrad_new(&p32, 1, &sets[i]);
            o64 = tt_adagrad_new(&p64, 1, &sets[i]);
            compare(o32, p32, adagrad_reference, &sets[i], 1e-5);
            compare(o64, p64, adagrad_reference, &sets[i], 1e-13);
            tt_optim_free(o32);
            tt_optim_free(o64);
        }
    }
}

/* A complex parameter is trained like its two parts. */
TT_TEST(optim, adagrad_starts_both_parts_of_complex_sums)
{
    const tt_adagrad_options opt = { .lr = 0.1, .initial_accumulator_value = 0.5 };

    TT_SCOPE {
        tt_tensor *real = tt_reshape(TT_FLOATS(1, -2, 3, 0.5), TT_SHAPE(2, 2));
        tt_tensor *p[2] = { tt_clone(tt_view_as_complex(real)), real };

        for (int i = 0; i < 2; i++) {
            tt_optim *o;

            TT_REQUIRE_NOT_NULL(tt_require_grad(p[i]));
            o = tt_adagrad_new(&p[i], 1, &opt);
            TT_REQUIRE_NOT_NULL(o);
            for (int step = 0; step < 3; step++)
                TT_SCOPE {
                    tt_tensor *parts = i == 0 ? tt_view_as_real(p[i]) : p[i];

                    TT_CHECK_OK(tt_optim_zero_grad(o, false));
                    TT_CHECK_OK(tt_backward(tt_sum(tt_mul(parts, parts))));
                    TT_CHECK_OK(tt_optim_step(o));
                }
            tt_optim_free(o);
        }
        TT_NO_GRAD TT_CHECK_TENSOR(tt_view_as_real(p[0]), p[1], 0.0);
    }
}

/* ---- rmsprop ----------------------------------------------------------------------------------- */

static void rmsprop_reference(reference *r, const void *options)
{
    const tt_rmsprop_options *o = options;

    for (int i = 0; i < N; i++) {
        double d = (o->maximize ? -r->g[i] : r->g[i]) + o->weight_decay * r->p[i], root;

        r->a[i] = o->alpha * r->a[i] + (1 - o->alpha) * d * d;
        r->b[i] = o->alpha * r->b[i] + (1 - o->alpha) * d;
        root = sqrt(o->centered ? r->a[i] - r->b[i] * r->b[i] : r->a[i]) + o->eps;
        r->c[i] = o->momentum * r->c[i] + d / root;
        r->p[i] -= o->lr * (o->momentum > 0 ? r->c[i] : d / root);
    }
}

TT_TEST(optim, rmsprop_follows_its_formula)
{
    const tt_rmsprop_options sets[] = {
        { .lr = 0.01, .alpha = 0.99, .eps = 1e-8 },
        { .lr = 0.01, .alpha = 0.9, .eps = 1e-4, .momentum = 0.8, .weight_decay = 0.1 },
        { .lr = 0.01, .alpha = 0.3, .eps = 1e-2, .centered = true, .momentum = 0.5 },
        { .lr = 0.01, .alpha = 0.9, .eps = 1e-2, .centered = true, .maximize = true },
    };

    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        TT_SCOPE {
            reference r;
            tt_tensor *p32, *p64;
            tt_optim *o32, *o64;

            fill(&r);
            p32 = new_param(r.p, TT_F32);
            p64 = new_param(r.p, TT_F64);
            o32 = tt_rmsprop_new(&p32, 1, &sets[i]);
            o64 = tt_rmsprop_new(&p64, 1, &sets[i]);
            compare(o32, p32, rmsprop_reference, &sets[i], 5e-5);
            compare(o64, p64, rmsprop_reference, &sets[i], 1e-12);
            tt_optim_free(o32);
            tt_optim_free(o64);
        }
    }
}

/* ---- what all have in common ------------------------------------------------------------------- */

TT_TEST(optim, zero_in_the_options_means_pytorchs_default)
{
    TT_SCOPE {
        tt_tensor *p = tt_require_grad(TT_FLOATS(1, 2));
        tt_optim *o[] = { tt_sgd_new(&p, 1, NULL), tt_adam_new(&p, 1, NULL),
                          tt_adamw_new(&p, 1, NULL), tt_adagrad_new(&p, 1, NULL),
                          tt_rmsprop_new(&p, 1, NULL) };

        TT_CHECK_NEAR(tt_optim_get_lr(o[0], 0), 1e-3, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[0], 0, "momentum"), 0, 0);
        TT_CHECK_NEAR(tt_optim_get_lr(o[1], 0), 1e-3, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[1], 0, "beta1"), 0.9, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[1], 0, "beta2"), 0.999, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[1], 0, "eps"), 1e-8, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[1], 0, "weight_decay"), 0, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[2], 0, "weight_decay"), 0.01, 0);
        TT_CHECK_NEAR(tt_optim_get_lr(o[3], 0), 1e-2, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[3], 0, "eps"), 1e-10, 0);
        TT_CHECK_NEAR(tt_optim_get_lr(o[4], 0), 1e-2, 0);
        TT_CHECK_NEAR(tt_optim_get_number(o[4], 0, "alpha"), 0.99, 0);
        TT_CHECK(isnan(tt_optim_get_number(o[0], 0, "beta1")));
        TT_CHECK_STR(tt_optim_name(o[2]), "adamw");
        for (int i = 0; i < 5; i++)
            tt_optim_free(o[i]);
    }
}

TT_TEST(optim, parameters_without_gradient_are_skipped_and_not_counted)
{
    TT_SCOPE {
        tt_tensor *p[2] = { tt_require_grad(TT_FLOATS(1, 2)), TT_FLOATS(3, 4) };
        tt_optim *o = tt_adam_new(p, 2, NULL);

        TT_REQUIRE_OK(tt_set_grad(p[0], TT_FLOATS(1, 1)));
        TT_CHECK_OK(tt_optim_step(o));
        TT_CHECK_OK(tt_optim_step(o));
        TT_CHECK_EQ(tt_optim_param_steps(o, 0, 0), 2);
        TT_CHECK_EQ(tt_optim_param_steps(o, 0, 1), 0);
        TT_CHECK_NULL(tt_optim_param_state(o, 0, 1, "exp_avg"));
        TT_CHECK_NOT_NULL(tt_optim_param_state(o, 0, 0, "exp_avg"));
        TT_CHECK_NEAR(((float *)tt_tensor_data(p[1]))[1], 4, 0);
        TT_CHECK_GT(tt_tensor_version(p[0]), 0);
        TT_CHECK_OK(tt_optim_zero_grad(o, true));
        TT_CHECK_NEAR(((float *)tt_tensor_data(tt_grad_of(p[0])))[1], 0, 0);
        TT_CHECK_OK(tt_optim_zero_grad(o, false));
        TT_CHECK_NULL(tt_grad_of(p[0]));
        tt_optim_free(o);
    }
}

TT_TEST(optim, groups_have_numbers_of_their_own)
{
    TT_SCOPE {
        tt_tensor *p[2] = { tt_require_grad(TT_FLOATS(1)), tt_require_grad(TT_FLOATS(1)) };
        tt_optim *o = tt_sgd_new(&p[0], 1, &(tt_sgd_options){ .lr = 0.5, .weight_decay = 1 });

        TT_REQUIRE_OK(tt_optim_add_group(
            o, &p[1], 1, &(tt_group_options){ .lr = 0.25, .weight_decay = TT_OPTIM_ZERO }));
        TT_CHECK_EQ(tt_optim_n_groups(o), 2);
        TT_CHECK_EQ(tt_optim_n_params(o, 1), 1);
        TT_CHECK_EQ(tt_optim_n_params(o, 2), -1);
        TT_CHECK_PTR(tt_optim_param(o, 1, 0), p[1]);
        TT_REQUIRE_OK(tt_set_grad(p[0], TT_FLOATS(1)));
        TT_REQUIRE_OK(tt_set_grad(p[1], TT_FLOATS(1)));
        TT_CHECK_OK(tt_optim_step(o));
        TT_CHECK_NEAR(*(float *)tt_tensor_data(p[0]), 1 - 0.5 * 2, 0);
        TT_CHECK_NEAR(*(float *)tt_tensor_data(p[1]), 0.75, 0);
        TT_CHECK_OK(tt_optim_set_lr(o, 1, 1));
        TT_CHECK_OK(tt_optim_step(o));
        TT_CHECK_NEAR(*(float *)tt_tensor_data(p[1]), -0.25, 0);
        TT_CHECK_ERR_SAYS(tt_optim_set_lr(o, 1, -1), TT_ERR_INVALID, "lr >= 0, got -1");
        TT_CHECK_ERR_SAYS(tt_optim_set_lr(o, 2, 1), TT_ERR_INVALID, "below 2, got 2");
        TT_CHECK_ERR_SAYS(tt_optim_add_group(o, p, 1, NULL), TT_ERR_INVALID, "more than once");
        tt_optim_free(o);
    }
}

TT_TEST(optim, mistakes_are_refused_in_words)
{
    TT_SCOPE {
        tt_tensor *p = tt_require_grad(TT_FLOATS(1)), *whole = TT_INTS(1), *none = NULL;

        TT_CHECK_NULL(tt_sgd_new(&p, 1, &(tt_sgd_options){ .lr = -1 }));
        TT_CHECK_CONTAINS(tt_last_error(), "sgd: expected lr >= 0, got -1");
        TT_CHECK_NULL(tt_sgd_new(&p, 1, &(tt_sgd_options){ .nesterov = true }));
        TT_CHECK_CONTAINS(tt_last_error(), "nesterov needs momentum");
        TT_CHECK_NULL(tt_adam_new(&p, 1, &(tt_adam_options){ .beta1 = 1 }));
        TT_CHECK_CONTAINS(tt_last_error(), "adam: expected 0 <= beta1 < 1, got 1");
        TT_CHECK_NULL(tt_adam_new(&whole, 1, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "int64");
        TT_CHECK_NULL(tt_adam_new(&none, 1, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "NULL");
        TT_CHECK_ERR(tt_optim_step(NULL), TT_ERR_INVALID);
        tt_optim_free(NULL);
    }
}

/* A parameter in another order of memory, a gradient in yet another, a parameter with gaps. */
TT_TEST(optim, layouts_do_not_matter)
{
    TT_SCOPE {
        float plain[6] = { 1, 2, 3, 4, 5, 6 }, turned[6] = { 1, 4, 2, 5, 3, 6 };
        float gaps[12] = { 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0 }, grad[6] = { 6, 5, 4, 3, 2, 1 };
        tt_tensor *p[3] = {
            tt_wrap(plain, TT_SHAPE(2, 3), NULL, TT_F32, NULL, NULL),
            tt_wrap(turned, TT_SHAPE(2, 3), (int64_t[]){ 1, 2 }, TT_F32, NULL, NULL),
            tt_wrap(gaps, TT_SHAPE(2, 3), (int64_t[]){ 6, 2 }, TT_F32, NULL, NULL),
        };
        tt_optim *o = tt_adam_new(p, 3, &(tt_adam_options){ .lr = 0.1, .weight_decay = 0.1 });

        for (int i = 0; i < 3; i++)
            TT_REQUIRE_OK(
                tt_set_grad(p[i], tt_wrap(grad, TT_SHAPE(2, 3), NULL, TT_F32, NULL, NULL)));
        for (int step = 0; step < 3; step++)
            TT_REQUIRE_OK(tt_optim_step(o));
        TT_CHECK(fabsf(plain[0] - 1) > 0.1);
        for (int r = 0; r < 2; r++) {
            for (int c = 0; c < 3; c++) {
                TT_CHECK_NEAR(turned[r + 2 * c], plain[3 * r + c], 1e-6);
                TT_CHECK_NEAR(gaps[6 * r + 2 * c], plain[3 * r + c], 1e-6);
            }
        }
        TT_CHECK_NEAR(gaps[1], 0, 0);
        tt_optim_free(o);
    }
}

/* bfloat16 is the upper half of float32: the reference rounds p and m, v after each step. */
TT_TEST(optim, halves_are_computed_in_float_and_rounded_once)
{
    TT_SCOPE {
        tt_tensor *p = tt_empty(TT_SHAPE(300), TT_BF16, TT_CPU);
        tt_tensor *g = tt_empty(TT_SHAPE(300), TT_BF16, TT_CPU);
        uint16_t *bits = tt_tensor_data(p), *grad = tt_tensor_data(g);
        tt_optim *o;

        for (int i = 0; i < 300; i++) {
            bits[i] = 0x3f80; /* 1 */
            grad[i] = 0x3f00; /* 0.5 */
        }
        o = tt_sgd_new(&p, 1, &(tt_sgd_options){ .lr = 0.25, .momentum = 0.5 });
        TT_REQUIRE_OK(tt_set_grad(p, g));
        TT_REQUIRE_OK(tt_optim_step(o)); /* 1 - 0.125 */
        TT_CHECK_EQ(bits[0], 0x3f60);
        TT_CHECK_EQ(bits[299], 0x3f60);
        TT_REQUIRE_OK(tt_optim_step(o)); /* - 0.25 * 0.75 = 0.6875 */
        TT_CHECK_EQ(bits[150], 0x3f30);
        TT_CHECK_EQ(grad[7], 0x3f00);
        tt_optim_free(o);
    }
}

/* A large parameter goes over several threads: the same bits as with one. */
TT_TEST(optim, threads_do_not_change_the_result)
{
    enum { LARGE = 300001 };
    tt_tensor *p[2];

    TT_SCOPE {
        for (int k = 0; k < 2; k++) {
            tt_tensor *g = tt_empty(TT_SHAPE(LARGE), TT_F32, TT_CPU);
            tt_optim *o;

            p[k] = tt_empty(TT_SHAPE(LARGE), TT_F32, TT_CPU);
            for (int i = 0; i < LARGE; i++) {
                ((float *)tt_tensor_data(p[k]))[i] = (float)sin(i);
                ((float *)tt_tensor_data(g))[i] = (float)cos(i);
            }
            TT_REQUIRE_OK(tt_set_num_threads(k == 0 ? 1 : 3));
            o = tt_adamw_new(&p[k], 1, NULL);
            TT_REQUIRE_OK(tt_set_grad(p[k], g));
            for (int step = 0; step < 3; step++)
                TT_REQUIRE_OK(tt_optim_step(o));
            tt_optim_free(o);
        }
        TT_CHECK_MEM(tt_tensor_data(p[0]), tt_tensor_data(p[1]), LARGE * sizeof(float));
    }
}

static tt_status train_a_little(void *ctx)
{
    tt_status st = TT_ERR_NOMEM;

    (void)ctx;
    TT_SCOPE {
        tt_tensor *p = TT_FLOATS(1, 2, 3), *g = TT_FLOATS(1, 1, 1);
        tt_optim *o = p != NULL && g != NULL ? tt_adam_new(&p, 1, NULL) : NULL;

        if (o != NULL)
            st = tt_set_grad(p, g);
        if (o != NULL && st == TT_OK)
            st = tt_optim_step(o);
        tt_optim_free(o);
    }
    return st;
}

TT_TEST(optim, failing_allocations_leak_nothing)
{
    TT_CHECK_GT(tt_test_fail_allocs(train_a_little, NULL), 5);
}

/* ---- an optimizer of one's own ----------------------------------------------------------------- */

static tt_status sign_update(tt_optim_slot *slot, const double *numbers)
{
    float *p = tt_tensor_data(slot->param);
    const float *g = tt_tensor_data(slot->grad);
    tt_tensor *count = tt_optim_slot_state(slot, 0, 10);

    if (count == NULL)
        return tt_last_status();
    for (int64_t i = 0; i < tt_tensor_numel(slot->param); i++) {
        p[i] -= (float)numbers[0] * (g[i] > 0 ? 1.0f : -1.0f);
        ((float *)tt_tensor_data(count))[i] += 1;
    }
    (*(int *)slot->ctx)++;
    return TT_OK;
}

TT_TEST(optim, users_can_bring_their_own)
{
    static const char *const numbers[] = { "lr", NULL }, *const states[] = { "count", NULL };
    static const tt_optim_ops ops = {
        .name = "sign", .numbers = numbers, .states = states, .update = sign_update
    };
    int calls = 0;

    TT_SCOPE {
        tt_tensor *p = TT_FLOATS(1, 2);
        tt_optim *o = tt_optim_new(&ops, &calls, &p, 1, (double[]){ 0.5 });

        TT_REQUIRE_NOT_NULL(o);
        TT_REQUIRE_OK(tt_set_grad(p, TT_FLOATS(3, -3)));
        TT_CHECK_OK(tt_optim_step(o));
        TT_CHECK_EQ(calls, 1);
        TT_CHECK_NEAR(((float *)tt_tensor_data(p))[0], 0.5, 0);
        TT_CHECK_NEAR(((float *)tt_tensor_data(p))[1], 2.5, 0);
        TT_CHECK_NEAR(*(float *)tt_tensor_data(tt_optim_param_state(o, 0, 0, "count")), 11, 0);
        tt_optim_free(o);
    }
}

TT_TEST(optim, amsgrad_of_a_complex_parameter_is_that_of_its_parts)
{
    TT_SCOPE {
        tt_tensor *real = tt_view(TT_FLOATS(1, -2, 3, 0.5f), TT_SHAPE(2, 2));
        tt_tensor *p[2] = { tt_require_grad(tt_clone(tt_view_as_complex(real))),
                            tt_require_grad(tt_clone(real)) };
        tt_adam_options opt = { .lr = 0.1, .amsgrad = true };

        for (int k = 0; k < 2; k++) {
            tt_optim *o = tt_adam_new(&p[k], 1, &opt);

            for (int step = 0; step < 4; step++) {
                tt_tensor *parts = k == 0 ? tt_view_as_real(p[k]) : p[k];

                TT_CHECK_OK(tt_optim_zero_grad(o, false));
                TT_CHECK_OK(
                    tt_backward(tt_mul_scalar(tt_sum(tt_square(parts)), step == 0 ? 4.0 : 0.25)));
                TT_CHECK_OK(tt_optim_step(o));
            }
            tt_optim_free(o);
        }
        TT_CHECK(tt_allclose(tt_view_as_real(tt_detach(p[0])), tt_detach(p[1]), NULL));
        TT_CHECK(tt_item(tt_amax(tt_sub(tt_detach(p[1]), real), NULL, 0, false)) > 0.1);
    }
}
