/* SPDX-License-Identifier: Apache-2.0 */
/* Where tensors land: the current device, named devices, operators on what is elsewhere. */
#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

#define CHECK_ON(t, i) TT_CHECK(tt_device_equal(tt_tensor_device(t), tt_cl(i)))

static tt_tensor *host_square(int64_t n)
{
    return tt_rand(TT_SHAPE(n, n), TT_F32, TT_CPU);
}

static void check_values(tt_tensor *t, tt_tensor *host)
{
    TT_REQUIRE_NOT_NULL(t);
    TT_CHECK(tt_equal(tt_to_device(t, TT_CPU), host));
}

TT_TEST(multigpu, test_autogpu)
{
    tt_test_require_devices(2, false);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *hx = host_square(5), *hy = host_square(5);
        tt_tensor *x = tt_to_device(hx, TT_CL), *y = tt_to_device(hy, TT_CL), *x1, *y1 = NULL;

        CHECK_ON(x, 0);
        CHECK_ON(y, 0);
        TT_DEVICE_SCOPE(tt_cl(1))
        {
            tt_tensor *z = tt_to_device(host_square(5), TT_CL), *sum;

            CHECK_ON(z, 1);
            sum = tt_add(x, y);
            CHECK_ON(sum, 0);
            check_values(sum, tt_add(hx, hy));
            x1 = tt_to_device(x, TT_CL);
            CHECK_ON(x1, 1);
            check_values(x1, hx);
            y1 = z;
        }
        tt_tensor *back = tt_to_device(y1, TT_CL);

        CHECK_ON(back, 0);
        check_values(back, tt_to_device(y1, TT_CPU));
    }
}

TT_TEST(multigpu, test_new)
{
    static const double values[] = { 0, 1, 2 };
    tt_device one = tt_cl(1);

    tt_test_require_devices(2, false);
    TT_SCOPE {
        tt_tensor *x = tt_to_device(host_square(3), tt_cl(0));

        for (int current = 0; current < 2; current++)
            TT_DEVICE_SCOPE(tt_cl(current))
            {
                tt_tensor *same = tt_new_from(x, values, TT_SHAPE(3), NULL);
                tt_tensor *other = tt_new_from(x, values, TT_SHAPE(3), &one);

                CHECK_ON(same, 0);
                CHECK_ON(other, 1);
                TT_CHECK_EQ(tt_tensor_dtype(same), TT_F32);
                check_values(same, TT_FLOATS(0, 1, 2));
                check_values(other, TT_FLOATS(0, 1, 2));
            }
        TT_CHECK_NULL(tt_new_from(NULL, values, TT_SHAPE(3), NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "new_from");
    }
}

static void check_copy(tt_tensor *x, tt_tensor *host)
{
    TT_DEVICE_SCOPE(tt_cl(1))
    {
        tt_tensor *y = tt_to_device(x, TT_CL), *z;

        CHECK_ON(y, 1);
        TT_CHECK_PTR(tt_to_device(y, TT_CL), y);
        TT_CHECK_PTR(tt_to_device(y, tt_cl(1)), y);
        z = tt_to_device(y, tt_cl(0));
        CHECK_ON(z, 0);
        TT_CHECK_PTR(tt_to_device(z, tt_cl(0)), z);
        check_values(y, host);
        check_values(z, host);
    }
}

TT_TEST(multigpu, test_copy_device)
{
    tt_test_require_devices(2, false);
    TT_SCOPE {
        tt_tensor *host = host_square(5);

        check_copy(tt_to_device(host, tt_cl(0)), host);
        check_copy(host, host);
    }
}

TT_TEST(multigpu, test_cat_autogpu)
{
    tt_test_require_devices(2, false);
    TT_SCOPE {
        tt_tensor *hosts[2] = { host_square(4), host_square(4) };
        tt_tensor *xs[2] = { tt_to_device(hosts[0], tt_cl(1)), tt_to_device(hosts[1], tt_cl(1)) };
        tt_tensor *z = tt_cat(xs, 2, 0);

        TT_CHECK_EQ(tt_device_current(TT_DEVICE_CL).index, 0);
        TT_REQUIRE_NOT_NULL(z);
        CHECK_ON(z, 1);
        check_values(z, tt_cat(hosts, 2, 0));
    }
}

TT_TEST(multigpu, test_tensor_device)
{
    tt_device null_device;

    tt_test_require_devices(2, false);
    TT_SCOPE {
        CHECK_ON(tt_empty(TT_SHAPE(1), TT_F32, TT_CL), 0);
        CHECK_ON(tt_empty(TT_SHAPE(1), TT_F32, tt_cl(1)), 1);
        TT_DEVICE_SCOPE(tt_cl(1))
        {
            TT_CHECK_OK(tt_device_parse("cl", &null_device));
            CHECK_ON(tt_empty(TT_SHAPE(1), TT_F32, TT_CL), 1);
            CHECK_ON(tt_empty(TT_SHAPE(1), TT_F32, null_device), 1);
            CHECK_ON(tt_empty(TT_SHAPE(1), TT_F32, tt_cl(0)), 0);
        }
    }
}

TT_TEST(multigpu, test_cuda_set_device)
{
    tt_test_require_devices(2, false);
    TT_SCOPE {
        tt_tensor *x = host_square(5);

        TT_DEVICE_SCOPE(tt_cl(1))
        {
            CHECK_ON(tt_to_device(x, TT_CL), 1);
            TT_CHECK_OK(tt_device_use(tt_cl(0)));
            CHECK_ON(tt_to_device(x, TT_CL), 0);
            TT_DEVICE_SCOPE(tt_cl(1))
            {
                CHECK_ON(tt_to_device(x, TT_CL), 1);
            }
            CHECK_ON(tt_to_device(x, TT_CL), 0);
            TT_CHECK_OK(tt_device_use(tt_cl(1)));
        }
        CHECK_ON(tt_to_device(x, TT_CL), 0);
    }
}

/* A storage is reached through the flat tensor over all of it. */
TT_TEST(multigpu, test_multigpu_storage_clone)
{
    static const tt_dtype types[] = { TT_U8, TT_I8, TT_I16, TT_I32, TT_I64, TT_F16, TT_F64 };

    tt_test_require_devices(2, false);
    TT_SCOPE {
        tt_tensor *host = tt_mul_scalar(tt_rand(TT_SHAPE(16), TT_F32, TT_CPU), 100);
        tt_tensor *x = tt_to_device(tt_reshape(host, TT_SHAPE(4, 4)), tt_cl(1));
        tt_tensor *all = tt_view(x, TT_SHAPE(16)), *y = tt_clone(all);

        TT_REQUIRE_NOT_NULL(y);
        CHECK_ON(y, 1);
        TT_CHECK(!tt_tensor_shares_storage(x, y));
        check_values(y, host);
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            tt_tensor *z = tt_to_dtype(all, types[i]);

            CHECK_ON(z, 1);
            check_values(z, tt_to_dtype(host, types[i]));
        }
    }
}
