/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: constructors of modules. Names of parameters, their order, initial distributions and
 * defaults are PyTorch's.
 *
 *     tt_module *net = TT_SEQUENTIAL(tt_linear_new(20, 32, NULL), tt_relu_new(),
 *                                    tt_linear_new(32, 5, NULL));
 *
 * All return a module that you free, or NULL. A failure inside TT_SEQUENTIAL frees the others. */
#ifndef TUTTI_LAYERS_H
#define TUTTI_LAYERS_H

#include "tutti/functional.h"
#include "tutti/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- containers --------------------------------------------------------------------------- */

/* Children "0", "1", ...: run one after the other; or only held (ModuleList). */
TT_API tt_module *tt_sequential_new(void);
TT_API tt_module *tt_module_list_new(void);
/* Add a child under the next number and take over your reference, also on failure. */
TT_API tt_status tt_module_append(tt_module *m, tt_module *child);
/* Take over n modules, also on failure; a NULL among them is a failure. */
TT_API tt_module *tt_sequential_of(tt_module *const *modules, int n);
#define TT_SEQUENTIAL(...)                           \
    tt_sequential_of((tt_module *[]){ __VA_ARGS__ }, \
                     (int)(sizeof((tt_module *[]){ __VA_ARGS__ }) / sizeof(tt_module *)))
TT_API tt_module *tt_identity_new(void);

/* ---- linear -------------------------------------------------------------------------------- */

typedef struct tt_linear_options {
    bool no_bias;
} tt_linear_options;

TT_API tt_module *tt_linear_new(int64_t in, int64_t out, const tt_linear_options *opt);
/* x1 A x2 + b; call it with a list of two tensors. */
TT_API tt_module *tt_bilinear_new(int64_t in1, int64_t in2, int64_t out,
                                  const tt_linear_options *opt);
TT_API tt_tensor *tt_bilinear_forward(tt_module *m, tt_tensor *x1, tt_tensor *x2);

/* ---- convolution: `kernel` and the first field of each pair are for the height (or length) ------- */

typedef struct tt_conv_layer_options {
    int64_t stride;         /* 0: 1 */
    int64_t padding;        /* zeros on both sides */
    int64_t dilation;       /* 0: 1 */
    int64_t output_padding; /* transposed only */
    int64_t groups;         /* 0: 1 */
    bool no_bias;
    /* For the width: 0: as above; -1: none (padding) */
    int64_t kernel_w, stride_w, padding_w, dilation_w, output_padding_w;
} tt_conv_layer_options;

TT_API tt_module *tt_conv1d_new(int64_t in, int64_t out, int64_t kernel,
                                const tt_conv_layer_options *opt);
TT_API tt_module *tt_conv2d_new(int64_t in, int64_t out, int64_t kernel,
                                const tt_conv_layer_options *opt);
TT_API tt_module *tt_conv_transpose2d_new(int64_t in, int64_t out, int64_t kernel,
                                          const tt_conv_layer_options *opt);

/* ---- pooling ------------------------------------------------------------------------------- */

typedef struct tt_pool_layer_options {
    int64_t stride; /* 0: the kernel */
    int64_t padding;
    int64_t dilation; /* 0: 1; max only */
    /* For the width: 0: as above; -1: none (padding) */
    int64_t kernel_w, stride_w, padding_w, dilation_w;
    bool ceil_mode;
    bool exclude_pad;         /* average: do not count padding */
    int64_t divisor_override; /* average: 0: none */
} tt_pool_layer_options;

TT_API tt_module *tt_max_pool1d_new(int64_t kernel, const tt_pool_layer_options *opt);
TT_API tt_module *tt_max_pool2d_new(int64_t kernel, const tt_pool_layer_options *opt);
TT_API tt_module *tt_avg_pool1d_new(int64_t kernel, const tt_pool_layer_options *opt);
TT_API tt_module *tt_avg_pool2d_new(int64_t kernel, const tt_pool_layer_options *opt);
TT_API tt_module *tt_adaptive_avg_pool2d_new(int64_t out_h, int64_t out_w);
TT_API tt_module *tt_adaptive_max_pool2d_new(int64_t out_h, int64_t out_w);
TT_API tt_module *tt_flatten_new(void); /* all but the first dimension */

