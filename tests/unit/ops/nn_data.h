/* SPDX-License-Identifier: Apache-2.0 */
/* Values for tests of neural network operators. */
#ifndef TUTTI_TESTS_NN_DATA_H
#define TUTTI_TESTS_NN_DATA_H

#include <math.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

#include "base/philox.h"

/* Numbers in [-1, 1), the same for the same stream, all different so that maxima are unique. */
static inline tt_tensor *nn_values(tt_shape shape, tt_dtype dtype, uint64_t stream)
{
    tt_tensor *t = tt_empty(shape, TT_F64, TT_CPU);
    double *at = t != NULL ? tt_tensor_data(t) : NULL;

    for (int64_t i = 0; at != NULL && i < tt_tensor_numel(t); i++) {
        tti_philox_block b = tti_philox(tt_test_seed(), (uint64_t)i, stream);

        at[i] = 2.0 * tti_unit_double(b.w[0], b.w[1]) - 1.0;
    }
    return tt_to_dtype(t, dtype);
}

static inline int64_t nn_below(uint64_t stream, uint64_t i, int64_t n)
{
    return (int64_t)(tti_philox(tt_test_seed(), i, stream).w[0] % (uint32_t)n);
}

/* All elements in double, up to 65536 of them, until the next call with the same slot (0 to 3). */
static inline const double *nn_read(const tt_tensor *t, int slot)
{
    static double all[4][65536];

    TT_REQUIRE_NOT_NULL(t);
    TT_REQUIRE_LE(tt_tensor_numel(t), 65536);
    TT_REQUIRE_OK(tt_copy_out_f64(t, all[slot], (size_t)tt_tensor_numel(t)));
    return all[slot];
}

/* The same shape and, up to tol, the same elements (NaN is NaN). */
static inline bool nn_same(const tt_tensor *a, const tt_tensor *b, double tol)
{
    const double *va = nn_read(a, 2), *vb = nn_read(b, 3);

    if (!tt_shape_equal(tt_tensor_shape(a), tt_tensor_shape(b)))
        return false;
    for (int64_t i = 0; i < tt_tensor_numel(a); i++)
        if (!(fabs(va[i] - vb[i]) <= tol || va[i] == vb[i] || (isnan(va[i]) && isnan(vb[i]))))
            return false;
    return true;
}

#endif
