/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of neural networks. Contiguous tensors of one floating type (float32, float64, float16,
 * bfloat16; half types compute in float32) unless said otherwise. */
#ifndef TTI_OPS_KERNELS_NN_H
#define TTI_OPS_KERNELS_NN_H

#include "tensor/tensor.h"

/* Sizes of a convolution over up to two spatial dimensions (1-D ones have height 1). */
typedef struct tti_conv {
    int64_t n, c, h, w; /* input */
    int64_t oc, oh, ow; /* output */
    int64_t kh, kw;
    int64_t stride[2], pad[2], dilation[2];
    int64_t groups;
} tti_conv;

typedef struct tti_pool {
    int64_t n, c, h, w, oh, ow; /* n * c planes */
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t divisor; /* average: 0: by count */
    bool exclude_pad;
} tti_pool;

/* Which rows of a table make up which bag. */
typedef struct tti_bags {
    const tt_tensor *index;   /* int64 [n] */
    const tt_tensor *offsets; /* int64 [bags + 1]: bag b is index[offsets[b] .. offsets[b + 1]) */
    const tt_tensor *sample;  /* NULL, or a factor for each use [n], of the weight's type */
    int mode;                 /* tt_bag_mode */
    int64_t padding;          /* the row that does not count; -1: none */
} tti_bags;

typedef struct tti_attention {
    int64_t batch, heads; /* leading sizes, flattened */
    int64_t len_q, len_k, dim_qk, dim_v;
    double scale;
    bool causal;
    const tt_tensor *mask; /* NULL, or added to the scores: q's type, sizes [batch, heads, len_q,
                            * len_k] and any strides (0 where it repeats) */
    double dropout_p;
    uint64_t seed, offset; /* of the dropout's random numbers */
} tti_attention;

/* What target classes may be. */
typedef struct tti_class_range {
    int64_t n_classes, ignore;
    bool nll; /* whose they are: nll_loss, else cross_entropy */
} tti_class_range;

/* Losses of elements a against b. */
typedef enum tti_pair_loss {
    TTI_LOSS_MSE,
    TTI_LOSS_L1,
    TTI_LOSS_SMOOTH_L1, /* beta > 0 */
    TTI_LOSS_BCE,       /* a: logits, b: probabilities */
    TTI_N_PAIR_LOSSES
} tti_pair_loss;

