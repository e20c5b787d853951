/* SPDX-License-Identifier: Apache-2.0 */
/* Rows about one or many tensors on all devices, and their sums. */
#include <string.h>

#include "devices.h"

static const tt_device both[2] = { { TT_DEVICE_CL, 0 }, { TT_DEVICE_CL, 1 } };

/* ---- one tensor ---------------------------------------------------------------------------- */

static void into(tt_tensor *x, tt_tensor *first)
{
    tt_tensor *outs[2] = { first, tt_empty(tt_tensor_shape(x), TT_F32, tt_cl(1)) };
    tt_tensor *y[2] = { NULL };

    TT_REQUIRE_OK(tt_comm_broadcast(x, TT_OUTPUTS(outs[0], outs[1]), y));
    for (int i = 0; i < 2; i++) {
        TT_CHECK_PTR(y[i], outs[i]);
        TT_CHECK(is_on(y[i], i));
        TT_CHECK(same_bits(y[i], x));
    }
}

static void wrong_targets(tt_tensor *x)
{
    tt_tensor *fine = tt_empty(TT_SHAPE(5, 5), TT_F32, tt_cl(0)), *y[2];
    tt_tensor *at_home = tt_empty(TT_SHAPE(5, 5), TT_F32, TT_CPU);
    tt_tensor *deeper = tt_empty(TT_SHAPE(1, 5, 5), TT_F32, tt_cl(1));
    tt_tensor *outs[2] = { fine, fine };
    tt_targets two = { .devices = both, .n_devices = 2, .outputs = outs, .n_outputs = 2 };

    TT_CHECK_ERR_SAYS(tt_comm_broadcast(x, &two, y), TT_ERR_INVALID, "got both");
    TT_CHECK_ERR_SAYS(tt_comm_broadcast(x, TT_OUTPUTS(fine, at_home), y), TT_ERR_INVALID,
                      "output 1 on an accelerator");
    TT_CHECK_ERR_SAYS(tt_comm_broadcast(x, TT_OUTPUTS(fine, deeper), y), TT_ERR_INVALID,
                      "output 1 of shape [5, 5], got [1, 5, 5]");
}

static void check_broadcast(tt_tensor *x)
{
    tt_tensor *y[2] = { NULL };

    TT_REQUIRE_OK(tt_comm_broadcast(x, TT_DEVICES(tt_cl(0), tt_cl(1)), y));
    for (int i = 0; i < 2; i++) {
        TT_CHECK(is_on(y[i], i));
        TT_CHECK(same_bits(y[i], x));
    }
    if (is_on(x, 0))
        TT_CHECK_PTR(tt_tensor_data(y[0]), tt_tensor_data(x));
    into(x, tt_empty(TT_SHAPE(5, 5), TT_F32, tt_cl(0)));
    into(x, on(x, 0) == x ? tt_clone(x) : on(x, 0));
    wrong_targets(x);
}

TT_TEST(multigpu, test_broadcast_cpu)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        check_broadcast(tt_randn(TT_SHAPE(5, 5), TT_F32, TT_CPU));
    }
}

TT_TEST(multigpu, test_broadcast_gpu)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        check_broadcast(on(tt_randn(TT_SHAPE(5, 5), TT_F32, TT_CPU), 0));
    }
}

/* ---- many tensors -------------------------------------------------------------------------- */

enum { MANY = 12, DENSE = 6 };

/* nnz entries at random places, some of them twice, on device 0. */
static tt_tensor *sparse(int64_t rows, int64_t columns, int64_t nnz, tt_dtype dtype)
{
    tt_tensor *at[2] = { tt_randint(0, rows, TT_SHAPE(nnz), TT_CPU),
                         tt_randint(0, columns, TT_SHAPE(nnz), TT_CPU) };
    tt_tensor *values = tt_to_dtype(tt_randint(1, 50, TT_SHAPE(nnz), TT_CPU), dtype);

    return on(tt_sparse_coo(tt_stack(at, 2, 0), values, TT_SHAPE(rows, columns)), 0);
}

static tt_tensor *dense(int64_t n, tt_dtype dtype)
{
    return on(tt_to_dtype(tt_randint(-50, 50, TT_SHAPE(n), TT_CPU), dtype), 0);
}

static int dense_only(tt_tensor **ts)
{
    tt_dtype types[DENSE] = { TT_I64, TT_F32, TT_I64, TT_F32, TT_I64, TT_I32 };

    for (int i = 0; i < DENSE; i++)
        ts[i] = dense(types[i] == TT_I32 ? 10 : 5, types[i]);
    return DENSE;
}

static int mixed(tt_tensor **ts)
{
    tt_tensor *plain[DENSE];

    dense_only(plain);
    ts[0] = sparse(2, 3, 1, TT_F64);
    ts[1] = plain[0];
    ts[2] = sparse(2, 3, 10, TT_F64);
    ts[3] = plain[1];
    ts[4] = sparse(2, 3, 5, TT_F64);
    ts[5] = sparse(3, 3, 7, TT_I64);
    ts[6] = plain[2];
    ts[7] = sparse(2, 3, 2, TT_F32);
    ts[8] = plain[3];
    ts[9] = sparse(2, 7, 3, TT_I64);
    ts[10] = plain[4];
    ts[11] = plain[5];
    return MANY;
}

