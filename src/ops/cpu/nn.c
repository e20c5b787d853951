/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of nn kernels. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/nn_conv.h"
#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/nn_table.h"

const tti_nn_kernels tti_nn_cpu = {
    .conv = tti_cpu_conv,
    .conv_grad_input = tti_cpu_conv_grad_input,
    .conv_grad_weight = tti_cpu_conv_grad_weight,
    .max_pool = tti_max_pool_cpu,
    .avg_pool = tti_avg_pool_cpu,
    .avg_pool_grad = tti_avg_pool_grad_cpu,
    .adaptive_pool = tti_adaptive_pool_cpu,
    .adaptive_avg_pool_grad = tti_adaptive_avg_pool_grad_cpu,
    .max_pool_grad = tti_max_pool_grad_cpu,
    .embedding = tti_embedding_cpu,
    .embedding_grad = tti_embedding_grad_cpu,
    .embedding_bag = tti_embedding_bag_cpu,
    .embedding_bag_grad = tti_embedding_bag_grad_cpu,
    .embedding_bag_rows = tti_embedding_bag_rows_cpu,
    .embedding_bag_sums = tti_embedding_bag_sums_cpu,
    .embedding_bag_weights_grad = tti_embedding_bag_weights_grad_cpu,
    .attention = tti_attention_cpu,
    .attention_grad = tti_attention_grad_cpu,
    .dropout = tti_dropout_cpu,
    .softmax = tti_softmax_run,
    .softmax_grad = tti_softmax_grad_run,
    .cross_entropy = tti_cross_entropy_run,
    .cross_entropy_grad = tti_cross_entropy_grad_run,
    .pair_loss = tti_pair_loss_run,
    .pair_loss_grad = tti_pair_loss_grad_run,
    .layer_norm = tti_layer_norm_run,
    .layer_norm_grad = tti_layer_norm_grad_run,
    .group_norm = tti_group_norm_run,
    .group_norm_grad = tti_group_norm_grad_run,
    .batch_norm_stats = tti_batch_norm_stats_run,
    .batch_norm_apply = tti_batch_norm_apply_run,
    .batch_norm_grad = tti_batch_norm_grad_run,
    .batch_norm_input_grad = tti_batch_norm_input_grad_run,
};
