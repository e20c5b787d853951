/* SPDX-License-Identifier: Apache-2.0 */
/* Which way products and convolutions take on a device, and our own kernel for them. */
#ifndef TTI_OPS_ACCEL_GEMM_H
#define TTI_OPS_ACCEL_GEMM_H

#include "ops/accel/accel.h"

typedef enum tti_gemm_way {
    TTI_GEMM_HOST,    /* the CPU's libraries, in the stream: devices that are CPUs */
    TTI_GEMM_LIBRARY, /* the driver's: tti_accel.gemm */
    TTI_GEMM_OWN      /* gemm.cl, conv.cl */
} tti_gemm_way;

/* HOST where the device is a CPU, else LIBRARY; TUTTI_CL_GEMM chooses another. */
tti_gemm_way tti_gemm_way_of(tt_device d);

/* Calls fn(arg) in the stream of a device that is a CPU, with a copy of the job, on as many threads as the device
 * has cores. What it fails with is reported to whoever next waits for the device. */
tt_status tti_accel_on_host(tt_device d, tt_status (*fn)(const void *job), const void *job,
                            size_t bytes);

/* Sizes and strides as the kernel has them (gemm.cl), in elements. */
typedef struct tti_gemm_args {
    uint64_t m, n, k, k_in;
    int64_t ai, ak, a_outer;
    int64_t bk, bj, b_outer;
    uint64_t batch, batch_in;
    int64_t a_step0, a_step1, b_step0, b_step1;
    int64_t bias_i, bias_j, bias_step1;
} tti_gemm_args;

typedef struct tti_gemm_own_job {
    tti_gemm_args sizes;
    tt_dtype dtype;
    double alpha, beta;
    void *c;
    const void *a, *b, *bias; /* bias may be NULL */
} tti_gemm_own_job;

tt_status tti_gemm_own(tt_device d, const tti_gemm_own_job *j);

#endif
