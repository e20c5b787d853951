/* SPDX-License-Identifier: Apache-2.0 */
/* What the host does with tensors of a device: copies of every kind, sparse tensors, single host values, the
 * gradient checker, checkpointed segments, loaders, mixed precision. */
#include <math.h>
#include <string.h>

#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

static tt_tensor *there(tt_tensor *t)
{
    return tt_to_device(t, tt_cl(0));
}

static tt_tensor *here(tt_tensor *t)
{
    return tt_to_device(t, TT_CPU);
}

static void check_equal(tt_tensor *got, tt_tensor *want)
{
    TT_REQUIRE(got != NULL && want != NULL);
    TT_CHECK(tt_equal(here(tt_to_dense(got)), tt_to_dense(want)));
}

/* ---- copies ----------------------------------------------------------------------------------------- */

TT_TEST(device_host, copies_keep_the_order_of_memory)
{
    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_tensor *x =
            tt_to_format(tt_randn(TT_SHAPE(2, 3, 4, 5), TT_F32, TT_CPU), TT_FORMAT_CHANNELS_LAST);
        tt_tensor *y = there(x), *flipped = tt_permute(y, (int[]){ 3, 1, 0, 2 }, 4);

        TT_CHECK(tt_tensor_is_contiguous(y, TT_FORMAT_CHANNELS_LAST));
        check_equal(y, x);
        check_equal(flipped, tt_permute(x, (int[]){ 3, 1, 0, 2 }, 4));
        check_equal(there(tt_permute(x, (int[]){ 3, 1, 0, 2 }, 4)), here(flipped));
        check_equal(there(tt_slice(x, 3, 0, 5, 2)), tt_slice(x, 3, 0, 5, 2));
        check_equal(there(tt_expand(tt_narrow(x, 0, 0, 1), TT_SHAPE(3, 3, 4, 5))),
                    tt_expand(tt_narrow(x, 0, 0, 1), TT_SHAPE(3, 3, 4, 5)));
    }
}

/* Into every kind of place, with other types and shapes that broadcast. */
TT_TEST(device_host, copy_in_place_converts_and_broadcasts)
{
    static const tt_dtype types[] = { TT_F64, TT_F16, TT_I32, TT_U8, TT_BOOL, TT_C64 };

    tt_test_require_devices(2, false);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        TT_SCOPE {
            tt_tensor *row = tt_arange(0, 4, 1, types[i], TT_CPU);
            tt_tensor *want = tt_copy_(tt_zeros(TT_SHAPE(3, 4), TT_F32, TT_CPU), tt_real(row));
            tt_tensor *to = tt_zeros(TT_SHAPE(4, 3), TT_F32, tt_cl(0)), *back;

            TT_CHECK_NOT_NULL(tt_copy_(tt_t(to), tt_real(row)));
            check_equal(tt_t(to), want);
            back = tt_zeros(TT_SHAPE(3, 4), types[i], TT_CPU);
            TT_CHECK_NOT_NULL(tt_copy_(back, tt_t(to)));
            TT_CHECK(tt_equal(back, tt_to_dtype(want, types[i])));
            to = tt_zeros(TT_SHAPE(3, 4), TT_F32, tt_cl(1));
            TT_CHECK_NOT_NULL(tt_copy_(to, tt_real(there(row))));
            check_equal(to, want);
        }
    TT_SCOPE {
        int64_t large = (INT64_C(1) << 60) + 1;
        tt_tensor *one = tt_from_data(&large, TT_SHAPE_SCALAR, TT_I64), *none;

        TT_CHECK_EQ(tt_item_int(there(one)), large);
        TT_CHECK_NEAR(tt_item(tt_copy_(tt_zeros(TT_SHAPE(1), TT_BOOL, tt_cl(0)), TT_FLOATS(0.5f))),
                      1, 0);
        none = there(tt_zeros(TT_SHAPE(0, 3), TT_F32, TT_CPU));
        TT_CHECK_EQ(tt_tensor_numel(here(none)), 0);
        TT_CHECK_NULL(tt_copy_(tt_zeros(TT_SHAPE(2), TT_F32, TT_CPU), there(TT_FLOATS(1, 2, 3))));
        TT_CHECK_CONTAINS(tt_last_error(), "broadcast");
    }
}

