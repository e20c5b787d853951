/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, differences, products and quotients: values, types, broadcasting, strides. */
#include <math.h>
#include <tutti/tutti.h>

#include "harness/check_tensor.h"

TT_TEST(arith, adds_and_multiplies)
{
    TT_SCOPE {
        tt_tensor *a = TT_FLOATS(1, 2, 3), *b = TT_FLOATS(10, -20, 0.5);

        TT_CHECK_VALUES(tt_add(a, b), 11, -18, 3.5);
        TT_CHECK_VALUES(tt_sub(a, b), -9, 22, 2.5);
        TT_CHECK_VALUES(tt_mul(a, b), 10, -40, 1.5);
        TT_CHECK_CLOSE(tt_div(a, b), 1e-7, 0.1, -0.1, 6);
        TT_CHECK_VALUES(tt_add_scaled(a, b, 2), 21, -38, 4);
    }
}

TT_TEST(arith, broadcasts)
{
    TT_SCOPE {
        tt_tensor *a = tt_from_data((float[]){ 1, 2, 3, 4, 5, 6 }, TT_SHAPE(2, 3), TT_F32);
        tt_tensor *column = tt_from_data((float[]){ 10, 20 }, TT_SHAPE(2, 1), TT_F32);
        tt_tensor *row = TT_FLOATS(100, 200, 300);

        TT_CHECK_VALUES(tt_add(a, column), 11, 12, 13, 24, 25, 26);
        TT_CHECK_VALUES(tt_add(row, a), 101, 202, 303, 104, 205, 306);
        TT_CHECK_VALUES(tt_sub(column, row), -90, -190, -290, -80, -180, -280);
        TT_CHECK_VALUES(tt_mul(a, tt_full(TT_SHAPE_SCALAR, 2, TT_F32, TT_CPU)), 2, 4, 6, 8, 10, 12);
        TT_CHECK_SHAPE(tt_add(tt_zeros(TT_SHAPE(0, 3), TT_F32, TT_CPU), row), 0, 3);
        TT_CHECK_NULL(tt_add(a, TT_FLOATS(1, 2)));
        TT_CHECK_CONTAINS(tt_last_error(), "[2, 3]");
    }
}
