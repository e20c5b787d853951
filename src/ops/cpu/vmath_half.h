/* SPDX-License-Identifier: Apache-2.0 */
/* Half precision for the kernels; see base/half.h. Included through vmath.h. */
#ifndef TTI_OPS_CPU_VMATH_HALF_H
#define TTI_OPS_CPU_VMATH_HALF_H

#include "base/half.h"
#include "ops/cpu/vmath_exp.h"

#endif