TT_TEST(device_host, gradients_pass_between_devices)
{
    tt_test_require_devices(2, false);
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(TT_FLOATS(1, 2, 3)), *y, *z;
        tt_tensor *s = tt_require_grad(tt_full(TT_SHAPE_SCALAR, 2, TT_F32, TT_CPU));

        y = tt_mul(there(x), s); /* a single host value goes with any device */
        z = tt_zeros(TT_SHAPE(3), TT_F32, tt_cl(1));
        z = tt_add(tt_copy_(z, y), tt_to_device(y, tt_cl(1)));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(z, z))));
        check_equal(tt_grad_of(x), TT_FLOATS(32, 64, 96));
        TT_CHECK(tt_device_equal(tt_tensor_device(tt_grad_of(s)), TT_CPU));
        TT_CHECK_NEAR(tt_item(tt_grad_of(s)), 224, 1e-4);
        TT_CHECK_NULL(tt_add(there(TT_FLOATS(1, 2, 3)), TT_FLOATS(1, 2, 3)));
        TT_CHECK_CONTAINS(tt_last_error(), "cl:0 and cpu");
    }
}

TT_TEST(device_host, single_values_as_masks_and_indices)
{
    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(4, 5, 6), *one = tt_number_int(1), *on = tt_number_bool(true);

        check_equal(tt_masked_fill(there(x), on, 7), TT_FLOATS(7, 7, 7));
        check_equal(tt_masked_select(there(x), on), x);
        check_equal(tt_index_select(there(x), 0, one), TT_FLOATS(5));
        check_equal(tt_where(on, there(x), tt_number(0)), x);
        check_equal(tt_floor_divide(there(TT_INTS(7, -7)), there(TT_INTS(2, 2))), TT_INTS(3, -4));
        TT_CHECK_NOT_NULL(tt_remainder(there(TT_INTS(7, -7)), there(TT_INTS(0, 2))));
        TT_CHECK_OK(tt_device_sync(tt_cl(0)));
        TT_CHECK_NULL(tt_remainder(there(TT_INTS(7)), tt_number_int(0)));
    }
}

TT_TEST(device_host, made_from_values)
{
    tt_test_require_devices(1, false);
    TT_SCOPE {
        check_equal(tt_linspace(0, 1, 7, TT_F32, TT_CL), tt_linspace(0, 1, 7, TT_F32, TT_CPU));
        check_equal(tt_eye(3, TT_F64, TT_CL), tt_eye(3, TT_F64, TT_CPU));
        check_equal(tt_full_like(tt_zeros(TT_SHAPE(2), TT_I64, TT_CL), 5), TT_INTS(5, 5));
        check_equal(tt_one_hot(there(TT_INTS(2, 0)), -1), tt_one_hot(TT_INTS(2, 0), -1));
        TT_CHECK_NULL(tt_zeros(TT_SHAPE(2), TT_F32, tt_cl(99)));
        TT_CHECK_CONTAINS(tt_last_error(), "cl:99");
        TT_CHECK_NULL(tt_default_generator(tt_cl(99)));
        TT_CHECK_NOT_NULL(tt_tensor_data(tt_zeros(TT_SHAPE(2), TT_F32, TT_CL)));
    }
}

/* ---- sparse ----------------------------------------------------------------------------------------- */

static tt_tensor *some_sparse(bool on_device)
{
    tt_tensor *indices =
        tt_reshape(TT_INTS(2, 0, 2, 1, 2, 1, 0, 1, 1, 1), TT_SHAPE(2, 5)); /* (2,1) twice */
    tt_tensor *values = tt_reshape(tt_arange(1, 11, 1, TT_F32, TT_CPU), TT_SHAPE(5, 2));

    return on_device ? tt_sparse_coo(there(indices), there(values), TT_SHAPE(3, 2, 2))
                     : tt_sparse_coo(indices, values, TT_SHAPE(3, 2, 2));
}

