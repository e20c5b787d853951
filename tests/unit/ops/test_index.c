/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing and writing by index: values, order of additions, what is refused, and gradients against
 * finite differences, of second order too. */
#include <math.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

static const tt_close_options exact = { .exact = true };

static tt_tensor *counted(tt_shape s, tt_dtype d)
{
    return tt_reshape(tt_arange(0, (double)tt_shape_numel(s), 1, d, TT_CPU), s);
}

/* Values that look irregular. */
static tt_tensor *waves(tt_shape s, double phase, tt_dtype d)
{
    tt_tensor *t = tt_empty(s, TT_F64, TT_CPU);
    double *p = tt_tensor_data(t);

    for (int64_t i = 0; i < tt_tensor_numel(t); i++)
        p[i] = sin((double)i + phase);
    return tt_to_dtype(t, d);
}

static tt_tensor *square(tt_tensor *x)
{
    return tt_mul(x, x);
}

static bool is(tt_tensor *t, tt_tensor *want)
{
    tt_close_report r;
    bool same = tt_compare(t, want, &exact, &r);

    if (!same)
        TT_FAIL_TEST("%s (%s)", r.text, tt_last_error());
    return same;
}

TT_TEST(index, index_select_picks_slices)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(3, 4), TT_F32);

        is(tt_index_select(x, 0, TT_INTS(2, 0, 2)),
           tt_view(TT_FLOATS(8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11), TT_SHAPE(3, 4)));
        is(tt_index_select(tt_t(x), -1, TT_INTS(1)),
           tt_view(TT_FLOATS(4, 5, 6, 7), TT_SHAPE(4, 1)));
        is(tt_index_select(x, 1, tt_to_dtype(TT_INTS(3), TT_I32)),
           tt_view(TT_FLOATS(3, 7, 11), TT_SHAPE(3, 1)));
        TT_CHECK_EQ(tt_tensor_size(tt_index_select(x, 1, tt_empty(TT_SHAPE(0), TT_I64, TT_CPU)), 1),
                    0);
    }
}

TT_TEST(index, a_bad_index_is_named_and_nothing_is_written)
{
    TT_SCOPE {
        tt_tensor *x = tt_zeros(TT_SHAPE(3, 4), TT_F32, TT_CPU);
        tt_tensor *i = tt_view(TT_INTS(0, 1, 2, 5), TT_SHAPE(2, 2));
        tt_tensor *ones = tt_ones(TT_SHAPE(2, 2), TT_F32, TT_CPU);

        TT_CHECK_NULL(tt_scatter_add_(x, 0, i, ones));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        TT_CHECK_CONTAINS(
            tt_last_error(),
            "scatter_add: index 5 at [1, 1] is out of range for dimension 0 of size 3");
        is(x, tt_zeros(TT_SHAPE(3, 4), TT_F32, TT_CPU));
        TT_CHECK_EQ(tt_tensor_version(x), 0);
        TT_CHECK_NULL(tt_index_select(x, 1, TT_INTS(0, -1)));
        TT_CHECK_CONTAINS(tt_last_error(), "index -1 at [1]");
        TT_CHECK_NULL(tt_gather(x, 1, tt_view(TT_INTS(4), TT_SHAPE(1, 1))));
        TT_CHECK_CONTAINS(tt_last_error(), "gather: index 4 at [0, 0]");
        TT_CHECK_NULL(tt_one_hot(TT_INTS(0, 3), 3));
        TT_CHECK_CONTAINS(tt_last_error(), "one_hot: index 3 at [1]");
        TT_CHECK_NULL(tt_index_select(x, 0, TT_FLOATS(1)));
        TT_CHECK_CONTAINS(tt_last_error(), "expected indices of type int64 or int32, got float32");
    }
}

TT_TEST(index, gather_and_scatter_with_a_smaller_index)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(3, 4), TT_F32);
        tt_tensor *i = tt_view(TT_INTS(3, 0, 1, 1), TT_SHAPE(2, 2));

        is(tt_gather(x, 1, i), tt_view(TT_FLOATS(3, 0, 5, 5), TT_SHAPE(2, 2)));
        is(tt_gather(x, 0, tt_view(TT_INTS(2, 1), TT_SHAPE(1, 2))),
           tt_view(TT_FLOATS(8, 5), TT_SHAPE(1, 2)));
        is(tt_scatter(tt_zeros(TT_SHAPE(2, 4), TT_F32, TT_CPU), 1, i, x),
           tt_view(TT_FLOATS(1, 0, 0, 0, 0, 5, 0, 0), TT_SHAPE(2, 4)));
        is(tt_scatter_add(tt_ones(TT_SHAPE(2, 4), TT_F32, TT_CPU), 1, i, x),
           tt_view(TT_FLOATS(2, 1, 1, 1, 1, 10, 1, 1), TT_SHAPE(2, 4)));
        TT_CHECK_NULL(tt_gather(x, 1, tt_zeros(TT_SHAPE(4, 1), TT_I64, TT_CPU)));
        TT_CHECK_CONTAINS(tt_last_error(), "an index of shape [4, 1] does not fit the tensor");
        TT_CHECK_NULL(tt_scatter(x, 1, i, tt_to_dtype(x, TT_F64)));
        TT_CHECK_CONTAINS(tt_last_error(), "expected a source of type float32, got float64");
    }
}

