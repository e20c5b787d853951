/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient that normalisations share when it must be differentiable itself. */
#ifndef TTI_OPS_NORM_H
#define TTI_OPS_NORM_H

#include "ops/op.h"

/* y = (x - mean) * rstd * w + b with mean and rstd over `dims`; w NULL or shaped to broadcast. */
typedef struct tti_norm_parts {
    tt_tensor *x, *w;
    tt_tensor *mean, *rstd; /* given and constant; NULL: those of x */
    int dims[TT_MAX_DIMS];
    int n_dims;
    double eps;
    bool rms; /* without the mean */
} tti_norm_parts;

/* Gradients of x, and of w before it is summed to its shape, by operators. Either may be NULL. */
tt_status tti_norm_grad_parts(const tti_norm_parts *p, tt_tensor *g, tt_tensor **dx_p,
                              tt_tensor **dw_p);

/* Batch norm: x as kernels take it, contiguous or channels-last; and g with x's strides. Unrecorded;
 * NULL passes on. */
tt_tensor *tti_batch_norm_layout(tt_tensor *x);
tt_tensor *tti_batch_norm_like(tt_tensor *g, const tt_tensor *x);
/* What forward works with: input, weight and bias (may be NULL) as the kernels want them, and room for the results. */
typedef struct tti_batch_norm_parts {
    tt_tensor *x, *w, *b;
    tt_tensor *y, *mean, *rstd;
} tti_batch_norm_parts;

tt_status tti_batch_norm_prepare(tt_tensor *const in[3], tti_batch_norm_parts *p);
/* Given `st`, that of the statistics in p: applies them, and ends the call of `in` with what backward needs. */
tt_tensor *tti_batch_norm_finish(tti_call *c, const tti_batch_norm_parts *p, tt_status st);
/* Refuses what is not [N, C, ...] with vectors of C. */
tt_status tti_batch_norm_check(tt_tensor *const in[3], const tt_batch_norm_options *opt);
/* kept += momentum * (now - kept); kept may be NULL */
tt_status tti_batch_norm_learn(tt_tensor *kept, tt_tensor *now, double momentum);

#endif
