/* SPDX-License-Identifier: Apache-2.0 */
/* What users plug into autograd: hooks, functions of their own, checkpoints, observers; and the checker
 * that tells whether a derivative is right. */
#include <string.h>

#include "autograd/engine.h"
#include "tutti/observe.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

static tt_tensor *leaf(double value)
{
    return tt_require_grad(tt_full(TT_SHAPE(2), value, TT_F64, TT_CPU));
}

static double first(const tt_tensor *t)
{
    return t != NULL ? tt_at(t, (const int64_t[]){ 0 }) : -12345.0;
}

/* ---- hooks ------------------------------------------------------------------------------- */

typedef struct seen {
    int calls;
    double grad;
    int order, at; /* position in a common count */
    int *clock;
} seen;

static tt_status see_grad(void *ctx, tt_tensor **grad_p)
{
    seen *s = ctx;

    s->calls++;
    s->grad = first(*grad_p);
    if (s->clock != NULL)
        s->at = ++*s->clock;
    return TT_OK;
}

static tt_status double_grad(void *ctx, tt_tensor **grad_p)
{
    (void)ctx;
    *grad_p = tt_mul_scalar(*grad_p, 2.0);
    return *grad_p != NULL ? TT_OK : tt_last_status();
}

static tt_status see_leaf(void *ctx, tt_tensor *t)
{
    seen *s = ctx;

    s->calls++;
    s->grad = first(tt_grad_of(t));
    if (s->clock != NULL)
        s->at = ++*s->clock;
    return TT_OK;
}

static tt_status see_end(void *ctx)
{
    seen *s = ctx;

    s->calls++;
    s->at = ++*s->clock;
    return TT_OK;
}

static tt_status refuse(void *ctx, tt_tensor **grad_p)
{
    (void)ctx;
    (void)grad_p;
    return tt_fail(TT_ERR_ABORTED, "the hook said no");
}

TT_TEST(autograd_hooks, run_in_order_and_may_change_the_gradient)
{
    TT_SCOPE {
        int clock = 0;
        seen on_y = { .clock = &clock }, before = { .clock = &clock };
        seen after = { .clock = &clock };
        tt_tensor *x = leaf(3.0);
        tt_tensor *y = tt_mul(x, x);
        tt_hook *h[5];

        h[0] = tt_tensor_add_hook(y, see_grad, &on_y);
        h[1] = tt_tensor_add_hook(y, double_grad, NULL);
        h[2] = tt_leaf_add_pre_hook(x, see_grad, &before);
        h[3] = tt_leaf_add_post_hook(x, see_leaf, &after);
        h[4] = tt_tensor_add_hook(x, double_grad, NULL);
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_NEAR(on_y.grad, 1.0, 0.0);
        TT_CHECK_NEAR(before.grad, 24.0, 0.0); /* 2 * 2 * 2x */
        TT_CHECK_NEAR(after.grad, 24.0, 0.0);
        TT_CHECK(on_y.at < before.at && before.at < after.at);

        for (int i = 0; i < 5; i++)
            tt_hook_remove(h[i]);
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(x, x))));
        TT_CHECK_EQ(after.calls, 1);
        TT_CHECK_NEAR(first(tt_grad_of(x)), 30.0, 0.0);
    }
}

TT_TEST(autograd_hooks, a_leaf_used_twice_is_final_once)
{
    TT_SCOPE {
        seen after = { 0 };
        tt_tensor *x = leaf(3.0);
        tt_hook *h = tt_leaf_add_post_hook(x, see_leaf, &after);

        TT_CHECK_OK(tt_backward(tt_sum(tt_add(tt_mul(x, x), tt_exp(tt_sub(x, x))))));
        TT_CHECK_EQ(after.calls, 1);
        TT_CHECK_NEAR(after.grad, 6.0, 1e-12);
        tt_hook_remove(h);
    }
}

