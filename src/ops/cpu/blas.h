/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS, which multiplies matrices of float64 and complex numbers. It is opened at the first such product: processes that
 * make none, such as the launcher, neither wait for its start nor have its buffers. */
#ifndef TTI_OPS_CPU_BLAS_H
#define TTI_OPS_CPU_BLAS_H

#include <cblas.h>

#include "base/status.h"

typedef struct tti_blas {
    __typeof__(&cblas_dgemm) dgemm;
    __typeof__(&cblas_cgemm) cgemm;
    __typeof__(&cblas_zgemm) zgemm;
} tti_blas;

/* Its functions, or NULL with the cause recorded. The next call tries again after a failure. */
const tti_blas *tti_blas_open(void);

#endif
