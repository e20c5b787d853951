/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls, a row each: the status, and words that say what was expected and what came. None of
 * them crashes, and the process is as good as before afterwards. */
#include <tutti/testing.h>
#include <tutti/tutti.h>

#include "unit/robust/refuses.h"

/* ---- devices and creation ------------------------------------------------------------------------ */

TT_TEST(bad_input, devices)
{
    tt_device d = { TT_DEVICE_CL, 15 }, no_kind = { 77, 0 }, second = { TT_DEVICE_CPU, 5 };

    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3));

        REFUSED(tt_device_parse("cl:15", &d), TT_ERR_NOT_FOUND, "cl:15");
        REFUSED(tt_device_parse("cuda:0", &d), TT_ERR_NOT_FOUND, "cuda:0");
        REFUSED(tt_device_parse("cpu:1", &d), TT_ERR_NOT_FOUND, "cpu:1");
        REFUSED(tt_device_parse("gpu", &d), TT_ERR_INVALID, "gpu");
        REFUSED(tt_device_parse("cl:", &d), TT_ERR_INVALID, "cl:");
        REFUSED(tt_device_parse("cl:99999999999", &d), TT_ERR_INVALID, "cl:99999999999");
        REFUSED(tt_device_parse("", &d), TT_ERR_INVALID, "expected");
        REFUSED(tt_device_parse(NULL, &d), TT_ERR_INVALID, "NULL");
        d = (tt_device){ TT_DEVICE_CL, 15 };
        BAD(tt_zeros(TT_SHAPE(2), TT_F32, d), TT_ERR_NOT_FOUND, "cl:15");
        BAD(tt_empty(TT_SHAPE(2), TT_F32, no_kind), TT_ERR_NOT_FOUND, "unknown:0");
        BAD(tt_ones(TT_SHAPE(2), TT_F32, second), TT_ERR_NOT_FOUND, "cpu:5");
        BAD(tt_to_device(x, d), TT_ERR_NOT_FOUND, "cl:15");
        BAD(tt_to_device(x, (tt_device){ TT_DEVICE_CUDA, 3 }), TT_ERR_NOT_FOUND, "cuda:3");
        REFUSED(tt_device_sync(d), TT_ERR_NOT_FOUND, "cl:15");
        REFUSED(tt_set_num_threads(0), TT_ERR_INVALID, "0");
    }
    still_works();
}

TT_TEST(bad_input, creation)
{
    tt_shape many = { .n_dims = 9 }, negative = TT_SHAPE(2, -3),
             huge = TT_SHAPE(1L << 40, 1L << 40);
    int64_t strides[] = { -1, 1 };

    TT_SCOPE {
        BAD(zeros(many), TT_ERR_INVALID, "expected 0 to 8 dimensions, got 9");
        BAD(zeros(negative), TT_ERR_INVALID, "[2, -3] has a negative size");
        BAD(zeros(huge), TT_ERR_INVALID, "too large");
        BAD(zeros(TT_SHAPE(1L << 50)), TT_ERR_NOMEM, "4503599627370496 bytes");
        BAD(tt_zeros(TT_SHAPE(2), (tt_dtype)99, TT_CPU), TT_ERR_INVALID, "99");
        BAD(tt_zeros(TT_SHAPE(2), (tt_dtype)-1, TT_CPU), TT_ERR_INVALID, "-1");
        BAD(tt_empty_strided(TT_SHAPE(2, 2), strides, TT_F32, TT_CPU), TT_ERR_INVALID, "-1");
        BAD(tt_from_data(NULL, TT_SHAPE(3), TT_F32), TT_ERR_INVALID, "NULL");
        BAD(tt_wrap(NULL, TT_SHAPE(3), NULL, TT_F32, NULL, NULL), TT_ERR_INVALID, "NULL");
        BAD(tt_arange(0, 1, 0, TT_F32, TT_CPU), TT_ERR_INVALID, "in steps of 0");
        BAD(tt_arange(0, 1, -1, TT_F32, TT_CPU), TT_ERR_INVALID, "step");
        BAD(tt_arange(0, 1.0 / 0.0, 1, TT_F32, TT_CPU), TT_ERR_INVALID, "inf");
        BAD(tt_linspace(0, 1, -2, TT_F32, TT_CPU), TT_ERR_INVALID, "-2");
        BAD(tt_eye(-1, TT_F32, TT_CPU), TT_ERR_INVALID, "-1");
        BAD(tt_roll(tt_ones(TT_SHAPE_SCALAR, TT_F32, TT_CPU), 1, 0), TT_ERR_INVALID,
            "none to roll");
        BAD(tt_full(TT_SHAPE(-1), 0, TT_I64, TT_CPU), TT_ERR_INVALID, "-1");
    }
    still_works();
}

