/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of neural networks: activations, losses, normalisation, convolution, pooling,
 * embedding, attention. Same rules as ops.h. layers.h has modules that hold the weights.
 *
 *     tt_tensor *h = tt_relu(tt_linear(x, w1, b1));
 *     tt_tensor *scores = tt_linear(h, w2, NULL);                        // no bias
 *     tt_tensor *loss = tt_cross_entropy(scores, labels);                // labels int64 [N]
 *
 * In options NULL means all defaults, and a field of 0 its default. */
#ifndef TUTTI_FUNCTIONAL_H
#define TUTTI_FUNCTIONAL_H

#include "tutti/random.h"
#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- activations ----------------------------------------------------------------------- */
TT_API tt_tensor *tt_relu(tt_tensor *x);
TT_API tt_tensor *tt_relu_(tt_tensor *x);
TT_API tt_tensor *tt_gelu(tt_tensor *x);      /* exact, by erf */
TT_API tt_tensor *tt_gelu_tanh(tt_tensor *x); /* the tanh approximation */
TT_API tt_tensor *tt_silu(tt_tensor *x);
TT_API tt_tensor *tt_elu(tt_tensor *x, double alpha);
TT_API tt_tensor *tt_celu(tt_tensor *x, double alpha);
TT_API tt_tensor *tt_leaky_relu(tt_tensor *x, double slope);
TT_API tt_tensor *tt_softplus(tt_tensor *x, double beta, double threshold);
TT_API tt_tensor *tt_hardtanh(tt_tensor *x, double lo, double hi);
TT_API tt_tensor *tt_softmax(tt_tensor *x, int dim);
TT_API tt_tensor *tt_log_softmax(tt_tensor *x, int dim);
/* Zeroes elements with probability p and scales the rest by 1 / (1 - p); x itself when not
 * training. `gen` NULL: the device's default generator. */
TT_API tt_tensor *tt_dropout(tt_tensor *x, double p, bool training, tt_generator *gen);

/* ---- linear ---------------------------------------------------------------------------- */
/* x @ w^T + b, w [out, in], b NULL or [out] */
TT_API tt_tensor *tt_linear(tt_tensor *x, tt_tensor *w, tt_tensor *b);

/* ---- losses: the mean unless said otherwise ---------------------------------------------- */
typedef enum tt_reduction {
    TT_REDUCTION_MEAN,
    TT_REDUCTION_SUM,
    TT_REDUCTION_NONE,
} tt_reduction;

typedef struct tt_loss_options {
    tt_reduction reduction;
    tt_tensor *weight;      /* per class (cross_entropy, nll) or per element (bce) */
    tt_tensor *pos_weight;  /* bce_with_logits */
    double label_smoothing; /* cross_entropy */
    int64_t ignore_index;   /* cross_entropy, nll; 0 with has_ignore_index unset: -100 */
    bool has_ignore_index;
    bool log_target; /* kl_div */
} tt_loss_options;

/* input [N, C, ...] scores; target int64 [N, ...] classes or probabilities like input */
TT_API tt_tensor *tt_cross_entropy(tt_tensor *input, tt_tensor *target);
TT_API tt_tensor *tt_cross_entropy_with(tt_tensor *input, tt_tensor *target,
                                        const tt_loss_options *opt);
/* The same for log-probabilities, as tt_log_softmax gives them. */
TT_API tt_tensor *tt_nll_loss(tt_tensor *log_probs, tt_tensor *target, const tt_loss_options *opt);
TT_API tt_tensor *tt_mse_loss(tt_tensor *input, tt_tensor *target);
TT_API tt_tensor *tt_mse_loss_with(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt);
TT_API tt_tensor *tt_l1_loss(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt);
TT_API tt_tensor *tt_smooth_l1_loss(tt_tensor *input, tt_tensor *target, double beta,
                                    const tt_loss_options *opt);
TT_API tt_tensor *tt_bce_with_logits(tt_tensor *input, tt_tensor *target,
                                     const tt_loss_options *opt);
/* input: log-probabilities; target: probabilities, or their logarithms with log_target. */
TT_API tt_tensor *tt_kl_div(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt);

/* ---- normalisation: weight and bias may be NULL ------------------------------------------- */
/* over the last n_dims dimensions */
TT_API tt_tensor *tt_layer_norm(tt_tensor *x, int n_dims, tt_tensor *weight, tt_tensor *bias,
                                double eps);
TT_API tt_tensor *tt_rms_norm(tt_tensor *x, int n_dims, tt_tensor *weight, double eps);
TT_API tt_tensor *tt_group_norm(tt_tensor *x, int64_t groups, tt_tensor *weight, tt_tensor *bias,
                                double eps);

