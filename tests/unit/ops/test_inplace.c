/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that change their first operand: values, types, overlap, versions and the graph. */
#include <math.h>
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

TT_TEST(inplace, changes_the_tensor_and_returns_it)
{
    TT_SCOPE {
        tt_tensor *a = TT_FLOATS(1, 2, 3), *b = TT_FLOATS(4, 5, 6);
        uint64_t before = tt_tensor_version(a);

        TT_CHECK_PTR(tt_add_(a, b), a);
        TT_CHECK_VALUES(a, 5, 7, 9);
        TT_CHECK_EQ(tt_tensor_version(a), before + 1);
        TT_CHECK_VALUES(tt_sub_(a, b), 1, 2, 3);
        TT_CHECK_VALUES(tt_mul_(a, b), 4, 10, 18);
        TT_CHECK_VALUES(tt_div_(a, b), 1, 2, 3);
        TT_CHECK_VALUES(tt_add_scaled_(a, b, 0.5), 3, 4.5, 6);
        TT_CHECK_VALUES(tt_add_scalar_(a, 1), 4, 5.5, 7);
        TT_CHECK_VALUES(tt_mul_scalar_(a, 2), 8, 11, 14);
        TT_CHECK_VALUES(tt_div_scalar_(a, 2), 4, 5.5, 7);
        TT_CHECK_VALUES(tt_neg_(a), -4, -5.5, -7);
        TT_CHECK_VALUES(tt_relu_(a), 0, 0, 0);
        TT_CHECK_VALUES(tt_fill_(a, 4), 4, 4, 4);
        TT_CHECK_VALUES(tt_sqrt_(a), 2, 2, 2);
        TT_CHECK_VALUES(tt_clamp_(a, 0, 1), 1, 1, 1);
        TT_CHECK_CLOSE(tt_exp_(a), 1e-6, M_E, M_E, M_E);
        TT_CHECK_VALUES(tt_zero_(a), 0, 0, 0);
        TT_CHECK_VALUES(tt_copy_(a, TT_INTS(7)), 7, 7, 7);
        TT_CHECK_VALUES(tt_lerp_(a, b, 0.5), 5.5, 6, 6.5);
        TT_CHECK_VALUES(tt_addcmul_(a, b, b, 1), 21.5, 31, 42.5);
        TT_CHECK_VALUES(tt_addcdiv_(a, b, b, -1), 20.5, 30, 41.5);
    }
}

TT_TEST(inplace, keeps_the_type_and_the_shape)
{
    TT_SCOPE {
        tt_tensor *i = TT_INTS(1, 2), *h = tt_to_dtype(TT_FLOATS(1, 2), TT_F16);

        TT_CHECK_NULL(tt_add_(i, TT_FLOATS(0.5, 0.5)));
        TT_CHECK_CONTAINS(tt_last_error(), "int64");
        TT_CHECK_NULL(tt_div_(i, i));
        TT_CHECK_NULL(tt_mul_scalar_(i, 0.5));
        TT_CHECK_VALUES(tt_add_(h, TT_FLOATS(0.5, 1.5)), 1.5, 3.5);
        TT_CHECK_EQ(tt_tensor_dtype(h), TT_F16);
        TT_CHECK_NULL(tt_add_(h, tt_ones(TT_SHAPE(3, 2), TT_F32, TT_CPU)));
        TT_CHECK_NULL(tt_add_(TT_FLOATS(1), TT_FLOATS(1, 2)));
    }
}

TT_TEST(inplace, overlapping_operands_are_read_before)
{
    TT_SCOPE {
        tt_tensor *x = tt_arange(0, 9, 1, TT_F32, TT_CPU);
        tt_tensor *m = tt_view(x, TT_SHAPE(3, 3));

        tt_add_(m, tt_transpose(m, 0, 1));
        TT_CHECK_VALUES(m, 0, 4, 8, 4, 8, 12, 8, 12, 16);
        tt_copy_(tt_narrow(x, 0, 1, 8), tt_narrow(x, 0, 0, 8));
        TT_CHECK_VALUES(x, 0, 0, 4, 8, 4, 8, 12, 8, 12);
        TT_CHECK_NULL(tt_add_scalar_(tt_expand(TT_FLOATS(1), TT_SHAPE(3)), 1));
        TT_CHECK_CONTAINS(tt_last_error(), "clone");
    }
}