static bool same_type(const tt_tensor *a, const tt_tensor *b)
{
    return tt_tensor_dtype(a) == tt_tensor_dtype(b) &&
           tt_tensor_is_sparse(a) == tt_tensor_is_sparse(b);
}

/* Zeroing one raises its version by one and leaves the others alone. */
static void check_versions(tt_tensor *const *ts, int n)
{
    uint64_t before[MANY];

    for (int i = 0; i < n; i++)
        before[i] = tt_tensor_version(ts[i]);
    for (int i = 0; i < n; i++) {
        TT_REQUIRE_NOT_NULL(tt_zero_(ts[i]));
        for (int j = 0; j < n; j++)
            TT_CHECK_EQ(tt_tensor_version(ts[j]), before[j] + (j <= i));
        TT_CHECK_EQ(tt_item_int(tt_sum(tt_to_dense(host(ts[i])))), 0);
    }
}

static void check_coalesced(tt_tensor *const *ts, int n, size_t buffer)
{
    tt_tensor *got[2 * MANY] = { NULL }, *want[2];
    tt_coalesce_options o = { .buffer_bytes = buffer };

    TT_REQUIRE_OK(tt_comm_broadcast_coalesced(ts, n, both, 2, &o, got));
    for (int i = 0; i < n; i++) {
        TT_REQUIRE_OK(tt_comm_broadcast(ts[i], TT_DEVICES(tt_cl(0), tt_cl(1)), want));
        TT_CHECK_PTR(got[i], ts[i]);
        for (int d = 0; d < 2; d++) {
            TT_CHECK(is_on(got[d * n + i], d));
            TT_CHECK(same_type(got[d * n + i], want[d]));
            TT_CHECK(same_bits(got[d * n + i], want[d]));
        }
    }
    check_versions(got + n, n);
}

TT_TEST(multigpu, test_broadcast_coalesced)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *ts[MANY];

        check_coalesced(ts, mixed(ts), 100);
    }
}

TT_TEST(multigpu, test_broadcast_coalesced_dense_only)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *ts[MANY];

        check_coalesced(ts, dense_only(ts), 100);
    }
}

TT_TEST(multigpu, test_broadcast_coalesced_empty_tensors)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *ts[3] = { tt_empty(TT_SHAPE(0), TT_U8, tt_cl(0)), dense(5, TT_F32),
                             dense(5, TT_F64) };

        check_coalesced(ts, 3, 256);
    }
}

/* ---- sums ---------------------------------------------------------------------------------- */

TT_TEST(multigpu, test_reduce_add)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *x = tt_randn(TT_SHAPE(5, 5), TT_F32, TT_CPU);
        tt_tensor *y = tt_randn(TT_SHAPE(5, 5), TT_F32, TT_CPU);
        tt_tensor *there[2] = { on(x, 0), on(y, 1) };
        tt_tensor *sum = tt_comm_reduce_add(there, 2, NULL);

        TT_REQUIRE_NOT_NULL(sum);
        TT_CHECK(is_on(sum, 0));
        TT_CHECK(same_bits(sum, tt_add(x, y)));
        TT_CHECK(same_bits(there[0], x));
    }
}

static tt_tensor *twice(tt_tensor *t)
{
    return tt_mul_scalar(tt_to_dense(host(t)), 2);
}

static void check_sums(tt_tensor *const *ts, int n)
{
    tt_tensor *all[2 * MANY] = { NULL }, *sums[MANY] = { NULL }, *got[MANY] = { NULL };
    tt_coalesce_options o = { .buffer_bytes = 100 };

    for (int i = 0; i < n; i++) {
        all[i] = ts[i];
        all[n + i] = on(ts[i], 1);
        sums[i] = tt_comm_reduce_add((tt_tensor *[]){ all[i], all[n + i] }, 2, NULL);
        TT_REQUIRE_NOT_NULL(sums[i]);
        TT_CHECK(same_type(sums[i], ts[i]));
        if (tt_tensor_is_sparse(sums[i]))
            TT_CHECK(tt_sparse_is_coalesced(tt_sparse_coalesce(host(sums[i]))));
        TT_CHECK(tt_equal(tt_to_dense(host(sums[i])), twice(ts[i])));
    }
    TT_REQUIRE_OK(tt_comm_reduce_add_coalesced(all, n, 2, NULL, &o, got));
    for (int i = 0; i < n; i++) {
        TT_CHECK(is_on(got[i], 0));
        TT_CHECK(same_type(got[i], sums[i]));
        TT_CHECK(same_bits(got[i], sums[i]));
    }
    check_versions(got, n);
    for (int i = 0; i < n; i++) /* the sums were new */
        TT_CHECK(same_bits(all[i], all[n + i]));
}

TT_TEST(multigpu, test_reduce_add_coalesced)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *ts[MANY];

        check_sums(ts, mixed(ts));
    }
}

TT_TEST(multigpu, test_reduce_add_coalesced_dense_only)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *ts[MANY];

        check_sums(ts, dense_only(ts));
    }
}