TT_TEST(index, in_place_forms_write_through_views)
{
    TT_SCOPE {
        tt_tensor *x = tt_zeros(TT_SHAPE(2, 3), TT_F32, TT_CPU);
        uint64_t before = tt_tensor_version(x);

        TT_CHECK_NOT_NULL(tt_index_add_(tt_t(x), 0, TT_INTS(2, 2),
                                        tt_view(TT_FLOATS(1, 2, 10, 20), TT_SHAPE(2, 2))));
        is(x, tt_view(TT_FLOATS(0, 0, 11, 0, 0, 22), TT_SHAPE(2, 3)));
        TT_CHECK_GT(tt_tensor_version(x), before);
        is(tt_index_add(tt_zeros(TT_SHAPE(3, 2), TT_F32, TT_CPU), 0, TT_INTS(2, 0),
                        tt_view(TT_FLOATS(1, 2, 3, 4), TT_SHAPE(2, 2))),
           tt_view(TT_FLOATS(3, 4, 0, 0, 1, 2), TT_SHAPE(3, 2)));
        is(tt_index_copy(x, 1, TT_INTS(0), tt_view(TT_FLOATS(7, 8), TT_SHAPE(2, 1))),
           tt_view(TT_FLOATS(7, 0, 11, 8, 0, 22), TT_SHAPE(2, 3)));
    }
}

/* 1e8 swallows ones unless they are added first: the order of the index is the order of the sums. */
TT_TEST(index, additions_happen_in_the_order_of_the_index)
{
    TT_SCOPE {
        tt_tensor *x = tt_zeros(TT_SHAPE(1), TT_F32, TT_CPU);
        tt_tensor *i = tt_zeros(TT_SHAPE(4), TT_I64, TT_CPU);

        is(tt_index_add(x, 0, i, TT_FLOATS(1e8f, 1, 1, -1e8f)), TT_FLOATS(0));
        is(tt_index_add(x, 0, i, TT_FLOATS(1e8f, -1e8f, 1, 1)), TT_FLOATS(2));
        is(tt_scatter_add(x, 0, i, TT_FLOATS(1e8f, -1e8f, 1, 1)), TT_FLOATS(2));
    }
}

TT_TEST(index, any_number_of_threads_gives_the_same_bits)
{
    TT_SCOPE {
        int64_t n = 3000, width = 128;
        tt_tensor *src = waves(TT_SHAPE(n, width), 0, TT_F32);
        tt_tensor *i = tt_reshape(tt_expand(tt_arange(0, 6, 1, TT_I64, TT_CPU), TT_SHAPE(n / 6, 6)),
                                  TT_SHAPE(n));
        tt_tensor *zero = tt_zeros(TT_SHAPE(7, width), TT_F32, TT_CPU);
        tt_tensor *one, *many;
        int threads = tt_get_num_threads();

        TT_REQUIRE_NOT_NULL(src);
        TT_CHECK_OK(tt_set_num_threads(1));
        one = tt_index_add(zero, 0, i, src);
        TT_CHECK_OK(tt_set_num_threads(3));
        many = tt_index_add(zero, 0, i, src);
        TT_CHECK_OK(tt_set_num_threads(threads));
        TT_CHECK(tt_equal(one, many));
        TT_CHECK(tt_equal(tt_index_select(src, 0, i), tt_index_select(src, 0, i)));
    }
}

