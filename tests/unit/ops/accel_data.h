/* SPDX-License-Identifier: Apache-2.0 */
/* The same tensor on the CPU and on the first accelerator, for tests that compare kernels of both. */
#ifndef TUTTI_TESTS_ACCEL_DATA_H
#define TUTTI_TESTS_ACCEL_DATA_H

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

#include "base/half.h"
#include "base/philox.h"
#include "ops/kernels.h"

/* Skips the test where there is no accelerator. */
static inline tt_device accel_device(void)
{
    if (tt_device_count(TT_DEVICE_CL) == 0)
        tt_test_skip(TT_TEST_SKIP_NO_ACCELERATOR, "%s", tt_device_missing(TT_DEVICE_CL));
    return tt_cl(0);
}

typedef struct pair {
    tt_tensor *cpu, *dev;
} pair;

/* How elements lie in memory. */
typedef enum layout {
    PLAIN,
    SWAPPED,  /* the first two dimensions exchanged */
    STEPPED,  /* every second element of the last dimension, from the third on */
    REPEATED, /* the first dimension has stride 0 */
    N_LAYOUTS
} layout;

typedef enum kind {
    USUAL,   /* small numbers */
    SPECIAL, /* some NaN, infinities, zeros of both signs */
    TIES,    /* few different ones */
    N_KINDS
} kind;

static inline double accel_value(uint64_t stream, uint64_t i, kind k)
{
    static const double odd[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0 };
    tti_philox_block b = tti_philox(tt_test_seed(), i, stream);

    if (k == TIES)
        return (double)(b.w[0] % 4) - 1.0;
    if (k == SPECIAL && b.w[2] % 16 < 2)
        return odd[b.w[3] % 6];
    return 4.0 * tti_unit_double(b.w[0], b.w[1]) - 2.0;
}

static inline void accel_store(void *at, tt_dtype d, int64_t i, double v)
{
    double whole = isfinite(v) ? v * (d == TT_I8 ? 30 : 40) : 0.0;

    switch (d) {
    case TT_F32:
        ((float *)at)[i] = (float)v;
        break;
    case TT_F64:
        ((double *)at)[i] = v;
        break;
    case TT_F16:
        ((uint16_t *)at)[i] = tti_f32_to_f16((float)v);
        break;
    case TT_BF16:
        ((uint16_t *)at)[i] = tti_f32_to_bf16((float)v);
        break;
    case TT_I8:
        ((int8_t *)at)[i] = (int8_t)whole;
        break;
    case TT_U8:
        ((uint8_t *)at)[i] = (uint8_t)(int8_t)whole;
        break;
    case TT_I16:
        ((int16_t *)at)[i] = (int16_t)(whole * 100);
        break;
    case TT_I32:
        ((int32_t *)at)[i] = (int32_t)(whole * 1e6);
        break;
    case TT_I64:
        ((int64_t *)at)[i] = (int64_t)(whole * 1e12);
        break;
    case TT_BOOL:
        ((uint8_t *)at)[i] = v > 0;
        break;
    case TT_C64:
        ((float complex *)at)[i] = 0.4f * (float)v + 0.2f * (float)(i % 3) * I;
        break;
    default: /* products stay finite */
        ((double complex *)at)[i] = 0.4 * v + 0.2 * (double)(i % 3) * I;
    }
}

/* Real and imaginary part. */
static inline double complex accel_load(const void *at, tt_dtype d, int64_t i)
{
    switch (d) {
    case TT_F32:
        return ((const float *)at)[i];
    case TT_F64:
        return ((const double *)at)[i];
    case TT_F16:
        return tti_f16_to_f32(((const uint16_t *)at)[i]);
    case TT_BF16:
        return tti_bf16_to_f32(((const uint16_t *)at)[i]);
    case TT_I8:
        return ((const int8_t *)at)[i];
    case TT_U8:
    case TT_BOOL:
        return ((const uint8_t *)at)[i];
    case TT_I16:
        return ((const int16_t *)at)[i];
    case TT_I32:
        return ((const int32_t *)at)[i];
    case TT_I64:
        return (double)((const int64_t *)at)[i];
    case TT_C64:
        return ((const float complex *)at)[i];
    default:
        return ((const double complex *)at)[i];
    }
}

/* The storage of a tensor on the CPU, copied to one of the same sizes on the device. */
static inline tt_tensor *accel_copy(const tt_tensor *t, tt_device d)
{
    tt_tensor *flat = tti_empty((int64_t[]){ (int64_t)(t->storage->bytes / tti_esize(t)) }, 1,
                                (tt_dtype)t->dtype, d);

    TT_REQUIRE_NOT_NULL(flat);
    if (t->storage->bytes > 0)
        TT_REQUIRE_OK(tti_driver_of(d)->copy_in(d.index, flat->storage->data, t->storage->data,
                                                t->storage->bytes));
    return tti_view_raw(flat, t->dims, t->strides, t->n_dims, t->offset);
}

