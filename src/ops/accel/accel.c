/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels of accelerators, and what they share. */
#include "ops/accel/accel.h"

const tti_kernels tti_kernels_accel = {
    .device = "accelerator",
    .pointwise = &tti_accel_pointwise,
    .reduce = &tti_accel_reduce,
    .linalg = &tti_accel_linalg,
    .index = &tti_accel_index,
    .nn = &tti_accel_nn,
    .random = &tti_accel_random,
    .optim = &tti_accel_optim,
};

const char *tti_accel_type(tt_dtype dtype)
{
    static const char *const options[TT_N_DTYPES] = {
        [TT_F32] = "-DIS_F32",   [TT_F64] = "-DIS_F64", [TT_F16] = "-DIS_F16",
        [TT_BF16] = "-DIS_BF16", [TT_I8] = "-DIS_I8",   [TT_U8] = "-DIS_U8",
        [TT_I16] = "-DIS_I16",   [TT_I32] = "-DIS_I32", [TT_I64] = "-DIS_I64",
        [TT_BOOL] = "-DIS_BOOL", [TT_C64] = "-DIS_C64", [TT_C128] = "-DIS_C128",
    };

    return options[dtype];
}

tt_status tti_accel_check_type(const char *name, const tt_tensor *t)
{
    char dev[32];

    if ((t->dtype != TT_F64 && t->dtype != TT_C128) || tti_device_has_fp64(t->device))
        return TT_OK;
    return TT_FAIL(TT_ERR_UNSUPPORTED, "%s: %s does not compute in %s", name,
                   tt_device_name(t->device, dev, sizeof dev), tt_dtype_name((tt_dtype)t->dtype));
}

void *tti_accel_scratch(tt_device d, size_t bytes)
{
    const tti_driver *drv = tti_driver_of(d);

    return drv != NULL ? drv->alloc(d.index, bytes != 0 ? bytes : 1) : NULL;
}

void tti_accel_scratch_free(tt_device d, void *p, size_t bytes)
{
    if (p != NULL)
        tti_driver_of(d)->free(d.index, p, bytes != 0 ? bytes : 1);
}
