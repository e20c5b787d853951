/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels of the CPU. */
#ifndef TTI_OPS_CPU_NN_CONV_H
#define TTI_OPS_CPU_NN_CONV_H

#include "ops/kernels.h"

/* The slots of tti_nn_kernels: any type but bool, row-major. */
tt_status tti_cpu_conv(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                       const tti_conv *g);
tt_status tti_cpu_conv_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                  const tti_conv *g);
tt_status tti_cpu_conv_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                   const tti_conv *g);

typedef enum tti_conv_kind {
    TTI_CONV_FORWARD,
    TTI_CONV_GRAD_INPUT,
    TTI_CONV_GRAD_WEIGHT
} tti_conv_kind;

/* One convolution on plain row-major memory, so that it can run in a stream of a device whose memory is the
 * host's. Which of x, w and y is written depends on the kind. */
typedef struct tti_conv_job {
    tti_conv g;
    int32_t kind;  /* tti_conv_kind */
    int32_t dtype; /* float32, float64, complex or int64 */
    void *x, *w, *y;
    const void *b; /* NULL or [oc]; forward only */
} tti_conv_job;

/* Row-major tensors on the same device; b may be NULL. */
tti_conv_job tti_conv_job_of(tti_conv_kind kind, const tt_tensor *x, const tt_tensor *w,
                             const tt_tensor *y, const tt_tensor *b, const tti_conv *g);
/* By whichever of the following is fastest. */
tt_status tti_conv_run(const tti_conv_job *j);

/* Any type. */
tt_status tti_conv_plain(const tti_conv_job *j);
/* By oneDNN; float32. *done_p: whether it has a fast way; if not, nothing was done. */
tt_status tti_conv_dnnl(const tti_conv_job *j, bool *done_p);
/* For images of a few pixels and many channels; float32. */
bool tti_conv_small_takes(const tti_conv *g);
tt_status tti_conv_small(const tti_conv_job *j);

#endif