typedef struct tt_batch_norm_options {
    tt_tensor *running_mean; /* NULL: none kept; updated in place when training */
    tt_tensor *running_var;
    double momentum; /* 0: 0.1; the weight of the new value */
    double eps;      /* 0: 1e-5 */
    bool training;   /* use (and learn) the statistics of this batch */
} tt_batch_norm_options;

TT_API tt_tensor *tt_batch_norm(tt_tensor *x, tt_tensor *weight, tt_tensor *bias,
                                const tt_batch_norm_options *opt);

/* ---- convolution ------------------------------------------------------------------------- */
typedef struct tt_conv_options {
    int64_t stride[3];         /* 0: 1 */
    int64_t padding[3];        /* zeros on both sides */
    int64_t dilation[3];       /* 0: 1 */
    int64_t output_padding[3]; /* transposed only */
    int64_t groups;            /* 0: 1 */
} tt_conv_options;

/* x [N, C, L], w [out, C / groups, K], b NULL or [out]; floating, complex, and on the CPU integers, which wrap. */
TT_API tt_tensor *tt_conv1d(tt_tensor *x, tt_tensor *w, tt_tensor *b, const tt_conv_options *opt);
/* x [N, C, H, W], w [out, C / groups, KH, KW] */
TT_API tt_tensor *tt_conv2d(tt_tensor *x, tt_tensor *w, tt_tensor *b, const tt_conv_options *opt);
/* w [in, out / groups, KH, KW] */
TT_API tt_tensor *tt_conv_transpose2d(tt_tensor *x, tt_tensor *w, tt_tensor *b,
                                      const tt_conv_options *opt);

/* ---- pooling ----------------------------------------------------------------------------- */
typedef struct tt_pool_options {
    int64_t kernel[2];
    int64_t stride[2]; /* 0: the kernel */
    int64_t padding[2];
    int64_t dilation[2]; /* 0: 1; max only */
    bool ceil_mode;
    bool exclude_pad;         /* average: do not count padding */
    int64_t divisor_override; /* average: 0: none */
} tt_pool_options;

/* x [N, C, L] or [N, C, H, W]. indices_p (may be NULL) gets where in the plane each maximum was.
 * On the CPU also maxima of integers and averages of int64, rounded towards 0, but not the adaptive ones. */
TT_API tt_tensor *tt_max_pool1d(tt_tensor *x, const tt_pool_options *opt);
TT_API tt_tensor *tt_max_pool2d(tt_tensor *x, const tt_pool_options *opt, tt_tensor **indices_p);
TT_API tt_tensor *tt_avg_pool1d(tt_tensor *x, const tt_pool_options *opt);
TT_API tt_tensor *tt_avg_pool2d(tt_tensor *x, const tt_pool_options *opt);
TT_API tt_tensor *tt_adaptive_avg_pool2d(tt_tensor *x, int64_t out_h, int64_t out_w);
TT_API tt_tensor *tt_adaptive_max_pool2d(tt_tensor *x, int64_t out_h, int64_t out_w,
                                         tt_tensor **indices_p);

/* ---- embedding --------------------------------------------------------------------------- */
typedef struct tt_embedding_options {
    int64_t padding_idx; /* row without gradient; used when has_padding_idx */
    bool has_padding_idx;
    bool sparse_grad; /* the gradient of the weight is sparse */
} tt_embedding_options;

/* Rows of weight [n, width]: index int64 [...] gives [..., width]. */
TT_API tt_tensor *tt_embedding(tt_tensor *weight, tt_tensor *index,
                               const tt_embedding_options *opt);

typedef enum tt_bag_mode {
    TT_BAG_MEAN,
    TT_BAG_SUM,
    TT_BAG_MAX,
} tt_bag_mode;

typedef struct tt_bag_options {
    tt_bag_mode mode;
    tt_tensor *per_sample_weights; /* sum only */
    int64_t padding_idx;
    bool has_padding_idx;
    bool sparse_grad;
    bool include_last_offset;
} tt_bag_options;

/* index int64 [B, N], offsets NULL; or index [total] with offsets int64 [B]. */
TT_API tt_tensor *tt_embedding_bag(tt_tensor *weight, tt_tensor *index, tt_tensor *offsets,
                                   const tt_bag_options *opt);

/* ---- attention ---------------------------------------------------------------------------- */
typedef struct tt_attention_options {
    tt_tensor *mask;  /* NULL; bool (true: look at it) or added to the scores; broadcasts */
    double scale;     /* 0: 1 / sqrt(E) */
    double dropout_p; /* applied when > 0 */
    bool causal;
    tt_generator *generator;
} tt_attention_options;

/* q [..., L, E], k [..., S, E], v [..., S, V]: softmax(q k^T * scale) v, without keeping the L x S
 * matrix. */
TT_API tt_tensor *tt_attention(tt_tensor *q, tt_tensor *k, tt_tensor *v,
                               const tt_attention_options *opt);

#ifdef __cplusplus
}
#endif

#endif
