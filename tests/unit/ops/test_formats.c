/* SPDX-License-Identifier: Apache-2.0 */
/* Results of channels-last tensors are channels-last too, with the values of contiguous ones. */
#include <tutti/testing.h>
#include <tutti/tutti.h>

static const tt_pool_options window = { .kernel = { 2, 2 } };

static tt_tensor *plain_input(void)
{
    return tt_reshape(tt_arange(0, 96, 1, TT_F32, TT_CPU), TT_SHAPE(2, 3, 4, 4));
}

static tt_tensor *channels_last(tt_tensor *t)
{
    return tt_to_format(t, TT_FORMAT_CHANNELS_LAST);
}

static void check_last(tt_tensor *last, tt_tensor *plain)
{
    TT_CHECK(tt_tensor_is_contiguous(last, TT_FORMAT_CHANNELS_LAST));
    TT_CHECK(!tt_tensor_is_contiguous(last, TT_FORMAT_CONTIGUOUS));
    TT_CHECK(tt_tensor_is_contiguous(plain, TT_FORMAT_CONTIGUOUS));
    TT_CHECK(tt_equal(last, plain));
}

TT_TEST(formats, pools_keep_channels_last)
{
    TT_SCOPE {
        tt_tensor *x = plain_input(), *l = channels_last(x), *at[2], *y;

        check_last(tt_max_pool2d(l, &window, &at[0]), tt_max_pool2d(x, &window, &at[1]));
        check_last(at[0], at[1]);
        check_last(tt_adaptive_max_pool2d(l, 3, 2, &at[0]),
                   tt_adaptive_max_pool2d(x, 3, 2, &at[1]));
        check_last(at[0], at[1]);
        check_last(tt_avg_pool2d(l, &window), tt_avg_pool2d(x, &window));
        check_last(tt_adaptive_avg_pool2d(l, 3, 2), tt_adaptive_avg_pool2d(x, 3, 2));
        y = tt_max_pool2d(l, &window, NULL);
        TT_CHECK_NEAR(
            tt_item(tt_select(tt_select(tt_select(tt_select(y, 0, 1), 0, 2), 0, 1), 0, 1)), 95, 0);
    }
}

TT_TEST(formats, gradients_pass_channels_last_pools)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(plain_input());
        tt_tensor *l = tt_require_grad(tt_detach(channels_last(plain_input())));

        TT_CHECK_OK(tt_backward(tt_sum(tt_square(tt_max_pool2d(x, &window, NULL)))));
        TT_CHECK_OK(tt_backward(tt_sum(tt_square(tt_max_pool2d(l, &window, NULL)))));
        TT_CHECK(tt_equal(tt_grad_of(x), tt_grad_of(l)));
    }
}

TT_TEST(formats, cat_keeps_channels_last)
{
    for (int dim = 0; dim < 4; dim++)
        TT_SCOPE {
            tt_tensor *x = plain_input(), *l = channels_last(x);
            tt_tensor *both = tt_cat((tt_tensor *[]){ x, x }, 2, dim);

            check_last(tt_cat((tt_tensor *[]){ l, l }, 2, dim), both);
            TT_CHECK(tt_equal(tt_cat((tt_tensor *[]){ x, l }, 2, dim), both));
            TT_CHECK(tt_tensor_is_contiguous(tt_cat((tt_tensor *[]){ l, x }, 2, dim),
                                             TT_FORMAT_CONTIGUOUS));
        }
}
