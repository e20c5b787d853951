/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels behind the CPU's table of nn kernels for softmax, losses and normalisation; their
 * contracts are in ops/kernels_nn.h. */
#ifndef TTI_OPS_CPU_NN_TABLE_H
#define TTI_OPS_CPU_NN_TABLE_H

#include "ops/kernels.h"

tt_status tti_softmax_run(tt_tensor *y, const tt_tensor *x, int64_t n, int64_t inner, bool log);
tt_status tti_softmax_grad_run(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *y, int64_t n,
                               int64_t inner, bool log);
tt_status tti_cross_entropy_run(tt_tensor *losses, tt_tensor *lse, const tt_tensor *x,
                                const tt_tensor *target, const tt_tensor *weight);
tt_status tti_cross_entropy_grad_run(tt_tensor *dx, const tt_tensor *x, const tt_tensor *lse,
                                     const tt_tensor *target, const tt_tensor *weight,
                                     const tt_tensor *scale, double factor);

tt_status tti_pair_loss_run(tti_pair_loss kind, tt_tensor *out, const tt_tensor *a,
                            const tt_tensor *b, const double p[2]);
tt_status tti_pair_loss_grad_run(tti_pair_loss kind, tt_tensor *da, const tt_tensor *grad,
                                 const tt_tensor *a, const tt_tensor *b, const double p[2]);

tt_status tti_layer_norm_run(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                             const tt_tensor *w, const tt_tensor *b, double eps);
tt_status tti_layer_norm_grad_run(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                  const tt_tensor *x, const tt_tensor *w,
                                  const tt_tensor *mean_rstd[2]);
tt_status tti_group_norm_run(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                             const tt_tensor *w, const tt_tensor *b, double eps);
tt_status tti_group_norm_grad_run(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                  const tt_tensor *x, const tt_tensor *w,
                                  const tt_tensor *mean_rstd[2]);
tt_status tti_batch_norm_stats_run(tt_tensor *mean, tt_tensor *var, const tt_tensor *x);
tt_status tti_batch_norm_apply_run(tt_tensor *y, const tt_tensor *x, const tt_tensor *mean,
                                   const tt_tensor *rstd, const tt_tensor *w, const tt_tensor *b);
tt_status tti_batch_norm_grad_run(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                  const tt_tensor *x, const tt_tensor *w,
                                  const tt_tensor *mean_rstd[2]);
tt_status tti_batch_norm_input_grad_run(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *x,
                                        const tt_tensor *w, const tt_tensor *mean_rstd[2],
                                        const tt_tensor *dw_db[2], double count);

#endif