static tt_status ask_for_end(void *ctx, tt_tensor **grad_p)
{
    (void)grad_p;
    return tt_on_backward_end(see_end, ctx);
}

TT_TEST(autograd_hooks, the_end_of_backward_comes_last)
{
    TT_SCOPE {
        int clock = 0;
        seen end = { .clock = &clock }, after = { .clock = &clock };
        tt_tensor *x = leaf(3.0);
        tt_tensor *y = tt_mul(x, x);
        tt_hook *h = tt_tensor_add_hook(y, ask_for_end, &end);
        tt_hook *k = tt_leaf_add_post_hook(x, see_leaf, &after);

        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_EQ(end.calls, 1);
        TT_CHECK(end.at > after.at);
        TT_CHECK_ERR_SAYS(tt_on_backward_end(see_end, &end), TT_ERR_INVALID, "no backward");
        tt_hook_remove(h);
        tt_hook_remove(k);
    }
}

/* Three ends: the first succeeds, the second fails, the third does not come. */
typedef struct three_ends {
    int ended[3], failed[3];
} three_ends;

typedef struct one_end {
    three_ends *all;
    int i;
} one_end;

static tt_status end_of(void *ctx)
{
    one_end *e = ctx;

    e->all->ended[e->i]++;
    return e->i == 1 ? tt_fail(TT_ERR_ABORTED, "the second end") : TT_OK;
}

static void failed_of(void *ctx)
{
    one_end *e = ctx;

    e->all->failed[e->i]++;
    tt_fail(TT_ERR_IO, "met while giving up");
}

static tt_status ask_for_three(void *ctx, tt_tensor **grad_p)
{
    (void)grad_p;
    for (int i = 0; i < 3; i++)
        TT_TRY(tti_on_backward_done(end_of, failed_of, (one_end *)ctx + i));
    return TT_OK;
}

TT_TEST(autograd_hooks, ends_that_did_not_succeed_are_told_and_the_first_words_stay)
{
    TT_SCOPE {
        three_ends all = { 0 };
        one_end ends[3] = { { &all, 0 }, { &all, 1 }, { &all, 2 } };
        tt_tensor *x = leaf(3.0), *y = tt_mul(x, x);
        tt_hook *h = tt_tensor_add_hook(y, ask_for_three, ends);

        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_ABORTED, "the second end");
        TT_CHECK_EQ(tt_last_status(), TT_ERR_ABORTED);
        for (int i = 0; i < 3; i++) {
            TT_CHECK_EQ(all.ended[i], i < 2);
            TT_CHECK_EQ(all.failed[i], i > 0);
        }
        tt_hook_remove(h);
    }
}

TT_TEST(autograd_hooks, a_failing_hook_ends_backward_with_its_words)
{
    TT_SCOPE {
        tt_tensor *x = leaf(3.0);
        tt_tensor *y = tt_mul(x, x);
        tt_hook *h = tt_tensor_add_hook(y, refuse, NULL);

        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_ABORTED, "the hook said no");
        TT_CHECK_NULL(tt_grad_of(x));
        tt_hook_remove(h);
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(x, x))));
    }
}

typedef struct ending {
    int n_ended, n_failed;
    tt_status status; /* what its end gives */
} ending;

static tt_status end_with(void *ctx)
{
    ending *e = ctx;

    e->n_ended++;
    return e->status == TT_OK ? TT_OK : tt_fail(e->status, "the end failed");
}

static void count_failed(void *ctx)
{
    ((ending *)ctx)->n_failed++;
}

static tt_status ask_for_three_ends(void *ctx, tt_tensor **grad_p)
{
    ending *e = ctx;

    (void)grad_p;
    for (int i = 0; i < 3; i++)
        TT_TRY(tti_on_backward_done(end_with, count_failed, &e[i]));
    return TT_OK;
}

