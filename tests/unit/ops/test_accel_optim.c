/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer steps on an accelerator against the CPU: every rule and option, dense and sparse, several steps. */
#include "accel_data.h"

#define CPU tti_kernels_cpu.optim
#define DEV tti_kernels_accel.optim

static const tt_dtype types[] = { TT_F32, TT_F64, TT_F16, TT_BF16, TT_C64, TT_C128 };
static const int64_t sizes[] = { 0, 1, 300, 9000 };

/* Centred sums are differences of nearly equal numbers, and compilers fuse products and sums as they like. */
static double tolerance(tt_dtype d)
{
    switch (d) {
    case TT_F16:
        return 2e-3;
    case TT_BF16:
        return 1.6e-2;
    case TT_F32:
    case TT_C64:
        return 1e-5;
    default:
        return 1e-13;
    }
}

/* A parameter, its gradient and three states; those that are squares are positive. */
typedef struct training {
    pair p, g, s[3];
} training;

static training begin(tt_dtype d, int64_t n)
{
    training t = { .p = accel_pair(&n, 1, d, PLAIN, USUAL, 1),
                   .g = accel_pair(&n, 1, d, PLAIN, USUAL, 2) };

    for (int i = 0; i < 3; i++)
        t.s[i] = accel_out(&n, 1, d, PLAIN);
    return t;
}

static bool same(const training *t, const char *rule, int options)
{
    tt_dtype d = (tt_dtype)t->p.cpu->dtype;
    char what[96];
    bool ok = true;

    for (int i = 0; i < 4; i++) {
        snprintf(what, sizeof what, "%s with options %d, %s, array %d", rule, options,
                 tt_dtype_name(d), i);
        ok = accel_same(i == 0 ? &t->p : &t->s[i - 1], tolerance(d), what) && ok;
    }
    return ok;
}

/* Runs `steps` for every type and size, with every combination of `n_options` switches. */
static void sweep(const char *rule, int n_options, void (*step)(training *t, int options, int at))
{
    (void)accel_device();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
            for (int options = 0; options < 1 << n_options; options++)
                TT_SCOPE {
                    training t = begin(types[i], sizes[j]);

                    for (int at = 1; at <= 3; at++)
                        step(&t, options, at);
                    if (!same(&t, rule, options))
                        return;
                }
}

static void step_sgd(training *t, int options, int at)
{
    bool heavy = (options & 1) != 0;
    tti_sgd_args a = { .lr = 0.1,
                       .momentum = heavy ? 0.9 : 0,
                       .dampening = heavy && (options & 2) != 0 ? 0.1 : 0,
                       .weight_decay = (options & 4) != 0 ? 0.01 : 0,
                       .nesterov = heavy && (options & 2) == 0,
                       .maximize = (options & 8) != 0,
                       .first = at == 1 };

    TT_CHECK_OK(CPU->sgd(t->p.cpu, t->g.cpu, heavy ? t->s[0].cpu : NULL, &a));
    TT_CHECK_OK(DEV->sgd(t->p.dev, t->g.dev, heavy ? t->s[0].dev : NULL, &a));
}

TT_TEST_LIMIT(accel_optim, sgd, 240)
{
    sweep("sgd", 4, step_sgd);
}

static void step_adam(training *t, int options, int at)
{
    tti_adam_args a = { .lr = 0.01,
                        .beta1 = (options & 8) != 0 ? 0.3 : 0.9,
                        .beta2 = 0.99,
                        .eps = 1e-4,
                        .weight_decay = (options & 1) != 0 ? 0.1 : 0,
                        .step = at,
                        .decoupled = (options & 2) != 0,
                        .amsgrad = (options & 4) != 0,
                        .maximize = (options & 8) != 0 };

    TT_CHECK_OK(CPU->adam(t->p.cpu, t->g.cpu, t->s[0].cpu, t->s[1].cpu, t->s[2].cpu, &a));
    TT_CHECK_OK(DEV->adam(t->p.dev, t->g.dev, t->s[0].dev, t->s[1].dev, t->s[2].dev, &a));
}

TT_TEST_LIMIT(accel_optim, adam, 240)
{
    sweep("adam", 4, step_adam);
}

