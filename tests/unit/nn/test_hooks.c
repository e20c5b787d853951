/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of modules: their order, what they can change, and that removed ones are silent. */
#include <string.h>

#include "tutti/nn.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

static tt_tensor *scale_forward(tt_module *m, tt_tensor *x)
{
    return tt_mul(x, tt_module_param_at(m, 0));
}

static const tt_module_class scale_class = { .name = "Scale", .forward = scale_forward };

static tt_module *scale(double w)
{
    tt_module *m = tt_module_new(&scale_class);

    TT_SCOPE {
        TT_CHECK_OK(tt_module_add_param(m, "w", tt_full(TT_SHAPE(2), w, TT_F32, TT_CPU)));
    }
    return m;
}

static double first(const tt_tensor *t)
{
    return t != NULL ? tt_at(t, (int64_t[]){ 0 }) : -1;
}

static char trail[64];

static tt_status note_pre(void *ctx, tt_module *m, tt_value **in_p)
{
    (void)m;
    (void)in_p;
    strcat(trail, ctx);
    return TT_OK;
}

static tt_status note_post(void *ctx, tt_module *m, tt_value *in, tt_value **out_p)
{
    (void)m;
    (void)in;
    (void)out_p;
    strcat(trail, ctx);
    return TT_OK;
}

static tt_status double_input(void *ctx, tt_module *m, tt_value **in_p)
{
    (void)ctx;
    (void)m;
    *in_p = tt_value_tensor_new(tt_mul_scalar(tt_value_as_tensor(*in_p), 2));
    return *in_p != NULL ? TT_OK : tt_last_status();
}

static tt_status add_to_output(void *ctx, tt_module *m, tt_value *in, tt_value **out_p)
{
    (void)ctx;
    (void)m;
    (void)in;
    *out_p = tt_value_tensor_new(tt_add_scalar(tt_value_as_tensor(*out_p), 100));
    return *out_p != NULL ? TT_OK : tt_last_status();
}

static tt_status refuse(void *ctx, tt_module *m, tt_value **in_p)
{
    (void)ctx;
    (void)m;
    (void)in_p;
    return tt_fail(TT_ERR_INVALID, "not today");
}

TT_TEST(module_hooks, run_in_order_and_stop_when_removed)
{
    tt_module *m = scale(3);
    tt_hook *a = tt_module_add_forward_pre_hook(m, note_pre, (char[]){ "a" });
    tt_hook *b = tt_module_add_forward_pre_hook(m, note_pre, (char[]){ "b" });
    tt_hook *c = tt_module_add_forward_hook(m, note_post, (char[]){ "c" });

    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(1, 1);

        TT_CHECK_NEAR(first(tt_module_forward(m, x)), 3, 0);
        tt_hook_remove(a);
        TT_CHECK_NEAR(first(tt_module_forward(m, x)), 3, 0);
        TT_CHECK_STR(trail, "abcbc");
        a = tt_module_add_forward_pre_hook(m, note_pre, (char[]){ "d" });
        tt_hook_remove(b);
        TT_CHECK_NEAR(first(tt_module_forward(m, x)), 3, 0);
        TT_CHECK_STR(trail, "abcbcdc");
    }
    tt_hook_remove(a);
    tt_module_free(m);
    tt_hook_remove(c); /* after the module is fine */
}

TT_TEST(module_hooks, change_input_and_output)
{
    tt_module *m = scale(3);

    TT_SCOPE {
        tt_hook *in = tt_module_add_forward_pre_hook(m, double_input, NULL);
        tt_hook *out = tt_module_add_forward_hook(m, add_to_output, NULL);
        size_t before;
        tt_tensor *x = TT_FLOATS(1, 1);

        before = tt_scope_count();
        TT_CHECK_NEAR(first(tt_module_forward(m, x)), 106, 0);
        TT_CHECK_EQ(tt_scope_count(), before + 1);
        tt_hook_remove(in);
        tt_hook_remove(out);
        in = tt_module_add_forward_pre_hook(m, refuse, NULL);
        TT_CHECK_NULL(tt_module_forward(m, x));
        TT_CHECK_STR(tt_last_error(), "not today");
        tt_hook_remove(in);
    }
    tt_module_free(m);
}

/* ---- backward --------------------------------------------------------------------------------- */

typedef struct seen {
    int calls, n_in, n_out;
    double grad_in, grad_out;
    bool change;
} seen;