TT_TEST(device_host, sparse_tensors)
{
    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_tensor *a = some_sparse(false), *b = some_sparse(true), *ca = tt_sparse_coalesce(a);
        tt_tensor *cb = tt_sparse_coalesce(b), *dense = tt_randn(TT_SHAPE(3, 2, 2), TT_F32, TT_CPU);

        TT_REQUIRE(ca != NULL && cb != NULL);
        TT_CHECK_EQ(tt_sparse_nnz(cb), tt_sparse_nnz(ca));
        check_equal(tt_sparse_indices(cb), tt_sparse_indices(ca));
        check_equal(tt_sparse_values(cb), tt_sparse_values(ca));
        check_equal(b, a);
        check_equal(tt_add(b, cb), tt_add(a, ca));
        check_equal(tt_add(there(dense), b), tt_add(dense, a));
        check_equal(tt_add_(there(tt_clone(dense)), b), tt_add_(tt_clone(dense), a));
        check_equal(there(a), a);
        check_equal(here(b), a);
        check_equal(tt_to_sparse(there(dense), 1), dense);
        check_equal(tt_mul_scalar(cb, 2), tt_mul_scalar(ca, 2));
        b = tt_sparse_coo(there(tt_zeros(TT_SHAPE(1, 0), TT_I64, TT_CPU)),
                          there(tt_zeros(TT_SHAPE(0), TT_F32, TT_CPU)), TT_SHAPE(3));
        check_equal(tt_sparse_coalesce(b), tt_zeros(TT_SHAPE(3), TT_F32, TT_CPU));
        TT_CHECK_NULL(tt_sparse_coo(there(tt_reshape(TT_INTS(3), TT_SHAPE(1, 1))),
                                    there(TT_FLOATS(1)), TT_SHAPE(3)));
        TT_CHECK_CONTAINS(tt_last_error(), "out of range");
    }
}

TT_TEST(device_host, gradients_of_sparse_tensors)
{
    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_tensor *grads[2];

        for (int d = 0; d < 2; d++) {
            tt_device device = d == 0 ? TT_CPU : tt_cl(0);
            tt_tensor *v = tt_require_grad(tt_to_device(TT_FLOATS(1, 2, 3), device));
            tt_tensor *i = tt_to_device(tt_reshape(TT_INTS(2, 0, 2), TT_SHAPE(1, 3)), device);
            tt_tensor *s = tt_sparse_coalesce(tt_sparse_coo(i, v, TT_SHAPE(4)));

            TT_REQUIRE_OK(tt_backward(tt_sum(tt_square(tt_sparse_values(s)))));
            grads[d] = tt_grad_of(v);
        }
        check_equal(grads[1], grads[0]);
    }
}

/* ---- autograd ---------------------------------------------------------------------------------------- */

static tt_status product(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = tt_mul(tt_tanh(in[0]), in[1]);
    if (*(bool *)ctx) /* a gradient that is not that of the value */
        out[0] = tt_add(out[0], tt_sub(tt_detach(in[0]), in[0]));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

TT_TEST(device_host, gradcheck_looks_at_devices)
{
    bool wrong = false;
    tt_device_properties p;

    tt_test_require_devices(1, false);
    TT_REQUIRE_OK(tt_device_properties_get(tt_cl(0), &p));
    if (!p.has_fp64)
        TT_SKIP("the device has no float64");
    TT_SCOPE {
        tt_tensor *in[2] = { tt_require_grad(there(tt_randn(TT_SHAPE(2, 3), TT_F64, TT_CPU))),
                             tt_require_grad(there(tt_randn(TT_SHAPE(3), TT_F64, TT_CPU))) };
        tt_gradcheck_options opt = { .second_order = true };

        TT_CHECK_OK(tt_gradcheck(product, &wrong, in, 2, 1, &opt));
        wrong = true;
        TT_CHECK_ERR_SAYS(tt_gradcheck(product, &wrong, in, 2, 1, NULL), TT_ERR_INVALID,
                          "finite differences");
    }
}

static tt_status drop(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)ctx;
    (void)n_in;
    (void)n_out;
    out[0] = tt_dropout(tt_square(in[0]), 0.5, true, NULL);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

/* What is dropped the first time is dropped when the segment runs again. */
TT_TEST(device_host, checkpointed_segments_replay_the_numbers_of_their_device)
{
    tt_test_require_devices(1, false);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(tt_ones(TT_SHAPE(64), TT_F32, TT_CL)), *y;
        tt_generator_state after;

        TT_REQUIRE_OK(tt_checkpoint(drop, NULL, &x, 1, &y, 1, NULL));
        tt_rand(TT_SHAPE(10), TT_F32, TT_CL);
        after = tt_generator_get(tt_default_generator(TT_CL));
        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
        check_equal(tt_grad_of(x), here(tt_mul_scalar(tt_detach(y), 2)));
        TT_CHECK_EQ(tt_generator_get(tt_default_generator(TT_CL)).offset, after.offset);
    }
}

