/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of powers that clipping gradients needs: the one optimizer kernel that waits for the device. */
#include <math.h>

#include "ops/accel/optim.h"

extern const char tti_source_powers[];
static const tti_program program = { "powers", { tti_source_powers } };

#define CHUNK 16384 /* as in powers.cl, like the kinds */
enum { SUM, SQUARES, GREATEST, POWERS };

static double joined(double a, double b, int kind)
{
    if (kind != GREATEST)
        return a + b;
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

/* The sums of the stretches, to the host and together. */
static tt_status collect(tt_device d, const void *parts, uint64_t n, int kind, double *sum_p)
{
    bool wide = tti_device_has_fp64(d);
    size_t size = wide ? sizeof(double) : sizeof(float);
    void *host = tti_malloc(n * size);
    double sum = 0;
    tt_status st;

    if (host == NULL)
        return TT_ERR_NOMEM;
    st = tti_driver_of(d)->copy_out(d.index, host, parts, n * size);
    for (uint64_t i = 0; st == TT_OK && i < n; i++)
        sum = joined(sum, wide ? ((double *)host)[i] : (double)((float *)host)[i], kind);
    tti_mfree(host);
    *sum_p = sum;
    return st;
}

tt_status tti_accel_sum_powers(const tt_tensor *x, double power, double *sum_p)
{
    static tti_kernel_slot slots[TT_N_DTYPES];
    tt_device d = x->device;
    uint64_t n, rows;
    tt_dtype type = tti_accel_real_type(x, &n);
    int32_t kind = power == 2.0 ? SQUARES : power == 1.0 ? SUM : isinf(power) ? GREATEST : POWERS;
    float p = (float)power;
    tti_kernel *k;
    void *parts;
    tt_status st;

    *sum_p = 0;
    if (n == 0)
        return TT_OK;
    TT_TRY(tti_accel_check_type("sum_powers", x));
    k = tti_kernel_get(&slots[type], d, &program, tti_accel_type(type), "powers");
    rows = (n + CHUNK - 1) / CHUNK;
    parts = k != NULL ? tti_accel_scratch(d, rows * sizeof(double)) : NULL;
    if (parts == NULL)
        return tt_last_status();
    st = tti_launch(
        d, k, tti_grid_rows(d, rows, CHUNK),
        (tti_arg[]){ TTI_MEM(parts), TTI_MEM(tti_data(x)), TTI_VAL(n), TTI_VAL(kind), TTI_VAL(p) },
        5);
    if (st == TT_OK)
        st = collect(d, parts, rows, kind, sum_p);
    tti_accel_scratch_free(d, parts, rows * sizeof(double));
    return st;
}