static tt_status look(void *ctx, tt_module *m, tt_tensor **grad_in, int n_in,
                      tt_tensor *const *grad_out, int n_out)
{
    seen *s = ctx;

    (void)m;
    s->calls++;
    s->n_in = n_in;
    s->n_out = n_out;
    s->grad_in = first(grad_in[0]);
    s->grad_out = first(grad_out[0]);
    if (s->change)
        grad_in[0] = tt_mul_scalar(grad_in[0], 10);
    return TT_OK;
}

static tt_status tenfold(void *ctx, tt_module *m, tt_tensor **grad_out, int n_out)
{
    (void)ctx;
    (void)m;
    (void)n_out;
    grad_out[0] = tt_mul_scalar(grad_out[0], 10);
    return TT_OK;
}

TT_TEST(module_hooks, see_gradients_of_input_and_output)
{
    tt_module *m = scale(3);
    seen s = { .change = true };

    TT_SCOPE {
        tt_tensor *x = tt_require_grad(TT_FLOATS(1, 1));
        tt_hook *h = tt_module_add_backward_hook(m, look, &s);
        tt_tensor *y = tt_mul_scalar(tt_module_forward(m, x), 2);

        TT_REQUIRE_OK(tt_backward_with(y, &(tt_backward_options){ .gradient = TT_FLOATS(1, 1) }));
        TT_CHECK_EQ(s.calls, 1);
        TT_CHECK_EQ(s.n_in, 1);
        TT_CHECK_EQ(s.n_out, 1);
        TT_CHECK_NEAR(s.grad_out, 2, 0);
        TT_CHECK_NEAR(s.grad_in, 6, 0);
        TT_CHECK_NEAR(first(tt_grad_of(x)), 60, 0);
        TT_CHECK_NEAR(first(tt_grad_of(tt_module_param(m, "w"))), 2, 0);
        tt_hook_remove(h);
    }
    tt_module_free(m);
}

TT_TEST(module_hooks, run_in_backward_when_no_input_needs_a_gradient)
{
    tt_module *m = scale(3);
    seen s = { 0 };

    TT_SCOPE {
        tt_hook *h = tt_module_add_backward_hook(m, look, &s);
        tt_hook *pre = tt_module_add_backward_pre_hook(m, tenfold, NULL);
        tt_tensor *y = tt_module_forward(m, TT_FLOATS(5, 5));

        TT_REQUIRE_OK(tt_backward_with(y, &(tt_backward_options){ .gradient = TT_FLOATS(1, 1) }));
        TT_CHECK_EQ(s.calls, 1);
        TT_CHECK_NEAR(s.grad_in, -1, 0);
        TT_CHECK_NEAR(s.grad_out, 10, 0);
        TT_CHECK_NEAR(first(tt_grad_of(tt_module_param(m, "w"))), 50, 0);
        tt_hook_remove(h);
        tt_hook_remove(pre);
    }
    tt_module_free(m);
}

TT_TEST(module_hooks, leave_calls_without_gradients_alone)
{
    tt_module *m = scale(3);
    seen s = { 0 };
    tt_hook *h = tt_module_add_backward_hook(m, look, &s);

    TT_SCOPE {
        TT_NO_GRAD
        {
            TT_CHECK_NEAR(first(tt_module_forward(m, TT_FLOATS(5, 5))), 15, 0);
        }
    }
    TT_CHECK_EQ(s.calls, 0);
    tt_hook_remove(h);
    tt_module_free(m);
}

static tt_status hooked_step(void *ctx)
{
    tt_module *m = ctx;
    tt_status st = TT_OK;

    tt_module_zero_grad(m);
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(TT_FLOATS(1, 1)), *g = TT_FLOATS(1, 1);
        tt_tensor *y = tt_module_forward(m, x);

        if (x == NULL || g == NULL || y == NULL)
            st = tt_last_status();
        else
            st = tt_backward_with(y, &(tt_backward_options){ .gradient = g });
    }
    return st;
}

TT_TEST(module_hooks, survive_every_failed_allocation)
{
    tt_module *m = scale(3);
    seen s = { 0 };
    tt_hook *h[] = { tt_module_add_backward_hook(m, look, &s),
                     tt_module_add_forward_pre_hook(m, double_input, NULL),
                     tt_module_add_forward_hook(m, add_to_output, NULL) };

    TT_CHECK_GT(tt_test_fail_allocs(hooked_step, m), 10);
    for (int i = 0; i < 3; i++)
        tt_hook_remove(h[i]);
    tt_module_free(m);
}