typedef struct tti_nn_kernels {
    /* x seen as [outer, n, inner], over n. */
    tt_status (*softmax)(tt_tensor *y, const tt_tensor *x, int64_t n, int64_t inner, bool log);
    tt_status (*softmax_grad)(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *y, int64_t n,
                              int64_t inner, bool log);
    /* Fused log-softmax + negative log-likelihood over rows of x [rows, classes]; target int64
     * [rows], -1 where ignored (operators map ignore_index). losses [rows] (0 where ignored), and the
     * log-sum-exp of each row for the gradient. weight NULL or [classes]. losses, lse, weight and
     * scale are statistics: float64 beside float64, else float32. */
    tt_status (*cross_entropy)(tt_tensor *losses, tt_tensor *lse, const tt_tensor *x,
                               const tt_tensor *target, const tt_tensor *weight);
    /* dx[r, j] = factor * scale[r] * w[t] * (softmax(x)[r, j] - [j == t]); scale 0-d or [rows] */
    tt_status (*cross_entropy_grad)(tt_tensor *dx, const tt_tensor *x, const tt_tensor *lse,
                                    const tt_tensor *target, const tt_tensor *weight,
                                    const tt_tensor *scale, double factor);
    /* Where the host does not read memory (NULL on the CPU): target int64 [rows], checked there, into marked, -1
     * where it is to be ignored; weights [rows] = that of each one's class (1 without weight), 0 where ignored.
     * weight and weights are statistics. */
    tt_status (*classes)(tt_tensor *marked, tt_tensor *weights, const tt_tensor *target,
                         const tt_tensor *weight, const tti_class_range *range);
    /* out (0-d, a's type) = p[0] * the sum of the losses of a's elements against b's; p[1]: beta. */
    tt_status (*pair_loss)(tti_pair_loss kind, tt_tensor *out, const tt_tensor *a,
                           const tt_tensor *b, const double p[2]);
    /* da = grad (0-d) * p[0] * derivative of the loss by a */
    tt_status (*pair_loss_grad)(tti_pair_loss kind, tt_tensor *da, const tt_tensor *grad,
                                const tt_tensor *a, const tt_tensor *b, const double p[2]);
    /* Rows of x [rows, n]: y = (x - mean) * rstd * w + b; rms: mean 0. mean and rstd [rows] are
     * statistics; mean (for rms), w and b may be NULL. Each of dx, dw, db may be NULL. */
    tt_status (*layer_norm)(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                            const tt_tensor *w, const tt_tensor *b, double eps);
    tt_status (*layer_norm_grad)(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                 const tt_tensor *x, const tt_tensor *w,
                                 const tt_tensor *mean_rstd[2]);
    /* x [n, c, inner...]: mean and rstd [n * groups] per sample and group of channels; w and b [c]
     * are statistics. NULL as for layer_norm. */
    tt_status (*group_norm)(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                            const tt_tensor *w, const tt_tensor *b, double eps);
    tt_status (*group_norm_grad)(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                 const tt_tensor *x, const tt_tensor *w,
                                 const tt_tensor *mean_rstd[2]);
    /* x [n, c, inner...], contiguous or channels-last dense, y, dy and dx with the same strides.
     * mean, var (divided by the count), rstd, w and b [c] are statistics. Each of mean, w and b of
     * apply may be NULL (0, 1, 0). batch_norm_grad is that of training: the statistics come from
     * x. Each of dx, dw, db may be NULL. */
    tt_status (*batch_norm_stats)(tt_tensor *mean, tt_tensor *var, const tt_tensor *x);
    tt_status (*batch_norm_apply)(tt_tensor *y, const tt_tensor *x, const tt_tensor *mean,
                                  const tt_tensor *rstd, const tt_tensor *w, const tt_tensor *b);
    tt_status (*batch_norm_grad)(tt_tensor *dx, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy,
                                 const tt_tensor *x, const tt_tensor *w,
                                 const tt_tensor *mean_rstd[2]);
    /* Only dx, where dw and db ([c], statistics or float64) were summed over `count` elements of each
     * channel, of which x has some. */
    tt_status (*batch_norm_input_grad)(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *x,
                                       const tt_tensor *w, const tt_tensor *mean_rstd[2],
                                       const tt_tensor *dw_db[2], double count);

    tt_status (*conv)(tt_tensor *y, const tt_tensor *x, const tt_tensor *w, const tt_tensor *b,
                      const tti_conv *c);
    tt_status (*conv_grad_input)(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *w,
                                 const tti_conv *c);
    tt_status (*conv_grad_weight)(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *x,
                                  const tti_conv *c);

    /* Pools: float32 or float64; indices int64 within the plane, NULL when not wanted. */
    tt_status (*max_pool)(tt_tensor *y, tt_tensor *indices, const tt_tensor *x, const tti_pool *p);
    tt_status (*avg_pool)(tt_tensor *y, const tt_tensor *x, const tti_pool *p);
    tt_status (*avg_pool_grad)(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p);
    tt_status (*adaptive_pool)(tt_tensor *y, tt_tensor *indices /* NULL: average */,
                               const tt_tensor *x, const tti_pool *p);
    tt_status (*adaptive_avg_pool_grad)(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p);
    /* dx[plane, indices[plane, i]] += dy[plane, i]: gradient of both max pools. dx [planes, h * w],
     * dy and indices [planes, oh * ow]. */
    tt_status (*max_pool_grad)(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *indices);

    /* out [n, dim] = rows of weight [rows, dim]; index int64 [n], checked here; any type. */
    tt_status (*embedding)(tt_tensor *out, const tt_tensor *weight, const tt_tensor *index);
    /* dw [rows, dim] = the sum of dy's rows [n, dim] by index, in order, without those whose index
     * is `skip` (-1: none). float32 or float64. */
    tt_status (*embedding_grad)(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *index,
                                int64_t skip);
    /* out [bags, dim]; counts int64 [bags]: members of a bag that are not padding; argmax int64
     * [bags, dim]: the row each maximum came from (-1: none), NULL unless the mode is max. */
    tt_status (*embedding_bag)(tt_tensor *out, tt_tensor *counts, tt_tensor *argmax,
                               const tt_tensor *weight, const tti_bags *b);
    /* The gradients, float32 or float64: of the weight; of each of its uses (rows [n, dim], zero for
     * padding); of the weights per sample [n]. */
    tt_status (*embedding_bag_grad)(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *counts,
                                    const tt_tensor *argmax, const tti_bags *b);
    tt_status (*embedding_bag_rows)(tt_tensor *rows, const tt_tensor *dy, const tt_tensor *counts,
                                    const tti_bags *b);
    /* Those rows summed where they go to the same place: `order` int64 [n] sorts the index, rows
     * [groups, dim] and their places int64 [groups] are in ascending order. */
    tt_status (*embedding_bag_sums)(tt_tensor *rows_places[2], const tt_tensor *dy,
                                    const tt_tensor *counts, const tt_tensor *order,
                                    const tti_bags *b);
    tt_status (*embedding_bag_weights_grad)(tt_tensor *dsample, const tt_tensor *dy,
                                            const tt_tensor *weight, const tti_bags *b);

    /* q [B, H, Lq, E], k [B, H, Lk, E], v [B, H, Lk, V] with any strides over the first three
     * dimensions and unit inner stride, all float32 or all float64; out and the gradients likewise;
     * lse [B, H, Lq] of the same type. */
    tt_status (*attention)(tt_tensor *out, tt_tensor *lse, const tt_tensor *qkv[3],
                           const tti_attention *a);
    tt_status (*attention_grad)(tt_tensor *dqkv[3], const tt_tensor *dout, const tt_tensor *qkv[3],
                                const tt_tensor *out_lse[2], const tti_attention *a);

    /* y = keep ? x / (1 - p) : 0, where element i is kept when word i % 4 of Philox block offset +
     * i / 4 says so; the same call with dy gives dx. */
    tt_status (*dropout)(tt_tensor *y, const tt_tensor *x, double p, uint64_t seed,
                         uint64_t offset);
} tti_nn_kernels;

#endif