/* ---- reading --------------------------------------------------------------------------------------- */

TT_TEST(bad_input, reading)
{
    double room[4];

    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3));

        tt_clear_error();
        TT_CHECK_NEAR(tt_item(x), 0, 0);
        TT_CHECK_CONTAINS(tt_last_error(), "[2, 3]");
        TT_CHECK_NEAR(tt_at(x, (const int64_t[]){ 2, 0 }), 0, 0);
        TT_CHECK_CONTAINS(tt_last_error(), "2");
        TT_CHECK_EQ(tt_tensor_size(x, 5), -1);
        REFUSED(tt_copy_out_f64(x, room, 4), TT_ERR_INVALID, "expected room for 6 elements, got 4");
        REFUSED(tt_copy_out_f64(x, NULL, 6), TT_ERR_INVALID, "expected room for 6");
        REFUSED(tt_copy_out_f64(NULL, room, 4), TT_ERR_INVALID, "NULL");
        BAD(tt_tensor_text(NULL, NULL), TT_ERR_INVALID, "NULL");
        REFUSED(tt_print(NULL), TT_ERR_INVALID, "NULL");
    }
    still_works();
}

/* ---- operators --------------------------------------------------------------------------------------- */

TT_TEST(bad_input, arithmetic)
{
    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3)), *v = zeros(TT_SHAPE(4)), *i = TT_INTS(1, 2, 3);
        tt_tensor *b = tt_zeros(TT_SHAPE(3), TT_BOOL, TT_CPU), *f = TT_FLOATS(1, 2, 3);
        tt_tensor *c = tt_zeros(TT_SHAPE(3), TT_C64, TT_CPU);

        BAD(tt_add(x, v), TT_ERR_INVALID,
            "[2, 3] and [4] do not broadcast: dimension 1 has 3 and 4");
        BAD(tt_add(NULL, v), TT_ERR_INVALID, "NULL");
        BAD(tt_mul(x, NULL), TT_ERR_INVALID, "NULL");
        BAD(tt_add_(v, x), TT_ERR_INVALID, "[2, 3]");
        BAD(tt_add_(f, x), TT_ERR_INVALID, "[2, 3]");
        BAD(tt_add_(i, f), TT_ERR_INVALID, "int64");
        BAD(tt_div_(i, i), TT_ERR_INVALID, "int64");
        BAD(tt_sub(b, b), TT_ERR_INVALID, "bool");
        BAD(tt_neg(b), TT_ERR_INVALID, "bool");
        BAD(tt_bitwise_and(f, f), TT_ERR_UNSUPPORTED, "no float32 kernel");
        BAD(tt_lt(c, c), TT_ERR_UNSUPPORTED, "complex64");
        BAD(tt_maximum(c, c), TT_ERR_UNSUPPORTED, "complex64");
        BAD(tt_clamp(c, 0, 1), TT_ERR_UNSUPPORTED, "complex64");
        BAD(tt_where(f, f, f), TT_ERR_INVALID, "bool");
        BAD(tt_masked_fill(f, f, 0), TT_ERR_INVALID, "bool");
        BAD(tt_copy_(tt_expand(zeros(TT_SHAPE(1)), TT_SHAPE(3)), f), TT_ERR_INVALID,
            "expanded tensor");
    }
    still_works();
}

