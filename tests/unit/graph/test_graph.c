/* SPDX-License-Identifier: Apache-2.0 */
/* The graph while it is used: hooks that come and go during backward, gradients kept, saved tensors
 * given back, graphs freed elsewhere. */
#include <pthread.h>

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

static uint64_t in_use(void)
{
    return tt_memory_stats_get(TT_CPU).current;
}

typedef struct counted {
    int calls;
    tt_hook *victim; /* removed by the call */
} counted;

static tt_status count(void *ctx, tt_tensor **grad_p)
{
    counted *c = ctx;

    (void)grad_p;
    c->calls++;
    tt_hook_remove(c->victim);
    c->victim = NULL;
    return TT_OK;
}

static tt_status count_leaf(void *ctx, tt_tensor *t)
{
    (void)t;
    return count(ctx, NULL);
}

TT_TEST(graph_hooks, one_removed_by_another_does_not_run)
{
    TT_SCOPE {
        counted a = { 0 }, b = { 0 }, c = { 0 };
        tt_tensor *x = leaf(3.0), *y = tt_mul(x, x);
        tt_hook *h = tt_tensor_add_hook(y, count, &a);
        tt_hook *last;

        a.victim = tt_tensor_add_hook(y, count, &b);
        last = tt_tensor_add_hook(y, count, &c);
        TT_CHECK_OK(tt_backward_with(tt_sum(y), &(tt_backward_options){ .retain_graph = true }));
        TT_CHECK_EQ(a.calls, 1);
        TT_CHECK_EQ(b.calls, 0);
        TT_CHECK_EQ(c.calls, 1);
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_EQ(a.calls, 2);
        TT_CHECK_EQ(b.calls, 0);
        TT_CHECK_EQ(c.calls, 2);
        TT_CHECK_NEAR(first(tt_grad_of(x)), 12.0, 0);
        tt_hook_remove(h);
        tt_hook_remove(last);
    }
}

TT_TEST(graph_hooks, one_that_removes_itself_runs_once)
{
    TT_SCOPE {
        counted on_y = { 0 }, before = { 0 }, after = { 0 }, other = { 0 };
        tt_tensor *x = leaf(3.0), *y = tt_mul(x, x);
        tt_hook *h;

        on_y.victim = tt_tensor_add_hook(y, count, &on_y);
        before.victim = tt_leaf_add_pre_hook(x, count, &before);
        after.victim = tt_leaf_add_post_hook(x, count_leaf, &after);
        h = tt_leaf_add_post_hook(x, count_leaf, &other);
        for (int i = 0; i < 3; i++)
            TT_CHECK_OK(
                tt_backward_with(tt_sum(y), &(tt_backward_options){ .retain_graph = true }));
        TT_CHECK_EQ(on_y.calls, 1);
        TT_CHECK_EQ(before.calls, 1);
        TT_CHECK_EQ(after.calls, 1);
        TT_CHECK_EQ(other.calls, 3);
        tt_hook_remove(h);
    }
}

TT_TEST(graph_hooks, may_be_removed_after_the_tensor_is_gone)
{
    counted c = { 0 };
    tt_hook *on_leaf = NULL, *on_node = NULL;

    TT_SCOPE {
        tt_tensor *x = leaf(1.0);

        on_leaf = tt_tensor_add_hook(x, count, &c);
        on_node = tt_tensor_add_hook(tt_mul(x, x), count, &c);
    }
    tt_hook_remove(on_leaf);
    tt_hook_remove(on_node);
    tt_hook_remove(NULL);
    TT_CHECK_EQ(c.calls, 0);
}

TT_TEST(graph_hooks, what_cannot_have_one_says_so)
{
    TT_SCOPE {
        counted c = { 0 };
        tt_tensor *x = leaf(1.0), *plain = tt_ones(TT_SHAPE(2), TT_F64, TT_CPU);

        TT_CHECK_NULL(tt_tensor_add_hook(NULL, count, &c));
        TT_CHECK_NULL(tt_tensor_add_hook(x, NULL, &c));
        TT_CHECK_CONTAINS(tt_last_error(), "expected a tensor and a function");
        TT_CHECK_NULL(tt_tensor_add_hook(plain, count, &c));
        TT_CHECK_CONTAINS(tt_last_error(), "does not require a gradient");
        TT_CHECK_NULL(tt_leaf_add_post_hook(tt_mul(x, x), count_leaf, &c));
        TT_CHECK_CONTAINS(tt_last_error(), "expected a leaf, got a result of \"mul\"");
        TT_CHECK_NULL(tt_leaf_add_pre_hook(tt_mul(x, x), count, &c));
    }
}

static tt_status drop_grad(void *ctx, tt_tensor **grad_p)
{
    (void)ctx;
    *grad_p = NULL;
    return TT_OK;
}

