/* SPDX-License-Identifier: Apache-2.0 */
/* View operators: sizes, strides, shared storage, and what they refuse. */
#include <tutti/testing.h>

#include "harness/check_tensor.h"
#include "ops/op.h"

/* 0, 1, 2, ... in a contiguous float32 tensor. */
static tt_tensor *counted(tt_shape s)
{
    tt_tensor *t = tt_empty(s, TT_F32, TT_CPU);
    float *p = tt_tensor_data(t);

    for (int64_t i = 0; i < tt_tensor_numel(t); i++)
        p[i] = (float)i;
    return t;
}

/* The element at up to three indices. */
static float at(const tt_tensor *t, int64_t i, int64_t j, int64_t k)
{
    const float *p = tt_tensor_data(t);
    int64_t index[3] = { i, j, k }, where = 0;

    for (int d = 0; d < tt_tensor_dims(t); d++)
        where += index[d] * tt_tensor_strides(t)[d];
    return p[where];
}

static bool has_shape(const tt_tensor *t, tt_shape s)
{
    return t != NULL && tt_shape_equal(tt_tensor_shape(t), s);
}

TT_TEST(view, keeps_order_and_infers_one_size)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(2, 6));
        tt_tensor *y = tt_view(x, TT_SHAPE(3, -1));

        TT_REQUIRE(has_shape(y, TT_SHAPE(3, 4)));
        TT_CHECK_NEAR(at(y, 2, 1, 0), 9, 0);
        TT_CHECK(tt_tensor_shares_storage(x, y));
        ((float *)tt_tensor_data(y))[0] = 50;
        TT_CHECK_NEAR(at(x, 0, 0, 0), 50, 0);
        TT_CHECK(has_shape(tt_view(x, TT_SHAPE(1, 12, 1)), TT_SHAPE(1, 12, 1)));
        TT_CHECK(has_shape(tt_view(counted(TT_SHAPE(1)), TT_SHAPE_SCALAR), TT_SHAPE_SCALAR));
    }
}

TT_TEST(view, refuses_what_needs_a_copy_or_does_not_fit)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(2, 3));

        TT_CHECK_NULL(tt_view(tt_t(x), TT_SHAPE(6)));
        TT_CHECK_CONTAINS(tt_last_error(), "view: the strides of a tensor of shape [3, 2]");
        TT_CHECK_NULL(tt_view(x, TT_SHAPE(4, -1)));
        TT_CHECK_CONTAINS(tt_last_error(), "[4, -1] does not hold the 6 elements of shape [2, 3]");
        TT_CHECK_NULL(tt_view(x, TT_SHAPE(-1, -1)));
        TT_CHECK_NULL(tt_view(x, TT_SHAPE(7)));
        tt_clear_error();
        TT_CHECK_NULL(tt_view(NULL, TT_SHAPE(7)));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    }
}

TT_TEST(view, reshape_of_contiguous_shares_storage)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(4, 6));
        tt_tensor *part = tt_slice(x, 1, 0, 4, 2); /* [4, 2], strides 6, 2 */

        TT_CHECK(tt_tensor_shares_storage(x, tt_reshape(x, TT_SHAPE(24))));
        TT_CHECK(tt_tensor_shares_storage(x, tt_reshape(part, TT_SHAPE(2, 2, 2))));
    }
}

TT_TEST(view, flatten_and_unflatten)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(2, 3, 4));

        TT_CHECK(has_shape(tt_flatten(x, 0, -1), TT_SHAPE(24)));
        TT_CHECK(has_shape(tt_flatten(x, 1, 2), TT_SHAPE(2, 12)));
        TT_CHECK(has_shape(tt_flatten(counted(TT_SHAPE_SCALAR), 0, -1), TT_SHAPE(1)));
        TT_CHECK(has_shape(tt_unflatten(x, -1, TT_SHAPE(2, -1)), TT_SHAPE(2, 3, 2, 2)));
        TT_CHECK_NULL(tt_flatten(x, 2, 1));
        TT_CHECK_CONTAINS(tt_last_error(), "got 2 and 1");
        TT_CHECK_NULL(tt_unflatten(x, 0, TT_SHAPE(3, -1)));
    }
}

TT_TEST(view, transpose_permute_and_t)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(2, 3, 4));
        tt_tensor *p = tt_permute(x, (int[]){ 2, 0, -2 }, 3);

        TT_REQUIRE(has_shape(p, TT_SHAPE(4, 2, 3)));
        TT_CHECK_NEAR(at(p, 3, 1, 2), at(x, 1, 2, 3), 0);
        TT_CHECK(has_shape(tt_transpose(x, 0, -1), TT_SHAPE(4, 3, 2)));
        TT_CHECK_NEAR(at(tt_t(counted(TT_SHAPE(2, 3))), 2, 1, 0), 5, 0);
        TT_CHECK(has_shape(tt_t(counted(TT_SHAPE(3))), TT_SHAPE(3)));
        TT_CHECK_NULL(tt_t(x));
        TT_CHECK_CONTAINS(tt_last_error(), "t: expected at most 2 dimensions, got shape [2, 3, 4]");
        TT_CHECK_NULL(tt_permute(x, (int[]){ 0, 0, 1 }, 3));
        TT_CHECK_CONTAINS(tt_last_error(), "dimension 0 is given twice");
        TT_CHECK_NULL(tt_transpose(x, 0, 3));
        TT_CHECK_CONTAINS(tt_last_error(), "transpose: expected a dimension from -3 to 2, got 3");
    }
}

