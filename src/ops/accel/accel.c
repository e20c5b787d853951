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

#define PLAIN "-DLD(p,i)=((A)(p)[i]) -DST(p,i,x)=((p)[i]=(T)(x)) "
#define INTEGER(t) "-DT=" t " -DA=" t " " PLAIN "-DIS_INT "

const char *tti_accel_type(tt_dtype dtype)
{
    static const char *const options[TT_N_DTYPES] = {
        [TT_F32] = "-DT=f32 -DA=f32 " PLAIN "-DIS_REAL -DIS_F32",
        [TT_F64] = "-DT=f64 -DA=f64 " PLAIN "-DIS_REAL -DIS_F64",
        [TT_F16] = "-DT=u16 -DA=f32 -DLD(p,i)=LDH(p,i) -DST(p,i,x)=STH(p,i,x) -DIS_REAL -DIS_F16",
        [TT_BF16] = "-DT=u16 -DA=f32 -DLD(p,i)=LDB(p,i) -DST(p,i,x)=STB(p,i,x) -DIS_REAL -DIS_BF16",
        [TT_I8] = INTEGER("i8") "-DIS_I8",
        [TT_U8] = INTEGER("u8") "-DIS_U8",
        [TT_I16] = INTEGER("i16") "-DIS_I16",
        [TT_I32] = INTEGER("i32") "-DIS_I32",
        [TT_I64] = INTEGER("i64") "-DIS_I64",
        [TT_BOOL] = "-DT=u8 -DA=u8 -DLD(p,i)=((p)[i]) -DST(p,i,x)=((p)[i]=(x)!=0) -DIS_BOOL",
        [TT_C64] = "-DT=c64 -DR=f32 -DIS_COMPLEX -DIS_C64",
        [TT_C128] = "-DT=c128 -DR=f64 -DIS_COMPLEX -DIS_C128",
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