TT_TEST(index, masks_nonzero_and_one_hot)
{
    TT_SCOPE {
        tt_tensor *x = tt_view(TT_FLOATS(0, 1, -0.0f, 2, 3, 0), TT_SHAPE(2, 3));
        tt_tensor *mask = tt_to_dtype(x, TT_BOOL);

        is(tt_nonzero(x), tt_view(TT_INTS(0, 1, 1, 0, 1, 1), TT_SHAPE(3, 2)));
        is(tt_masked_select(x, mask), TT_FLOATS(1, 2, 3));
        is(tt_masked_select(TT_FLOATS(5, 6, 7), mask), TT_FLOATS(6, 5, 6));
        is(tt_one_hot(TT_INTS(1, 0), -1), tt_view(TT_INTS(0, 1, 1, 0), TT_SHAPE(2, 2)));
        TT_CHECK_EQ(tt_tensor_size(tt_nonzero(tt_zeros(TT_SHAPE(4), TT_BOOL, TT_CPU)), 0), 0);
        TT_CHECK_NULL(tt_masked_select(x, x));
        TT_CHECK_CONTAINS(tt_last_error(), "mask of type bool, got float32");
    }
}

TT_TEST(index, additions_in_every_type)
{
    for (int d = 0; d < TT_N_DTYPES; d++)
        TT_SCOPE {
            tt_dtype type = (tt_dtype)d;
            tt_tensor *x = tt_zeros(TT_SHAPE(2, 2), type, TT_CPU);
            tt_tensor *src = tt_ones(TT_SHAPE(3, 2), type, TT_CPU);
            tt_tensor *y = tt_index_add(x, 0, TT_INTS(1, 1, 1), src);
            double want = type == TT_BOOL ? 1 : 3;

            TT_CHECK_NEAR(tt_at(y, (int64_t[]){ 1, 1 }), want, 0);
            TT_CHECK_NEAR(tt_at(y, (int64_t[]){ 0, 1 }), 0, 0);
            y = tt_scatter_add(x, 0, tt_zeros(TT_SHAPE(3, 1), TT_I64, TT_CPU), src);
            TT_CHECK_NEAR(tt_at(y, (int64_t[]){ 0, 0 }), want, 0);
        }
}

/* ---- gradients --------------------------------------------------------------------------- */

typedef tt_tensor *(*make_fn)(tt_tensor *x, tt_tensor *y);

static tt_tensor *g_select(tt_tensor *x, tt_tensor *y)
{
    return tt_mul(tt_index_select(x, 1, TT_INTS(2, 0, 2)), y);
}

static tt_tensor *g_gather(tt_tensor *x, tt_tensor *y)
{
    return tt_mul(tt_gather(x, 0, tt_view(TT_INTS(1, 1, 0), TT_SHAPE(1, 3))), y);
}

static tt_tensor *g_scatter(tt_tensor *x, tt_tensor *y)
{
    return square(tt_scatter(x, 1, tt_view(TT_INTS(2, 0, 1, 2), TT_SHAPE(2, 2)), y));
}

static tt_tensor *g_scatter_add(tt_tensor *x, tt_tensor *y)
{
    return square(tt_scatter_add(x, 1, tt_view(TT_INTS(2, 2), TT_SHAPE(1, 2)), y));
}

static tt_tensor *g_index_add(tt_tensor *x, tt_tensor *y)
{
    return square(tt_index_add(x, 1, TT_INTS(1, 1, 0), y));
}

static tt_tensor *g_index_copy(tt_tensor *x, tt_tensor *y)
{
    return square(tt_index_copy(x, 1, TT_INTS(1, 2), tt_narrow(y, 1, 0, 2)));
}

static tt_tensor *g_masked_select(tt_tensor *x, tt_tensor *y)
{
    tt_tensor *mask = tt_to_dtype(tt_view(TT_INTS(1, 0, 1, 1, 1, 0), TT_SHAPE(2, 3)), TT_BOOL);

    return tt_mul(tt_masked_select(x, mask), tt_masked_select(y, mask));
}

static tt_tensor *g_in_place(tt_tensor *x, tt_tensor *y)
{
    return square(tt_index_add_(tt_mul_scalar(x, 2), 1, TT_INTS(0, 2, 2), y));
}

static tt_tensor *g_slices(tt_tensor *x, tt_tensor *y)
{
    tt_tensor *s = tt_slice(x, 1, 0, 3, 2);
    tt_tensor *r = tt_select(y, 0, 1), *d = tt_diagonal(x, 1, 0, 1);

    return tt_add(tt_mul(tt_sum_dim(s, 1, false), d), tt_sum(square(r)));
}

static tt_tensor *g_reshapes(tt_tensor *x, tt_tensor *y)
{
    tt_tensor *a = tt_reshape(tt_t(x), TT_SHAPE(2, 3));
    tt_tensor *b = tt_unsqueeze(tt_flatten(tt_transpose(y, 0, 1), 0, -1), 0);

    return tt_mul(tt_mul(a, y), tt_reshape(tt_squeeze(b), TT_SHAPE(2, 3)));
}