static tt_status reshape_grad(void *ctx, tt_tensor **grad_p)
{
    (void)ctx;
    *grad_p = tt_ones(TT_SHAPE(5), TT_F64, TT_CPU);
    return TT_OK;
}

static tt_status halve_type(void *ctx, tt_tensor **grad_p)
{
    (void)ctx;
    *grad_p = tt_ones(TT_SHAPE(2), TT_F32, TT_CPU);
    return TT_OK;
}

/* A hook that stores something that is no gradient ends backward instead of breaking it. */
TT_TEST(graph_hooks, must_leave_a_gradient_of_the_same_kind)
{
    static const tt_tensor_hook_fn bad[] = { drop_grad, reshape_grad, halve_type };

    for (int on_node = 0; on_node < 2; on_node++)
        for (int i = 0; i < 3; i++)
            TT_SCOPE {
                tt_tensor *x = leaf(3.0), *y = tt_mul(x, x);
                tt_hook *h = tt_tensor_add_hook(on_node ? y : x, bad[i], NULL);

                TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_INVALID, "hook: expected");
                TT_CHECK_NULL(tt_grad_of(x));
                tt_hook_remove(h);
            }
}

TT_TEST(graph, gradients_kept_by_non_leaves)
{
    TT_SCOPE {
        tt_tensor *x = leaf(3.0), *y = tt_mul(x, x), *gone = NULL;

        TT_CHECK_OK(tt_retain_grad(x)); /* a leaf keeps it anyway */
        TT_CHECK_OK(tt_retain_grad(y));
        TT_CHECK_OK(tt_retain_grad(y)); /* twice is once */
        TT_SCOPE {
            gone = tt_mul_scalar(y, 4.0);
            TT_CHECK_OK(tt_retain_grad(gone));
            y = tt_tensor_retain(y);
            TT_CHECK_OK(
                tt_backward_with(tt_sum(gone), &(tt_backward_options){ .retain_graph = true }));
            TT_CHECK_NEAR(first(tt_grad_of(gone)), 1.0, 0);
        }
        TT_CHECK_NEAR(first(tt_grad_of(y)), 4.0, 0);
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_NEAR(first(tt_grad_of(y)), 1.0, 0); /* that of the last backward */
        TT_CHECK_NEAR(first(tt_grad_of(x)), 24.0 + 6.0, 0);
        tt_tensor_free(y);
        TT_CHECK_ERR_SAYS(tt_retain_grad(tt_detach(x)), TT_ERR_INVALID, "does not require");
        TT_CHECK_ERR(tt_retain_grad(NULL), TT_ERR_INVALID);
    }
}

TT_TEST(graph, a_tensor_that_kept_its_gradient_may_die_before_backward)
{
    TT_SCOPE {
        tt_tensor *x = leaf(3.0), *sum = NULL;

        tt_scope s = tt_scope_open();
        tt_tensor *y = tt_mul(x, x);

        TT_CHECK_OK(tt_retain_grad(y));
        sum = tt_scope_close_keep(&s, tt_sum(y));
        TT_CHECK_OK(tt_backward(sum));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 6.0, 0);
    }
}

TT_TEST(graph, backward_gives_saved_tensors_back)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(tt_full(TT_SHAPE(1000), 0.5, TT_F64, TT_CPU));
        uint64_t before, with_graph;
        tt_scope s;
        tt_tensor *y;

        TT_CHECK_OK(tt_set_grad(x, tt_zeros(TT_SHAPE(1000), TT_F64, TT_CPU)));
        before = in_use();
        s = tt_scope_open();
        y = tt_scope_close_keep(&s, tt_sum(tt_exp(tt_exp(tt_mul(x, x)))));
        with_graph = in_use();
        TT_CHECK_GE(with_graph, before + 2 * 8000); /* what the two exp gave */
        TT_CHECK_OK(tt_backward_with(y, &(tt_backward_options){ .retain_graph = true }));
        TT_CHECK_EQ(in_use(), with_graph);
        TT_CHECK_OK(tt_backward(y));
        TT_CHECK_LE(in_use(), before + 64); /* y itself */
        TT_CHECK_ERR_SAYS(tt_backward(y), TT_ERR_INVALID, "retain_graph");
    }
}

static void *free_it(void *ctx)
{
    tt_tensor_free(ctx);
    return NULL;
}

TT_TEST(graph, a_deep_graph_is_freed_by_another_thread)
{
    uint64_t before = in_use();
    tt_tensor *y = NULL;
    pthread_t thread;

    TT_SCOPE
        y = tt_tensor_retain(leaf(1.0));
    for (int i = 0; i < 200000 && y != NULL; i++)
        TT_SCOPE {
            tt_tensor *next = tt_tensor_retain(tt_mul_scalar(y, 1.0));

            tt_tensor_free(y);
            y = next;
        }
    TT_REQUIRE_NOT_NULL(y);
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, free_it, y), 0);
    pthread_join(thread, NULL);
    TT_CHECK_EQ(in_use(), before);
}
