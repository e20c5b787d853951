/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of neural networks on accelerators: the rows of tti_accel_nn (contracts in ops/kernels_nn.h), and what
 * their host code shares. */
#ifndef TTI_OPS_ACCEL_NN_H
#define TTI_OPS_ACCEL_NN_H

#include "ops/accel/accel.h"

/* A kernel of a text that is built per element type. Static, in the file that launches it. */
typedef struct tti_nn_kernel {
    const tti_program *program;
    const char *name;
    tti_kernel_slot slots[TT_N_DTYPES];
} tti_nn_kernel;

extern const char tti_source_nn_math[];

/* Runs it, built for elements of `dtype`. */
tt_status tti_nn_run(tti_nn_kernel *k, tt_device d, tt_dtype dtype, tti_grid grid,
                     const tti_arg *args, int n_args);

/* Groups for FOR_EACH over units of about `work` elements each, side by side. */
tti_grid tti_nn_grid(tt_device d, int64_t units, int64_t work);
/* Tiles of columns that kernels cut a row of n into: see COLS and TILE in nn_math.cl. */
int64_t tti_nn_tile(tt_device d);

/* A number as kernels compute it beside elements of `dtype`: float64 beside float64, else float32. */
typedef union tti_nn_real {
    float f;
    double d;
} tti_nn_real;

static inline tti_nn_real tti_nn_real_of(const tt_tensor *t, double v)
{
    return t->dtype == TT_F64 ? (tti_nn_real){ .d = v } : (tti_nn_real){ .f = (float)v };
}

#define TTI_NN_REAL(r, t) ((tti_arg){ &(r), (t)->dtype == TT_F64 ? 8u : 4u })

static inline tti_arg tti_nn_mem(const tt_tensor *t)
{
    return TTI_MEM(t != NULL ? tti_data(t) : NULL);
}

#define TTI_NN_COUNT(args) ((int)(sizeof(args) / sizeof((args)[0])))

/* ---- rows of the table -------------------------------------------------------------------------- */

tt_status tti_accel_softmax(tt_tensor *y, const tt_tensor *x, int64_t n, int64_t inner, bool log);
tt_status tti_accel_softmax_grad(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *y, int64_t n,
                                 int64_t inner, bool log);
tt_status tti_accel_cross_entropy(tt_tensor *losses, tt_tensor *lse, const tt_tensor *x,
                                  const tt_tensor *target, const tt_tensor *weight);
tt_status tti_accel_cross_entropy_grad(tt_tensor *dx, const tt_tensor *x, const tt_tensor *lse,
                                       const tt_tensor *target, const tt_tensor *weight,
                                       const tt_tensor *scale, double factor);
tt_status tti_accel_classes(tt_tensor *marked, tt_tensor *weights, const tt_tensor *target,
                            const tt_tensor *weight, const tti_class_range *range);

tt_status tti_accel_pair_loss(tti_pair_loss kind, tt_tensor *out, const tt_tensor *a,
                              const tt_tensor *b, const double p[2]);
tt_status tti_accel_pair_loss_grad(tti_pair_loss kind, tt_tensor *da, const tt_tensor *grad,
                                   const tt_tensor *a, const tt_tensor *b, const double p[2]);
tt_status tti_accel_dropout(tt_tensor *y, const tt_tensor *x, double p, uint64_t seed,
                            uint64_t offset);

tt_status tti_accel_layer_norm(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                               const tt_tensor *w, const tt_tensor *b, double eps);
tt_status tti_accel_layer_norm_grad(tt_tensor *dx, tt_tensor *dw, tt_tensor *db,
                                    const tt_tensor *dy, const tt_tensor *x, const tt_tensor *w,
                                    const tt_tensor *mean_rstd[2]);
tt_status tti_accel_group_norm(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                               const tt_tensor *w, const tt_tensor *b, double eps);
tt_status tti_accel_group_norm_grad(tt_tensor *dx, tt_tensor *dw, tt_tensor *db,
                                    const tt_tensor *dy, const tt_tensor *x, const tt_tensor *w,
                                    const tt_tensor *mean_rstd[2]);
tt_status tti_accel_batch_norm_stats(tt_tensor *mean, tt_tensor *var, const tt_tensor *x);
tt_status tti_accel_batch_norm_apply(tt_tensor *y, const tt_tensor *x, const tt_tensor *mean,
                                     const tt_tensor *rstd, const tt_tensor *w, const tt_tensor *b);
tt_status tti_accel_batch_norm_grad(tt_tensor *dx, tt_tensor *dw, tt_tensor *db,
                                    const tt_tensor *dy, const tt_tensor *x, const tt_tensor *w,
                                    const tt_tensor *mean_rstd[2]);
tt_status tti_accel_batch_norm_input_grad(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *x,
                                          const tt_tensor *w, const tt_tensor *mean_rstd[2],
                                          const tt_tensor *dw_db[2], double count);

tt_status tti_accel_embedding(tt_tensor *out, const tt_tensor *weight, const tt_tensor *index);
tt_status tti_accel_embedding_grad(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *index,
                                   int64_t skip);
tt_status tti_accel_embedding_bag(tt_tensor *out, tt_tensor *counts, tt_tensor *argmax,
                                  const tt_tensor *weight, const tti_bags *b);
tt_status tti_accel_embedding_bag_grad(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *counts,
                                       const tt_tensor *argmax, const tti_bags *b);
tt_status tti_accel_embedding_bag_rows(tt_tensor *rows, const tt_tensor *dy,
                                       const tt_tensor *counts, const tti_bags *b);
tt_status tti_accel_embedding_bag_sums(tt_tensor *rows_places[2], const tt_tensor *dy,
                                       const tt_tensor *counts, const tt_tensor *order,
                                       const tti_bags *b);
tt_status tti_accel_embedding_bag_weights_grad(tt_tensor *dsample, const tt_tensor *dy,
                                               const tt_tensor *weight, const tti_bags *b);

tt_status tti_accel_attention(tt_tensor *out, tt_tensor *lse, const tt_tensor *qkv[3],
                              const tti_attention *a);
tt_status tti_accel_attention_grad(tt_tensor *dqkv[3], const tt_tensor *dout,
                                   const tt_tensor *qkv[3], const tt_tensor *out_lse[2],
                                   const tti_attention *a);

#endif
