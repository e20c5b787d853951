/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels of the CPU. */
#ifndef TTI_OPS_CPU_NN_CONV_H
#define TTI_OPS_CPU_NN_CONV_H

#include "ops/kernels.h"

/* The slots of tti_nn_kernels: any floating or complex type, row-major. */
tt_status tti_cpu_conv(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                       const tti_conv *g);
tt_status tti_cpu_conv_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                  const tti_conv *g);
tt_status tti_cpu_conv_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                   const tti_conv *g);

/* The plain versions: row-major, float32, float64 or complex. */
tt_status tti_conv_plain(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                         const tti_conv *g);
tt_status tti_conv_plain_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                    const tti_conv *g);
tt_status tti_conv_plain_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                     const tti_conv *g);

/* The same by oneDNN; float32. *done_p: whether it has a fast way; if not, nothing was done. */
tt_status tti_conv_dnnl(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                        const tti_conv *g, bool *done_p);
tt_status tti_conv_dnnl_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                   const tti_conv *g, bool *done_p);
tt_status tti_conv_dnnl_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                    const tti_conv *g, bool *done_p);

/* The same for images of a few pixels and many channels; float32. */
bool tti_conv_small_takes(const tti_conv *g);
tt_status tti_conv_small(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                         const tti_conv *g);
tt_status tti_conv_small_grad_input(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                    const tti_conv *g);
tt_status tti_conv_small_grad_weight(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                     const tti_conv *g);

#endif