TT_TEST(bad_input, reductions_and_products)
{
    const int twice[] = { 0, 0 }, far[] = { 3 };

    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3)), *v = zeros(TT_SHAPE(4)), *i = TT_INTS(1, 2, 3);
        tt_tensor *none = zeros(TT_SHAPE(0));

        BAD(tt_sum_dim(x, 2, false), TT_ERR_INVALID, "expected a dimension from -2 to 1, got 2");
        BAD(tt_sum_dim(x, -3, false), TT_ERR_INVALID, "-3");
        BAD(tt_sum_dims(x, twice, 2, false), TT_ERR_INVALID, "twice");
        BAD(tt_amax(x, far, 1, false), TT_ERR_INVALID, "3");
        BAD(tt_mean(i), TT_ERR_INVALID, "int64");
        BAD(tt_max(none), TT_ERR_INVALID,
            "expected at least one element to choose from, got shape [0]");
        BAD(tt_argmax(none), TT_ERR_INVALID, "got shape [0]");
        BAD(tt_cumsum(x, 7), TT_ERR_INVALID, "7");
        BAD(tt_matmul(x, x), TT_ERR_INVALID, "[2, 3] and [2, 3] do not fit: 3 columns, 2 rows");
        BAD(tt_mm(x, v), TT_ERR_INVALID, "[4]");
        BAD(tt_bmm(x, x), TT_ERR_INVALID, "[2, 3]");
        BAD(tt_dot(v, x), TT_ERR_INVALID, "[2, 3]");
        BAD(tt_matmul(i, v), TT_ERR_INVALID, "3 columns, 4 rows");
        BAD(tt_matmul(zeros(TT_SHAPE_SCALAR), v), TT_ERR_INVALID, "[]");
        BAD(tt_linear(x, v, NULL), TT_ERR_INVALID, "[4]");
        BAD(tt_linear(x, zeros(TT_SHAPE(5, 3)), v), TT_ERR_INVALID, "[4]");
        BAD(tt_max_pool1d(zeros(TT_SHAPE(0, 10)), &(tt_pool_options){ .kernel = { 2 } }),
            TT_ERR_INVALID, "channels");
        BAD(tt_avg_pool2d(zeros(TT_SHAPE(2, 0, 4, 4)), &(tt_pool_options){ .kernel = { 2, 2 } }),
            TT_ERR_INVALID, "channels");
        BAD(tt_group_norm(zeros(TT_SHAPE(2, 0, 3)), 2, NULL, NULL, 1e-5), TT_ERR_INVALID,
            "channels and positions");
        BAD(tt_group_norm(zeros(TT_SHAPE(2, 4, 0)), 2, NULL, NULL, 1e-5), TT_ERR_INVALID,
            "channels and positions");
        BAD(tt_addmm(v, x, zeros(TT_SHAPE(3, 2)), 1, 1), TT_ERR_INVALID, "[4]");
    }
    still_works();
}

