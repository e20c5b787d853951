/* SPDX-License-Identifier: Apache-2.0 */
/* A product of matrices planned apart from its run: plans look at tensors, runs only at addresses, so that
 * a run can take place in a stream of a device whose memory is the host's. */
#ifndef TTI_OPS_CPU_GEMM_JOB_H
#define TTI_OPS_CPU_GEMM_JOB_H

#include "ops/cpu/gemm.h"

typedef struct tti_gemm_job {
    tti_mat mat;
    int32_t dtype; /* float32, float64, complex64 or complex128 */
    int64_t batch;
    int64_t a_step, b_step;   /* bytes from one matrix of the batch to the next */
    const char *a, *b, *bias; /* bias: NULL or [n] */
    char *c;
} tti_gemm_job;

/* As tti_linalg_kernels.gemm, nothing being empty; operands without a unit stride are copied where they are. */
tt_status tti_gemm_plan(tti_gemm_job *j, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                        const tti_gemm *g);
tt_status tti_gemm_run(const tti_gemm_job *j);

/* out = bias, beta * out or 0: a product without anything to sum. */
tt_status tti_gemm_nothing(tt_tensor *out, const tti_gemm *g);
/* By way of tensors of another type. */
tt_status tti_gemm_through(tt_dtype dtype, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                           const tti_gemm *g);

#endif