/* ---- normalisation ------------------------------------------------------------------------- */

typedef struct tt_norm_options {
    double eps;            /* 0: 1e-5; RMSNorm: float64's epsilon for it, else float32's */
    double momentum;       /* batch norm; 0: 0.1; below 0: the mean of all batches so far */
    bool no_affine;        /* no weight and bias */
    bool no_bias;          /* layer norm */
    bool no_running_stats; /* batch norm: always use those of the batch */
} tt_norm_options;

/* Batch norm: inputs [N, C] or [N, C, L]; [N, C, H, W]; [N, C, D, H, W]. */
TT_API tt_module *tt_batch_norm1d_new(int64_t channels, const tt_norm_options *opt);
TT_API tt_module *tt_batch_norm2d_new(int64_t channels, const tt_norm_options *opt);
TT_API tt_module *tt_batch_norm3d_new(int64_t channels, const tt_norm_options *opt);
/* What a batch norm layer was made with; false for other modules. For conversions of them. */
typedef struct tt_batch_norm_info {
    int64_t channels;
    int n_dims; /* 1, 2 or 3 */
    tt_norm_options options;
} tt_batch_norm_info;
TT_API bool tt_module_is_batch_norm(const tt_module *m, tt_batch_norm_info *info_p);

TT_API tt_module *tt_layer_norm_new(tt_shape last_dims, const tt_norm_options *opt);
TT_API tt_module *tt_rms_norm_new(tt_shape last_dims, const tt_norm_options *opt);
TT_API tt_module *tt_group_norm_new(int64_t groups, int64_t channels, const tt_norm_options *opt);

/* ---- embedding ----------------------------------------------------------------------------- */

TT_API tt_module *tt_embedding_new(int64_t n, int64_t width, const tt_embedding_options *opt);
/* Over a given weight [n, width]; it stays the caller's tensor, is shared, not copied, and becomes a
 * parameter: freeze it afterwards if it should not learn. */
TT_API tt_module *tt_embedding_from(tt_tensor *weight, const tt_embedding_options *opt);
TT_API tt_module *tt_embedding_bag_new(int64_t n, int64_t width, const tt_bag_options *opt);
TT_API tt_module *tt_embedding_bag_from(tt_tensor *weight, const tt_bag_options *opt);
/* offsets NULL for index [B, N]; per_sample_weights NULL or like index. As a value: a list of them. */
TT_API tt_tensor *tt_embedding_bag_forward(tt_module *m, tt_tensor *index, tt_tensor *offsets,
                                           tt_tensor *per_sample_weights);

/* ---- activations --------------------------------------------------------------------------- */

typedef enum tt_activation {
    TT_ACT_RELU,
    TT_ACT_GELU,
    TT_ACT_GELU_TANH,
    TT_ACT_SILU,
    TT_ACT_TANH,
    TT_ACT_SIGMOID,
    TT_ACT_NONE,
} tt_activation;

TT_API tt_module *tt_activation_new(tt_activation a); /* TT_ACT_NONE: an identity */
TT_API tt_module *tt_relu_new(void);
TT_API tt_module *tt_gelu_new(void);
TT_API tt_module *tt_gelu_tanh_new(void);
TT_API tt_module *tt_silu_new(void);
TT_API tt_module *tt_tanh_new(void);
TT_API tt_module *tt_sigmoid_new(void);
TT_API tt_module *tt_elu_new(double alpha);
TT_API tt_module *tt_celu_new(double alpha);
TT_API tt_module *tt_leaky_relu_new(double slope);
TT_API tt_module *tt_softplus_new(double beta, double threshold);
TT_API tt_module *tt_softmax_new(int dim);
TT_API tt_module *tt_log_softmax_new(int dim);
TT_API tt_module *tt_dropout_new(double p); /* active while training */

