/* SPDX-License-Identifier: Apache-2.0 */
/* An operator of your own, with its own derivative, checked against finite differences; and hooks that
 * watch gradients. The function is the "straight-through" rounding used to train quantised networks. */
#include <stdio.h>

#include "tutti/tutti.h"

/* Forward: x rounded to multiples of the step in *user. */
static tt_status round_forward(tt_function_ctx *ctx, tt_tensor *const *in, int n_in,
                               tt_tensor **out, int n_out)
{
    double step = *(double *)tt_function_user(ctx);

    (void)n_in;
    (void)n_out;
    out[0] = tt_mul_scalar(tt_round(tt_div_scalar(in[0], step)), step);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

/* Backward: as if it had not been there. */
static tt_status round_backward(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                                tt_tensor **grad_in, int n_in)
{
    (void)ctx;
    (void)n_out;
    (void)n_in;
    grad_in[0] = grad_out[0];
    return TT_OK;
}

static const tt_function rounding = { .name = "round_to",
                                      .forward = round_forward,
                                      .backward = round_backward };

/* A function made of operators, for the checker: log(1 + exp(x)) * y */
static tt_status soft(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)ctx;
    (void)n_in;
    (void)n_out;
    out[0] = tt_mul(tt_log1p(tt_exp(in[0])), in[1]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status print_gradient(void *ctx, tt_tensor **grad_p)
{
    printf("the gradient of %s arrives:\n", (const char *)ctx);
    return tt_print(*grad_p);
}

static tt_status run(void)
{
    double step = 0.25;

    TT_SCOPE {
        tt_tensor *x = tt_require_grad(TT_FLOATS(0.1f, 0.4f, 0.9f));
        tt_tensor *a = tt_require_grad(tt_randn(TT_SHAPE(4), TT_F64, TT_CPU));
        tt_tensor *b = tt_require_grad(tt_randn(TT_SHAPE(4), TT_F64, TT_CPU));
        tt_tensor *y;
        tt_hook *hook;

        TT_TRY(tt_function_apply(&rounding, &step, &x, 1, &y, 1));
        printf("rounded:\n");
        TT_TRY(tt_print(y));
        hook = tt_tensor_add_hook(x, print_gradient, (void *)"x");
        TT_TRY(tt_backward(tt_sum(tt_square(y)))); /* 2 y, as if rounding were the identity */
        tt_hook_remove(hook);

        TT_TRY(tt_gradcheck(soft, NULL, (tt_tensor *[]){ a, b }, 2, 1,
                            &(tt_gradcheck_options){ .second_order = true }));
        printf("first and second derivatives of softplus(a) * b agree with finite differences\n");
    }
    return TT_OK;
}

int main(void)
{
    if (run() != TT_OK) {
        fprintf(stderr, "failed: %s\n", tt_last_error());
        return 1;
    }
    return 0;
}