TT_TEST(autograd_hooks, an_end_that_succeeded_is_not_told_of_a_failure)
{
    TT_SCOPE {
        ending e[3] = { { .status = TT_OK }, { .status = TT_ERR_IO }, { .status = TT_OK } };
        tt_tensor *x = leaf(3.0);
        tt_tensor *y = tt_mul(x, x);
        tt_hook *h = tt_tensor_add_hook(y, ask_for_three_ends, e);

        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_IO, "the end failed");
        TT_CHECK(e[0].n_ended == 1 && e[0].n_failed == 0);
        TT_CHECK(e[1].n_ended == 1 && e[1].n_failed == 1);
        TT_CHECK(e[2].n_ended == 0 && e[2].n_failed == 1);
        tt_hook_remove(h);
    }
}

/* ---- functions ------------------------------------------------------------------------------ */

static int frees;

static void count_free(void *user)
{
    (void)user;
    frees++;
}

/* cube(x) = x^3, and as a second, undifferentiable result its sign */
static tt_status cube_forward(tt_function_ctx *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                              int n_out)
{
    (void)n_in;
    out[0] = tt_mul(tt_mul(in[0], in[0]), in[0]);
    if (n_out > 1) {
        out[1] = tt_sign(in[0]);
        tt_function_mark_non_differentiable(ctx, 1);
    }
    return out[0] != NULL ? tt_function_save(ctx, in[0]) : tt_last_status();
}

static tt_status cube_backward(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                               tt_tensor **grad_in, int n_in)
{
    tt_tensor *x = tt_function_saved(ctx, 0);

    (void)n_out;
    (void)n_in;
    grad_in[0] = tt_mul(grad_out[0], tt_mul_scalar(tt_mul(x, x), 3.0));
    return grad_in[0] != NULL ? TT_OK : tt_last_status();
}

static const tt_function cube = { "cube", cube_forward, cube_backward, count_free };

TT_TEST(autograd_function, has_the_backward_it_was_given)
{
    frees = 0;
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *y[2], *g, *h;

        TT_REQUIRE_OK(tt_function_apply(&cube, NULL, &x, 1, y, 2));
        TT_CHECK_STR(tt_grad_fn_name(y[0]), "cube");
        TT_CHECK(!tt_requires_grad(y[1]));
        y[0] = tt_sum(y[0]);
        TT_CHECK_OK(tt_grad(&y[0], 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &g));
        TT_CHECK_NEAR(first(g), 12.0, 0.0);
        g = tt_sum(g);
        TT_CHECK_OK(tt_grad(&g, 1, &x, 1, NULL, &h));
        TT_CHECK_NEAR(first(h), 12.0, 0.0); /* 6x */
        TT_CHECK_EQ(frees, 0);
    }
    TT_CHECK_EQ(frees, 1);
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(2), TT_F64, TT_CPU), *y;

        TT_CHECK_OK(tt_function_apply(&cube, NULL, &x, 1, &y, 1));
        TT_CHECK_EQ(frees, 2); /* nothing to differentiate: gone at once */
    }
}

static tt_status failing(tt_function_ctx *ctx, tt_tensor *const *a, int n_a, tt_tensor **b, int n_b)
{
    (void)ctx;
    (void)a;
    (void)n_a;
    (void)b;
    (void)n_b;
    return tt_fail(TT_ERR_ABORTED, "not today");
}

static tt_status pass(tt_function_ctx *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                      int n_out)
{
    (void)ctx;
    (void)n_in;
    (void)n_out;
    out[0] = in[0];
    return TT_OK;
}

TT_TEST(autograd_function, may_fail_on_either_way)
{
    static const tt_function no_forward = { "grumpy", failing, failing, count_free };
    static const tt_function no_backward = { "sulky", pass, failing, count_free };

    TT_SCOPE {
        tt_tensor *x = leaf(2.0), *y = NULL;

        TT_CHECK_ERR_SAYS(tt_function_apply(&no_forward, NULL, &x, 1, &y, 1), TT_ERR_ABORTED,
                          "not today");
        TT_REQUIRE_OK(tt_function_apply(&no_backward, NULL, &x, 1, &y, 1));
        TT_CHECK(y != x); /* the input keeps its own history */
        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(tt_mul(y, x))), TT_ERR_ABORTED, "not today");
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(x, x))));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 4.0, 0.0);
    }
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