/* ---- data and modules --------------------------------------------------------------------------------- */

TT_TEST(device_host, loaders_gather_and_move)
{
    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_tensor *x = tt_randn(TT_SHAPE(11, 3), TT_F32, TT_CPU),
                  *y = tt_arange(0, 11, 1, TT_I64, TT_CPU);
        tt_loader_options opt = { .batch_size = 4, .shuffle = true, .seed = 3 }, move = opt;
        tt_dataset *sets[2] = { tt_tensor_dataset_new((tt_tensor *[]){ x, y }, 2),
                                tt_tensor_dataset_new((tt_tensor *[]){ there(x), there(y) }, 2) };
        tt_loader *plain, *device, *moved;

        move.device = TT_CL;
        plain = tt_loader_new(sets[0], &opt);
        device = tt_loader_new(sets[1], &opt);
        moved = tt_loader_new(sets[0], &move);
        for (int i = 0; i < 3; i++) {
            tt_batch a = tt_loader_next(plain), b = tt_loader_next(device),
                     c = tt_loader_next(moved);

            TT_CHECK_EQ(tt_tensor_device(b.x).kind, TT_DEVICE_CL);
            TT_CHECK_EQ(tt_tensor_device(c.y).kind, TT_DEVICE_CL);
            check_equal(b.x, a.x);
            check_equal(b.y, a.y);
            check_equal(c.x, a.x);
            check_equal(c.y, a.y);
        }
        tt_loader_free(plain);
        tt_loader_free(device);
        tt_loader_free(moved);
        tt_dataset_free(sets[0]);
        tt_dataset_free(sets[1]);
    }
}

TT_TEST(device_host, modules_move_to_the_current_device)
{
    tt_module *m;

    tt_test_require_devices(2, false);
    m = tt_linear_new(2, 2, NULL);
    TT_DEVICE_SCOPE(tt_cl(1))
    {
        TT_REQUIRE_OK(tt_module_to_device(m, TT_CL));
    }
    TT_CHECK(tt_device_equal(tt_tensor_device(tt_module_param(m, "bias")), tt_cl(1)));
    TT_CHECK_ERR_SAYS(tt_module_to_device(m, tt_cl(99)), TT_ERR_NOT_FOUND, "cl:99");
    TT_CHECK(tt_device_equal(tt_tensor_device(tt_module_param(m, "bias")), tt_cl(1)));
    TT_REQUIRE_OK(tt_module_to_device(m, TT_CPU));
    tt_module_free(m);
}

/* Half types in the forward, float32 gradients, and only for the kind that is named. */
TT_TEST(device_host, autocast)
{
    static const tt_dtype types[] = { TT_F16, TT_BF16 };

    tt_test_require_devices(1, false);
    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            tt_tensor *w = tt_randn(TT_SHAPE(4, 3), TT_F32, TT_CPU), *y, *z, *host;
            tt_tensor *x = tt_randn(TT_SHAPE(5, 3), TT_F32, TT_CPU), *p = tt_require_grad(there(w));
            tt_close_options opt = { .rtol = 2e-2, .atol = 2e-2 };

            TT_AUTOCAST(TT_DEVICE_CL, types[i])
            {
                y = tt_linear(there(x), p, NULL);
                z = tt_softmax(y, 1);
                host = tt_linear(x, w, NULL);
            }
            TT_CHECK_EQ(tt_tensor_dtype(y), types[i]);
            TT_CHECK_EQ(tt_tensor_dtype(z), TT_F32);
            TT_CHECK_EQ(tt_tensor_dtype(host), TT_F32);
            TT_CHECK(tt_allclose(here(tt_to_dtype(tt_detach(y), TT_F32)), host, &opt));
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(z, z))));
            TT_CHECK_EQ(tt_tensor_dtype(tt_grad_of(p)), TT_F32);
        }
}
