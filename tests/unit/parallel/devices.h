/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of several devices share. */
#ifndef TEST_PARALLEL_DEVICES_H
#define TEST_PARALLEL_DEVICES_H

#include <tutti/testing.h>
#include <tutti/tutti.h>

/* Skips the test when there are fewer OpenCL devices. Returns how many there are. */
static inline int need_devices(int n)
{
    int have = tt_device_count(TT_DEVICE_CL);

    if (have == 0)
        TT_SKIP("no OpenCL devices: %s", tt_device_missing(TT_DEVICE_CL));
    if (have < n)
        TT_SKIP("expected %d OpenCL devices, got %d", n, have);
    return have;
}

static inline tt_tensor *on(tt_tensor *t, int index)
{
    return tt_to_device(t, tt_cl(index));
}

static inline tt_tensor *host(tt_tensor *t)
{
    return tt_to_device(t, TT_CPU);
}

/* Equal bits, type and layout, wherever they are. Sparse tensors are compared as dense ones. */
static inline bool same_bits(tt_tensor *a, tt_tensor *b)
{
    if (a == NULL || b == NULL) {
        TT_FAIL_TEST("a tensor is missing: %s", tt_last_error());
        return false;
    }
    if (tt_tensor_is_sparse(a) != tt_tensor_is_sparse(b))
        return false;
    return tt_equal(tt_to_dense(host(a)), tt_to_dense(host(b)));
}

static inline bool is_on(const tt_tensor *t, int index)
{
    return t != NULL && tt_device_equal(tt_tensor_device(t), tt_cl(index));
}

#endif
