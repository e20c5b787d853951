/* SPDX-License-Identifier: Apache-2.0 */
/* Backward: accumulation, shared graphs, chosen inputs, modes, and what goes wrong. */
#include "tutti/testing.h"
#include "tutti/tutti.h"

static tt_tensor *leaf(double value)
{
    return tt_require_grad(tt_full(TT_SHAPE(3), value, TT_F64, TT_CPU));
}

static double first(const tt_tensor *t)
{
    return t != NULL ? tt_at(t, (const int64_t[]){ 0 }) : -12345.0;
}

TT_TEST(autograd_backward, gives_the_derivative_of_a_product)
{
    TT_SCOPE {
        tt_tensor *x = leaf(3.0), *y = leaf(5.0);

        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(x, y))));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 5.0, 0.0);
        TT_CHECK_NEAR(first(tt_grad_of(y)), 3.0, 0.0);
    }
}

TT_TEST(autograd_backward, accumulates_over_calls_and_uses)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);

        for (int i = 0; i < 3; i++)
            TT_CHECK_OK(tt_backward(tt_sum(tt_add(tt_mul(x, x), x)))); /* 2x + 1 = 5 */
        TT_CHECK_NEAR(first(tt_grad_of(x)), 15.0, 0.0);
        TT_CHECK_OK(tt_set_grad(x, NULL));
        TT_CHECK_NULL(tt_grad_of(x));
    }
}

TT_TEST(autograd_backward, sums_gradients_of_broadcast_operands)
{
    TT_SCOPE {
        tt_tensor *row = tt_require_grad(tt_ones(TT_SHAPE(1, 3), TT_F32, TT_CPU));
        tt_tensor *all = tt_ones(TT_SHAPE(4, 3), TT_F32, TT_CPU);

        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(row, all))));
        TT_CHECK_EQ(tt_tensor_size(tt_grad_of(row), 0), 1);
        TT_CHECK_NEAR(tt_at(tt_grad_of(row), (const int64_t[]){ 0, 2 }), 4.0, 0.0);
    }
}

TT_TEST(autograd_backward, a_second_time_needs_retain_graph)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *y = tt_sum(tt_mul(x, x));

        TT_CHECK_OK(tt_backward_with(y, &(tt_backward_options){ .retain_graph = true }));
        TT_CHECK_OK(tt_backward(y));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 8.0, 0.0);
        TT_CHECK_ERR_SAYS(tt_backward(y), TT_ERR_INVALID, "retain_graph");
    }
}

TT_TEST(autograd_backward, two_roots_share_a_graph)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *square = tt_mul(x, x);
        tt_tensor *a = tt_sum(square), *b = tt_sum(tt_mul(square, x));
        tt_tensor *roots[] = { a, b };

        TT_CHECK_OK(tt_backward_many(roots, NULL, 2, NULL));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 4.0 + 12.0, 0.0);
    }
}

TT_TEST(autograd_backward, grad_of_chosen_inputs_accumulates_nothing)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0), *y = leaf(7.0), *unused = leaf(1.0);
        tt_tensor *mid = tt_mul(x, x);
        tt_tensor *out = tt_sum(tt_mul(mid, y));
        tt_tensor *ins[] = { x, mid };
        tt_tensor *grads[2];

        TT_CHECK_OK(tt_grad(&out, 1, ins, 2, &(tt_grad_options){ .retain_graph = true }, grads));
        TT_CHECK_NEAR(first(grads[0]), 28.0, 0.0);
        TT_CHECK_NEAR(first(grads[1]), 7.0, 0.0);
        TT_CHECK_NULL(tt_grad_of(x));
        TT_CHECK_NULL(tt_grad_of(y));
        TT_CHECK_ERR_SAYS(
            tt_grad(&out, 1, &unused, 1, &(tt_grad_options){ .retain_graph = true }, grads),
            TT_ERR_INVALID, "not used");
        TT_CHECK_OK(
            tt_grad(&out, 1, &unused, 1, &(tt_grad_options){ .allow_unused = true }, grads));
        TT_CHECK_NULL(grads[0]);
    }
}

TT_TEST(autograd_backward, differentiates_its_own_gradients)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *y = tt_sum(tt_mul(tt_mul(x, x), x));
        tt_tensor *g, *h, *third;

        TT_CHECK_OK(tt_grad(&y, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &g));
        TT_CHECK_NEAR(first(g), 12.0, 1e-12);
        g = tt_sum(g);
        TT_CHECK_OK(tt_grad(&g, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &h));
        TT_CHECK_NEAR(first(h), 12.0, 1e-12);
        h = tt_sum(h);
        TT_CHECK_OK(tt_grad(&h, 1, &x, 1, NULL, &third));
        TT_CHECK_NEAR(first(third), 6.0, 1e-12);
    }
}

TT_TEST(autograd_backward, create_graph_passes_through_saved_results)
{
    TT_SCOPE {
        tt_tensor *x = leaf(0.5);
        tt_tensor *y = tt_sum(tt_exp(x)); /* exp saves its own result */
        tt_tensor *g, *h;

        TT_CHECK_OK(tt_grad(&y, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &g));
        g = tt_sum(tt_mul(g, g)); /* exp(2x), whose derivative is 2 exp(2x) */
        TT_CHECK_OK(tt_grad(&g, 1, &x, 1, NULL, &h));
        TT_CHECK_NEAR(first(h), 2.0 * 2.718281828459045, 1e-12);
    }
}