typedef struct block {
    tt_tensor *w;
    int runs;
} block;

static tt_status run_block(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    block *b = ctx;

    (void)n_in;
    (void)n_out;
    b->runs++;
    out[0] = tt_tanh(tt_mul(tt_exp(tt_mul(in[0], b->w)), in[0]));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static void check_checkpoint(bool reentrant)
{
    TT_SCOPE {
        tt_tensor *x = leaf(0.3), *plain_x = leaf(0.3), *y, *z;
        block b = { .w = leaf(0.5) }, plain = { .w = leaf(0.5) };

        TT_REQUIRE_OK(run_block(&plain, &plain_x, 1, &z, 1));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(z, z))));
        TT_REQUIRE_OK(tt_checkpoint(run_block, &b, &x, 1, &y, 1,
                                    &(tt_checkpoint_options){ .reentrant = reentrant }));
        TT_CHECK_EQ(b.runs, 1);
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, y))));
        TT_CHECK_EQ(b.runs, 2);
        TT_CHECK(tt_equal(tt_grad_of(x), tt_grad_of(plain_x)));
        TT_CHECK(tt_equal(tt_grad_of(b.w), tt_grad_of(plain.w)));
    }
}

TT_TEST(autograd_checkpoint, runs_again_and_gives_the_same_gradients)
{
    check_checkpoint(false);
}

TT_TEST(autograd_checkpoint, the_reentrant_way_too)
{
    check_checkpoint(true);
}

TT_TEST(autograd_checkpoint, can_be_differentiated_twice)
{
    TT_SCOPE {
        tt_tensor *x = leaf(0.3), *y, *g, *h, *g2, *h2;
        block b = { .w = leaf(0.5) };

        TT_REQUIRE_OK(tt_checkpoint(run_block, &b, &x, 1, &y, 1, NULL));
        y = tt_sum(y);
        TT_REQUIRE_OK(tt_grad(&y, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &g));
        g = tt_sum(g);
        TT_REQUIRE_OK(tt_grad(&g, 1, &x, 1, NULL, &h));

        TT_REQUIRE_OK(run_block(&b, &x, 1, &y, 1));
        y = tt_sum(y);
        TT_REQUIRE_OK(tt_grad(&y, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &g2));
        g2 = tt_sum(g2);
        TT_REQUIRE_OK(tt_grad(&g2, 1, &x, 1, NULL, &h2));
        TT_CHECK(tt_allclose(h, h2, NULL));
    }
}

static tt_status random_block(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)ctx;
    (void)n_in;
    (void)n_out;
    out[0] = tt_mul(in[0], tt_mul(in[0], tt_rand(TT_SHAPE(2), TT_F64, TT_CPU)));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

TT_TEST(autograd_checkpoint, repeats_random_numbers)
{
    TT_SCOPE {
        tt_tensor *x = leaf(1.0), *y;
        tt_generator_state now;

        TT_REQUIRE_OK(tt_checkpoint(random_block, NULL, &x, 1, &y, 1, NULL));
        tt_rand(TT_SHAPE(5), TT_F32, TT_CPU);
        now = tt_generator_get(tt_default_generator(TT_CPU));
        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
        TT_CHECK(tt_allclose(tt_grad_of(x), tt_mul_scalar(tt_detach(y), 2.0), NULL));
        TT_CHECK_EQ(tt_generator_get(tt_default_generator(TT_CPU)).offset, now.offset);
    }
}

/* ---- checking ------------------------------------------------------------------------------- */