static void step_adagrad(training *t, int options, int at)
{
    tti_adagrad_args a = { .lr = 0.1,
                           .lr_decay = 0.01,
                           .eps = 1e-4,
                           .weight_decay = (options & 1) != 0 ? 0.1 : 0,
                           .step = at,
                           .maximize = (options & 2) != 0 };

    TT_CHECK_OK(CPU->adagrad(t->p.cpu, t->g.cpu, t->s[0].cpu, &a));
    TT_CHECK_OK(DEV->adagrad(t->p.dev, t->g.dev, t->s[0].dev, &a));
}

TT_TEST_LIMIT(accel_optim, adagrad, 240)
{
    sweep("adagrad", 2, step_adagrad);
}

static void step_rmsprop(training *t, int options, int at)
{
    bool heavy = (options & 2) != 0, centered = (options & 4) != 0;
    tti_rmsprop_args a = { .lr = 0.01,
                           .alpha = 0.9,
                           .eps = 1e-3,
                           .weight_decay = (options & 1) != 0 ? 0.1 : 0,
                           .momentum = heavy ? 0.9 : 0,
                           .centered = centered };

    (void)at;
    TT_CHECK_OK(CPU->rmsprop(t->p.cpu, t->g.cpu, t->s[0].cpu, heavy ? t->s[1].cpu : NULL,
                             centered ? t->s[2].cpu : NULL, &a));
    TT_CHECK_OK(DEV->rmsprop(t->p.dev, t->g.dev, t->s[0].dev, heavy ? t->s[1].dev : NULL,
                             centered ? t->s[2].dev : NULL, &a));
}

TT_TEST_LIMIT(accel_optim, rmsprop, 240)
{
    sweep("rmsprop", 3, step_rmsprop);
}

/* ---- sparse gradients ------------------------------------------------------------------------------ */

enum { ROWS = 12, WIDTH = 300 };

/* Entries of a gradient; repeated rows unless `distinct`. */
static pair sparse_pair(tt_dtype d, bool distinct)
{
    static const int64_t apart[] = { 1, 4, 5, 9, 11 }, again[] = { 4, 1, 4, 4, 11 };
    const int64_t at[] = { 1, 5 };
    pair values = accel_pair((int64_t[]){ 5, WIDTH }, 2, d, PLAIN, USUAL, 7);
    pair indices = accel_out(at, 2, TT_I64, PLAIN);

    memcpy(indices.cpu->storage->data, distinct ? apart : again, sizeof apart);
    indices.dev = accel_copy(indices.cpu, accel_device());
    return (
        pair){ tt_sparse_coo_unchecked(indices.cpu, values.cpu, TT_SHAPE(ROWS, WIDTH), distinct),
               tt_sparse_coo_unchecked(indices.dev, values.dev, TT_SHAPE(ROWS, WIDTH), distinct) };
}

TT_TEST_LIMIT(accel_optim, sparse_gradients, 240)
{
    (void)accel_device();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        TT_SCOPE {
            tt_dtype d = types[i];
            const int64_t dims[] = { ROWS, WIDTH };
            pair p = accel_pair(dims, 2, d, PLAIN, USUAL, 1), m = accel_out(dims, 2, d, PLAIN),
                 v = accel_out(dims, 2, d, PLAIN), once = sparse_pair(d, true),
                 twice = sparse_pair(d, false);
            tti_sgd_args s = { .lr = 0.1 };
            tti_adam_args a = {
                .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-4, .step = 2, .eps_inside = true
            };
            tti_adagrad_args ag = { .lr = 0.1, .eps = 1e-4, .step = 1 };

            TT_CHECK_OK(CPU->sgd(p.cpu, twice.cpu, NULL, &s));
            TT_CHECK_OK(DEV->sgd(p.dev, twice.dev, NULL, &s));
            TT_CHECK_OK(CPU->sgd(p.cpu, once.cpu, NULL, &s));
            TT_CHECK_OK(DEV->sgd(p.dev, once.dev, NULL, &s));
            accel_same(&p, tolerance(d), "sparse sgd");
            TT_CHECK_OK(CPU->adam(p.cpu, once.cpu, m.cpu, v.cpu, NULL, &a));
            TT_CHECK_OK(DEV->adam(p.dev, once.dev, m.dev, v.dev, NULL, &a));
            accel_same(&m, tolerance(d), "sparse adam, m");
            TT_CHECK_OK(CPU->adagrad(p.cpu, once.cpu, v.cpu, &ag));
            TT_CHECK_OK(DEV->adagrad(p.dev, once.dev, v.dev, &ag));
            accel_same(&v, tolerance(d), "sparse adagrad, sum");
            accel_same(&p, tolerance(d), "sparse, parameter");
        }
}