TT_TEST(autograd_backward, only_the_given_leaves_get_gradients)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0), *y = leaf(3.0);

        TT_CHECK_OK(tt_backward_with(tt_sum(tt_mul(x, y)),
                                     &(tt_backward_options){ .inputs = &x, .n_inputs = 1 }));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 3.0, 0.0);
        TT_CHECK_NULL(tt_grad_of(y));
    }
}

TT_TEST(autograd_backward, needs_a_gradient_for_more_than_one_element)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *y = tt_mul(x, x);

        TT_CHECK_ERR_SAYS(tt_backward(y), TT_ERR_INVALID, "[3]");
        TT_CHECK_ERR_SAYS(
            tt_backward_with(
                y, &(tt_backward_options){ .gradient = tt_ones(TT_SHAPE(2), TT_F64, TT_CPU) }),
            TT_ERR_INVALID, "expected a gradient of shape [3], got [2]");
        TT_CHECK_OK(tt_backward_with(
            y, &(tt_backward_options){ .gradient = tt_full(TT_SHAPE(3), 10.0, TT_F64, TT_CPU) }));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 40.0, 0.0);
        TT_CHECK_ERR_SAYS(tt_backward(tt_ones(TT_SHAPE(1), TT_F32, TT_CPU)), TT_ERR_INVALID,
                          "does not require");
    }
}

TT_TEST(autograd_backward, a_saved_tensor_changed_in_place_is_noticed)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *y = tt_mul(x, x);
        tt_tensor *z = tt_mul(y, y);

        TT_NO_GRAD TT_CHECK_NOT_NULL(tt_add_scalar_(y, 1.0));
        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(z)), TT_ERR_INVALID, "modified in place");
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(x, x)))); /* and everything still works */
    }
}

TT_TEST(autograd_backward, in_place_results_continue_the_graph)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *y = tt_mul_scalar(x, 3.0);

        TT_CHECK_NOT_NULL(tt_add_(y, x));
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 4.0, 0.0);
        TT_CHECK_NULL(tt_add_scalar_(x, 1.0));
        TT_CHECK_CONTAINS(tt_last_error(), "leaf");
    }
}

TT_TEST(autograd_backward, modes_stop_recording)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0), *y = NULL, *z = NULL;

        TT_NO_GRAD
        {
            y = tt_mul(x, x);
            TT_ENABLE_GRAD z = tt_mul(x, x);
        }
        TT_CHECK(!tt_requires_grad(y));
        TT_CHECK(tt_requires_grad(z));
        TT_CHECK_STR(tt_grad_fn_name(z), "mul");
        TT_INFERENCE y = tt_mul(x, x);
        TT_CHECK_NULL(tt_mul(x, y));
        TT_CHECK_CONTAINS(tt_last_error(), "inference");
        TT_CHECK_EQ(tt_grad_mode_get(), TT_GRAD_ON);
        TT_CHECK(!tt_requires_grad(tt_detach(z)));
        TT_CHECK(tt_tensor_shares_storage(tt_detach(z), z));
    }
}

TT_TEST(autograd_backward, frozen_and_integer_tensors)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0), *frozen = leaf(5.0);
        tt_tensor *ints = tt_zeros(TT_SHAPE(3), TT_I64, TT_CPU);

        TT_CHECK_OK(tt_set_requires_grad(frozen, false));
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(x, frozen))));
        TT_CHECK_NULL(tt_grad_of(frozen));
        TT_CHECK_ERR_SAYS(tt_set_requires_grad(ints, true), TT_ERR_INVALID, "int64");
        TT_CHECK_ERR_SAYS(tt_set_requires_grad(tt_mul(x, x), false), TT_ERR_INVALID, "detach");
    }
}

TT_TEST(autograd_backward, a_gradient_kept_by_a_non_leaf)
{
    TT_SCOPE {
        tt_tensor *x = leaf(2.0);
        tt_tensor *y = tt_mul(x, x);

        TT_CHECK_OK(tt_retain_grad(y));
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul_scalar(y, 3.0))));
        TT_CHECK_NEAR(first(tt_grad_of(y)), 3.0, 0.0);
    }
}

/* Recursion would need more stack than there is, also with the fewer nodes that sanitizers have the time for. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CHAIN_NODES = 200000 };
#else
enum { CHAIN_NODES = 1000000 };
#endif

TT_TEST(autograd_backward, a_chain_of_a_million_nodes_is_freed)
{
    tt_tensor *x = tt_tensor_retain(leaf(1.0));
    tt_tensor *y = tt_tensor_retain(x);

    for (int i = 0; i < CHAIN_NODES && y != NULL; i++)
        TT_SCOPE {
            tt_tensor *next = tt_tensor_retain(tt_add_scalar(y, 0.0));

            tt_tensor_free(y);
            y = next;
        }
    TT_SCOPE
        TT_CHECK_OK(tt_backward(tt_sum(y)));
    TT_CHECK_NEAR(first(tt_grad_of(x)), 1.0, 0.0);
    tt_tensor_free(y);
    tt_tensor_free(x);
}

static tt_status graph_step(void *ctx)
{
    tt_tensor *x = ctx;
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *y = tt_sum(tt_exp(tt_mul(x, tt_add(x, x))));

        st = y != NULL ? tt_backward(y) : tt_last_status();
    }
    return st;
}

TT_TEST(autograd_backward, every_failing_allocation_is_survived)
{
    TT_SCOPE {
        tt_tensor *x = leaf(0.25);

        tt_test_fail_allocs(graph_step, x);
        TT_CHECK_OK(tt_set_grad(x, NULL));
        TT_CHECK_OK(graph_step(x));
        TT_CHECK_NEAR(first(tt_grad_of(x)), 1.1331484530668263, 1e-12); /* 4x exp(2x^2) */
    }
}