static tt_status smooth(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)ctx;
    (void)n_in;
    (void)n_out;
    out[0] = tt_mul(tt_tanh(in[0]), tt_exp(in[1]));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status wrong_backward(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                                tt_tensor **grad_in, int n_in)
{
    (void)ctx;
    (void)n_out;
    (void)n_in;
    grad_in[0] = tt_mul_scalar(grad_out[0], 1.01);
    return TT_OK;
}

static tt_status wrong(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    static const tt_function fn = { "wrong", pass, wrong_backward, NULL };

    (void)ctx;
    return tt_function_apply(&fn, NULL, in, n_in, out, n_out);
}

TT_TEST(autograd_gradcheck, accepts_right_and_names_wrong_gradients)
{
    TT_SCOPE {
        tt_tensor *in[] = { leaf(0.3), leaf(-0.2) };

        TT_CHECK_OK(
            tt_gradcheck(smooth, NULL, in, 2, 1, &(tt_gradcheck_options){ .second_order = true }));
        TT_CHECK_ERR_SAYS(tt_gradcheck(wrong, NULL, in, 1, 1, NULL), TT_ERR_INVALID,
                          "input 0, element 0");
    }
}

/* Errors of rounding are accepted in float32, mistakes are not. */
TT_TEST(autograd_gradcheck, float32_has_longer_steps)
{
    TT_SCOPE {
        tt_tensor *in[] = { tt_require_grad(TT_FLOATS(0.3f, 1.2f)),
                            tt_require_grad(TT_FLOATS(-0.2f, 0.7f)) };
        tt_tensor *half = tt_require_grad(tt_to_dtype(TT_FLOATS(1), TT_F16));

        TT_CHECK_OK(tt_gradcheck(smooth, NULL, in, 2, 1, NULL));
        TT_CHECK_NEAR(tt_item(tt_select(tt_detach(in[0]), 0, 0)), 0.3, 1e-7);
        TT_CHECK_ERR_SAYS(tt_gradcheck(wrong, NULL, in, 1, 1,
                                       &(tt_gradcheck_options){ .rtol = 2e-3, .atol = 1e-5 }),
                          TT_ERR_INVALID, "float64");
        TT_CHECK_ERR_SAYS(tt_gradcheck(wrong, NULL, &half, 1, 1, NULL), TT_ERR_INVALID,
                          "float64 is best");
    }
}

/* ---- observers ------------------------------------------------------------------------------ */

typedef struct log_book {
    char names[256];
    bool veto;
} log_book;

static tt_status note_name(void *ctx, const tt_op_event *e)
{
    log_book *b = ctx;

    if (e->after)
        return TT_OK;
    strncat(b->names, e->name, sizeof b->names - strlen(b->names) - 1);
    strncat(b->names, " ", sizeof b->names - strlen(b->names) - 1);
    return b->veto ? tt_fail(TT_ERR_INVALID, "no %s here", e->name) : TT_OK;
}

TT_TEST(observers, see_operators_by_name_and_may_refuse_them)
{
    TT_SCOPE {
        log_book all = { 0 }, muls = { .veto = true };
        tt_tensor *x = leaf(2.0);
        tt_observer *o = tt_observer_new(NULL, true, note_name, &all), *p;

        TT_CHECK_OK(tt_backward(tt_sum(tt_exp(x))));
        TT_CHECK_CONTAINS(all.names, "exp sum ");
        TT_CHECK_CONTAINS(all.names, "exp.backward");
        tt_observer_free(o);

        p = tt_observer_new("mul", false, note_name, &muls);
        TT_CHECK_NULL(tt_mul(x, x));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_VETOED);
        TT_CHECK_CONTAINS(tt_last_error(), "no mul here");
        TT_CHECK_NOT_NULL(tt_exp(x));
        tt_observer_free(p);
        TT_CHECK_NOT_NULL(tt_mul(x, x));
        TT_CHECK_STR(muls.names, "mul ");
    }
}