TT_TEST(inplace, leaves_are_refused_while_recording)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2));

        TT_CHECK_NULL(tt_add_scalar_(w, 1));
        TT_CHECK_CONTAINS(tt_last_error(), "leaf");
        TT_NO_GRAD TT_CHECK_VALUES(tt_add_scalar_(w, 1), 2, 3);
    }
}

TT_TEST(inplace, gradients_flow_through)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2)), *v = tt_require_grad(TT_FLOATS(5, 7));
        tt_tensor *y = tt_mul_scalar(w, 3);

        y = tt_mul_(y, v); /* 3 w v */
        y = tt_exp_(tt_mul_scalar_(y, 0.01));
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_CLOSE(tt_grad_of(w), 1e-6, 0.15 * exp(0.15), 0.21 * exp(0.42));
        TT_CHECK_CLOSE(tt_grad_of(v), 1e-6, 0.03 * exp(0.15), 0.06 * exp(0.42));
    }
}

TT_TEST(inplace, squares_of_itself)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(3, -2));
        tt_tensor *y = tt_clone(w);

        TT_CHECK_OK(tt_backward(tt_sum(tt_mul_(y, y))));
        TT_CHECK_VALUES(tt_grad_of(w), 6, -4);
    }
}

TT_TEST(inplace, a_change_of_a_saved_tensor_is_noticed)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2));
        tt_tensor *c = TT_FLOATS(3, 4);
        tt_tensor *y = tt_mul(w, c);

        tt_add_scalar_(c, 1);
        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_INVALID, "modified in place");
    }
}

TT_TEST(inplace, overwriting_ends_the_history)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2)), *v = tt_require_grad(TT_FLOATS(5, 7));
        tt_tensor *y = tt_mul_scalar(w, 3);

        TT_CHECK_OK(tt_backward(tt_sum(tt_copy_(y, v))));
        TT_CHECK_VALUES(tt_grad_of(v), 1, 1);
        TT_CHECK_VALUES(tt_grad_of(w), 0, 0);
    }
}

/* The gradient of what is written would be lost: the tensor viewed has no history to note it in. */
TT_TEST(inplace, views_of_unrecorded_tensors_refuse_recorded_sources)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2)), *y = tt_mul_scalar(w, 3);
        tt_tensor *all = tt_zeros(TT_SHAPE(2, 2), TT_F32, TT_CPU);
        tt_tensor *row = tt_select(all, 0, 1), *column = tt_t(all), *pieces[2];

        TT_CHECK_NULL(tt_copy_(row, y));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
        TT_CHECK_CONTAINS(tt_last_error(), "copy_: a view cannot be changed in place");
        TT_CHECK_NULL(tt_add_(column, y));
        TT_CHECK_OK(tt_split_sizes(all, (const int64_t[]){ 1, 1 }, 2, 0, pieces));
        TT_CHECK_NULL(tt_mul_(pieces[0], y));
        TT_CHECK_VALUES(all, 0, 0, 0, 0);
        /* Without a gradient to lose, and without recording, views may be changed. */
        TT_CHECK_NOT_NULL(tt_copy_(row, TT_FLOATS(5, 6)));
        TT_NO_GRAD TT_CHECK_NOT_NULL(tt_copy_(pieces[0], y));
        TT_CHECK_VALUES(all, 3, 6, 5, 6);
    }
}

TT_TEST(inplace, the_only_view_of_its_memory_may_be_changed)
{
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2)), *row = NULL;

        TT_SCOPE {
            row = tt_tensor_retain(tt_select(tt_zeros(TT_SHAPE(2, 2), TT_F32, TT_CPU), 0, 1));
        }
        TT_CHECK_OK(tt_backward(tt_sum(tt_add_(row, tt_mul_scalar(w, 3)))));
        TT_CHECK_VALUES(tt_grad_of(w), 3, 3);
        tt_tensor_free(row);
    }
}
