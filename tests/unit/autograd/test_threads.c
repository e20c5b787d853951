/* SPDX-License-Identifier: Apache-2.0 */
/* Autograd on several threads, inside itself, with gradients missing; and that it leaks nothing. */
#include <pthread.h>

#include "tutti/testing.h"
#include "tutti/tutti.h"

#define N_THREADS 4
#define N_ROUNDS 50

static tt_tensor *leaf(double value)
{
    return tt_require_grad(tt_full(TT_SHAPE(4), value, TT_F64, TT_CPU));
}

static double at(const tt_tensor *t, int64_t i)
{
    return t != NULL ? tt_at(t, &i) : -12345.0;
}

static uint64_t in_use(void)
{
    return tt_memory_stats_get(TT_CPU).current;
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *own_graphs(void *ctx)
{
    double value = *(double *)ctx;

    for (int i = 0; i < N_ROUNDS; i++)
        TT_SCOPE {
            tt_tensor *x = leaf(value);

            TT_CHECK_OK(tt_backward(tt_sum(tt_mul(tt_mul(x, x), x))));
            TT_CHECK_NEAR(at(tt_grad_of(x), 3), 3 * value * value, 1e-12);
        }
    return NULL;
}

static void run_threads(void *(*fn)(void *), void *const *ctxs)
{
    pthread_t threads[N_THREADS];

    for (int i = 0; i < N_THREADS; i++)
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, fn, ctxs[i]), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

TT_TEST(autograd_threads, each_runs_its_own_backward)
{
    double values[N_THREADS] = { 1.0, 2.0, 3.0, 4.0 };
    uint64_t before = in_use();

    run_threads(own_graphs, (void *[]){ &values[0], &values[1], &values[2], &values[3] });
    TT_CHECK_EQ(in_use(), before);
}

typedef struct shared {
    tt_tensor *w;
    pthread_mutex_t mu;
} shared;

static void *add_to_shared(void *ctx)
{
    shared *s = ctx;

    for (int i = 0; i < N_ROUNDS; i++)
        TT_SCOPE {
            tt_tensor *y = tt_sum(tt_mul_scalar(s->w, 2.0)); /* forward needs no lock */

            pthread_mutex_lock(&s->mu);
            TT_CHECK_OK(tt_backward(y));
            pthread_mutex_unlock(&s->mu);
        }
    return NULL;
}

TT_TEST(autograd_threads, a_shared_leaf_under_a_lock_gets_every_gradient)
{
    TT_SCOPE {
        shared s = { .w = leaf(1.0) };

        TT_REQUIRE_EQ(pthread_mutex_init(&s.mu, NULL), 0);
        run_threads(add_to_shared, (void *[]){ &s, &s, &s, &s });
        for (int64_t i = 0; i < 4; i++)
            TT_CHECK_NEAR(at(tt_grad_of(s.w), i), 2.0 * N_THREADS * N_ROUNDS, 0);
        pthread_mutex_destroy(&s.mu);
    }
}

static void *mode_of_a_new_thread(void *ctx)
{
    (void)ctx;
    TT_CHECK_EQ(tt_grad_mode_get(), TT_GRAD_ON);
    TT_SCOPE
        TT_CHECK(tt_requires_grad(tt_exp(leaf(1.0))));
    return NULL;
}

TT_TEST(autograd_threads, modes_are_of_one_thread)
{
    TT_NO_GRAD
    {
        run_threads(mode_of_a_new_thread, (void *[]){ NULL, NULL, NULL, NULL });
        TT_CHECK_EQ(tt_grad_mode_get(), TT_GRAD_OFF);
    }
}

/* ---- backward inside backward --------------------------------------------------------------------- */

static tt_status backward_inside(void *ctx, tt_tensor **grad_p)
{
    tt_tensor *other = ctx;
    tt_status st = TT_OK;

    (void)grad_p;
    TT_CHECK_EQ(tt_grad_mode_get(), TT_GRAD_OFF);
    TT_ENABLE_GRAD
    {
        TT_SCOPE
            st = tt_backward(tt_sum(tt_mul(other, other)));
    }
    return st;
}

static tt_status count_end(void *ctx)
{
    ++*(int *)ctx;
    return TT_OK;
}

static tt_status ask_for_end(void *ctx, tt_tensor **grad_p)
{
    (void)grad_p;
    return tt_on_backward_end(count_end, ctx);
}

TT_TEST(autograd_nested, a_hook_runs_a_backward_of_its_own)
{
    TT_SCOPE {
        int ends = 0;
        tt_tensor *x = leaf(3.0), *other = leaf(5.0), *y = tt_mul(x, x);
        tt_hook *h = tt_tensor_add_hook(y, backward_inside, other);
        tt_hook *k = tt_tensor_add_hook(x, ask_for_end, &ends); /* after the inner one ended */

        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_NEAR(at(tt_grad_of(x), 0), 6.0, 0);
        TT_CHECK_NEAR(at(tt_grad_of(other), 0), 10.0, 0);
        TT_CHECK_EQ(ends, 1);
        TT_CHECK_EQ(tt_grad_mode_get(), TT_GRAD_ON);
        tt_hook_remove(h);
        tt_hook_remove(k);
    }
}

static tt_status inner_segment(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                               int n_out)
{
    (void)n_in;
    (void)n_out;
    ++*(int *)ctx;
    out[0] = tt_exp(tt_mul(in[0], in[0]));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static const tt_checkpoint_options *checkpoint_options;

static tt_status outer_segment(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                               int n_out)
{
    tt_tensor *twice = tt_mul_scalar(in[0], 0.5);

    TT_TRY(tt_checkpoint(inner_segment, ctx, &twice, n_in, out, n_out, checkpoint_options));
    out[0] = tt_tanh(out[0]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static void check_nested_checkpoints(bool reentrant)
{
    tt_checkpoint_options opt = { .reentrant = reentrant };

    checkpoint_options = &opt;
    TT_SCOPE {
        int runs = 0;
        tt_tensor *x = leaf(0.6), *plain = leaf(0.6), *y = NULL, *half;

        half = tt_mul_scalar(plain, 0.5);
        TT_CHECK_OK(tt_backward(tt_sum(tt_tanh(tt_exp(tt_mul(half, half))))));
        TT_REQUIRE_OK(tt_checkpoint(outer_segment, &runs, &x, 1, &y, 1, &opt));
        TT_CHECK_EQ(runs, 1);
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_GE(runs, 2);
        TT_CHECK(tt_allclose(tt_grad_of(x), tt_grad_of(plain), NULL));
    }
    checkpoint_options = NULL;
}

TT_TEST(autograd_nested, a_checkpoint_in_a_checkpoint)
{
    uint64_t before = in_use();

    check_nested_checkpoints(false);
    TT_CHECK_EQ(in_use(), before);
}

TT_TEST(autograd_nested, a_reentrant_checkpoint_in_another)
{
    uint64_t before = in_use();

    check_nested_checkpoints(true);
    TT_CHECK_EQ(in_use(), before);
}

/* ---- gradients that are not there --------------------------------------------------------------------- */

TT_TEST(autograd_undefined, unused_pieces_of_a_split_get_zeros)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0), *parts[3];

        TT_REQUIRE_OK(tt_split_sizes(x, (const int64_t[]){ 1, 2, 1 }, 3, 0, parts));
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(parts[1], parts[1]))));
        TT_CHECK_NEAR(at(tt_grad_of(x), 0), 0.0, 0);
        TT_CHECK_NEAR(at(tt_grad_of(x), 1), 4.0, 0);
        TT_CHECK_NEAR(at(tt_grad_of(x), 2), 4.0, 0);
        TT_CHECK_NEAR(at(tt_grad_of(x), 3), 0.0, 0);
    }
}

