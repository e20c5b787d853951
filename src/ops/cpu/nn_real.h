/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of contiguous tensors as double. Statistics ("real") are float32 or float64. */
#ifndef TTI_OPS_CPU_NN_REAL_H
#define TTI_OPS_CPU_NN_REAL_H

#include "ops/cpu/vmath.h"
#include "tensor/tensor.h"

static inline double tti_real_get(const tt_tensor *t, int64_t i)
{
    return t->dtype == TT_F64 ? ((const double *)tti_data(t))[i]
                              : (double)((const float *)tti_data(t))[i];
}

static inline void tti_real_put(tt_tensor *t, int64_t i, double v)
{
    if (t->dtype == TT_F64)
        ((double *)tti_data(t))[i] = v;
    else
        ((float *)tti_data(t))[i] = (float)v;
}

/* Any of the four floating types. */
static inline double tti_float_get(const tt_tensor *t, int64_t i)
{
    if (t->dtype == TT_F16)
        return (double)tti_f16_to_f32(((const uint16_t *)tti_data(t))[i]);
    if (t->dtype == TT_BF16)
        return (double)tti_bf16_to_f32(((const uint16_t *)tti_data(t))[i]);
    return tti_real_get(t, i);
}

static inline void tti_float_put(tt_tensor *t, int64_t i, double v)
{
    if (t->dtype == TT_F16)
        ((uint16_t *)tti_data(t))[i] = tti_f32_to_f16((float)v);
    else if (t->dtype == TT_BF16)
        ((uint16_t *)tti_data(t))[i] = tti_f32_to_bf16((float)v);
    else
        tti_real_put(t, i, v);
}

#endif