/* ---- recurrent layers ------------------------------------------------------------------------ */

typedef struct tt_rnn_options {
    int layers; /* 0: 1 */
    bool no_bias;
    bool batch_first;   /* x and y are [B, T, ...] instead of [T, B, ...] */
    bool bidirectional; /* y has both directions side by side */
    double dropout;     /* between layers, while training */
} tt_rnn_options;

TT_API tt_module *tt_lstm_new(int64_t in, int64_t hidden, const tt_rnn_options *opt);
TT_API tt_module *tt_gru_new(int64_t in, int64_t hidden, const tt_rnn_options *opt);
/* y for all times. h0, c0 [layers * directions, B, hidden] or NULL for zeros; h_p, c_p get the states
 * after the last time, unless NULL. As values: (x) or (x, (h0, c0)) gives (y, (h, c)), without c for
 * GRU: (x, h0) gives (y, h). tt_module_forward gives y only. */
TT_API tt_tensor *tt_lstm_forward(tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor *c0,
                                  tt_tensor **h_p, tt_tensor **c_p);
TT_API tt_tensor *tt_gru_forward(tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor **h_p);

/* ---- attention and transformers ------------------------------------------------------------------ */

typedef struct tt_mha_options {
    double dropout; /* of the attention weights, while training */
    bool no_bias;
    bool batch_first; /* [B, T, E] instead of [T, B, E] */
} tt_mha_options;

TT_API tt_module *tt_mha_new(int64_t width, int heads, const tt_mha_options *opt);

/* Masks are bool (true: do not look there, as PyTorch's MultiheadAttention has it) or added to the
 * scores: mask [T, S] or [B * heads, T, S], padding_mask [B, S]. Inputs [T, E] without a batch dimension
 * are a batch of one: padding_mask [S], and the results have no batch dimension either. */
typedef struct tt_mha_call {
    tt_tensor *mask;
    tt_tensor *padding_mask;
    bool causal;
    bool per_head; /* weights [B, heads, T, S] instead of their mean [B, T, S] */
} tt_mha_call;

/* weights_p, unless NULL, gets the attention weights; without, the faster way is taken.
 * Hooks of the module run only without. As a value: a list (query, key, value). tt_module_forward attends to its input. */
TT_API tt_tensor *tt_mha_forward(tt_module *m, tt_tensor *query, tt_tensor *key, tt_tensor *value,
                                 const tt_mha_call *opt, tt_tensor **weights_p);

typedef struct tt_transformer_options {
    int64_t feedforward;      /* 0: 2048 */
    double dropout;           /* 0: 0.1; below 0: none */
    double eps;               /* of the layer norms; 0: 1e-5 */
    tt_activation activation; /* 0: ReLU */
    bool batch_first;
    bool norm_first;
    bool no_bias;
} tt_transformer_options;

TT_API tt_module *tt_transformer_encoder_layer_new(int64_t width, int heads,
                                                   const tt_transformer_options *opt);
TT_API tt_module *tt_transformer_decoder_layer_new(int64_t width, int heads,
                                                   const tt_transformer_options *opt);
/* n copies of `layer`, which stays yours; `norm` (or NULL) is kept too and runs at the end. */
TT_API tt_module *tt_transformer_encoder_new(const tt_module *layer, int n, tt_module *norm);
TT_API tt_module *tt_transformer_decoder_new(const tt_module *layer, int n, tt_module *norm);

typedef struct tt_transformer_call {
    tt_tensor *mask; /* as in tt_mha_call */
    tt_tensor *padding_mask;
    bool causal;
    tt_tensor *memory_mask; /* decoders */
    tt_tensor *memory_padding_mask;
    bool memory_causal;
} tt_transformer_call;

/* For the two encoders (memory NULL) and the two decoders. As a value: x, or a list (x, memory). */
TT_API tt_tensor *tt_transformer_forward(tt_module *m, tt_tensor *x, tt_tensor *memory,
                                         const tt_transformer_call *opt);

#ifdef __cplusplus
}
#endif

#endif