typedef struct missing {
    bool keep;
    int n_null, n_zero;
} missing;

static tt_status two_forward(tt_function_ctx *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                             int n_out)
{
    const missing *m = tt_function_user(ctx);

    (void)n_in;
    (void)n_out;
    if (m->keep)
        tt_function_keep_undefined(ctx);
    out[0] = tt_mul_scalar(in[0], 2.0);
    out[1] = tt_mul_scalar(in[0], 3.0);
    return out[0] != NULL && out[1] != NULL ? TT_OK : tt_last_status();
}

static tt_status two_backward(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                              tt_tensor **grad_in, int n_in)
{
    missing *m = tt_function_user(ctx);

    (void)n_in;
    for (int i = 0; i < n_out; i++) {
        m->n_null += grad_out[i] == NULL;
        m->n_zero += grad_out[i] != NULL && at(grad_out[i], 0) == 0.0;
    }
    grad_in[0] = grad_out[0] != NULL ? tt_mul_scalar(grad_out[0], 2.0) : NULL;
    return TT_OK;
}

TT_TEST(autograd_undefined, a_function_gets_zeros_or_what_it_asked_for)
{
    static const tt_function two = { "two", two_forward, two_backward, NULL };

    for (int keep = 0; keep < 2; keep++)
        TT_SCOPE {
            missing m = { .keep = keep != 0 };
            tt_tensor *x = leaf(1.0), *out[2];

            TT_REQUIRE_OK(tt_function_apply(&two, &m, &x, 1, out, 2));
            TT_CHECK_OK(tt_backward(tt_sum(out[0])));
            TT_CHECK_EQ(m.n_null, keep);
            TT_CHECK_EQ(m.n_zero, 1 - keep);
            TT_CHECK_NEAR(at(tt_grad_of(x), 0), 2.0, 0);
        }
}

