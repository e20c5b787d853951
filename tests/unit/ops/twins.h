/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on the CPU and their twins on an accelerator, filled without any kernel, so that one family of kernels
 * can be tested by itself; and random choices that follow the seed of the run. */
#ifndef TUTTI_TESTS_TWINS_H
#define TUTTI_TESTS_TWINS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

#include "device/launch.h"
#include "ops/op.h"

/* Skips where there is no accelerator. */
static inline tt_device twins_device(void)
{
    if (tt_device_count(TT_DEVICE_CL) == 0)
        TT_SKIP("no accelerator: %s", tt_device_missing(TT_DEVICE_CL));
    return tt_cl(0);
}

/* ---- choices ----------------------------------------------------------------------------------- */

static inline uint64_t *twins_state(void)
{
    static uint64_t state;

    if (state == 0)
        state = tt_test_seed() | 1;
    return &state;
}

static inline uint32_t twins_word(void)
{
    uint64_t *s = twins_state();

    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

/* In [lo, hi]. */
static inline int64_t twins_pick(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(twins_word() % (uint64_t)(hi - lo + 1));
}

/* ---- tensors ------------------------------------------------------------------------------------- */

/* In [-1, 1), or small whole numbers for integers. */
static inline tt_tensor *twins_noise(tt_shape s, tt_dtype dtype)
{
    bool whole = !tt_dtype_is_floating(dtype) && !tt_dtype_is_complex(dtype);
    tt_tensor *t = tt_empty(s, tt_dtype_is_complex(dtype) ? TT_C128 : TT_F64, TT_CPU);
    int64_t n = t != NULL ? tt_tensor_numel(t) * (tt_dtype_is_complex(dtype) ? 2 : 1) : 0;

    for (int64_t i = 0; i < n; i++)
        ((double *)tt_tensor_data(t))[i] =
            whole ? (double)twins_pick(0, 9) : twins_word() / 1073741824.0 - 1.0;
    return tt_to_dtype(t, dtype);
}

/* The same bytes on d. t must be contiguous. */
static inline tt_tensor *twins_move(const tt_tensor *t, tt_device d)
{
    tt_tensor *twin;

    if (t == NULL)
        return NULL;
    twin = tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, d);
    TT_REQUIRE_NOT_NULL(twin);
    if (t->numel != 0)
        TT_REQUIRE_OK(tti_driver_of(d)->copy_in(d.index, tti_data(twin), tti_data(t),
                                                (size_t)t->numel * tti_esize(t)));
    return twin;
}

static inline tt_tensor *twins_back(const tt_tensor *t)
{
    tt_tensor *twin = tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, TT_CPU);

    TT_REQUIRE_NOT_NULL(twin);
    if (t->numel != 0)
        TT_REQUIRE_OK(tti_driver_of(t->device)->copy_out(
            t->device.index, tti_data(twin), tti_data(t), (size_t)t->numel * tti_esize(t)));
    return twin;
}

/* The largest difference, in units of the largest element (at least 1); NaN where only one is NaN. */
static inline double twins_apart(const tt_tensor *cpu, const tt_tensor *dev)
{
    bool complex_type = tt_dtype_is_complex((tt_dtype)cpu->dtype);
    tt_dtype wide = complex_type ? TT_C128 : TT_F64;
    tt_tensor *a = tt_to_dtype((tt_tensor *)cpu, wide), *b = tt_to_dtype(twins_back(dev), wide);
    double most = 0.0, scale = 1.0;

    TT_REQUIRE(a != NULL && b != NULL);
    for (int64_t i = 0; i < cpu->numel * (complex_type ? 2 : 1); i++) {
        double x = ((double *)tti_data(a))[i], y = ((double *)tti_data(b))[i];

        if (x == y || (isnan(x) && isnan(y)))
            continue;
        scale = fmax(scale, fabs(x));
        most = fabs(x - y) <= most ? most : fabs(x - y);
    }
    return most / scale;
}

/* What two roundings may differ by. */
static inline double twins_tolerance(tt_dtype dtype)
{
    switch (dtype) {
    case TT_F32:
    case TT_C64:
        return 2e-6;
    case TT_F64:
    case TT_C128:
        return 1e-14;
    case TT_F16:
        return 1e-3;
    case TT_BF16:
        return 8e-3;
    default:
        return 0.0;
    }
}

#endif