static tt_tensor *g_joins(tt_tensor *x, tt_tensor *y)
{
    tt_tensor *both[2] = { x, y };
    tt_tensor *parts[2];

    if (tt_split_sizes(tt_cat(both, 2, 1), (int64_t[]){ 2, 4 }, 2, 1, parts) != TT_OK)
        return NULL;
    return tt_mul(tt_sum(square(parts[1])), tt_stack(both, 2, 1));
}

static tt_tensor *g_orders(tt_tensor *x, tt_tensor *y)
{
    tt_tensor *a = tt_roll(tt_flip(x, (int[]){ 0, 1 }, 2), 2, 1);

    return tt_mul(tt_tril(tt_mul(a, y), 1), tt_triu(y, 0));
}

static tt_tensor *g_repeats(tt_tensor *x, tt_tensor *y)
{
    tt_tensor *a = tt_repeat(x, (int64_t[]){ 2, 1, 2 }, 3);

    return tt_mul(a, tt_expand(tt_narrow(y, 1, 0, 1), TT_SHAPE(2, 2, 6)));
}

static tt_tensor *g_as_strided(tt_tensor *x, tt_tensor *y)
{
    tt_tensor *a = tt_as_strided(x, TT_SHAPE(3, 3), (int64_t[]){ 1, 1 }, 1);

    return tt_mul(square(a), tt_sum(tt_as_strided(tt_t(y), TT_SHAPE(2), (int64_t[]){ 2 }, 0)));
}

static tt_status run_gradient(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    make_fn fn = *(make_fn *)ctx;

    (void)n_in;
    (void)n_out;
    out[0] = fn(in[0], in[1]);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static struct {
    const char *name;
    make_fn fn;
} gradients[] = {
    { "index_select", g_select },
    { "gather", g_gather },
    { "scatter", g_scatter },
    { "scatter_add", g_scatter_add },
    { "index_add", g_index_add },
    { "index_copy", g_index_copy },
    { "masked_select", g_masked_select },
    { "index_add_ in place", g_in_place },
    { "slice, select, diagonal", g_slices },
    { "reshape, transpose, flatten, squeeze", g_reshapes },
    { "cat, split, stack", g_joins },
    { "flip, roll, tril, triu", g_orders },
    { "repeat, expand, narrow", g_repeats },
    { "as_strided", g_as_strided },
};

static void check_gradient(void *ctx)
{
    tt_gradcheck_options opt = { .second_order = true };

    TT_SCOPE {
        tt_tensor *x = waves(TT_SHAPE(2, 3), 0, TT_F64);
        tt_tensor *y = waves(TT_SHAPE(2, 3), 1.6, TT_F64);
        tt_tensor *in[2] = { tt_require_grad(x), tt_require_grad(y) };

        TT_REQUIRE_NOT_NULL(in[1]);
        TT_CHECK_OK(tt_gradcheck(run_gradient, ctx, in, 2, 1, &opt));
    }
}

TT_TEST_TABLE(index_gradient)
{
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++)
        tt_test_add("index_gradient", gradients[i].name, check_gradient, &gradients[i].fn);
}

/* ---- failing allocations ------------------------------------------------------------------- */

static tt_status chain(void *ctx)
{
    tt_tensor *const *in = ctx;
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *both[2] = { tt_index_select(in[0], 1, in[1]), in[0] };
        tt_tensor *y = tt_cat(both, 2, 1);

        y = tt_scatter_add(y, 1, tt_expand(tt_unsqueeze(in[1], 0), TT_SHAPE(2, 2)), both[0]);
        y = tt_sum(square(tt_repeat(tt_flip(y, (int[]){ 1 }, 1), (int64_t[]){ 2, 2 }, 2)));
        st = y != NULL ? tt_backward(y) : tt_last_status();
        if (st == TT_OK)
            st = tt_set_grad(in[0], NULL);
    }
    return st;
}

TT_TEST(index, survives_every_failed_allocation)
{
    TT_SCOPE {
        tt_tensor *in[2] = { tt_require_grad(counted(TT_SHAPE(2, 3), TT_F32)), TT_INTS(2, 1) };

        TT_CHECK_GT(tt_test_fail_allocs(chain, in), 20);
    }
}

TT_TEST(index, gather_takes_indices_of_uint8)
{
    TT_SCOPE {
        tt_tensor *at = tt_to_dtype(TT_INTS(2, 0, 2), TT_U8);

        TT_CHECK(tt_equal(tt_gather(TT_FLOATS(5, 6, 7), 0, at), TT_FLOATS(7, 5, 7)));
    }
}