/* A backward that gives no gradient ends the flow there. */
TT_TEST(autograd_undefined, no_gradient_flows_on_from_nothing)
{
    static const tt_function two = { "two", two_forward, two_backward, NULL };

    TT_SCOPE {
        missing m = { .keep = true };
        tt_tensor *x = leaf(1.0), *out[2];

        TT_REQUIRE_OK(tt_function_apply(&two, &m, (tt_tensor *[]){ tt_exp(x) }, 1, out, 2));
        TT_CHECK_OK(tt_backward(tt_sum(out[1])));
        TT_CHECK_EQ(m.n_null, 1);
        TT_CHECK_NULL(tt_grad_of(x));
    }
}

/* ---- leaks -------------------------------------------------------------------------------------------- */

TT_TEST(autograd_leaks, create_graph_leaves_nothing_behind)
{
    uint64_t before = in_use();

    for (int i = 0; i < 5; i++)
        TT_SCOPE {
            tt_tensor *x = leaf(2.0), *y = tt_sum(tt_mul(tt_mul(x, x), x)), *g;

            TT_CHECK_OK(tt_grad(&y, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &g));
            TT_CHECK_OK(tt_backward(tt_sum(tt_mul(g, g)))); /* 9x^4, then 36x^3 */
            TT_CHECK_NEAR(at(tt_grad_of(x), 0), 288.0, 1e-9);
        }
    TT_CHECK_EQ(in_use(), before);
}

TT_TEST(autograd_leaks, a_failed_backward_leaves_nothing_behind)
{
    uint64_t before = in_use();

    TT_SCOPE {
        tt_tensor *x = leaf(2.0), *y = tt_sum(tt_exp(tt_mul(x, x)));

        TT_CHECK_OK(tt_backward(y));
        TT_CHECK_ERR(tt_backward(y), TT_ERR_INVALID);
        TT_CHECK_ERR(tt_backward(NULL), TT_ERR_INVALID);
    }
    TT_CHECK_EQ(in_use(), before);
}