/* A view with these sizes of a contiguous tensor that is `n` elements long at least. */
static inline tt_tensor *accel_laid(const int64_t *dims, int n_dims, tt_dtype dtype, layout l)
{
    int64_t strides[TT_MAX_DIMS], at = 1, size = 1;
    int order[TT_MAX_DIMS];
    tt_tensor *flat;

    for (int i = 0; i < n_dims; i++)
        order[i] = i;
    if (l == SWAPPED && n_dims > 1) {
        order[0] = 1;
        order[1] = 0;
    }
    for (int i = n_dims - 1; i >= 0; i--) {
        int d = order[i];

        strides[d] = l == REPEATED && d == 0 ? 0 : at;
        if (l == STEPPED && d == n_dims - 1)
            strides[d] = 2;
        at *= (l == STEPPED && d == n_dims - 1 ? 2 : 1) * dims[d];
    }
    size = at + 8;
    flat = tti_empty(&size, 1, dtype, TT_CPU);
    TT_REQUIRE_NOT_NULL(flat);
    memset(flat->storage->data, 0, flat->storage->bytes);
    return tti_view_raw(flat, dims, strides, n_dims, l == STEPPED ? 3 : 0);
}

static inline pair accel_pair(const int64_t *dims, int n_dims, tt_dtype dtype, layout l, kind k,
                              uint64_t stream)
{
    pair p = { accel_laid(dims, n_dims, dtype, l), NULL };
    int64_t n = (int64_t)(p.cpu->storage->bytes / tti_esize(p.cpu));

    for (int64_t i = 0; i < n; i++)
        accel_store(p.cpu->storage->data, dtype, i, accel_value(stream, (uint64_t)i, k));
    p.dev = accel_copy(p.cpu, accel_device());
    return p;
}

/* int64 in [0, below), contiguous. */
static inline pair accel_indices(const int64_t *dims, int n_dims, int64_t below, uint64_t stream)
{
    pair p = { accel_laid(dims, n_dims, TT_I64, PLAIN), NULL };
    int64_t *at = p.cpu->storage->data;

    for (int64_t i = 0; i < p.cpu->numel; i++)
        at[i] = tti_philox(tt_test_seed(), (uint64_t)i, stream).w[0] % below;
    p.dev = accel_copy(p.cpu, accel_device());
    return p;
}

/* Results, zeroed on both. */
static inline pair accel_out(const int64_t *dims, int n_dims, tt_dtype dtype, layout l)
{
    pair p = { accel_laid(dims, n_dims, dtype, l), NULL };

    p.dev = accel_copy(p.cpu, accel_device());
    return p;
}

static inline bool accel_near(double a, double b, double tol)
{
    if (!isfinite(a) || !isfinite(b))
        return a == b || (isnan(a) && isnan(b));
    return fabs(a - b) <= tol * (1.0 + fmax(fabs(a), fabs(b)));
}

/* All bytes of both storages, so that writes beside the results are noticed; tol 0: the same bits, except
 * that NaN is NaN. Says what differs first, after `what`. */
static inline bool accel_same(const pair *p, double tol, const char *what)
{
    size_t bytes = p->cpu->storage->bytes;
    tt_dtype d = (tt_dtype)p->cpu->dtype;
    char *got = malloc(bytes + 1);
    int64_t bad = -1;

    TT_REQUIRE(got != NULL);
    TT_CHECK_OK(tti_driver_of(p->dev->device)
                    ->copy_out(p->dev->device.index, got, p->dev->storage->data, bytes));
    if (memcmp(got, p->cpu->storage->data, bytes) != 0)
        for (int64_t i = 0; bad < 0 && i < (int64_t)(bytes / tti_esize(p->cpu)); i++) {
            double complex a = accel_load(p->cpu->storage->data, d, i), b = accel_load(got, d, i);

            if (!accel_near(creal(a), creal(b), tol) || !accel_near(cimag(a), cimag(b), tol))
                bad = i;
        }
    if (bad >= 0)
        TT_FAIL_TEST("%s: element %lld is %.9g%+.9gi on the CPU, %.9g%+.9gi on the device", what,
                     (long long)bad, creal(accel_load(p->cpu->storage->data, d, bad)),
                     cimag(accel_load(p->cpu->storage->data, d, bad)),
                     creal(accel_load(got, d, bad)), cimag(accel_load(got, d, bad)));
    free(got);
    return bad < 0;
}

/* What rounding may differ by, in one result. */
static inline double accel_tolerance(tt_dtype d)
{
    switch (d) {
    case TT_F16:
        return 1e-3;
    case TT_BF16:
        return 8e-3;
    case TT_F32:
    case TT_C64:
        return 1e-5;
    case TT_F64:
    case TT_C128:
        return 1e-11;
    default:
        return 0.0;
    }
}

#endif