/* ---- clipping and scaling ----------------------------------------------------------------------------- */

TT_TEST_LIMIT(accel_optim, scale_and_clamp, 240)
{
    (void)accel_device();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (kind k = USUAL; k <= SPECIAL; k++)
            TT_SCOPE {
                const int64_t n = 5000;
                pair x = accel_pair(&n, 1, types[i], PLAIN, k, 1);

                TT_CHECK_OK(CPU->scale(x.cpu, 1.7));
                TT_CHECK_OK(DEV->scale(x.dev, 1.7));
                TT_CHECK_OK(CPU->clamp(x.cpu, -0.5, 0.75));
                TT_CHECK_OK(DEV->clamp(x.dev, -0.5, 0.75));
                accel_same(&x, 0, tt_dtype_name(types[i]));
            }
}

TT_TEST_LIMIT(accel_optim, sums_of_powers, 240)
{
    static const double powers[] = { 1, 2, 3, 0.5, INFINITY };

    (void)accel_device();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (int j = 0; j < 5; j++)
            TT_SCOPE {
                static const int64_t ns[] = { 0, 1, 1000, 70000 };

                for (int k = 0; k < 4; k++) {
                    pair x = accel_pair(&ns[k], 1, types[i], PLAIN, USUAL, 1);
                    double a = -1, b = -1, again = -1;

                    TT_CHECK_OK(CPU->sum_powers(x.cpu, powers[j], &a));
                    TT_CHECK_OK(DEV->sum_powers(x.dev, powers[j], &b));
                    TT_CHECK_OK(DEV->sum_powers(x.dev, powers[j], &again));
                    TT_CHECK_NEAR(a, b, 1e-12 * fabs(a));
                    TT_CHECK(b == again);
                }
            }
    TT_SCOPE {
        const int64_t n = 40000;
        pair x = accel_pair(&n, 1, TT_F32, PLAIN, SPECIAL, 1);
        double greatest = 0;

        TT_CHECK_OK(DEV->sum_powers(x.dev, INFINITY, &greatest));
        TT_CHECK(isnan(greatest));
    }
}

TT_TEST_LIMIT(accel_optim, unscale_finds_what_is_not_finite, 240)
{
    (void)accel_device();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (int bad = 0; bad < 3; bad++)
            TT_SCOPE {
                const int64_t n = 9001, one = 1;
                pair x = accel_pair(&n, 1, types[i], PLAIN, USUAL, 1),
                     found = accel_out(&one, 1, TT_F32, PLAIN);

                if (bad > 0)
                    accel_store(x.cpu->storage->data, types[i], 8500, bad == 1 ? NAN : -INFINITY);
                x.dev = accel_copy(x.cpu, accel_device());
                TT_CHECK_OK(CPU->unscale(x.cpu, 0.5, found.cpu));
                TT_CHECK_OK(DEV->unscale(x.dev, 0.5, found.dev));
                TT_CHECK(*(float *)tti_data(found.cpu) == (bad > 0));
                accel_same(&found, 0, "found");
                accel_same(&x, 0, "unscaled");
            }
}

/* Quick enough for a simulator that checks every access. */
TT_TEST_LIMIT(accel_optim, small_ones, 300)
{
    (void)accel_device();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        TT_SCOPE {
            training t = begin(types[i], 37);
            double a = 0, b = 0;

            step_sgd(&t, 7, 1);
            step_sgd(&t, 7, 2);
            same(&t, "sgd", 7);
            t = begin(types[i], 37);
            step_adam(&t, 7, 1);
            same(&t, "adam", 7);
            t = begin(types[i], 37);
            step_adagrad(&t, 1, 2);
            step_rmsprop(&t, 3, 3);
            same(&t, "one after the other", 3);
            TT_CHECK_OK(CPU->sum_powers(t.p.cpu, 2, &a));
            TT_CHECK_OK(DEV->sum_powers(t.p.dev, 2, &b));
            TT_CHECK_NEAR(a, b, 1e-6 * fabs(a));
        }
}