TT_TEST(view, squeeze_unsqueeze_expand)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(1, 3, 1));
        tt_tensor *e = tt_expand(x, TT_SHAPE(2, -1, 4));

        TT_CHECK(has_shape(tt_squeeze(x), TT_SHAPE(3)));
        TT_CHECK(has_shape(tt_squeeze_dim(x, -1), TT_SHAPE(1, 3)));
        TT_CHECK(has_shape(tt_squeeze_dim(x, 1), TT_SHAPE(1, 3, 1)));
        TT_CHECK(has_shape(tt_unsqueeze(x, -1), TT_SHAPE(1, 3, 1, 1)));
        TT_CHECK(has_shape(tt_unsqueeze(x, 0), TT_SHAPE(1, 1, 3, 1)));
        TT_REQUIRE(has_shape(e, TT_SHAPE(2, 3, 4)));
        TT_CHECK_NEAR(at(e, 1, 2, 3), 2, 0);
        TT_CHECK_EQ(tt_tensor_strides(e)[0], 0);
        TT_CHECK(has_shape(tt_expand(x, TT_SHAPE(5, 1, 3, 2)), TT_SHAPE(5, 1, 3, 2)));
        TT_CHECK_NULL(tt_expand(x, TT_SHAPE(1, 4, 1)));
        TT_CHECK_CONTAINS(tt_last_error(), "[1, 3, 1] cannot be expanded to [1, 4, 1]");
        TT_CHECK_NULL(tt_expand(x, TT_SHAPE(-1, 1, 3, 1)));
    }
}

/* A repeated tensor is a copy: none of its elements is one in memory with another. */
TT_TEST(view, repeat_copies_in_every_dimension)
{
    const int64_t times[][2] = { { 2, 3 }, { 2, 1 }, { 1, 2 }, { 1, 1 }, { 3, 2 } };

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        TT_SCOPE {
            tt_tensor *x = TT_FLOATS(1, 2), *y = tt_repeat(x, times[i], 2);

            TT_REQUIRE(has_shape(y, TT_SHAPE(times[i][0], 2 * times[i][1])));
            TT_CHECK(!tt_tensor_shares_storage(x, y));
            TT_CHECK(tt_tensor_is_contiguous(y, TT_FORMAT_CONTIGUOUS));
            TT_CHECK_NOT_NULL(tt_fill_(tt_select(y, 0, 0), 9.0));
            for (int64_t r = 1; r < times[i][0]; r++)
                TT_CHECK_NEAR(tt_item(tt_select(tt_select(y, 0, r), 0, 1)), 2, 0);
        }
}

TT_TEST(view, slice_narrow_select)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(4, 5));
        tt_tensor *s = tt_slice(x, 1, -4, 100, 2);
        tt_tensor *row = tt_select(x, 0, -1);

        TT_REQUIRE(has_shape(s, TT_SHAPE(4, 2)));
        TT_CHECK_NEAR(at(s, 3, 1, 0), 18, 0);
        TT_CHECK_EQ(tt_tensor_offset(s), 1);
        TT_CHECK(has_shape(tt_slice(x, 0, 3, 1, 1), TT_SHAPE(0, 5)));
        TT_REQUIRE(has_shape(row, TT_SHAPE(5)));
        TT_CHECK_NEAR(at(row, 2, 0, 0), 17, 0);
        TT_CHECK_NEAR(at(tt_narrow(x, 0, -2, 2), 1, 0, 0), 15, 0);
        TT_CHECK(has_shape(tt_narrow(x, 0, 4, 0), TT_SHAPE(0, 5)));
        TT_CHECK_NULL(tt_select(x, 1, 5));
        TT_CHECK_CONTAINS(tt_last_error(), "index 5 is out of range for dimension 1 of size 5");
        TT_CHECK_NULL(tt_narrow(x, 0, 3, 2));
        TT_CHECK_CONTAINS(tt_last_error(), "start 3 and length 2");
        TT_CHECK_NULL(tt_slice(x, 0, 0, 3, 0));
        TT_CHECK_NULL(tt_select(counted(TT_SHAPE_SCALAR), 0, 0));
    }
}

