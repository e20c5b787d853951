/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients: a straight line fitted to noisy points by hand-written gradient descent. */
#include <math.h>
#include <stdio.h>

#include "tutti/tutti.h"

static tt_status fit(double *slope_p, double *offset_p)
{
    tt_tensor *x = NULL, *y = NULL, *w = NULL, *b = NULL;

    tt_seed(7);
    TT_SCOPE {
        x = tt_tensor_retain(tt_rand(TT_SHAPE(200, 1), TT_F32, TT_CPU));
        y = tt_tensor_retain(
            tt_add(tt_add_scalar(tt_mul_scalar(x, 3.0), -1.0),
                   tt_mul_scalar(tt_randn(TT_SHAPE(200, 1), TT_F32, TT_CPU), 0.05)));
        w = tt_tensor_retain(tt_require_grad(tt_zeros(TT_SHAPE(1), TT_F32, TT_CPU)));
        b = tt_tensor_retain(tt_require_grad(tt_zeros(TT_SHAPE(1), TT_F32, TT_CPU)));
    }
    for (int step = 0; step < 500; step++) {
        TT_SCOPE /* one step: its temporaries and its graph end here */
        {
            tt_tensor *loss = tt_mse_loss(tt_add(tt_mul(x, w), b), y);

            TT_TRY(tt_backward(loss)); /* adds to the gradients of w and b */
            TT_NO_GRAD                 /* the update itself is not to be recorded */
            {
                tt_add_scaled_(w, tt_grad_of(w), -0.3);
                tt_add_scaled_(b, tt_grad_of(b), -0.3);
            }
            TT_TRY(tt_set_grad(w, NULL));
            TT_TRY(tt_set_grad(b, NULL));
            if (step % 100 == 0)
                printf("step %3d  loss %.5f\n", step, tt_item(loss));
        }
    }
    *slope_p = tt_item(w);
    *offset_p = tt_item(b);
    tt_tensor_free(x);
    tt_tensor_free(y);
    tt_tensor_free(w);
    tt_tensor_free(b);
    return TT_OK;
}

/* Gradients of gradients: the second derivative of x^3 at 2 is 12. */
static tt_status second_derivative(double *value_p)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(tt_full(TT_SHAPE_SCALAR, 2.0, TT_F64, TT_CPU));
        tt_tensor *y = tt_pow_scalar(x, 3.0);
        tt_tensor *first, *second;

        TT_TRY(tt_grad(&y, 1, &x, 1, &(tt_grad_options){ .create_graph = true }, &first));
        TT_TRY(tt_grad(&first, 1, &x, 1, NULL, &second));
        *value_p = tt_item(second);
    }
    return TT_OK;
}

int main(void)
{
    double slope, offset, second;

    if (fit(&slope, &offset) != TT_OK || second_derivative(&second) != TT_OK) {
        fprintf(stderr, "failed: %s\n", tt_last_error());
        return 1;
    }
    printf("fitted y = %.3f x %+.3f (the points were made with 3 x - 1)\n", slope, offset);
    printf("the second derivative of x^3 at 2 is %g\n", second);
    return fabs(slope - 3.0) < 0.1 && fabs(offset + 1.0) < 0.1 && second == 12.0 ? 0 : 1;
}
