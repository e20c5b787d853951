/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of neural networks on an accelerator against those of the CPU. A case makes its inputs from a seed, runs
 * one kernel on a device, and says what it wrote; accel_compare runs it on the CPU, and twice on cl:0. */
#ifndef TUTTI_TESTS_ACCEL_NN_H
#define TUTTI_TESTS_ACCEL_NN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/check_tensor.h"
#include "nn_data.h"
#include "ops/op.h"

typedef struct accel_run {
    tt_device d;
    tt_dtype dtype;
    int64_t n[4];   /* sizes, as the case likes */
    unsigned flags; /* variants, as the case likes */
    tt_tensor *out[6];
    int n_out;
} accel_run;

typedef tt_status (*accel_case)(accel_run *r);

static int accel_types = 4; /* of accel_floats to go through: kernels are built for each */

/* Skips the test when there is no accelerator; `group` > 0: kernels are built for groups of so many items, as
 * GPUs have them. First in a test. */
static inline void accel_begin(int group)
{
    char text[16];

    snprintf(text, sizeof text, "%d", group);
    if (group > 0) {
        setenv("TUTTI_CL_WG", text, 1);
        accel_types = 1;
    }
    if (tt_device_count(TT_DEVICE_CL) == 0)
        TT_SKIP("%s", tt_device_missing(TT_DEVICE_CL));
}

/* A copy on d, without any kernel. */
static inline tt_tensor *accel_put(tt_tensor *t, tt_device d)
{
    tt_tensor *there;

    if (t == NULL || d.kind == TT_DEVICE_CPU)
        return t;
    there = tti_empty(t->dims, t->n_dims, (tt_dtype)t->dtype, d);
    if (there == NULL || t->numel == 0)
        return there;
    return TT_CHECK_OK(tti_driver_of(d)->copy_in(d.index, tti_data(there), tti_data(t),
                                                 (size_t)t->numel * tti_esize(t)))
               ? there
               : NULL;
}

/* Values in [-1, 1) on the case's device. */
static inline tt_tensor *accel_in(accel_run *r, tt_shape shape, uint64_t stream)
{
    return accel_put(nn_values(shape, r->dtype, stream), r->d);
}

/* Statistics: float64 beside float64, else float32; positive. */
static inline tt_tensor *accel_real(accel_run *r, tt_shape shape, uint64_t stream)
{
    tt_dtype real = r->dtype == TT_F64 ? TT_F64 : TT_F32;

    return accel_put(tt_add_scalar(nn_values(shape, real, stream), 1.5), r->d);
}

/* Integers below `below`, and `lowest` now and then when it is negative. */
static inline tt_tensor *accel_ints(accel_run *r, int64_t n, int64_t below, int64_t lowest,
                                    uint64_t stream)
{
    tt_tensor *t = tt_empty(TT_SHAPE(n), TT_I64, TT_CPU);

    for (int64_t i = 0; t != NULL && i < n; i++)
        ((int64_t *)tt_tensor_data(t))[i] =
            lowest < 0 && i % 5 == 3 ? lowest : nn_below(stream, (uint64_t)i, below);
    return accel_put(t, r->d);
}

/* Room for a result, full of what it must not keep. */
static inline tt_tensor *accel_out(accel_run *r, tt_shape shape, tt_dtype dtype)
{
    tt_tensor *t = accel_put(tt_full(shape, 77.0, dtype, TT_CPU), r->d);

    r->out[r->n_out++] = t;
    return t;
}

/* For sums of thousands of numbers of either sign, made in another order. */
static inline double accel_tolerance(tt_dtype dtype)
{
    return dtype == TT_F64 ? 1e-11 : dtype == TT_F32 ? 1e-4 : dtype == TT_F16 ? 4e-3 : 2e-2;
}

static inline bool accel_same(const accel_run *want, const accel_run *got, double tol)
{
    bool ok = want->n_out == got->n_out;

    for (int i = 0; ok && i < want->n_out; i++)
        ok = TT_CHECK_TENSOR(tt_to_device(got->out[i], TT_CPU), tt_to_device(want->out[i], TT_CPU),
                             tol);
    return ok;
}

/* tol < 0: as usual for the type. */
static inline void accel_compare_tol(const char *name, accel_case fn, accel_run on, double tol)
{
    tt_scope s = tt_scope_open();
    accel_run cpu = on, cl = on, again = on;

    cpu.d = TT_CPU;
    cl.d = again.d = tt_cl(0);
    if (!TT_CHECK_OK(fn(&cpu)) || !TT_CHECK_OK(fn(&cl)) || !TT_CHECK_OK(fn(&again)) ||
        !accel_same(&cpu, &cl, tol >= 0 ? tol : accel_tolerance(on.dtype)) ||
        !accel_same(&cl, &again, 0.0))
        printf("%s: %s, sizes %lld %lld %lld %lld, flags %u\n", name, tt_dtype_name(on.dtype),
               (long long)on.n[0], (long long)on.n[1], (long long)on.n[2], (long long)on.n[3],
               on.flags);
    tt_scope_close(&s);
}

#define accel_compare(fn, ...) accel_compare_tol(#fn, fn, (accel_run){ __VA_ARGS__ }, -1.0)

static inline const tti_nn_kernels *accel_nn(const accel_run *r)
{
    return tti_kernel_rows[r->d.kind]->nn;
}

static const tt_dtype accel_floats[] = { TT_F32, TT_F64, TT_F16, TT_BF16 };

/* Building kernels takes a while on a busy machine. Both forms of a test: with the groups of the device, and with groups of 8. */
#define ACCEL_TEST(suite, name)                 \
    static void name##_both(void);              \
    TT_TEST_LIMIT(suite, name, 300)             \
    {                                           \
        accel_begin(0);                         \
        name##_both();                          \
    }                                           \
    TT_TEST_LIMIT(suite, name##_in_groups, 300) \
    {                                           \
        accel_begin(8);                         \
        name##_both();                          \
    }                                           \
    static void name##_both(void)

#endif
