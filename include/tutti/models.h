/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models, with the parameter names that published checkpoints have.
 *
 *     tt_module *gpt = tt_gpt2(NULL);                                  // the 124M model
 *     TT_TRY(tt_module_load(gpt, "gpt2.safetensors", NULL));
 *     tt_tensor *logits = tt_module_forward(gpt, tokens);              // [B, T] to [B, T, vocab]
 */
#ifndef TUTTI_MODELS_H
#define TUTTI_MODELS_H

#include "tutti/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Linear layers of these sizes with the activation between them, as one Sequential. */
TT_API tt_module *tt_mlp(const int64_t *sizes, int n_sizes, tt_activation activation);
/* TT_MLP(TT_ACT_RELU, 20, 32, 5) */
#define TT_MLP(activation, ...)              \
    tt_mlp((const int64_t[]){ __VA_ARGS__ }, \
           (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), activation)

/* ---- ResNet: torchvision's names ------------------------------------------------------------ */

typedef struct tt_resnet_options {
    int64_t classes;   /* 0: 1000 */
    int64_t channels;  /* of the input; 0: 3 */
    int64_t width;     /* of the first stage; 0: 64 */
    bool small_images; /* a 3x3 stem with stride 1 and no pooling, for images of 32 pixels */
    bool zero_last;    /* blocks start as identities: the last norm's weight is 0 */
} tt_resnet_options;

/* depth: 18, 34 or 50 */
TT_API tt_module *tt_resnet(int depth, const tt_resnet_options *opt);

/* ---- GPT-2: Hugging Face's names ------------------------------------------------------------- */

typedef struct tt_gpt2_options {
    int layers;      /* 0: 12 */
    int heads;       /* 0: 12 */
    int64_t width;   /* 0: 768 */
    int64_t context; /* 0: 1024 */
    int64_t vocab;   /* 0: 50257 */
    double dropout;  /* 0: none */
    double eps;      /* 0: 1e-5 */
} tt_gpt2_options;

/* Tokens int64 [B, T] to scores [B, T, vocab]; the head is the token embedding. Loading accepts names
 * with and without "transformer." and ignores "lm_head.weight", "attn.bias" and
 * "attn.masked_bias". */
TT_API tt_module *tt_gpt2(const tt_gpt2_options *opt);
/* The last hidden state [B, T, width], after ln_f and before the head. */
TT_API tt_tensor *tt_gpt2_hidden(tt_module *m, tt_tensor *tokens);

#ifdef __cplusplus
}
#endif

#endif
