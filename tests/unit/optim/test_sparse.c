/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse gradients: who takes them, and what they do to the rows they name and to the others. */
#include <math.h>
#include <string.h>

#include "tutti/optim.h"
#include "tutti/sparse.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

#define ROWS 6
#define WIDTH 5

static tt_tensor *table(void)
{
    tt_tensor *p = tt_empty(TT_SHAPE(ROWS, WIDTH), TT_F64, TT_CPU);

    for (int i = 0; i < ROWS * WIDTH; i++)
        ((double *)tt_tensor_data(p))[i] = 0.1 * i - 1;
    return p;
}

static double value(int step, int k, int c)
{
    return sin(1 + 3.0 * step + 1.7 * k + 0.3 * c);
}

/* Rows 4, 1 and 4 again: the two of row 4 add up. */
static tt_tensor *gradient(int step)
{
    tt_tensor *indices = tt_from_data((const int64_t[]){ 4, 1, 4 }, TT_SHAPE(1, 3), TT_I64);
    tt_tensor *values = tt_empty(TT_SHAPE(3, WIDTH), TT_F64, TT_CPU);

    for (int k = 0; k < 3; k++)
        for (int c = 0; c < WIDTH; c++)
            ((double *)tt_tensor_data(values))[k * WIDTH + c] = value(step, k, c);
    return tt_sparse_coo(indices, values, TT_SHAPE(ROWS, WIDTH));
}

static double summed(int step, int row, int c)
{
    return row == 1 ? value(step, 1, c) : value(step, 0, c) + value(step, 2, c);
}

typedef void (*rule)(double *p, double *a, double *b, double g, int step);

static void sgd_rule(double *p, double *a, double *b, double g, int step)
{
    (void)a;
    (void)b;
    (void)step;
    *p -= 0.1 * g;
}

static void adagrad_rule(double *p, double *a, double *b, double g, int step)
{
    (void)b;
    *a += g * g;
    *p -= 0.1 / (1 + 0.5 * (step - 1)) * g / (sqrt(*a) + 1e-10);
}

static void sparse_adam_rule(double *p, double *a, double *b, double g, int step)
{
    *a += (g - *a) * 0.1;
    *b += (g * g - *b) * 0.001;
    *p -= 0.1 * sqrt(1 - pow(0.999, step)) / (1 - pow(0.9, step)) * *a / (sqrt(*b) + 1e-8);
}

static void follow(tt_optim *o, tt_tensor *p, rule r)
{
    double want[ROWS * WIDTH], a[ROWS * WIDTH] = { 0 }, b[ROWS * WIDTH] = { 0 };

    TT_REQUIRE_NOT_NULL(o);
    memcpy(want, tt_tensor_data(p), sizeof want);
    for (int step = 1; step <= 6; step++) {
        TT_SCOPE {
            TT_REQUIRE_OK(tt_set_grad(p, gradient(step)));
        }
        TT_REQUIRE_OK(tt_optim_step(o));
        for (int k = 0; k < 2; k++) {
            for (int c = 0; c < WIDTH; c++) {
                int row = k == 0 ? 1 : 4, at = row * WIDTH + c;

                r(&want[at], &a[at], &b[at], summed(step, row, c), step);
            }
        }
        for (int i = 0; i < ROWS * WIDTH; i++)
            TT_REQUIRE_NEAR(((double *)tt_tensor_data(p))[i], want[i], 1e-12);
    }
    tt_optim_free(o);
}

TT_TEST(optim, sparse_gradients_change_the_rows_they_name)
{
    TT_SCOPE {
        tt_tensor *p[3] = { table(), table(), table() };

        follow(tt_sgd_new(&p[0], 1, &(tt_sgd_options){ .lr = 0.1 }), p[0], sgd_rule);
        follow(tt_adagrad_new(&p[1], 1, &(tt_adagrad_options){ .lr = 0.1, .lr_decay = 0.5 }), p[1],
               adagrad_rule);
        follow(tt_sparse_adam_new(&p[2], 1, &(tt_adam_options){ .lr = 0.1 }), p[2],
               sparse_adam_rule);
    }
}

TT_TEST(optim, sparse_gradients_are_refused_where_they_make_no_sense)
{
    TT_SCOPE {
        tt_tensor *p = table(), *dense = table();
        tt_optim *o[] = {
            tt_adam_new(&p, 1, NULL),
            tt_rmsprop_new(&p, 1, NULL),
            tt_sgd_new(&p, 1, &(tt_sgd_options){ .momentum = 0.9 }),
            tt_adagrad_new(&p, 1, &(tt_adagrad_options){ .weight_decay = 0.1 }),
            tt_sparse_adam_new(&dense, 1, NULL),
        };
        static const char *const words[] = { "adam: expected dense gradients",
                                             "rmsprop: expected dense gradients",
                                             "sgd: sparse gradients need momentum 0",
                                             "adagrad: sparse gradients need weight_decay 0",
                                             "sparse_adam: expected sparse gradients" };

        TT_REQUIRE_OK(tt_set_grad(p, gradient(1)));
        TT_REQUIRE_OK(tt_set_grad(dense, table()));
        for (int i = 0; i < 5; i++) {
            TT_CHECK_ERR_SAYS(tt_optim_step(o[i]), TT_ERR_UNSUPPORTED, words[i]);
            TT_CHECK_EQ(tt_optim_param_steps(o[i], 0, 0), 0);
            tt_optim_free(o[i]);
        }
        TT_CHECK_NEAR(((double *)tt_tensor_data(p))[7], -0.3, 1e-15);
    }
}

TT_TEST(optim, clipping_counts_repeated_entries_of_sparse_gradients_once)
{
    TT_SCOPE {
        tt_tensor *p = table();
        double total = 0, want = 0;

        TT_REQUIRE_OK(tt_set_grad(p, gradient(1)));
        for (int c = 0; c < WIDTH; c++)
            want += pow(summed(1, 1, c), 2) + pow(summed(1, 4, c), 2);
        TT_CHECK_OK(tt_clip_grad_norm(&p, 1, 0.5, NULL, &total));
        TT_CHECK_NEAR(total, sqrt(want), 1e-12);
        TT_CHECK_OK(tt_clip_grad_norm(&p, 1, 100, NULL, &total));
        TT_CHECK_NEAR(total, 0.5, 1e-5);
    }
}

TT_TEST(optim, sparse_adam_refuses_complex_parameters)
{
    TT_SCOPE {
        tt_tensor *p = tt_require_grad(tt_zeros(TT_SHAPE(3), TT_C64, TT_CPU));

        TT_CHECK_NULL(tt_sparse_adam_new(&p, 1, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "expected real parameters, got complex64");
    }
}