TT_TEST(view, diagonals)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(3, 4));
        tt_tensor *up = tt_diagonal(x, 1, 0, 1), *down = tt_diagonal(x, -1, 0, 1);
        tt_tensor *batch = tt_diagonal(counted(TT_SHAPE(2, 3, 2)), 0, 0, -1);

        TT_REQUIRE(has_shape(up, TT_SHAPE(3)));
        TT_CHECK_NEAR(at(up, 2, 0, 0), 11, 0);
        TT_REQUIRE(has_shape(down, TT_SHAPE(2)));
        TT_CHECK_NEAR(at(down, 1, 0, 0), 9, 0);
        TT_REQUIRE(has_shape(batch, TT_SHAPE(3, 2)));
        TT_CHECK_NEAR(at(batch, 2, 1, 0), 11, 0);
        TT_CHECK(has_shape(tt_diagonal(x, 9, 0, 1), TT_SHAPE(0)));
        TT_CHECK_NULL(tt_diagonal(x, 0, 1, -1));
    }
}

TT_TEST(view, as_strided_stays_in_the_storage)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(10));
        tt_tensor *w = tt_as_strided(x, TT_SHAPE(4, 3), (int64_t[]){ 2, 1 }, 1);

        TT_REQUIRE_NOT_NULL(w);
        TT_CHECK_NEAR(at(w, 3, 2, 0), 9, 0);
        TT_CHECK_NULL(tt_as_strided(x, TT_SHAPE(4, 4), (int64_t[]){ 2, 1 }, 1));
        TT_CHECK_CONTAINS(tt_last_error(), "does not lie in the 10 elements of the storage");
        TT_CHECK_NULL(tt_as_strided(x, TT_SHAPE(2), (int64_t[]){ -1 }, 1));
        TT_CHECK_NULL(tt_as_strided(x, TT_SHAPE(INT64_MAX, 2), (int64_t[]){ INT64_MAX, 1 }, 0));
    }
}

TT_TEST(view, split_and_chunk)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(7, 2));
        tt_tensor *out[12];
        int n = 12;

        TT_REQUIRE_OK(tt_split(x, 3, 0, out, &n));
        TT_REQUIRE_EQ(n, 3);
        TT_CHECK(has_shape(out[2], TT_SHAPE(1, 2)));
        TT_CHECK_NEAR(at(out[1], 0, 1, 0), 7, 0);
        n = 2;
        TT_CHECK_ERR_SAYS(tt_split(x, 3, 0, out, &n), TT_ERR_INVALID, "3 pieces, but room for 2");
        n = 12;
        TT_REQUIRE_OK(tt_chunk(x, 4, 0, out, &n));
        TT_CHECK_EQ(n, 4);
        TT_CHECK(has_shape(out[3], TT_SHAPE(1, 2)));
        TT_REQUIRE_OK(tt_split_sizes(x, (int64_t[]){ 1, 0, 6 }, 3, 0, out));
        TT_CHECK(has_shape(out[1], TT_SHAPE(0, 2)));
        TT_CHECK_NEAR(at(out[2], 5, 1, 0), 13, 0);
        TT_CHECK_ERR_SAYS(tt_split_sizes(x, (int64_t[]){ 1, 5 }, 2, 0, out), TT_ERR_INVALID,
                          "add up to 7");
        n = 12;
        TT_REQUIRE_OK(tt_split(counted(TT_SHAPE(10)), 1, 0, out, &n));
        TT_CHECK_EQ(n, 10);
        TT_CHECK_NEAR(at(out[9], 0, 0, 0), 9, 0);
    }
}

TT_TEST(view, recorded_views_know_their_base_and_refuse_in_place)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(counted(TT_SHAPE(2, 3)));
        tt_tensor *v = tt_t(tt_slice(x, 1, 0, 2, 1));

        TT_CHECK_PTR(v->base, x);
        TT_CHECK_STR(tt_grad_fn_name(v), "t");
        TT_CHECK(tt_requires_grad(v));
        TT_CHECK_NULL(tt_mul_scalar_(v, 2));
        TT_CHECK_CONTAINS(tt_last_error(), "a view cannot be changed in place while recording");
        TT_NO_GRAD
        {
            TT_CHECK_NULL(tt_t(x)->grad_fn);
        }
    }
}

typedef struct chain {
    tt_tensor *x;
} chain;

static tt_status view_chain(void *ctx)
{
    chain *c = ctx;
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *out[2];

        if (tt_squeeze(tt_view(tt_t(tt_slice(c->x, 1, 0, 2, 1)), TT_SHAPE(1, 2, 2))) == NULL ||
            tt_split_sizes(c->x, (int64_t[]){ 1, 1 }, 2, 0, out) != TT_OK)
            st = tt_last_status();
    }
    return st;
}

TT_TEST(view, survives_every_failed_allocation)
{
    TT_SCOPE {
        chain c = { tt_require_grad(counted(TT_SHAPE(2, 3))) };

        TT_CHECK_GT(tt_test_fail_allocs(view_chain, &c), 4);
    }
}