TT_TEST(bad_input, shapes)
{
    const int order[] = { 0, 0 };
    const int64_t far[] = { 1, 100 }, sizes[] = { 1, 1 };
    tt_tensor *pieces[2], *pair[2];
    int n = 1;

    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3));

        pair[0] = x;
        pair[1] = zeros(TT_SHAPE(3, 2));
        BAD(tt_view(x, TT_SHAPE(4)), TT_ERR_INVALID, "[4]");
        BAD(tt_view(x, TT_SHAPE(-1, -1)), TT_ERR_INVALID, "-1");
        BAD(tt_view(tt_t(x), TT_SHAPE(6)), TT_ERR_INVALID, "reshape");
        BAD(tt_transpose(x, 0, 2), TT_ERR_INVALID, "2");
        BAD(tt_t(zeros(TT_SHAPE(2, 2, 2))), TT_ERR_INVALID, "[2, 2, 2]");
        BAD(tt_permute(x, order, 2), TT_ERR_INVALID, "twice");
        BAD(tt_expand(x, TT_SHAPE(4, 3)), TT_ERR_INVALID, "[2, 3]");
        BAD(tt_slice(x, 0, 0, 2, 0), TT_ERR_INVALID, "step");
        BAD(tt_narrow(x, 1, 2, 5), TT_ERR_INVALID, "5");
        BAD(tt_select(x, 0, 2), TT_ERR_INVALID, "index 2 is out of range");
        BAD(tt_as_strided(x, TT_SHAPE(2, 2), far, 0), TT_ERR_INVALID,
            "does not lie in the 6 elements");
        BAD(tt_view_as_real(x), TT_ERR_INVALID, "float32");
        BAD(tt_cat(pair, 2, 0), TT_ERR_INVALID, "[3, 2]");
        BAD(tt_stack(pair, 2, 0), TT_ERR_INVALID, "[3, 2]");
        BAD(tt_cat(pair, 0, 0), TT_ERR_INVALID, "0");
        REFUSED(tt_split_sizes(x, sizes, 2, 1, pieces), TT_ERR_INVALID, "3");
        REFUSED(tt_split(x, 1, 1, pieces, &n), TT_ERR_INVALID, "3");
        BAD(tt_to_format(x, TT_FORMAT_CHANNELS_LAST), TT_ERR_INVALID, "[2, 3]");
    }
    still_works();
}

TT_TEST(bad_input, indices)
{
    TT_SCOPE {
        tt_tensor *x = zeros(TT_SHAPE(2, 3)), *far = TT_INTS(0, 3), *f = TT_FLOATS(0, 1);
        tt_tensor *negative = TT_INTS(-7);

        BAD(tt_index_select(x, 0, far), TT_ERR_INVALID,
            "index 3 at [1] is out of range for dimension 0 of size 2");
        BAD(tt_index_select(x, 0, f), TT_ERR_INVALID, "float32");
        BAD(tt_index_select(x, 0, negative), TT_ERR_INVALID, "-7");
        BAD(tt_gather(x, 0, far), TT_ERR_INVALID, "[2]");
        BAD(tt_gather(x, 1, tt_view(far, TT_SHAPE(2, 1))), TT_ERR_INVALID, "3");
        BAD(tt_scatter_add(x, 1, tt_view(far, TT_SHAPE(2, 1)), x), TT_ERR_INVALID, "3");
        BAD(tt_index_add(x, 0, far, x), TT_ERR_INVALID, "3");
        BAD(tt_embedding(x, far, NULL), TT_ERR_INVALID, "3");
        BAD(tt_embedding(x, f, NULL), TT_ERR_INVALID, "float32");
        BAD(tt_embedding_bag(x, TT_INTS(0, 1), TT_INTS(1), NULL), TT_ERR_INVALID, "0");
        BAD(tt_embedding_bag(x, TT_INTS(0, 1), NULL, NULL), TT_ERR_INVALID, "offsets");
        BAD(tt_one_hot(far, 2), TT_ERR_INVALID, "3");
        BAD(tt_topk(x, 4, 1, true, NULL), TT_ERR_INVALID, "expected k from 0 to 3, got 4");
        BAD(tt_sort(x, 2, false, NULL), TT_ERR_INVALID, "2");
        BAD(tt_sparse_coo(tt_view(far, TT_SHAPE(1, 2)), f, TT_SHAPE(3)), TT_ERR_INVALID, "3");
        BAD(tt_sparse_coo(far, f, TT_SHAPE(9)), TT_ERR_INVALID, "[2]");
        BAD(tt_sparse_values(x), TT_ERR_INVALID, "sparse");
    }
    still_works();
}
